package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// seek waits for the keeper's seat, and keeps the table while it has it, until stop ends.
func (t *table) seek(stop, ctx context.Context) error {
	watch := t.Ledger.NewWatch()
	waits := once(t.events.Waits)
	for stop.Err() == nil && ctx.Err() == nil {
		var seat checkpoint.Seat
		err := t.retry(ctx, "look at the keeper's seat", func(ctx context.Context) (err error) {
			seat, err = t.Ledger.Seat(ctx, t.source)
			return err
		})
		if err != nil {
			return err
		}
		rest := t.Timing.Pass
		if watch.SeatFree(seat, task.Mono(ctx)) {
			waits(t.source, OfSeat, 0, 0)
			keeper, err := t.Ledger.TakeSeat(ctx, seat)
			switch {
			case err == nil:
				if rest, err = t.serve(stop, keeper); err != nil {
					return err
				}
			case !errors.Is(err, checkpoint.ErrTaken):
				t.events.Retry(t.source, "take the keeper's seat", t.Timing.Pass, err)
			}
		} else {
			waits(t.source, OfSeat, 1, t.Ledger.Lease())
		}
		_ = task.Sleep(stop, rest)
	}
	return nil
}

// serve keeps the table until stop ends, the seat is lost or left to another, or the table is set aside, and says how long not to seek the seat
// again. The error is only what ends the process.
func (t *table) serve(stop context.Context, keeper *checkpoint.Keeper) (rest time.Duration, err error) {
	rest = t.Timing.Pass
	t.events.KeeperTaken(t.source, keeper.Epoch())
	g := task.NewGroup(keeper.Context(), 0)
	g.Go("renew the seat", func(context.Context) error { return keeper.Keep() })
	g.Go("keep", func(ctx context.Context) error {
		defer keeper.Abandon()
		loading := task.NewGroup(ctx, 0)
		notes := &notes{tell: keeper.Note}
		loading.Go("copy", func(ctx context.Context) error { return t.copyWhileThere(stop, noting(ctx, notes.slot(0)), keeper) })
		err := t.keep(stop, yielding(noting(loading.Context(), t.vain.telling(ctx, "", notes.slot(1))), t.Timing.Yield))
		if err != nil {
			loading.Fail(err)
		}
		err = loading.Wait()
		switch {
		case err == nil:
		case errors.Is(err, ErrYield):
			rest = t.respite()
			t.vain.giveUp("", task.Mono(ctx))
		case t.asideFor(stop, ctx, err):
			rest, err = t.Timing.List, nil
		case !orderly(err):
			return err
		}
		if released := keeper.Release(ctx); err == nil {
			err = released
		}
		return err
	})
	err = g.Wait()
	t.events.KeeperLeft(t.source, err)
	return rest, t.end(err)
}

// keep makes its rounds: a small one in every pass, and a complete one every Timing.List.
func (t *table) keep(stop, ctx context.Context) error {
	k := &rounds{table: t, stop: stop}
	defer t.board.setOver(false) // another keeper may find the table there again
	for stop.Err() == nil {
		err := t.retryUntil(stop, ctx, "keep the table", func(ctx context.Context) error {
			if k.due(ctx) {
				return k.complete(ctx)
			}
			k.glance(ctx)
			return k.small(ctx)
		})
		if err != nil && stop.Err() == nil {
			return err
		}
		_ = t.nudge.Wait(stop, t.Timing.Pass)
	}
	return nil
}

// rounds is the keeper's memory while it holds the seat. What must last is in the ledger.
type rounds struct {
	*table
	stop    context.Context
	began   bool
	last    time.Duration // when the last complete round began
	listing cdc.Listing   // the last complete one
	doubt   doubt
	rests   map[string]time.Duration // since when a shard that could be reopened is left alone, by its id and epoch
	dropped bool                     // the table does not exist any more, and its stream is kept
	since   time.Duration            // when it was first asked for that it did not

	described time.Duration // when it was last asked for
	// The next complete round does not wait for Timing.List: the table was dropped, exists again, or its
	// stream has ended.
	hasty bool
}

func (k *rounds) due(ctx context.Context) bool {
	passed := task.Mono(ctx) - k.last
	return !k.began || passed >= k.Timing.List || k.hasty && passed >= glanceEvery
}

