package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// starvation is how long a shard may stay unread, or the stream unlisted, before changes may count as lost: a stream keeps 24 hours, and
// what that is judged by gives up the margins of the replicator, a listing's period, and two hours by which clocks may be wrong.
const starvation = 18 * time.Hour

// checkStarved notes when a gap may be declared though nothing was injected that loses changes at once.
func (s *simulation) checkStarved() {
	if s.starved {
		return
	}
	now := s.World.Elapsed()
	late := func(since time.Duration) bool { return now-since > starvation }
	s.starved = late(s.unlisted())
	for _, stream := range s.Source.Streams {
		for _, sh := range stream.Shards {
			seen := s.truth.ledger[sh.label+"/"+sh.ID]
			if seen != nil && seen.Finished() {
				continue
			}
			var row *checkpoint.Shard
			if seen != nil {
				row = &seen.Shard
			}
			s.starved = s.starved || late(unreadSince(sh, row))
		}
	}
	if n := s.neighbour; n != nil && !s.starved {
		s.starved = n.starved(late)
	}
	if s.starved {
		s.World.Inject("nothing read for 18 hours")
		s.World.Tracef("from now on a gap may be declared")
	}
}

// unreadSince is since when nothing of a shard was read that proves anything. Row is the ledger's of it; nil if it has none.
func unreadSince(sh *Shard, row *checkpoint.Shard) time.Duration {
	switch { // empty pages prove nothing: at the horizon nothing but this counts
	case row == nil || !row.Position.IsZero():
	case !row.CoveredTo.IsZero():
		return row.CoveredTo.Sub(simEpoch)
	case !row.FirstRead.IsZero(): // of a root
		return row.FirstRead.Sub(simEpoch)
	}
	from := sh.begun
	if sh.readAt.After(from) {
		from = sh.readAt
	}
	return from.Sub(simEpoch)
}

// unlisted is since when the stream was not listed completely: since the last time, or since it began, as long as it was not.
func (s *simulation) unlisted() time.Duration {
	return max(s.listed, s.Source.Stream().Shards[0].begun.Sub(simEpoch))
}

// patience is how long a lease may be without anybody while somebody is well: until the lease is over, is looked at, tried, and tried again; or
// with those who cannot reach the source, each of whom leaves it after four leases. While there are several of these (contended) there is no bound: what one leaves
// another may take again, as often as not.
func (s *simulation) patience() time.Duration {
	yields := time.Duration(s.plan.workers-1) * (4*s.Lease + 4*s.plan.pass)
	known := 5*(s.Lease+s.plan.pass+s.plan.list) + 30*time.Minute
	return max(known, time.Duration(s.triesOfALease())*s.plan.pass) + yields + s.Target.LateBy
}

// triesOfALease is how often a lease may be tried in vain by chance alone. It is tried once in a pass, and not again before the next one: what the table's
// record says is read, what listings said, and then the row is written. Where the target refuses a part of all calls, or loses them on their way,
// a dozen tries in a row may come to nothing.
func (s *simulation) triesOfALease() int {
	whole := 1.0 // a record beside that of a neighbour comes with it, and so may come in part
	if s.plan.neighbour != alone {
		whole = math.Pow(1-s.Target.Broken, 2)
	}
	inVain := 1 - math.Pow(1-s.throttled, 3)*(1-s.Target.Drop)*whole
	return int(math.Ceil(math.Log(1e-9) / math.Log(inVain))) // 0 where nothing is in vain
}

