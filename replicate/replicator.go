package replicate

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
)

// Replicator replicates the tables of a configuration. Its methods may be called concurrently.
type Replicator struct {
	cfg     *config.Config
	log     *slog.Logger
	env     environment.Lookup
	clients preflight.Clients
	allowed environment.Allowed
	serve   bool
	hints   string // flags for commands in next steps

	once                                 bool
	idle                                 time.Duration
	noBackfill, acceptMapping, adoptRows bool
}

// New checks a configuration and the environment, and sends no request. It refuses an environment
// that redirects a client to an emulator, unless AllowEmulators is given. Errors are *Error, or
// several joined.
func New(c Config, options ...Option) (*Replicator, error) {
	r := &Replicator{log: slog.New(slog.DiscardHandler), env: os.LookupEnv, serve: c.Listen != "",
		allowed: environment.Allowed{By: "set Source.Endpoint and Target.Emulator, or give replicate.AllowEmulators()"}}
	for _, option := range options {
		option(r)
	}
	if r.once && r.idle <= 0 {
		return nil, public(&diag.Error{Code: diag.Usage, What: "the duration of replicate.Once is not positive", Cause: "a shard is drained only after a time without a change",
			Fix: "give a duration such as 10 * time.Second"})
	}
	var err error
	if r.cfg, err = c.read(r.env); err != nil {
		return nil, public(err)
	}
	r.clients.Endpoint, r.clients.Emulator, r.clients.Log = c.Source.Endpoint, c.Target.Emulator, r.log
	if err := environment.Check(r.clients.Inherited, r.allowed).Err(); err != nil {
		return nil, public(err)
	}
	if c.File != "" {
		r.hints = " -c " + standing.Quote(c.File)
	}
	return r, nil
}

// Run copies the existing items of the tables, and applies every change of their streams, until ctx
// ends. Then it finishes the pages that it has read, saves checkpoints, releases its leases, and
// returns nil, within about 20 s. It returns an error if it cannot start, or cannot continue
// without an operator. Temporary failures are retried and logged.
//
// Each call is one worker. Workers of any number of processes share the tables through leases in
// the ledger, so Run may be called again, and concurrently. With Once, it returns nil when the
// target equals the source, and otherwise an error.
func (r *Replicator) Run(ctx context.Context) error {
	w := worker.New(worker.Options{
		Config: r.cfg, Console: r.console(), Log: r.log, Lines: backfill.NewRecorder(worker.Progress(r.log)), Records: r.log,
		Build: build.This(), Hints: r.hints, Once: r.once, Idle: r.idle, NoCopy: r.noBackfill, AcceptMapping: r.acceptMapping, AdoptRows: r.adoptRows,
		Serve: r.serve,
	})
	err := w.Run(preflight.WithClients(ctx, r.clients))
	if ctx.Err() != nil && diag.Unanswered(err) {
		return nil
	}
	return public(err)
}

// console returns the outputs of the engine: text for people becomes records of the log.
func (r *Replicator) console() *terminal.Console {
	return &terminal.Console{Stdout: io.Discard, Stderr: report.Lines(r.log), Env: r.clients.Lookup}
}
