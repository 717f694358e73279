package engine

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Database holds the requests to DynamoDB that the pipeline needs, except requests to the stream.
// *backfill.Tables implements it.
type Database interface {
	backfill.ScanSource
	backfill.ItemSource
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// Spec describes one table to replicate.
type Spec struct {
	Mapping *transform.Mapping
	// ARN is the ARN of the table as this process found it at its start; "" if it is unknown.
	ARN         string
	Pattern     string // the pattern of table names to which the table belongs; "" for none
	MappingHash string
	// AcceptMapping lets a changed mapping raise the generation. Without it, a changed mapping is
	// refused.
	AcceptMapping bool
	// AdoptRows lets the first generation write to targets that already have rows.
	AdoptRows bool
	// Shared is true if other migrations also write the target tables. Then the mapping stores the
	// origin of every row.
	Shared bool
	// FromNow drops changes from before the first start, unless the table is copied. Without
	// FromNow and without a copy, all changes that the stream still holds are applied.
	FromNow bool
	// Young is true if the table was created after the first start. Then FromNow drops none of its
	// changes. If changes may have been trimmed before the first read, that is a gap.
	Young bool
	// Copy loads existing items. LoadAgain also loads existing items automatically after each gap.
	Copy, LoadAgain bool
	// LoadMode is how loads are written, unless an operator asked for another mode. "" means that
	// they are guarded.
	LoadMode checkpoint.LoadMode
	// From is the export or file that the first load copies. If it is zero, the load scans the
	// table.
	From source.Named
	// Segments is the number of parts of a load that this worker copies concurrently.
	Segments int
	// Limits are the configured bounds of loads. Limits that an operator sets in the ledger
	// override them.
	Limits checkpoint.Limits
	// LiveLimits returns the bounds if they may change while loads run. If it is nil, Limits apply.
	LiveLimits func() checkpoint.Limits
	// Rows, if not nil, limits the total rows per second of several tables. It replaces the bound
	// in Limits.
	Rows *backfill.Throttle
	// SkipExpired excludes items past their time to live from loads. Owned is true if no other
	// program writes the target tables.
	SkipExpired, Owned bool
	// Settle is the time between the application of a change and the second read of its row by a
	// verify.
	Settle time.Duration
	// Late is the maximum time between a change in the source and the application's own write to
	// the target; 0 if there is no such write. If it is not 0, images are applied twice.
	Late time.Duration
	// LagBound is the maximum lag of a shard that counts as caught up; default 5 s. A gate of a
	// cutover requires that shards have been caught up for some time.
	LagBound time.Duration
	// Sample is the share of recently applied items that are compared with their rows every
	// SampleEvery; 0 for none.
	Sample      float64
	SampleEvery time.Duration
	// Joined is true if a pattern matched the table. If the table cannot be replicated, only this
	// table is suspended, and others continue.
	Joined bool
}

// Throttle returns the limiter of the rows per second that a load writes.
func (t Spec) Throttle() *backfill.Throttle {
	if t.Rows != nil {
		return t.Rows
	}
	rows, _ := t.Bounds()().Rows()
	return backfill.NewThrottle(rows)
}

// Bounds returns a function that returns the configured bounds of loads.
func (t Spec) Bounds() func() checkpoint.Limits {
	if t.LiveLimits != nil {
		return t.LiveLimits
	}
	return func() checkpoint.Limits { return t.Limits }
}

// Discovery is the result of a search for the tables of patterns.
type Discovery struct {
	// Tables are the tables that can be replicated, without those that are already replicated.
	Tables []Spec
	// Refused are the tables that cannot be replicated, with the reasons.
	Refused []Refusal
}

// MayJoin decides whether a table that was found may be replicated, from the records of all cutovers.
// While the table's group is being cut over, it waits. It may share a target with the tables that are cut
// over. Once the application has moved to the target, a new table is refused, with a reason. A table that
// was moved itself is neither.
func (s Spec) MayJoin(all checkpoint.Cutovers) (joins bool, refused string) {
	source := s.Mapping.Source
	joins = true
	for _, c := range all {
		writes := slices.ContainsFunc(s.Mapping.Tables(), func(target string) bool { return slices.Contains(c.Targets, target) })
		switch {
		case !writes && !c.Covers(source, s.Pattern), c.Step.Over():
		case c.Step.Switched() && !c.Moves(source):
			return false, "it belongs to group " + c.Group + ", which is " + c.Left().Error()
		default:
			joins = false
		}
	}
	return joins, ""
}

// Refusal is a table that was found but cannot be replicated. For example, its mapping is not valid
// for its primary key.
type Refusal struct{ Table, Reason string }

// Exporter requests exports of tables from DynamoDB. *backfill.Exporter implements it.
type Exporter interface {
	Request(ctx context.Context, order backfill.ExportOrder) (backfill.ExportReport, error)
	Report(ctx context.Context, arn string) (backfill.ExportReport, error)
}

func keyNames(m *transform.Mapping) (names []string) {
	for _, k := range m.PrimaryKey {
		names = append(names, k.Name)
	}
	return names
}

// Loading reports whether a load runs, or will start without an operator. A load starts only if
// there is a stream for the later changes.
func (t Spec) Loading(state checkpoint.TableState) bool {
	if state.StreamEnded {
		return false
	}
	if asks, _ := state.AsksItself(t.Copy, t.Copy && t.LoadAgain); asks {
		return true
	}
	switch state.Stage() {
	case checkpoint.StageAsked, checkpoint.StageCopying:
		if state.Load.Request.Failed != "" {
			return false // the load waits for an operator
		}
		return state.Load.Paused != checkpoint.PausedByOperator && !state.Load.PausedForStranger()
	case checkpoint.StageSweeping:
		return state.Load.Paused != checkpoint.PausedByOperator && !state.Load.PausedForStranger() && !state.Load.Sweep.Waiting
	}
	return false
}
