package stream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Reconciler makes the ledger agree with the table's stream and its target. It lists and ranks
// shards, checks the witness row, notices new streams, declares gaps, and removes obsolete rows.
type Reconciler struct {
	*engine.Common
	mapping      *transform.Mapping
	database     engine.Database
	open         func(streamARN string) cdc.Source
	witnesses    *engine.Witnesses
	admission    *Admission
	publisher    engine.Publisher
	fencing      *engine.Fencing
	shares       *engine.Shares // holds the number of tables that this process replicates
	tracker      *engine.ShardTracker
	outages      *engine.Outages
	wake         *task.Wakeup
	wakeAssigner *task.Wakeup

	joined  bool // a pattern matched the table, so the table leaves when it is dropped
	young   bool // the table was created after the first start
	copies  bool
	fromNow bool
	// late is the maximum time between a change and the application's own write to the target. It
	// is 0 if the application does not write the target.
	late time.Duration

	memory
}

func New(s *engine.Table, admission *Admission) *Reconciler {
	return &Reconciler{
		Common: s.Common, mapping: s.Mapping, database: s.Database, open: s.Open, witnesses: s.Witnesses, admission: admission, publisher: s.Publisher, fencing: s.Fencing,
		shares: s.Worker.Shares, tracker: &s.Tracker, outages: &s.Outages, wake: &s.Wake.Reconciler, wakeAssigner: &s.Wake.Assigner,
		late: s.Spec.Late, joined: s.Spec.Joined, young: s.Spec.Young, copies: s.Spec.Copy, fromNow: s.Spec.FromNow,
	}
}

// memory is the reconciler's state while its worker holds the coordinator lease. State that must
// last longer is in the ledger.
type memory struct {
	began   bool
	last    time.Duration // when the last complete pass began
	listing cdc.Listing   // the last complete listing
	doubt   doubt
	// reopenBackoff holds, by a shard's id and epoch, the time since which a trimmed shard waits to
	// be reopened.
	reopenBackoff map[string]time.Duration
	dropped       bool          // the table no longer exists, but its stream can still be read
	since         time.Duration // when the drop was first noticed

	// ends holds, by shard id, the time at which this coordinator found that a shard had ended.
	// DynamoDB may list the shard's children later than that.
	ends map[string]time.Duration

	described time.Duration // when the table was last described
	// soon makes the next complete pass begin before Timing.List is over. It is set if the table
	// was dropped, exists again, or its stream has ended.
	soon bool
}

// Run reconciles until a drain begins. It makes a quick pass every Timing.Pass, and a complete pass
// every Timing.List.
func (r *Reconciler) Run(life engine.Lifecycle) error {
	r.memory = memory{}
	r.fencing.See(0)
	defer r.tracker.SetOver(false) // the next coordinator may find that the table exists again
	for !life.Draining() {
		err := r.Retry(life, "coordinate the table", func(ctx context.Context) error {
			if r.due(ctx) {
				return r.fullPass(life)
			}
			r.glance(ctx)
			return r.quickPass(life)
		})
		if err != nil && !life.Draining() {
			return err
		}
		_ = r.wake.Wait(life.Drain, r.Timing.Pass)
	}
	return nil
}

func (r *Reconciler) due(ctx context.Context) bool {
	passed := task.Mono(ctx) - r.last
	return !r.began || passed >= r.Timing.List || r.soon && passed >= glanceEvery
}

// unsuspend ends the suspension of a table that can be replicated again.
func (r *Reconciler) unsuspend(ctx context.Context) error {
	if r.dropped {
		return nil
	}
	_, err := r.Ledger.UpdateTable(ctx, r.Source, func(s *checkpoint.TableState) error {
		s.Suspended = checkpoint.Suspension{}
		return nil
	})
	r.tracker.SetSuspended(false)
	return err
}