// checkOwners: while a worker is well and the services are, no shard that can be read and no seat stands still, and who holds a shard reads
// it (I10).
func (s *simulation) checkOwners() {
	now, patience, well := s.World.Elapsed(), s.patience(), max(s.healthy, s.expired, s.contended)
	if now-well < patience || !s.someoneWell(now-patience) {
		return
	}
	if now-s.truth.seat > patience {
		s.fail("I10", "nobody keeps the table for %s", now-s.truth.seat)
	}
	state := s.State()
	if state.Listed == 0 {
		return
	}
	if unlisted := now - s.unlisted(); unlisted > patience && !s.Source.Stream().Ended {
		s.fail("I10", "nobody lists the stream for %s", unlisted)
	}
	s.checkNoted(state, patience)
	for _, row := range s.Shards() {
		seen := s.truth.ledger[row.Label+"/"+row.ID]
		if seen == nil || row.Label != state.Label || row.Finished() && !row.Reopenable(state) {
			continue
		}
		if p := s.truth.ledger[row.Label+"/"+row.Parent]; p != nil && (!p.Finished() || now-p.wrote <= patience) {
			continue
		}
		if unwritten := now - seen.wrote; unwritten > patience {
			s.fail("I10", "nobody holds shard %s, which is %s, for %s", row.ID, row.State, unwritten)
		} else if unread := s.unread(row.Label, row.ID); unread > patience {
			s.fail("I10", "nobody reads shard %s, which %s holds, for %s", row.ID, row.Owner, unread)
		} else if stuck := s.stuck(seen); stuck > 2*patience+2*time.Hour && now-well > stuck && s.someoneWell(now-stuck) {
			s.fail("I10", "%s reads shard %s, and does not get on for %s", row.Owner, row.ID, stuck)
		}
	}
}

// unread is since when a shard that was read before, and can be, was not read again.
func (s *simulation) unread(label, shard string) time.Duration {
	if sh := s.Source.shard(label, shard); sh != nil && !sh.Gone && !sh.readAt.IsZero() {
		return s.World.Now().Sub(sh.readAt)
	}
	return 0
}

// stuck is for how long there has been more of a shard to be applied, and its checkpoint has not moved; 0 where the policy lets an item end who meets it.
// While the service gives empty pages, of which one spell may follow another, nobody can get on.
func (s *simulation) stuck(seen *seenShard) time.Duration {
	sh := s.Source.shard(seen.Label, seen.ID)
	if sh == nil || sh.Gone || s.Policy != (policy{}) {
		return 0
	}
	next, _ := slices.BinarySearchFunc(sh.records, seen.Position, func(r record, p cdc.SequenceNumber) int {
		if r.change.Sequence.Compare(p) <= 0 {
			return -1
		}
		return 1
	})
	if next = max(next, sh.trimmed); next >= len(sh.records) {
		return 0
	}
	return s.World.Elapsed() - max(seen.moved, later(sh.records[next].at, sh.emptyAt).Sub(simEpoch))
}

func (s *simulation) someoneWell(since time.Duration) bool {
	for _, m := range s.crew {
		if !m.worker.Over && !m.worker.Dead() && m.healthy <= since {
			return true
		}
	}
	return false
}

// excused tells whether a worker had a reason to end by itself.
func (s *simulation) excused(err error) bool {
	var stream *pipeline.StreamError
	var bad *sink.BadItem
	injected := s.World.Injected()
	switch {
	case errors.Is(err, checkpoint.ErrMappingChanged):
		return injected["mapping changed"] > 0
	case errors.Is(err, checkpoint.ErrLedgerExchanged), errors.Is(err, checkpoint.ErrForeignPipeline):
		return s.exchanged
	case errors.As(err, &stream):
		return injected["stream disabled"] > 0 || injected["stream without images"] > 0
	case errors.Is(err, checkpoint.ErrClusterChanged):
		s.World.Inject("worker ended by another cluster")
		return s.plan.clustered
	case errors.Is(err, sink.ErrParkedLimit):
		s.World.Inject("worker ended by a limit of parked items")
		s.relax()
		return s.plan.policy.maxParked > 0 && s.truth.mostParked > s.plan.policy.maxParked
	case errors.As(err, &bad):
		s.World.Inject("worker ended by an item")
		s.relax()
		return s.plan.policy.onBadItem == sink.Stop
	}
	return false
}