// complete looks at everything: the witness, the table, its stream and all of its shards. Each step is repeated by itself: while
// both services throttle, a round that began anew with each failed call would never end.
func (k *rounds) complete(ctx context.Context) error {
	began := task.Mono(ctx)
	k.hasty = false
	var state checkpoint.TableState
	steps := []func(ctx context.Context) error{
		k.attend,
		k.readmit,
		func(ctx context.Context) error { _, err := k.Ledger.Adopt(ctx, k.source); return err },
	}
	for _, at := range k.places() {
		steps = append(steps, func(ctx context.Context) error { return k.beatAt(ctx, at) })
	}
	steps = append(steps,
		func(ctx context.Context) (err error) { state, _, err = k.Ledger.Table(ctx, k.source); return err },
		func(ctx context.Context) (err error) { k.listing, err = k.list(ctx, state); return err },
		func(ctx context.Context) error { return k.discover(ctx, state, k.listing, state.Listed == 0) },
		func(ctx context.Context) error { return k.noteOpen(ctx, state) },
	)
	for _, step := range steps {
		if err := k.retryUntil(k.stop, ctx, "keep the table", step); err != nil {
			return err
		}
	}
	k.began, k.last = true, began
	k.vain.answered("")
	k.board.setOver(k.dropped && began-k.since >= lasting)
	return k.small(ctx)
}

// list gives the complete listing. A stream that the service does not know any more has ended, and what it held is lost.
func (k *rounds) list(ctx context.Context, state checkpoint.TableState) (cdc.Listing, error) {
	listing, err := k.listShards(k.stop, ctx, state.StreamARN, "")
	if !cdc.Is(err, cdc.NotFound) {
		return listing, err
	}
	// Those who read the stream's shards find the same, and may have raised the generation since the round read the record, or the last attempt of this step.
	now, _, err := k.Ledger.Table(ctx, k.source)
	if err != nil {
		return cdc.Listing{}, err
	}
	if now.StreamARN == state.StreamARN && !now.StreamEnded {
		gap := checkpoint.Gap{Kind: checkpoint.KindStream, Reason: "the stream is gone"}
		err := k.raise(ctx, now.Generation, gap, func(s *checkpoint.TableState) { s.StreamEnded = true })
		if err != nil {
			return cdc.Listing{}, err
		}
	}
	return cdc.Listing{Ended: true}, nil
}

// noteOpen notes which shards the complete listing showed open: their children begin later than its first page. A listing may go on showing a shard
// open that was closed long ago, for which there is no bound; one whose child is known is closed, whatever the listing says, and so is one that
// split after its page was read, and one that was read to its end.
func (k *rounds) noteOpen(ctx context.Context, state checkpoint.TableState) error {
	shards, err := k.Ledger.Shards(ctx, k.source)
	if err != nil {
		return err
	}
	known, closed := map[string]bool{}, map[string]bool{}
	for _, s := range shards {
		known[s.ID] = true
		if s.Label == state.Label {
			closed[s.Parent] = true
			if s.State == checkpoint.Done {
				closed[s.ID] = true
			}
		}
	}
	for _, s := range k.listing.Shards {
		closed[s.Parent] = true
	}
	var open []string
	for _, s := range k.listing.Shards {
		if !s.Closed && !closed[s.ID] {
			open = append(open, s.ID)
		}
	}
	return k.Ledger.NoteOpen(ctx, k.source, state.Label, open, k.listing.At, known)
}