// fullPass makes a complete pass: it checks the witness row, the table, its stream and all shards.
// Each step is retried alone. If each failure restarted the whole pass, the pass might never end
// while both services throttle.
func (r *Reconciler) fullPass(life engine.Lifecycle) error {
	ctx := life.Work
	began := task.Mono(ctx)
	r.soon = false
	var state checkpoint.TableState
	steps := []func(ctx context.Context) error{
		r.admission.admit,
		r.fencing.OpenFence, // the fence does not depend on the source
		func(context.Context) error { return r.reconcileStream(life) },
		r.unsuspend,
		func(ctx context.Context) error { _, err := r.Ledger.Adopt(ctx, r.Source); return err },
		r.publisher.Rekey, // before new shards are read
	}
	for _, at := range r.witnesses.Places() {
		steps = append(steps, func(context.Context) error { return r.witnesses.BeatAt(life, at) })
	}
	steps = append(steps,
		r.fencing.Keep,
		func(ctx context.Context) (err error) { state, _, err = r.Ledger.Table(ctx, r.Source); return err },
		func(context.Context) (err error) { r.listing, err = r.list(life, state); return err },
		func(ctx context.Context) error {
			return r.Ledger.NoteEnabling(ctx, r.Source, state.Label, r.listing.Enabling, r.listing.At)
		},
		func(context.Context) error { return r.discover(life, state, r.listing, state.Listed == 0) },
		func(ctx context.Context) error { return r.noteOpen(ctx, state) },
	)
	for _, step := range steps {
		if err := r.Retry(life, "coordinate the table", step); err != nil {
			return err
		}
	}
	r.began, r.last = true, began
	r.outages.Answered("")
	r.tracker.SetOver(r.dropped && began-r.since >= lasting)
	return r.quickPass(life)
}

// list returns the complete listing. If DynamoDB no longer knows the stream, the stream has ended
// and its unread changes are lost.
func (r *Reconciler) list(life engine.Lifecycle, state checkpoint.TableState) (cdc.Listing, error) {
	listing, err := ListShards(life, r.Retrier, r.open(state.StreamARN), "")
	if !cdc.Is(err, cdc.NotFound) {
		return listing, err
	}
	// Workers that read the shards also notice the lost stream. Such a worker may have raised the
	// generation after this pass read the record, or after the last try of this step.
	now, _, err := r.Ledger.Table(life.Work, r.Source)
	if err != nil {
		return cdc.Listing{}, err
	}
	if now.StreamARN == state.StreamARN && !now.StreamEnded {
		gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Reason: "the stream is gone"}
		err := r.Raise(life, now.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })
		if err != nil {
			return cdc.Listing{}, err
		}
	}
	return cdc.Listing{Ended: true}, nil
}

// noteOpen records the shards that the complete listing showed as open. The children of an open
// shard begin later than the first page of the listing. But DynamoDB may show a closed shard as
// open for any length of time. So three kinds of shards count as closed in any case. They have a
// known child, split after their page was read, or were read to their end.
func (r *Reconciler) noteOpen(ctx context.Context, state checkpoint.TableState) error {
	shards, err := r.Ledger.Shards(ctx, r.Source)
	if err != nil {
		return err
	}
	known, closed := map[string]bool{}, map[string]bool{}
	for _, s := range shards {
		known[s.ID] = true
		if s.Label == state.Label {
			closed[s.Parent] = true
			if s.Ended() {
				closed[s.ID] = true
			}
		}
	}
	for _, s := range r.listing.Shards {
		closed[s.Parent] = true
	}
	var open []string
	for _, s := range r.listing.Shards {
		if !s.Closed && !closed[s.ID] {
			open = append(open, s.ID)
		}
	}
	return r.Ledger.NoteOpen(ctx, r.Source, state.Label, open, r.listing.At, known)
}