// judge ends all faults and waits until everything is applied. Either the table needs no load, and then source and target are equal as a
// whole (I1); or it does, something was injected that may lose changes, and what was changed since is equal (I5).
func (s *simulation) judge() {
	s.peace()
	limit := s.World.Elapsed() + s.patience() + s.Target.LateBy + 2*time.Hour
	settled := s.unsettled()
	for ; settled != "" && !s.bad() && s.World.Elapsed() < limit; settled = s.unsettled() {
		s.tick()
	}
	if settled != "" && !s.bad() {
		s.fail("I10", "after the faults: %s", settled)
	}
	if s.bad() {
		return
	}
	s.touch()
	s.checkShared()
	s.compare("")
	_ = task.Sleep(s.ctx, s.Target.LateBy+longSilence+time.Minute) // what was sent in bad times arrives, and who waits for its answer stops waiting
	s.compare(", after late requests")
	for _, m := range s.crew {
		s.replace(m) // who was stopped meanwhile, for what is parked, say, was not seen by a tick
	}
	s.checkPolicy()
	s.checkNeighbour()
	s.finish()
	s.checkReleased()
	state := s.State()
	// A ledger that was begun anew knows nothing of the gaps of the one before: if the target was lost as well, it loads everything.
	if !state.NeedsLoad && len(s.Gaps) > 0 && !s.exchanged && state.Generation > 0 && !s.bad() {
		s.fail("I5", "no load is needed after %d gaps", len(s.Gaps))
	}
}

func (s *simulation) peace() {
	s.World.Tracef("peace")
	s.peaceful, s.peaceFrom = true, s.World.Elapsed()
	t, b := s.Source, s.Target
	b.LoseReply, b.Late, b.Drop, b.Twice, t.Throttle, t.Expire, s.throttled, s.poisoned, s.rejected = 0, 0, 0, 0, 0, 0, 0, 0, 0
	s.strikes, s.stills, s.rivals, s.clocks = 0, 0, 0, 0
	b.Torn, b.Broken, b.Silent, t.Silent = 0, 0, 0, 0
	t.Latency, b.Latency, t.PageSize, b.ServerSkew = 20*time.Millisecond, 10*time.Millisecond, pageRecords, 0
	for _, sh := range t.Stream().Shards {
		sh.EmptyPages, sh.ListedFrom, sh.ShownOpenUntil = 0, time.Time{}, time.Time{}
	}
	for _, m := range s.crew {
		m.worker.Skew(0)
	}
	if s.neighbour != nil {
		s.neighbour.peace()
	}
}

// unsettled says what is missing until all is applied, and what is parked and healed is forgotten; "" if nothing is.
func (s *simulation) unsettled() string {
	if missing := s.unapplied(); missing != "" || s.Source.Stream().Ended {
		return missing // who is told to follow a table without a stream follows no other either
	}
	if n := s.neighbour; n != nil {
		if missing := n.unsettled(); missing != "" {
			return missing
		}
	}
	return s.truth.healed()
}

