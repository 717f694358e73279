package sim

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// excused reports whether a worker had a reason to end by itself.
func (s *simulation) excused(err error) bool {
	var stream *engine.StreamError
	var bad *sink.BadItem
	switch {
	case errors.Is(err, checkpoint.ErrMappingChanged):
		return s.hash != s.firstHash
	case errors.Is(err, checkpoint.ErrLedgerExchanged), errors.Is(err, checkpoint.ErrForeignPipeline):
		return s.isSetBack()
	case errors.As(err, &stream):
		return len(s.Source.Streams) > 1 || s.Source.Stream().Ended
	case errors.Is(err, checkpoint.ErrClusterChanged):
		s.World.Inject("worker ended by another cluster")
		return s.plan.clustered
	case errors.Is(err, sink.ErrParkedLimit):
		s.World.Inject("worker ended by a limit of parked items")
		s.relax()
		return s.plan.policy.maxParked > 0 && len(s.rec.parked) > s.plan.policy.maxParked
	case errors.As(err, &bad):
		s.World.Inject("worker ended by an item")
		s.relax()
		return s.plan.policy.onBadItem == sink.Stop
	}
	return false
}

// judge ends all faults and waits until everything is applied. If the table needs no load, source
// and target must be equal as a whole (I1). If it needs one, something must have been lost, and all
// later changes must be applied (I5).
func (s *simulation) judge() {
	s.peace()
	if s.exports != nil {
		s.exports.last()
	}
	s.settle("after the faults", s.patience()+2*time.Hour+s.expiry())
	if s.bad() {
		return
	}
	// Changes soon arrive in all shards, even in shards that are leased again only now.
	if !s.Source.Stream().Ended {
		for range s.plan.keys {
			s.write()
		}
		s.settle("changes in peace", s.patience())
	}
	s.checkShared()
	s.compare("")
	// Late requests arrive, and calls without an answer end.
	_ = task.Sleep(s.ctx, s.Target.LateBy+model.LongSilence+time.Minute)
	s.compare(", after late requests")
	s.verifyInPeace()
	for _, m := range s.crew {
		// A worker that was just stopped, for example because of parked items, was not seen by a
		// tick.
		s.replace(m)
	}
	// Each worker may park one more before it learns of the others' items.
	if n, most := s.rec.parkedItems(), s.Policy.maxParked+s.plan.workers; s.Policy.maxParked > 0 && n > most {
		s.fail("I5", "%d items are parked, and nobody was stopped by that", n)
	}
	s.finish()
	s.checkReleased()
	if s.relay != nil {
		s.relay.judge()
	}
	// A recreated ledger does not know the gaps of the earlier one. If the target was lost too,
	// everything is loaded.
	if state := s.State(); !state.NeedsLoad && state.Base != state.Generation && s.rec.gaps > 0 && !s.isSetBack() && !s.bad() {
		s.fail("I5", "no load is needed after %d gaps", s.rec.gaps)
	}
}

// settle waits until everything is applied, for at most the given time.
func (s *simulation) settle(when string, most time.Duration) {
	limit := s.World.Elapsed() + most
	missing := s.unsettled()
	for ; missing != "" && !s.bad() && s.World.Elapsed() < limit; missing = s.unsettled() {
		s.tick()
	}
	if missing != "" && !s.bad() {
		s.fail("I10", "%s: %s", when, missing)
	}
}

func (s *simulation) peace() {
	s.World.Tracef("peace")
	s.peaceful, s.peaceFrom = true, s.World.Elapsed()
	t, b := s.Source, s.Target
	b.LoseReply, b.Late, b.Drop, b.Twice, t.Throttle, t.Expire, s.throttled, s.poisoned, s.rejected = 0, 0, 0, 0, 0, 0, 0, 0, 0
	s.strikes, s.stills, s.rivals, s.clocks = 0, 0, 0, 0
	b.Torn, b.Broken, b.Silent, t.Silent = 0, 0, 0, 0
	t.Latency, b.Latency, t.PageSize, b.ServerSkew = 20*time.Millisecond, 10*time.Millisecond, model.PageRecords, 0
	for _, sh := range t.Stream().Shards {
		sh.EmptyPages, sh.ListedFrom, sh.ShownOpenUntil = 0, time.Time{}, time.Time{}
	}
	for _, m := range s.crew {
		m.worker.Skew(0)
	}
	if s.relay != nil {
		s.relay.peace()
	}
}

