package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Database is the part of DynamoDB, besides the stream, that the pipeline needs; *backfill.Tables
// is one.
type Database interface {
	backfill.ScanSource
	backfill.ItemSource
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// Spec is one table to replicate.
type Spec struct {
	Mapping     *transform.Mapping
	MappingHash string
	// AcceptMapping makes a changed mapping raise the generation. Otherwise it is refused.
	AcceptMapping bool
	// AdoptRows lets the first generation write to targets that already have rows.
	AdoptRows bool
	// Shared says that other migrations also write the target tables. The mapping then stores the
	// origin of every row.
	Shared bool
	// FromNow drops changes that predate the first start, unless the table is copied. A table that
	// is neither copied nor FromNow gets all changes that the stream still holds.
	FromNow bool
	// Young says that the table was created after the first start. FromNow then drops none of its
	// changes, and changes that may have been trimmed before the first read are a gap.
	Young bool
	// Copy loads the existing items. LoadAgain also loads them after each gap, without an operator.
	Copy, LoadAgain bool
	// From is what the first load copies instead of scanning; zero: it scans.
	From source.Named
	// Segments is how many parts of a load this worker works on concurrently.
	Segments int
	// Limits are the configured bounds of loads. Limits that an operator sets in the ledger
	// override them.
	Limits checkpoint.Limits
	// LiveLimits returns the bounds if they may change while loads run; nil: Limits apply.
	LiveLimits func() checkpoint.Limits
	// Rows, if not nil, bounds the rows a second of several tables together. It replaces the bound
	// in Limits.
	Rows *backfill.Throttle
	// SkipExpired excludes items past their time to live from loads. Owned says that this program
	// writes every row of the target tables.
	SkipExpired, Owned bool
	// Settle is how long after the application of a change a verify reads its row again.
	Settle time.Duration
	// Late is how long after its change in the source the application itself may still write the
	// target; 0: it does not write it. With Late, images are asserted twice.
	Late time.Duration
	// LagBound is the lag up to which a shard counts as caught up; default 5 s. A gate of a cutover
	// requires this state for some time.
	LagBound time.Duration
	// Sample is the share of just applied items whose rows are compared, every SampleEvery; 0:
	// none.
	Sample      float64
	SampleEvery time.Duration
	// Joined: the table was found by a pattern. An obstacle suspends only this table, and the
	// others continue.
	Joined bool
}

// Throttle bounds the rows that a load writes.
func (t Spec) Throttle() *backfill.Throttle {
	if t.Rows != nil {
		return t.Rows
	}
	rows, _ := t.Bounds()().Rows()
	return backfill.NewThrottle(rows)
}

// Bounds returns a function that reads the configured bounds.
func (t Spec) Bounds() func() checkpoint.Limits {
	if t.LiveLimits != nil {
		return t.LiveLimits
	}
	return func() checkpoint.Limits { return t.Limits }
}

// Discovery is the result of a search for the tables of patterns.
type Discovery struct {
	// Tables can be replicated. Tables that are already followed are skipped.
	Tables []Spec
	// Refused tables cannot be replicated, for the reasons given.
	Refused []Refusal
}

// Refusal is a table that was found but cannot be followed, for example because the mapping does
// not fit.
type Refusal struct{ Table, Reason string }

// Exporter requests exports of tables from DynamoDB; *backfill.Exporter is one.
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

// Loading reports whether a load runs, or is about to start without an operator. No load starts
// without a stream that will bring the later changes.
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
			return false // it waits for an operator
		}
		return state.Load.Paused != checkpoint.PausedByOperator && !state.Load.PausedForStranger()
	case checkpoint.StageSweeping:
		return state.Load.Paused != checkpoint.PausedByOperator && !state.Load.PausedForStranger() && !state.Load.Sweep.Waiting
	}
	return false
}
