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

// reconcileStream makes the ledger's record agree with the table's stream. The first call begins
// the first generation.
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
	unusable, rekeyed := engine.CheckStream(d, engine.NeedsOldImages(r.mapping, r.late)), engine.CheckKey(d, r.mapping)
	state, err := r.begin(ctx, d, cmp.Or(unusable, rekeyed))
	if err != nil {
		return err
	}
	if err := engine.CheckSource(d, state.StreamARN); err != nil {
		return err
	}
	if d.StreamEnabled && unusable != nil {
		// This check must come before a new stream is read. With a stream without images, changes
		// would remove rows, because their new images are missing (H62).
		return unusable
	}
	told := newsOf(d, state)
	if told == nothingNew {
		r.doubt = doubt{}
		return nil
	}
	over, err := r.over(ctx, state)
	// The label of a stream is the time at which the stream was enabled.
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
		return rekeyed // a table cannot change its primary key, so this is another table
	case told == replaced:
		// Changes between the end of the former stream and the new stream were not recorded (H24).
		gap := checkpoint.DeclaredGap{Kind: lossOf(d, state), Reason: "the table has a new stream"}
		return r.Raise(life, state.Generation, gap, func(s *checkpoint.TableState) {
			s.Follow(d.StreamARN, d.StreamLabel)
		})
	}
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Reason: "the stream is disabled"}
	return r.Raise(life, state.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })
}

// lossOf returns the kind of loss that a new stream means. The label of a stream shows when the
// stream was enabled. If the table is known to be older than its former stream, only the changes
// between the two streams are lost. Otherwise it may be another table with the same name.
func lossOf(d backfill.Description, state checkpoint.TableState) checkpoint.GapKind {
	enabled := checkpoint.LabelTime(state.Label)
	if enabled.IsZero() || d.CreatedAt.IsZero() || d.CreatedAt.After(enabled) {
		return checkpoint.KindCreatedAnew
	}
	return checkpoint.KindStream
}

// outlive handles a dropped table. If the configuration names the table, this worker continues: the
// stream can be read for another day, and DynamoDB may still list shards. A table that matched a
// pattern leaves until it exists again.
func (r *Reconciler) outlive(ctx context.Context) error {
	if r.joined {
		return engine.ErrGone
	}
	state, _, err := r.Ledger.Table(ctx, r.Source)
	if err != nil {
		return err
	}
	if state.Generation == 0 {
		return engine.ErrGone // the table was never replicated
	}
	return engine.Suspend(ctx, r.Ledger, r.Events, r.Source, engine.GoneReason)
}

// begin begins the first generation and returns the table's record. If there is a generation
// already, or the stream is unusable, it begins none.
func (r *Reconciler) begin(ctx context.Context, d backfill.Description, unusable error) (checkpoint.TableState, error) {
	// The number of a generation only needs to be new, so this clock is good enough.
	now := task.Now(ctx)
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

// start returns the service time from which changes are applied with `start: now`; zero if the
// answer has no time. For a table that was created after the first start, it is the time of the
// creation. Such a table may be found long after its creation (H75), so its stream must contain all
// changes since then.
func start(young bool, d backfill.Description) time.Time {
	if young && !d.CreatedAt.IsZero() {
		return d.CreatedAt
	}
	return d.At
}

// news is how the stream in a table's description differs from the stream in the ledger.
type news uint8

const (
	nothingNew news = iota
	goesOn          // the stream in the ledger is enabled, although it was found to have ended
	replaced        // another stream is enabled
	disabled        // no stream is enabled
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

// over reports whether the followed stream has ended, according to the service.
func (r *Reconciler) over(ctx context.Context, state checkpoint.TableState) (bool, error) {
	page, err := r.open(state.StreamARN).ListPage(ctx, "", "")
	if cdc.Is(err, cdc.NotFound) {
		return true, nil
	}
	return page.Ended, err
}

// doubt records a description of the table that contradicts its stream. DescribeTable is eventually
// consistent, so the description may be stale. It must not end the followed stream at once. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_DescribeTable.html
type doubt struct {
	arn     string
	enabled bool
	since   time.Duration
	known   bool
}

// lasting is how long descriptions must contradict the stream before replicator believes them. A
// stale answer is never that old.
const lasting = 10 * time.Minute

// lasts records a description and the time of its request. It reports whether the descriptions have
// been the same for long enough. The time of the request counts, because the process may have been
// paused between the request and this call.
func (d *doubt) lasts(told backfill.Description, asked time.Duration) bool {
	if !d.known || d.arn != told.StreamARN || d.enabled != told.StreamEnabled {
		*d = doubt{told.StreamARN, told.StreamEnabled, asked, true}
	}
	return asked-d.since >= lasting
}
