package repair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Source holds the requests to the source with which a repair reads items.
type Source interface {
	preflight.Describer
	// Get reads an item with strong consistency. It returns false if there is no such item.
	Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error)
}

// Target holds the requests to the target with which a repair writes rows and reads the ledger.
type Target interface {
	sink.Reader
	sink.Table
	Ledger(stateTable string) checkpoint.Store
	// Cluster returns the cluster to which requests are routed now; "" if it is unknown.
	Cluster(ctx context.Context) (string, error)
}

// The intervals at which a repair checks whether a cutover asks it to stop.
const (
	heedEvery = 2 * time.Second
	heedSoon  = 250 * time.Millisecond
)

// Repairer repairs the rows of a table's items.
type Repairer struct {
	*sink.Repairer
	register *fence.Register
	heeding  *task.Group
	unheed   context.CancelFunc
}

// Leave ends the repairer, even if ctx has ended. After that, the repairer must not be used.
func (r *Repairer) Leave(ctx context.Context) {
	r.unheed()
	_ = r.heeding.Wait()      // Wait never fails here
	_ = r.register.Leave(ctx) // if it fails, the record of this process stays, which is safe
}

// Of returns a repairer for items of a table, after checking that a repair is allowed. As for the
// command run, the ledger must have the table with this mapping, and the app profile must route to
// the ledger's cluster. The argument `what` describes the repair. Errors begin with this text. The
// caller must end the repairer with Leave.
func Of(ctx context.Context, cfg *config.Config, t config.Table, source Source, target Target, what string) (*Repairer, error) {
	whole := ctx
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	name := fmt.Sprintf("repair-%013x", uint64(task.Rand(ctx)*(1<<52))) // unique to this repairer
	ledger, err := checkpoint.Open(ctx, target.Ledger(cfg.State.Table), cfg.Name, checkpoint.Options{ReadOnly: true, Worker: name, Lease: cfg.State.Lease})
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	register := fence.NewRegister(ledger)
	state, err := underMapping(ctx, ledger, t.From, cfg.Hash(t))
	if err == nil {
		err = preflight.SameCluster(ctx, ledger, target.Cluster)
	}
	if err != nil {
		return nil, Failed(ctx, what, t.From, err)
	}
	found, err := preflight.DescribeTable(ctx, source, t)
	if err != nil {
		return nil, err
	}
	if err := engine.CheckFollowed(found.Description, state); err != nil {
		return nil, preflight.Explain(what, err)
	}
	ledger.Heard(ctx, found.Description.At)
	now := generations{ledger: ledger, table: t.From, mapping: cfg.Hash(t), late: cfg.Late(t)}
	heeding, unheed := context.WithCancel(whole)
	g := task.NewGroup(heeding, 0)
	g.Go("heed cutovers", func(ctx context.Context) error { register.Heed(ctx, heedEvery, heedSoon); return nil })
	return &Repairer{register: register, heeding: g, unheed: unheed, Repairer: &sink.Repairer{
		Mapping: found.Mapping, Rows: target, Table: target, Owned: t.Owned, Had: state.HadGeneration,
		Item: itemReader(source, t.From), Prove: register.Prove, Current: now.current, Former: now.former, Generation: now.admissible,
		Now: ledger.Now}}, nil
}

// generations reads a table's generation from the ledger. It reads the generation again for every
// item, because a repair of many items may take hours.
type generations struct {
	ledger         *checkpoint.Ledger
	table, mapping string
	late           time.Duration // maximum time between a change and the application's own write
}

// current returns the generation with which rows are written.
func (g generations) current(ctx context.Context) (uint32, error) {
	state, err := underMapping(ctx, g.ledger, g.table, g.mapping)
	return state.Generation, err
}

// former returns the earlier mappings with rows and columns that may still exist. If a family of a
// former mapping is deleted during the repair, the repair fails until the sweep is complete.
func (g generations) former(ctx context.Context) ([]sink.Former, error) {
	state, err := underMapping(ctx, g.ledger, g.table, g.mapping)
	var all []sink.Former
	for _, kept := range state.Former {
		if m, made := config.RestoreMapping(kept.Text); made == nil {
			all = append(all, sink.Former{Mapping: m})
		}
	}
	return all, err
}

// admissible returns a generation in which every change after the given time will be applied. It
// fails if there is no such generation yet.
func (g generations) admissible(ctx context.Context, at time.Time) (uint32, error) {
	state, _, err := g.ledger.Table(ctx, g.table)
	if err != nil {
		return 0, err
	}
	shards, err := g.ledger.Shards(ctx, g.table)
	if err != nil {
		return 0, err
	}
	return state.Generation, checkpoint.Admissible(state, shards, at, g.late)
}

// underMapping returns the ledger's record of a table. It fails if the table's rows are written
// with another mapping than the mapping with this hash, or if a fast load is not over. A repair
// keeps the times of equal cells, so the sweep of that load would delete them.
func underMapping(ctx context.Context, ledger *checkpoint.Ledger, table, hash string) (checkpoint.TableState, error) {
	state, _, err := ledger.Table(ctx, table)
	switch {
	case err != nil:
	case state.MappingHash != hash:
		err = checkpoint.ErrMappingChanged
	case state.Halted():
		err = checkpoint.ErrHalted
	default:
		err = state.CheckCopied("repair rows")
	}
	return state, err
}

// itemReader returns a function that reads items of a table with strong consistency.
func itemReader(source Source, table string) func(context.Context, attribute.Item) (attribute.Item, bool, error) {
	return func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
		return source.Get(ctx, table, keys)
	}
}

// Failed explains an error that ended a repair. If the outcome of the last write is unknown, the
// same command may be run again.
func Failed(ctx context.Context, what, table string, err error) error {
	var unready *checkpoint.NotAdmissible
	var refused *checkpoint.LoadError
	switch {
	case errors.As(err, &refused):
		return &diag.Error{Code: diag.RetryNotYet, What: what, Cause: refused.Reason, Fix: refused.Cure, Err: err}
	case errors.As(err, &unready):
		return &diag.Error{Code: diag.RetryNotYet, What: what, Cause: unready.Error(), Err: err}
	case errors.Is(err, sink.ErrNoFence):
		return &diag.Error{Code: diag.RetryNotYet, What: what, Cause: "no worker has raised the target's fence yet", Fix: "start `replicator run`, then retry", Err: err}
	case cdc.Is(err, cdc.NotFound), cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.Throttled), cdc.Is(err, cdc.Unavailable), cdc.Is(err, cdc.Malformed):
		return preflight.ExplainSource(what, table, err)
	}
	return preflight.ReadingFailed(ctx, what, err)
}