// unapplied says what is missing until all is applied; "" if nothing is.
func (s *simulation) unapplied() string {
	state := s.State()
	switch {
	case s.Source.Stream().Ended: // nothing is promised any more, and that must be said
		if state.Generation == 0 || state.NeedsLoad && state.StreamEnded {
			return ""
		}
		return "the end of the stream is not declared"
	case s.plan.clustered && s.knownCluster() == "":
		return "nobody has noted which cluster the target is"
	case state.Aside.Reason != "":
		return "the table is set aside"
	case state.Listed == 0 || state.Adopted != state.Generation:
		return "the stream is not listed, or its generation not adopted"
	case !s.plan.unloaded && !state.NeedsLoad && !state.Loaded():
		return "the table is not loaded"
	case state.Label != s.Source.Stream().Label:
		return "the present state of the stream is not known"
	}
	known := map[string]bool{}
	for _, row := range s.Shards() {
		known[row.ID] = true
		sh := s.Source.shard(row.Label, row.ID)
		switch {
		case row.Label != state.Label || row.Finished() && !row.Reopenable(state) && !row.Undeclared(state):
		case row.State != checkpoint.Reading || sh.Closed:
			return "shard " + row.ID + " is " + string(row.State)
		case len(sh.records) > sh.trimmed && sh.records[len(sh.records)-1].change.Sequence.Compare(row.Position) > 0:
			return "shard " + row.ID + " is not applied to its end"
		}
	}
	for _, sh := range s.Source.Stream().Open() {
		if !known[sh.ID] && !sh.Gone {
			return "shard " + sh.ID + " is not known"
		}
	}
	if lost := s.lost(state); lost != "" && !state.NeedsLoad {
		return lost
	}
	return strings.Join(s.truth.unequal(s.since(state)), "\n")
}

// since is the instant after which the last change of an item must be for its row to be right: the beginning of time unless a promise
// less than that is made.
func (s *simulation) since(state checkpoint.TableState) time.Time {
	switch {
	case s.Source.Stream().Ended:
		return simEpoch.Add(10_000 * time.Hour)
	case state.NeedsLoad: // what was dropped before a root was first read is the business of the load, too
		from := simEpoch.Add(s.truth.adopted + time.Second)
		for _, w := range s.truth.trimmed {
			from = later(from, w.At.Add(time.Second))
		}
		return from
	case s.plan.unloaded: // and what was written while there was no stream, just before the first that anybody followed, nobody could be told of
		from := later(state.Owed().Add((backBy+2)*time.Second), s.Source.Stream().Shards[0].begun)
		for _, w := range s.truth.trimmed {
			if s.truth.overlooked(w) {
				from = later(from, w.At.Add(time.Second))
			}
		}
		return from
	}
	return time.Time{}
}

// lost is a change that was dropped by the stream, before it was applied, and that no load covers.
func (s *simulation) lost(state checkpoint.TableState) string {
	if state.Generation == 0 {
		return "" // nothing was promised yet
	}
	from := state.Load.StartedAt
	if s.plan.unloaded {
		from = state.Owed().Add(backBy * time.Second)
	}
	promised := func(w Write) bool {
		return w.At.After(from.Add(2*time.Second)) && !s.truth.overlooked(w)
	}
	for _, w := range s.truth.trimmed {
		if promised(w) {
			return fmt.Sprintf("change %s of %s was trimmed before it was applied, and no gap is declared", w.Sequence, w.At.Format(time.TimeOnly))
		}
	}
	for _, sh := range s.Source.Stream().Shards {
		if n := len(sh.records); n > 0 && !s.truth.known[sh.label+"/"+sh.ID] && promised(Write{Shard: sh, At: sh.records[n-1].at}) {
			return fmt.Sprintf("shard %s holds changes and was never known, and no gap is declared", sh.ID)
		}
	}
	return ""
}

// touch changes half of the items once more: they must arrive, whatever happened before, and soon, even if what they wait for has to be
// leased anew. Shards live longer than that, so that what is committed only at a shard's end is too late.
func (s *simulation) touch() {
	if s.Source.Stream().Ended {
		return
	}
	for range s.plan.keys {
		s.write()
	}
	limit := s.World.Elapsed() + s.patience()
	missing := s.unsettled()
	for ; missing != "" && !s.bad() && s.World.Elapsed() < limit; missing = s.unsettled() {
		s.tick()
	}
	if missing != "" && !s.bad() {
		s.fail("I10", "changes in peace: %s", missing)
	}
}

