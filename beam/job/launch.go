package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
)

// Launch submits jobs until the copy of a load is complete.
type Launch struct {
	Config string // path of the configuration
	Job    Job    // its Name, Table, permissions and bounds
	// Submit runs one job to its end. It fails if the job fails.
	Submit func(ctx context.Context, j Job) error
}

const (
	lookEvery = 5 * time.Second
	// fruitless is the number of jobs without progress after which the launcher stops.
	fruitless = 3
)

// Run waits for a load that an operator or a worker has begun. It submits a job, and submits it
// again while parts are left and the load is the same. It never begins, plans, completes or sweeps
// a load.
func (l *Launch) Run(ctx context.Context) error {
	path, err := config.Find(l.Config, os.LookupEnv)
	if err != nil {
		return err
	}
	cfg, err := config.Load(path, os.LookupEnv)
	if err != nil {
		return err
	}
	// Beam's own log ends with the first job, because a worker in this process replaces it.
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	m, err := worker.OpenLending(ctx, options(cfg, l.Job, log))
	if err != nil {
		return err
	}
	defer m.Close()
	j := l.Job
	if j.Config, err = effective(cfg); err != nil {
		return err
	}
	j.Ledger, j.Hash = m.Ledger.ID(), cfg.Hash(m.Tables[0].Config)
	order, err := await(ctx, m, log, nil)
	if err != nil {
		return err
	}
	j.Generation, j.Load, j.Parts = order.Generation, order.Number, order.Parts
	return l.submit(ctx, m, log, j)
}

// await waits until a copy of the table runs and may acquire parts. If `of` is not nil, it waits
// for that copy, and fails if another load has replaced it.
func await(ctx context.Context, m *worker.Lending, log *slog.Logger, of *load.Order) (load.Order, error) {
	reported := ""
	for {
		state, err := m.State(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return load.Order{}, err
		case err != nil:
			log.Warn("cannot read the ledger; trying again", "error", err.Error())
		default:
			order, running := load.RunningCopy(state)
			if of != nil {
				complete, err := of.Judge(state)
				if err != nil || complete {
					return *of, err
				}
			}
			why := waits(state, running)
			if why == "" {
				return order, nil
			}
			if why != reported {
				log.Info("waiting for a load", "table", m.Table, "reason", why)
				reported = why
			}
		}
		if err := task.Sleep(ctx, lookEvery); err != nil {
			return load.Order{}, err
		}
	}
}

// waits returns why no part can be acquired now; "" if parts can be.
func waits(state checkpoint.TableState, running bool) string {
	switch {
	case !running:
		return "no load is copying; start one with `replicator backfill start --table " + state.Source + "`"
	case state.Load.Paused != "":
		return "the load is paused: " + strings.ReplaceAll(state.Load.Paused, "_", " ")
	case state.Halted():
		return "a cutover or an operator halted the table"
	}
	return ""
}

// submit submits the job until no part is left.
func (l *Launch) submit(ctx context.Context, m *worker.Lending, log *slog.Logger, j Job) error {
	order, name, idle := j.order(), j.Name, 0
	before, saved, err := order.Left(ctx, m.Ledger, j.Table)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		if n > 1 {
			j.Name = fmt.Sprintf("%s-%d", name, n)
		}
		log.Info("submitting job", "job", j.Name, "table", j.Table, "generation", j.Generation, "load", j.Load, "parts", j.Parts, "parts_left", before)
		failed := l.Submit(ctx, j)
		closed := shared.close(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		left, items, err := order.Left(ctx, m.Ledger, j.Table)
		if err != nil {
			return errors.Join(err, failed)
		}
		if left == 0 {
			if failed != nil || closed != nil {
				log.Warn("all parts are copied, but the job failed", "error", errors.Join(failed, closed).Error())
			}
			log.Info("all parts are copied; a worker completes the load", "table", j.Table, "items", items)
			return nil
		}
		if idle++; left < before || items > saved {
			idle = 0
		}
		before, saved = left, items
		why := leftError{left, j.Parts}
		if idle == fruitless {
			return errors.Join(fmt.Errorf("%w, and %d jobs made no progress; let workers copy them, or submit again", why, fruitless), failed)
		}
		log.Warn("the job ended early; submitting it again", "job", j.Name, "reason", why.Error())
		if _, err := await(ctx, m, log, &order); err != nil {
			return err
		}
	}
}
