package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/memory"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
)

// process is what all tasks of a job share in one process. Runners set up tasks several times in a
// process, but the process has one set of clients, and one id in the ledger.
type process struct {
	*worker.Lending
	lender *load.Lender
	tasks  sync.WaitGroup // tasks that use it
}

// processes holds the open processes by job.
type processes struct {
	mu   sync.Mutex
	open map[Job]*process
}

var shared = &processes{open: map[Job]*process{}}

// acquire returns the process of a job, and opens it if it is the first task. The task must call
// release.
func (s *processes) acquire(ctx context.Context, j Job) (p *process, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p = s.open[j]
	if p == nil {
		if p, err = openPatiently(ctx, j); err != nil {
			return nil, nil, err
		}
		s.open[j] = p
	}
	p.tasks.Add(1)
	return p, p.tasks.Done, nil
}

// windUp is how long tasks may take to release their parts after a job has ended.
const windUp = 20 * time.Second

// close closes all processes, once their tasks have released their parts.
func (s *processes) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all error
	for j, p := range s.open {
		delete(s.open, j)
		released := task.NewEvent(ctx)
		task.NewGroup(ctx, 0).Go("wait for tasks", func(context.Context) error { p.tasks.Wait(); released.Set(); return nil })
		limited, cancel := task.WithTimeout(context.WithoutCancel(ctx), windUp)
		_ = released.Wait(limited) // parts that are not released are free once their leases end
		cancel()
		all = errors.Join(all, p.Close())
	}
	return all
}

const (
	openTries = 8
	openEvery = 15 * time.Second
)

// openPatiently opens a process. It repeats a failure for two minutes, because a coordinator may be
// replaced, and services may not answer. After that, the runner repeats the task.
func openPatiently(ctx context.Context, j Job) (p *process, err error) {
	for try := 1; ; try++ {
		p, err = open(ctx, j)
		if err == nil || try == openTries || !mayPass(err) || task.Sleep(ctx, openEvery) != nil {
			return p, err
		}
		newLog().Warn("cannot open the migration; trying again", "error", err.Error(), "wait", openEvery.String())
	}
}

// mayPass reports whether a failure to open the migration may end without an operator.
func mayPass(err error) bool {
	for _, code := range []string{diag.ClusterChanged, diag.CutOver, diag.CutoverRefused, diag.MappingChanged, diag.SourceMoved, diag.EmulatorNotAllowed,
		diag.LedgerLost, diag.OtherMode} {
		if diag.Has(err, code) {
			return false
		}
	}
	return !errors.Is(err, load.ErrReplaced) && !errors.Is(err, load.ErrTarget) && !errors.Is(err, errOther)
}

// errOther is returned if a machine finds another ledger or mapping than the launcher.
var errOther = errors.New("the job was planned for another ledger or mapping")

// open opens the migration in this process, and checks that the job may work on it.
func open(ctx context.Context, j Job) (*process, error) {
	cfg, err := j.configuration()
	if err != nil {
		return nil, err
	}
	memory.Fit()
	l, err := worker.OpenLending(ctx, options(cfg, j, newLog()))
	if err != nil {
		return nil, err
	}
	lender, err := lend(ctx, l, cfg, j)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &process{Lending: l, lender: lender}, nil
}

func lend(ctx context.Context, l *worker.Lending, cfg *config.Config, j Job) (*load.Lender, error) {
	if l.Ledger.ID() != j.Ledger || cfg.Hash(l.Tables[0].Config) != j.Hash {
		return nil, fmt.Errorf("%w: ledger %s of table %s", errOther, cfg.Name, j.Table)
	}
	return l.Lender(ctx, j.order(), j.bounds())
}

// options returns the settings with which the launcher and the tasks open the migration.
func options(cfg *config.Config, j Job, log *slog.Logger) worker.LendOptions {
	return worker.LendOptions{
		Config: cfg, Console: &terminal.Console{Stdout: os.Stderr, Stderr: os.Stderr, Env: os.LookupEnv}, Log: log, Build: build.This(),
		Allowed: environment.Allowed{Emulator: j.AllowEmulator, Insecure: j.AllowInsecure}, Table: j.Table, As: owner(j.Name),
	}
}

var unnamed = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// owner returns the prefix of this process's id in the ledger. The ledger appends a random number,
// so that two processes on one machine differ.
func owner(name string) string {
	host, _ := os.Hostname()
	return standing.Lent + unnamed.ReplaceAllString(name, "-") + "/" + unnamed.ReplaceAllString(host, "-")
}

func newLog() *slog.Logger { return slog.New(newHandler()) }