// beat checks that the target tables and the ledger belong together, and moves the witness of each on. Where they do not, the generation was
// raised when it returns.
func (t *table) beat(ctx context.Context) error {
	for _, at := range t.places() {
		if err := t.beatAt(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// places are where the witnesses are, one in each target table.
func (t *table) places() []checkpoint.Place {
	var all []checkpoint.Place
	for i, name := range t.Mapping.Tables() {
		at := checkpoint.Place{Store: t.Witness(name), Key: t.Mapping.WitnessKey(), Further: name}
		if i == 0 {
			at.Further = ""
		}
		all = append(all, at)
	}
	return all
}

func (t *table) beatAt(ctx context.Context, at checkpoint.Place) error {
	state, _, err := t.Ledger.Table(ctx, t.source)
	if err != nil {
		return err
	}
	verdict, witness, err := t.Ledger.Beat(ctx, t.source, at)
	if err != nil || verdict == checkpoint.Fine {
		return err
	}
	gap := checkpoint.Gap{Kind: checkpoint.KindTargetLost, Reason: "the target table was created anew or restored: rows are missing"}
	if state.Reason == checkpoint.ChangedMapping { // perhaps to another table, where nothing was before
		gap.Reason = checkpoint.ChangedMapping + "; its target is another table, or was created anew or restored"
	}
	if verdict == checkpoint.LedgerBehind {
		gap.Kind = checkpoint.KindLedgerLost
		gap.Reason = "the target was written under another ledger, or a later state of this one"
	}
	now := task.Now(ctx)
	err = t.raise(ctx, state.Generation, gap, func(s *checkpoint.TableState) {
		s.Generation = max(s.Generation, checkpoint.NextGeneration(witness.Generation, now))
	})
	if err != nil {
		return err
	}
	return t.Ledger.Claim(ctx, t.source, at)
}

// raise declares a gap and raises the generation, and tells of it. It fails with checkpoint.ErrRaised if another gap was declared meanwhile and
// change was not made with it: whoever wanted it looks again.
func (t *table) raise(ctx context.Context, from uint32, gap checkpoint.Gap, change func(*checkpoint.TableState)) error {
	var overtaken error
	err := t.retry(ctx, "raise the generation", func(ctx context.Context) error {
		state, err := t.Ledger.Raise(ctx, t.source, from, gap, change)
		if errors.Is(err, checkpoint.ErrRaised) {
			overtaken = err
			return nil
		}
		if err != nil {
			return err
		}
		t.Floors.raise(t.source, state.Generation)
		t.events.Gap(t.source, gap.Shard, gap.Reason)
		t.events.Raised(t.source, state.Generation, gap.Reason)
		return nil
	})
	return cmp.Or(err, overtaken)
}

// discover adds the rows of shards that are new in a listing. A shard whose ancestors were lost is a gap, declared before its row
// is written, so that it is found again if this worker ends in between.
func (k *rounds) discover(ctx context.Context, state checkpoint.TableState, listing cdc.Listing, first bool) error {
	known, rows, err := k.known(ctx, state.Label)
	if err != nil {
		return err
	}
	placed, orphans := cdc.Place(known, listing.Shards, first)
	if slices.ContainsFunc(orphans, func(o cdc.Orphan) bool { return o.Reason == cdc.UnknownParent && !noted(state, gapOf(o)) }) {
		// The pages are of several moments: a parent that was not to be listed yet when its page was read is listed now.
		again, err := k.listShards(k.stop, ctx, state.StreamARN, "")
		if err != nil && !cdc.Is(err, cdc.NotFound) {
			return err
		}
		// And a keeper before this one may have written it down while that was asked for.
		if known, rows, err = k.known(ctx, state.Label); err != nil {
			return err
		}
		placed, orphans = cdc.Place(known, slices.Concat(listing.Shards, again.Shards), first)
	}
	late, lost := map[string]bool{}, map[string]bool{}
	for _, o := range orphans {
		late[o.ID], lost[o.ID] = o.Reason == cdc.NoRoom, o.Reason == cdc.UnknownParent
		if noted(state, gapOf(o)) {
			continue // it cannot be placed, and is listed again and again
		}
		if err := k.raise(ctx, state.Generation, gapOf(o), nil); err != nil {
			return err
		}
	}
	for _, n := range placed {
		s := checkpoint.Shard{
			Source: k.source, StreamARN: state.StreamARN, Label: state.Label, ID: n.ID, Parent: n.Parent, State: checkpoint.Waiting,
			Hop: n.Hop, Generation: state.Generation, Dropping: !state.Cut.IsZero(),
		}
		if parent, ok := rows[n.Parent]; ok {
			s.Dropping = parent.Dropping // looked at again when it is leased
		}
		if lost[n.ID] {
			s.CoveredTo = k.Ledger.ServiceTime(ctx) // up to the gap everything is the business of the load that follows it
		}
		if late[n.ID] {
			// Not to be read: its ancestors may outrank it. It is closed, so that the load after the gap covers all it held.
			s.State, s.Loss, s.Reason, s.DoneAt = checkpoint.Lost, checkpoint.Late, "listed too late to be ranked", k.Ledger.ServiceTime(ctx)
		}
		if err := k.Ledger.CreateShard(ctx, s); err != nil {
			return err
		}
		rows[n.ID] = s
	}
	if len(placed) > 0 {
		k.bell.Ring()
	}
	if !first {
		return nil
	}
	_, err = k.Ledger.UpdateTable(ctx, k.source, func(s *checkpoint.TableState) error {
		if s.Label == state.Label && s.Listed == 0 {
			s.Listed = state.Generation
		}
		return nil
	})
	k.bell.Ring()
	return err
}

// known are the shards of a stream that have rows, and those rows.
func (k *rounds) known(ctx context.Context, label string) ([]cdc.Node, map[string]checkpoint.Shard, error) {
	shards, err := k.Ledger.Shards(ctx, k.source)
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

// gapOf is the gap that an orphan is.
func gapOf(o cdc.Orphan) checkpoint.Gap {
	return checkpoint.Gap{Kind: checkpoint.KindStream, Shard: o.ID, Reason: "shard without its place in the lineage: " + o.Reason.String()}
}

func noted(state checkpoint.TableState, gap checkpoint.Gap) bool {
	for _, g := range state.Gaps {
		if g.Shard == gap.Shard && g.Reason == gap.Reason {
			return true
		}
	}
	return false
}

// leafLists is how many shards are asked for their children one by one in a pass; for more a complete listing is cheaper.
const leafLists = 3

// small looks at the ledger alone, unless a shard has ended whose children are not known: gaps that were not declared, trimmed
// shards that can be read on, and rows that say nothing any more.
func (k *rounds) small(ctx context.Context) error {
	v, err := k.look(ctx)
	if err != nil {
		return err
	}
	if v.state.Adopted != v.state.Generation { // a raise that its beginner did not complete
		if v.state, err = k.Ledger.Adopt(ctx, k.source); err != nil {
			return err
		}
		k.bell.Ring()
	}
	var nodes []cdc.Node
	awaiting, now := map[string]bool{}, k.Ledger.ServiceTime(ctx)
	for _, s := range v.shards {
		switch {
		case s.Undeclared(v.state):
			err = k.raise(ctx, s.Generation, checkpoint.Gap{Kind: checkpoint.KindStream, Shard: s.ID, Reason: s.Reason}, nil)
		case s.Reopenable(v.state) && k.rested(ctx, s):
			err = k.Ledger.Reopen(ctx, s, v.state)
			k.bell.Ring()
		}
		if err != nil {
			return err
		}
		if s.Label == v.state.Label {
			nodes = append(nodes, cdc.Node{ID: s.ID, Parent: s.Parent, Hop: s.Hop})
			awaiting[s.ID] = s.AwaitsChildren(now)
		}
	}
	for _, s := range checkpoint.Removable(v.shards, v.state.Label, k.listing.Shards, v.state.StreamEnded, now) {
		if err := k.Ledger.Remove(ctx, s); err != nil {
			return err
		}
	}
	if v.state.StreamEnded || v.state.Listed == 0 {
		return nil
	}
	return k.children(ctx, v.state, cdc.Leaves(nodes), awaiting)
}

// longRest is the longest time for which a shard that was lost again and again is left alone.
const longRest = 10 * time.Minute

// rested tells whether a trimmed shard may be reopened: at once after its first gap, and after a longer and longer rest if no page of it was applied
// since it was reopened before. Whatever makes readers refuse it again and again cannot spend generations without end.
func (k *rounds) rested(ctx context.Context, s checkpoint.Shard) bool {
	if s.Reopened == 0 {
		return true
	}
	if k.rests == nil {
		k.rests = map[string]time.Duration{}
	}
	at, now := fmt.Sprint(s.ID, " ", s.Epoch), task.Mono(ctx)
	since, known := k.rests[at]
	if !known {
		since, k.rests[at] = now, now
	}
	rest := min(time.Second<<min(s.Reopened, 16), longRest)
	if now-since < rest {
		return false
	}
	delete(k.rests, at)
	return true
}

// children asks for the children of shards that are done. The listing may lag behind the end of a shard by minutes (H13).
func (k *rounds) children(ctx context.Context, state checkpoint.TableState, leaves []string, awaiting map[string]bool) error {
	var ended []string
	for _, id := range leaves {
		if awaiting[id] {
			ended = append(ended, id)
		}
	}
	if len(ended) > leafLists {
		ended = []string{""} // the parent that all have
	}
	for _, id := range ended {
		listing, err := k.listShards(k.stop, ctx, state.StreamARN, id)
		if err != nil {
			return err
		}
		if listing.Ended && !k.dropped {
			k.hasty = true // the stream of a table that is dropped ends with it
		}
		if err := k.discover(ctx, state, listing, false); err != nil {
			return err
		}
	}
	return nil
}