// checkShared: in peace the workers come to hold about as many shards each. It takes a lease until the first shard is taken over, and a pass
// for each that follows; a shard that rolls meanwhile begins it anew.
func (s *simulation) checkShared() {
	limit := s.World.Elapsed() + 2*s.patience()
	uneven := s.uneven()
	for ; uneven && !s.bad() && s.World.Elapsed() < limit; uneven = s.uneven() {
		s.tick()
	}
	if uneven && !s.bad() {
		s.fail("I10", "the shards are not shared: %v", s.allHeld())
	}
}

// allHeld counts the shards of all tables that are being read, by worker.
func (s *simulation) allHeld() map[string]int {
	held := s.held()
	if s.neighbour != nil {
		for worker, n := range s.neighbour.held() {
			held[worker] += n
		}
	}
	return held
}

func (s *simulation) uneven() bool {
	held := s.allHeld()
	least, most := math.MaxInt, 0
	for _, m := range s.crew {
		if !m.worker.Over && !m.worker.Dead() {
			least, most = min(least, held[m.worker.Name()]), max(most, held[m.worker.Name()])
		}
	}
	return most > least+1
}

// checkStopped: who is asked to stop has stopped when the grace is over, whatever does not answer (I10).
func (s *simulation) checkStopped(m *member) {
	const grace = 20 * time.Second
	if long := s.World.Elapsed() - max(m.askedAt, m.paused); m.asked && !m.worker.Over && !m.worker.Dead() && long > grace+time.Minute {
		s.fail("I10", "%s was asked to stop, and goes on for %s", m.worker.Name(), long)
	}
}

// checkReleased: who is asked to stop in peace leaves nothing behind that others would have to wait for (I10).
func (s *simulation) checkReleased() {
	m := s.crew[s.World.Rand().IntN(len(s.crew))]
	if s.bad() || m.worker.Over || m.worker.Dead() {
		return
	}
	name, now := m.worker.Name(), s.World.Elapsed()
	// Else the worker may not have it any more, and not know it; or it has it by a request that came late, and does not know that either.
	renewed := func(wrote time.Duration) bool { return now-wrote < s.Lease/2 && wrote > s.peaceFrom+s.Target.LateBy }
	seated := renewed(s.truth.seat)
	var rows []checkpoint.Shard
	for _, row := range s.Shards() {
		if seen := s.truth.ledger[row.Label+"/"+row.ID]; row.Owner == name && seen != nil && renewed(seen.wrote) {
			rows = append(rows, row)
		}
	}
	s.ask(m)
	if err := m.worker.Wait(s.ctx); err != nil {
		if !s.excused(err) {
			s.fail("I10", "%s was asked to stop, and ends with %v", name, err)
		}
		return // it has stopped for a reason of its own, and may not be allowed to write any more
	}
	for _, row := range rows {
		if is := s.truth.ledger[row.Label+"/"+row.ID]; is != nil && is.Owner == name {
			s.fail("I10", "%s was asked to stop, and still holds shard %s", name, row.ID)
		}
	}
	seat := recordOf[seatRecord](s.Target.Row(stateTable, "default/keeper/"+s.Source.Name))
	loading := s.copyRate > 0 && !s.State().Load.StartedAt.IsZero() && !seat.copied() // which may wait for its allowance for longer than a stop does
	if seated && seat.Owner == name && !loading {
		s.fail("I10", "%s was asked to stop, and still keeps the table", name)
	}
}

// compare is the complete comparison.
func (s *simulation) compare(when string) {
	state := s.State()
	if s.bad() {
		return
	}
	for _, d := range s.truth.unequal(s.since(state)) {
		s.fail("I1", "%s%s", d, when)
	}
	// A ledger that was begun anew after the stream had ended claims nothing.
	if lost := s.lost(state); lost != "" && !state.NeedsLoad && state.Generation > 0 {
		s.fail("I5", "%s", lost)
	}
	if state.NeedsLoad && !s.mayLose(s.Migration) {
		s.fail("I5", "a gap without a loss: %s, %q", state.Reason, s.Gaps)
	}
	s.checkEnds()
}
