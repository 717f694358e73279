package dualwrite

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Option is an option of Open.
type Option func(*environment.Allowed)

// AllowEmulators accepts the Bigtable emulator, AWS endpoints that are not Amazon's, and endpoints
// without https. It is for tests. Without it, Open refuses a variable such as
// BIGTABLE_EMULATOR_HOST. If such a variable was left in the environment, every write would go to
// the emulator.
func AllowEmulators(a *environment.Allowed) { a.Emulator, a.Insecure = true, true }

// Open returns a Writer for a source table of a replicator.yaml. It connects to both stores with
// the same credentials and endpoints as replicator. The caller must close the Writer in the end.
// Errors name the place in the file. Open refuses a table without dual_writes.
func Open(ctx context.Context, file, table string, options ...Option) (w *Writer, err error) {
	cfg, err := config.Load(file, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	allowed := environment.Allowed{By: "open it with dualwrite.AllowEmulators"}
	for _, option := range options {
		option(&allowed)
	}
	found := slices.DeleteFunc(environment.Check(os.LookupEnv, allowed), func(e *diag.Error) bool {
		return e.Code == diag.OneEndpoint // a writer reads no stream
	})
	if err := found.Err(); err != nil {
		return nil, err
	}
	if err := preflight.KnownTable(cfg, table); err != nil {
		return nil, err
	}
	t, _ := cfg.Table(table)
	if !cfg.DualWritten(t) {
		return nil, &diag.Error{Code: diag.DualWritesImpossible, Pos: cfg.Where("dual_writes"), What: fmt.Sprintf("dual writes are off for table %s", table),
			Cause: "replicator would not expect the application's writes to Bigtable, so a late write would remain",
			Fix:   "set dual_writes.version_attribute or dual_writes.settle, and start the workers with it first"}
	}
	source, err := preflight.ConnectSource(ctx, cfg)
	if err != nil {
		return nil, err
	}
	described, err := preflight.DescribeTable(ctx, source.Tables, t)
	if err != nil {
		return nil, err
	}
	target, err := preflight.OpenTarget(ctx, cfg)
	if err != nil {
		return nil, err
	}
	w = New(described.Mapping, DynamoDB(source.Client(), t.From), instance{target.Data, target})
	w.close = target.Close
	return w, nil
}

// Close closes the connections of a Writer that Open made.
func (w *Writer) Close() error {
	if w.close == nil {
		return nil
	}
	return w.close()
}

// instance is the Bigtable instance of a configuration.
type instance struct {
	*sink.Bigtable
	target *preflight.Target
}

func (i instance) WitnessStore(table string) checkpoint.Store { return i.target.WitnessStore(table) }