// discover adds rows for new shards of a listing. If a shard's ancestors are lost, it is a gap. The
// gap is declared before the shard's row is written. If this worker ends in between, the next
// listing shows the gap again.
func (r *Reconciler) discover(life engine.Lifecycle, state checkpoint.TableState, listing cdc.Listing, first bool) error {
	ctx := life.Work
	known, rows, err := r.known(ctx, state.Label)
	if err != nil {
		return err
	}
	placed, orphans := cdc.RankShards(known, listing.Shards, first)
	if slices.ContainsFunc(orphans, func(o cdc.Orphan) bool { return o.Reason == cdc.UnknownParent && !noted(state, gapOf(o)) }) {
		// The pages of a listing are read at different times. If a parent was missing from its
		// page, the next listing has it.
		again, err := ListShards(life, r.Retrier, r.open(state.StreamARN), "")
		if err != nil && !cdc.Is(err, cdc.NotFound) {
			return err
		}
		// Another coordinator may have recorded the parent in the meantime.
		if known, rows, err = r.known(ctx, state.Label); err != nil {
			return err
		}
		placed, orphans = cdc.RankShards(known, slices.Concat(listing.Shards, again.Shards), first)
	}
	late, lost := map[string]bool{}, map[string]bool{}
	for _, o := range orphans {
		late[o.ID], lost[o.ID] = o.Reason == cdc.NoRoom, o.Reason == cdc.UnknownParent
		if noted(state, gapOf(o)) {
			continue // the shard has no place in the lineage; the next listing shows it again
		}
		if err := r.Raise(life, state.Generation, gapOf(o), nil); err != nil {
			return err
		}
	}
	parents := map[string]string{}
	for _, n := range slices.Concat(known, placed) {
		parents[n.ID] = n.Parent
	}
	if err := r.overtaken(life, state, known, placed, rows, parents, late); err != nil {
		return err
	}
	// The load after the gap covers all changes up to the gap.
	gap, cut := r.Ledger.ServiceTime(ctx), time.Time{}
	if !slices.ContainsFunc(placed, func(n cdc.Node) bool { // every new shard is an orphan, or descends from one
		_, known := rows[n.Parent]
		_, ranked := parents[n.Parent]
		return known || !lost[n.ID] && !ranked
	}) {
		cut = checkpoint.OrphansCut(rows, state, gap)
	}
	for _, n := range placed {
		s := checkpoint.Shard{
			Source: r.Source, StreamARN: state.StreamARN, Label: state.Label, ID: n.ID, Parent: n.Parent, State: checkpoint.Waiting,
			Hop: n.Hop, Generation: state.Generation, Began: state.Generation, Dropping: !state.Cut.IsZero(),
		}
		if parent, ok := rows[n.Parent]; ok {
			s.Dropping = parent.Dropping // checked again when the shard is leased
		}
		if lost[n.ID] {
			s.CoveredTo, s.Cut = gap, cut
		} else {
			s.Cut = checkpoint.DescendantsCut(n.ID, rows, parents)
		}
		s.Dropping = s.Dropping || !s.Cut.IsZero()
		if late[n.ID] {
			// The shard must not be read, because ranks might be wrong: an ancestor might rank
			// above it, or it might rank above a descendant. It is closed already, so the load
			// after the gap covers all its changes.
			s.State, s.Loss, s.Reason, s.DoneAt = checkpoint.Gap, checkpoint.Late, "listed too late to be read", r.Ledger.ServiceTime(ctx)
		}
		if err := r.Ledger.CreateShard(ctx, s); err != nil {
			return err
		}
		rows[n.ID] = s
	}
	if len(placed) > 0 {
		r.wakeAssigner.Signal()
	}
	if !first {
		return nil
	}
	_, err = r.Ledger.UpdateTable(ctx, r.Source, func(s *checkpoint.TableState) error {
		if s.Label == state.Label && s.Listed == 0 {
			s.Listed = state.Generation
		}
		return nil
	})
	r.wakeAssigner.Signal()
	return err
}

// overtaken finds shards that were listed too late: their descendants were applied in an earlier
// generation. It declares these shards as gaps, and adds them to `late`.
func (r *Reconciler) overtaken(life engine.Lifecycle, state checkpoint.TableState, known, placed []cdc.Node, rows map[string]checkpoint.Shard, parents map[string]string, late map[string]bool) error {
	shards := make([]checkpoint.Shard, len(known))
	for i, n := range known {
		shards[i] = rows[n.ID]
	}
	for _, n := range placed {
		if late[n.ID] || !checkpoint.Overtaken(n.ID, shards, parents, state.Generation) {
			continue
		}
		late[n.ID] = true
		gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: n.ID, Reason: "shard listed after its children were applied in an earlier generation"}
		if noted(state, gap) {
			continue
		}
		if err := r.Raise(life, state.Generation, gap, nil); err != nil {
			return err
		}
	}
	return nil
}

// known returns the shards of a stream that have rows in the ledger, and the rows.
func (r *Reconciler) known(ctx context.Context, label string) ([]cdc.Node, map[string]checkpoint.Shard, error) {
	shards, err := r.Ledger.Shards(ctx, r.Source)
	var known []cdc.Node
	rows := map[string]checkpoint.Shard{}
	for _, s := range shards {
		if s.Label == label {
			known = append(known, cdc.Node{ID: s.ID, Parent: s.Parent, Hop: s.Hop})
			rows[s.ID] = s
		}
	}
	return known, rows, err
}

// gapOf returns the gap that an orphan, a shard with unknown ancestors, causes.
func gapOf(o cdc.Orphan) checkpoint.DeclaredGap {
	return checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: o.ID, Reason: "shard without a place in the lineage: " + o.Reason.String()}
}

