package stream

import (
	"cmp"
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// reconcileStream brings the ledger's record in line with the table's stream. The first time it begins the
// first generation.
func (r *Reconciler) reconcileStream(life engine.Lifecycle) error {
	ctx := life.Work
	asked := task.Mono(ctx)
	r.described = asked
	d, err := r.database.Describe(ctx, r.Source)
	was := r.dropped
	if r.dropped = engine.Gone(d, err); r.dropped {
		if !was {
			r.since = asked
		}
		return r.outlive(ctx)
	}
	if err != nil {
		return err
	}
	unusable, rekeyed := engine.CheckStream(d, r.mapping.DependsOnKeyOnly() && r.late == 0), engine.CheckKey(d, r.mapping)
	state, err := r.begin(ctx, d, cmp.Or(unusable, rekeyed))
	if err != nil {
		return err
	}
	if err := engine.CheckSource(d, state.StreamARN); err != nil {
		return err
	}
	if d.StreamEnabled && unusable != nil {
		// Before a new stream is followed: one that lacks images would have rows removed for want
		// of what to put (H62).
		return unusable
	}
	told := newsOf(d, state)
	if told == nothingNew {
		r.doubt = doubt{}
		return nil
	}
	over, err := r.over(ctx, state)
	// The label of a stream is the time at which it was enabled.
	believed := over && (told != replaced || d.StreamLabel > state.Label)
	switch {
	case err != nil:
		return err
	case told == goesOn:
		if over {
			return nil
		}
		_, err = r.Ledger.UpdateTable(ctx, r.Source, func(s *checkpoint.TableState) error {
			s.StreamEnded = s.StreamEnded && s.StreamARN != d.StreamARN
			return nil
		})
		return err
	case !believed && !r.doubt.lasts(d, asked):
		return nil
	case told == replaced && rekeyed != nil:
		return rekeyed // a key stays for a table's life, so that this is another table
	case told == replaced:
		// H24: between the two streams nobody recorded changes.
		gap := checkpoint.DeclaredGap{Kind: lossOf(d, state), Reason: "the table has a new stream"}
		return r.Raise(life, state.Generation, gap, func(s *checkpoint.TableState) {
			s.StreamARN, s.Label, s.Listed, s.StreamEnded = d.StreamARN, d.StreamLabel, 0, false
			s.Enabling, s.EnabledAt = false, time.Time{}
		})
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Reason: "the stream is disabled"}
	return r.Raise(life, state.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })
}

// lossOf is what a new stream says was lost: changes between the two, if the table is known to be older than the stream before
// (the label of a stream is the time at which it was enabled); else the table may be another one.
func lossOf(d backfill.Description, state checkpoint.TableState) checkpoint.GapKind {
	enabled := checkpoint.LabelTime(state.Label)
	if enabled.IsZero() || d.CreatedAt.IsZero() || d.CreatedAt.After(enabled) {
		return checkpoint.KindCreatedAnew
	}
	return checkpoint.KindStream
}

// outlive tells that the table was dropped, and lets a named one be kept all the same: its stream
// can be read for a day still, and may have shards that nobody has listed yet. One of a pattern is
// left until it is there again.
func (r *Reconciler) outlive(ctx context.Context) error {
	if r.joined {
		return engine.ErrGone
	}
	state, _, err := r.Ledger.Table(ctx, r.Source)
	if err != nil {
		return err
	}
	if state.Generation == 0 {
		return engine.ErrGone // it was never followed
	}
	return engine.Suspend(ctx, r.Ledger, r.Events, r.Source, engine.GoneReason)
}

// begin begins the first generation, unless there is one or the stream is unusable, and gives the
// table's record.
func (r *Reconciler) begin(ctx context.Context, d backfill.Description, unusable error) (checkpoint.TableState, error) {
	now := task.Now(ctx) // a generation's number is no claim
	started := start(r.young, d)
	return r.Ledger.UpdateTable(ctx, r.Source, func(s *checkpoint.TableState) error {
		if s.Generation > 0 {
			return nil
		}
		if unusable != nil {
			return unusable
		}
		if started.IsZero() && !r.copies {
			return engine.ErrTimeless
		}
		s.Generation = checkpoint.NextGeneration(0, now)
		s.Adopted, s.StreamARN, s.Label = s.Generation, d.StreamARN, d.StreamLabel
		switch from := started.Add(-checkpoint.Slack).UTC(); {
		case r.copies:
		case r.fromNow:
			s.Cut = from
		default:
			s.Since = from
		}
		return nil
	})
}

// start is when a table begins to be followed from now on, on the service's clock; zero if the
// answer does not say. One that is younger than the first start is followed since it was created.
// It may be found long after that (H75): its stream must reach back to its creation.
func start(young bool, d backfill.Description) time.Time {
	if young && !d.CreatedAt.IsZero() {
		return d.CreatedAt
	}
	return d.At
}

// news is what a description says of the table's stream that the ledger does not.
type news uint8

const (
	nothingNew news = iota
	goesOn          // the stream that was called over is enabled
	replaced        // another one is
	disabled        // none is any more
)

func newsOf(d backfill.Description, state checkpoint.TableState) news {
	switch {
	case d.StreamEnabled && d.StreamARN != state.StreamARN:
		return replaced
	case d.StreamEnabled && state.StreamEnded:
		return goesOn
	case !d.StreamEnabled && !state.StreamEnded:
		return disabled
	}
	return nothingNew
}

// over reports whether the service says of the stream that is followed that it records nothing any
// more.
func (r *Reconciler) over(ctx context.Context, state checkpoint.TableState) (bool, error) {
	page, err := r.open(state.StreamARN).ListPage(ctx, "", "")
	if cdc.Is(err, cdc.NotFound) {
		return true, nil
	}
	return page.Ended, err
}

// doubt is what the table says of its stream while the stream itself says otherwise. DescribeTable
// is eventually consistent, and an earlier answer would end the stream that is followed for one
// that is over.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_DescribeTable.html
type doubt struct {
	arn     string
	enabled bool
	since   time.Duration
	known   bool
}

// lasting is how long the table must say the same to be believed against its stream: far longer
// than an answer is stale.
const lasting = 10 * time.Minute

// lasts notes what the table said when it was asked, and reports whether it has said so for long.
// When the answer is looked at says nothing: the process may have stood still with it.
func (d *doubt) lasts(told backfill.Description, asked time.Duration) bool {
	if !d.known || d.arn != told.StreamARN || d.enabled != told.StreamEnabled {
		*d = doubt{told.StreamARN, told.StreamEnabled, asked, true}
	}
	return asked-d.since >= lasting
}