// unsettled returns what is missing until all is applied and resolved parked items are forgotten,
// or "".
func (s *simulation) unsettled() string {
	// No promise applies any more, and the worker must report this; then it follows no other table
	// either.
	if s.Source.Stream().Ended {
		if state := s.State(); state.Generation == 0 || state.NeedsLoad && state.StreamEnded {
			return ""
		}
		return "the end of the stream is not declared"
	}
	if s.plan.clustered && s.knownCluster() == "" {
		return "nobody has noted which cluster the target is"
	}
	if missing := unapplied(s.Migration, s.plan.unloaded); missing != "" {
		return missing
	}
	if s.relay != nil && s.relay.appliers != nil {
		if missing := s.relay.appliers.unsettled(); missing != "" {
			return missing
		}
	}
	state := s.State()
	if !s.plan.unloaded && state.Base != state.Generation && state.Tries < checkpoint.MaxTries && (state.Kind != checkpoint.KindMappingChanged || state.Load.SweptAt.IsZero()) {
		return "the table is not loaded and swept: " + string(state.Stage())
	}
	if missing := s.lost(state); missing != "" && !state.NeedsLoad {
		return missing
	}
	if missing := strings.Join(s.rec.unequal(s.since(state)), "\n"); missing != "" {
		return missing
	}
	return s.rec.stale()
}

// unapplied returns what is missing until the stream of a table is known and applied to its end, or
// "".
func unapplied(m *Migration, unloaded bool) string {
	state := m.State()
	switch {
	case state.Suspended.Reason != "":
		return "the table is set aside"
	case state.Listed == 0 || state.Adopted != state.Generation:
		return "the stream is not listed, or its generation not adopted"
	case !unloaded && !state.NeedsLoad && !state.Loaded():
		return "the table is not loaded"
	case state.Label != m.Source.Stream().Label:
		return "the present state of the stream is not known"
	}
	known := map[string]bool{}
	for _, row := range m.Shards() {
		known[row.ID] = true
		sh := m.Source.Shard(row.Label, row.ID)
		switch {
		case row.Label != state.Label || row.Finished() && !row.Reopenable(state) && !row.Undeclared(state):
		case row.State != checkpoint.Reading || sh.Closed:
			return "shard " + row.ID + " is " + string(row.State)
		case len(sh.Records) > sh.Trimmed && sh.Records[len(sh.Records)-1].Change.Sequence.Compare(row.Position) > 0:
			return "shard " + row.ID + " is not applied to its end"
		}
	}
	for _, sh := range m.Source.Stream().Open() {
		if !known[sh.ID] && !sh.Gone {
			return "shard " + sh.ID + " is not known"
		}
	}
	return ""
}

// since returns a time. If an item's last change is later, its row must be right. It is the
// beginning of time unless a weaker promise applies.
func (s *simulation) since(state checkpoint.TableState) time.Time {
	from := time.Time{}
	switch {
	case s.Source.Stream().Ended:
		return simEpoch.Add(10_000 * time.Hour)
	case state.NeedsLoad, s.Outlives && state.GapCount > 0: // only a sweep removes orphan rows, and the load covers changes that were dropped before a root was first read
		from = simEpoch.Add(s.rec.adopted + time.Second)
		for _, w := range s.rec.missed {
			from = later(from, w.At.Add(time.Second))
		}
	case s.onlyFollowed(state): // changes made while there was no stream could not be followed
		from = later(s.promisedFrom(state), s.Source.Stream().Shards[0].Begun)
	}
	return from
}

// promisedFrom is from when on changes must be applied: since the load began, or where nothing is
// loaded since the cut and the first complete listing, which may leave out shards that are over.
func (s *simulation) promisedFrom(state checkpoint.TableState) time.Time {
	if s.onlyFollowed(state) {
		return later(state.Owed().Add((model.BackBy+2)*time.Second), s.rec.listed[state.Label])
	}
	at := state.Load.ImagesAt()
	return at.Add(2*time.Second + s.rec.exports.fuzzOf(at.Unix()))
}

// onlyFollowed reports whether no load covers anything of the table.
func (s *simulation) onlyFollowed(state checkpoint.TableState) bool {
	return s.plan.unloaded || s.plan.byHand && !state.Loaded()
}