func noted(state checkpoint.TableState, gap checkpoint.DeclaredGap) bool {
	for _, g := range state.Gaps {
		if g.Shard == gap.Shard && g.Reason == gap.Reason {
			return true
		}
	}
	return false
}

// quickPass makes a quick pass. It reads only the ledger, unless the children of an ended shard are
// unknown. It handles undeclared gaps, trimmed shards that can be reopened, and obsolete rows.
func (r *Reconciler) quickPass(life engine.Lifecycle) error {
	ctx := life.Work
	v, err := r.Look(ctx)
	if err != nil {
		return err
	}
	if v.State.Adopted != v.State.Generation { // a raise that was not completed
		if v.State, err = r.Ledger.Adopt(ctx, r.Source); err != nil {
			return err
		}
		r.wakeAssigner.Signal()
	}
	if v, err = r.declare(life, v); err != nil {
		return err
	}
	now := r.Ledger.ServiceTime(ctx)
	for _, s := range v.Shards {
		if s.Reopenable(v.State) && r.rested(ctx, s) {
			if err := r.Ledger.Reopen(ctx, s, v.State); err != nil {
				return err
			}
			r.wakeAssigner.Signal()
		}
	}
	lineage := r.lineage(ctx, v, now)
	if err := r.giveUp(life, checkpoint.Outrun(v.Shards, v.State)); err != nil {
		return err
	}
	removable := checkpoint.Removable(v.Shards, v.State.Label, r.listing.Shards, v.State.StreamEnded, now)
	for _, s := range checkpoint.HoldBack(removable, v.State, v.Merged) {
		if err := r.Ledger.Remove(ctx, s); err != nil {
			return err
		}
	}
	if err := r.Ledger.ForgetMerged(ctx, r.Source, v.Merged, v.Shards); err != nil {
		return err
	}
	if v.State.StreamEnded || v.State.Listed == 0 {
		return nil
	}
	return r.children(life, v.State, lineage)
}

// declare raises the generation for undeclared gaps. Either the worker that found such a gap ended
// before the raise, or it expected more gaps and left the raise to the coordinator. One raise
// covers all gaps in the ledger.
func (r *Reconciler) declare(life engine.Lifecycle, v engine.View) (engine.View, error) {
	i := slices.IndexFunc(v.Shards, func(s checkpoint.Shard) bool { return s.Undeclared(v.State) })
	if i < 0 || v.Shards[i].Generation >= v.State.Generation && checkpoint.GapsCome(v.State, v.Shards, r.Ledger.ServiceTime(life.Work)) {
		return v, nil
	}
	s := v.Shards[i]
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: s.ID, Reason: s.Reason}
	if err := r.Raise(life, s.Generation, gap, nil); err != nil {
		return v, err
	}
	return r.Look(life.Work)
}

// giveUp declares gaps of shards whose descendants were applied in an earlier generation. It marks
// all these shards as lost before it raises the generation. So they are not read in the new
// generation.
func (r *Reconciler) giveUp(life engine.Lifecycle, outrun []checkpoint.Shard) error {
	const reason = "its children were applied in an earlier generation, before their lineage was known"
	var lost []checkpoint.Shard
	for _, s := range outrun {
		done, err := r.Ledger.GiveUp(life.Work, s, reason)
		if err != nil {
			return err
		}
		if done { // otherwise the next pass tries again
			lost = append(lost, s)
		}
	}
	for _, s := range lost {
		if err := r.Raise(life, s.Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: s.ID, Reason: reason}, nil); err != nil {
			return err
		}
	}
	return nil
}

// longRest is the maximum wait before a repeatedly trimmed shard is reopened.
const longRest = 10 * time.Minute

// rested reports whether a trimmed shard may be reopened now. After its first gap, it is reopened
// at once. If no page was applied since then, each further wait is longer. So a shard that fails
// again and again does not cause endless new generations.
func (r *Reconciler) rested(ctx context.Context, s checkpoint.Shard) bool {
	if s.Reopened == 0 {
		return true
	}
	if r.reopenBackoff == nil {
		r.reopenBackoff = map[string]time.Duration{}
	}
	at, now := fmt.Sprint(s.ID, " ", s.Epoch), task.Mono(ctx)
	since, known := r.reopenBackoff[at]
	if !known {
		since, r.reopenBackoff[at] = now, now
	}
	rest := min(time.Second<<min(s.Reopened, 16), longRest)
	if now-since < rest {
		return false
	}
	delete(r.reopenBackoff, at)
	return true
}
