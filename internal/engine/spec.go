package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Database is what the pipeline needs of DynamoDB besides the stream; *backfill.Tables is one.
type Database interface {
	backfill.ScanSource
	backfill.ItemSource
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// Spec is one table to replicate.
type Spec struct {
	Mapping     *transform.Mapping
	MappingHash string
	// AcceptMapping lets a changed mapping raise the generation instead of being refused.
	AcceptMapping bool
	// AdoptRows lets the first generation go into targets that hold rows.
	AdoptRows bool
	// Shared says that other migrations write the target tables too: the mapping names the origin of
	// every row.
	Shared bool
	// FromNow drops what is older than the first start, unless the table is copied. Of one that is
	// neither copied nor followed from now on, all that the stream still holds is applied.
	FromNow bool
	// Young tells that the table was created after the first start. FromNow drops nothing of it
	// then, and what may have been trimmed of its stream before anybody read it is a gap.
	Young bool
	// Copy loads the existing items; LoadAgain does so after each gap, too, without being asked.
	Copy, LoadAgain bool
	// From is what the first load copies in place of a scan; zero: it scans.
	From source.Named
	// Segments is how many parts of a load this worker works on at once.
	Segments int
	// Limits bound loads as configured. An operator's, in the ledger, are put over them.
	Limits checkpoint.Limits
	// LiveLimits gives them where they may change while loads run; nil: Limits are those.
	LiveLimits func() checkpoint.Limits
	// Rows, if not nil, is a bound on rows a second that several tables share, in place of that of
	// Limits.
	Rows *backfill.Throttle
	// SkipExpired leaves items out of loads that are past their time to live. Owned says that every
	// row of the target tables is of this program.
	SkipExpired, Owned bool
	// Settle is how long after a change is applied a verify looks at its row again.
	Settle time.Duration
	// Late is how long after its change in the source the application may still write the target by
	// itself; 0: it does not. Images are asserted a second time then.
	Late time.Duration
	// LagBound is how far behind a shard may be so that it counts as caught up; default 5 s. How long
	// it has been is a gate of a cutover.
	LagBound time.Duration
	// Sample is the share of the items of which rows are compared that were just applied, every
	// SampleEvery; 0: none are.
	Sample      float64
	SampleEvery time.Duration
	// Joined: the table was found by a pattern. What keeps it from being followed suspends it, and
	// the others go on.
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

// Bounds gives those of the configuration, at any time.
func (t Spec) Bounds() func() checkpoint.Limits {
	if t.LiveLimits != nil {
		return t.LiveLimits
	}
	return func() checkpoint.Limits { return t.Limits }
}

// Discovery is what was found of the tables that patterns stand for.
type Discovery struct {
	// Tables can be replicated. Those that are followed already are passed over.
	Tables []Spec
	// Refused cannot be, for the reasons given.
	Refused []Refusal
}

// Refusal is a table that was found and that the mapping, say, does not fit.
type Refusal struct{ Table, Reason string }

// Exporter asks DynamoDB for exports of tables; *backfill.Exporter is one.
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

// Loading tells whether a load runs, or is about to without anybody's decision. None begins without
// a stream that would follow its images.
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