// trimmed returns a change that the stream dropped before it was applied and that no load covers.
func (s *simulation) trimmed(state checkpoint.TableState) string {
	if state.Generation == 0 {
		return "" // no promise applies yet
	}
	from := s.promisedFrom(state)
	for _, w := range s.rec.missed {
		if w.At.After(from) {
			return fmt.Sprintf("change %s of %s was trimmed before it was applied, and no gap is declared", w.Sequence, w.At.Format(time.TimeOnly))
		}
	}
	return ""
}

// lost returns a change that was trimmed, or that is in a shard which no worker ever knew.
func (s *simulation) lost(state checkpoint.TableState) string {
	if missing := s.trimmed(state); missing != "" || state.Generation == 0 {
		return missing
	}
	from := s.promisedFrom(state)
	for _, sh := range s.Source.Stream().Shards {
		if n := len(sh.Records); n > 0 && !s.rec.known[sh.Label+"/"+sh.ID] && sh.Records[n-1].At.After(from) {
			return fmt.Sprintf("shard %s holds changes and was never known, and no gap is declared", sh.ID)
		}
	}
	return ""
}

// checkShared checks that without faults the workers soon hold about the same number of shards. The
// first takeover needs a lease, and each further one a pass. If a shard rolls meanwhile, the time
// begins again.
func (s *simulation) checkShared() {
	limit := s.World.Elapsed() + 2*s.patience()
	for s.uneven() && !s.bad() && s.World.Elapsed() < limit {
		s.tick()
	}
	if s.uneven() && !s.bad() {
		s.fail("I10", "the shards are not shared: %v", s.held())
	}
}

func (s *simulation) uneven() bool {
	held := s.held()
	least, most := math.MaxInt, 0
	for _, m := range s.crew {
		if m.works() {
			least, most = min(least, held[m.worker.Name()]), max(most, held[m.worker.Name()])
		}
	}
	return most > least+1
}

// checkStopped checks that a stopping worker has ended when the grace is over, even if a service
// does not answer (I10).
func (s *simulation) checkStopped(m *member) {
	const grace = 20 * time.Second
	if long := s.World.Elapsed() - max(m.askedAt, m.paused); m.asked && m.works() && long > grace+time.Minute {
		s.fail("I10", "%s was asked to stop, and goes on for %s", m.worker.Name(), long)
	}
}

// checkReleased checks that a worker that stops without faults releases everything that it has just
// renewed, so that others need not wait (I10).
func (s *simulation) checkReleased() {
	m := s.crew[s.World.Rand().IntN(len(s.crew))]
	if s.bad() || !m.works() {
		return
	}
	name, now := m.worker.Name(), s.World.Elapsed()
	renewed := func(wrote time.Duration) bool { return now-wrote < s.Lease/2 && wrote > s.peaceFrom+s.Target.LateBy }
	kept := renewed(s.rec.coordinator)
	held := map[string]bool{}
	for at, seen := range s.rec.shards {
		held[at] = seen.Owner == name && renewed(seen.wrote)
	}
	s.ask(m)
	if err := m.worker.Wait(s.ctx); err != nil {
		if !s.excused(err) {
			s.fail("I10", "%s was asked to stop, and ends with %v", name, err)
		}
		return // it stopped for its own reason, and may no longer be allowed to write
	}
	for at, seen := range inOrder(s.rec.shards) {
		if held[at] && seen.Owner == name {
			s.fail("I10", "%s was asked to stop, and still holds shard %s", name, seen.ID)
		}
	}
	coordinator := recordOf[coordinatorRecord](s.Target.Row(model.StateTable, "default/keeper/"+s.Source.Name))
	if kept && coordinator.Owner == name {
		s.fail("I10", "%s was asked to stop, and still keeps the table", name)
	}
}

// compare makes the complete comparison.
func (s *simulation) compare(when string) {
	state := s.State()
	if s.bad() {
		return
	}
	for _, d := range s.rec.unequal(s.since(state)) {
		s.fail("I1", "%s%s", d, when)
	}
	// A ledger that was recreated after the stream had ended claims nothing.
	if lost := s.lost(state); lost != "" && !state.NeedsLoad {
		s.fail("I5", "%s", lost)
	}
}
