package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// kinds lists the faults that happen at planned instants. Those marked as gaps lose changes
// permanently. So does any fault that keeps a shard unread for about a day (see checkStarved).
var kinds []kind

func init() { // not an initialiser, because the kinds' functions refer to the list
	kinds = []kind{
		{"shard rolls", 12, 0.95, false, (*simulation).roll},
		{"shard splits", 3, 0.5, false, (*simulation).split},
		{"worker killed", 8, 0.5, false, func(s *simulation, e event) { s.crew[int(e.pick%uint64(len(s.crew)))].worker.Kill() }},
		{"worker stopped", 6, 0.4, false, func(s *simulation, e event) { s.ask(s.crew[int(e.pick%uint64(len(s.crew)))]) }},
		{"worker paused", 6, 0.5, false, func(s *simulation, e event) {
			s.pause(s.crew[int(e.pick%uint64(len(s.crew)))], s.span(e, 30*time.Hour))
		}},
		{"worker paused shortly", 20, 0.4, false, func(s *simulation, e event) {
			s.pause(s.crew[int(e.pick%uint64(len(s.crew)))], s.span(e, 2*s.Lease))
		}},
		{"all paused", 1.5, 0.3, false, func(s *simulation, e event) {
			for _, m := range s.crew {
				s.pause(m, s.span(e, 22*time.Hour))
			}
		}},
		{"all down", 1.5, 0.3, false, func(s *simulation, e event) { s.allDown(e, s.span(e, 20*time.Hour)) }},
		{"cut from the source", 3, 0.3, false, func(s *simulation, e event) { s.cutOff(e, true, false) }},
		{"cut from the target", 3, 0.3, false, func(s *simulation, e event) { s.cutOff(e, false, true) }},
		{"cut from both", 3, 0.3, false, func(s *simulation, e event) { s.cutOff(e, true, true) }},
		{"source down", 2, 0.2, false, func(s *simulation, e event) { s.down(&s.sourceDown, cdc.Unavailable, s.span(e, 5*time.Hour)) }},
		{"target down", 2, 0.2, false, func(s *simulation, e event) { s.down(&s.targetDown, cdc.Unavailable, s.span(e, 5*time.Hour)) }},
		{"source credentials expire", 2, 0.2, false, func(s *simulation, e event) { s.down(&s.sourceDown, cdc.Denied, s.limit(time.Hour)) }},
		{"target credentials expire", 2, 0.2, false, func(s *simulation, e event) { s.down(&s.targetDown, cdc.Denied, s.limit(time.Hour)) }},
		{"worker clock jumps", 6, 0.3, false, func(s *simulation, e event) {
			s.World.Inject("worker clock jumped")
			most := s.limit(wrongest(s.plan.seed))
			s.crew[int(e.pick%uint64(len(s.crew)))].worker.Skew(time.Duration((2*e.long - 1) * float64(most)))
		}},
		{"worker clock stands still", 2, 0.2, false, (*simulation).standStill},
		{"server clock jumps", 6, 0.3, false, func(s *simulation, e event) {
			// Otherwise a wrong clock would judge its age, which no replicator can repair.
			if s.TombstoneAge == 0 {
				s.Target.ServerSkew = time.Duration((2*e.long - 1) * 3 * float64(time.Hour))
			}
		}},
		{"shard missing from listings", 6, 0.3, false, (*simulation).hide},
		{"every iterator expires", 1, 0.2, false, func(s *simulation, e event) { s.expired = s.World.Elapsed() + s.limit(20*time.Minute) }},
		{"empty pages", 4, 0.2, false, func(s *simulation, e event) {
			s.World.Inject("empty pages")
			s.openShard(e).EmptyPages = int(e.pick % 20)
		}},
		{"out for a day", 0, 0.2, false, (*simulation).outForADay},
		{"trimmed shards stay listed", 1, 0.3, false, func(s *simulation, e event) { s.staysListed() }},

		{"table out of sight", 2, 0.3, false, (*simulation).disappear},
		{"another cluster", 2, 0.4, false, (*simulation).otherCluster},
		{"fence raised", 3, 0.3, false, (*simulation).raiseFence},
		{"families protected", 0.5, 0.1, false, (*simulation).protect},
		{"one call fails", 6, 0.4, false, (*simulation).failOneCall},
		{"load begun anew", 1, 0.8, false, func(s *simulation, _ event) { s.World.Go("redo", s.loads.again) }},
	}
	kinds = append(kinds, losses()...)
}

// losses returns the kinds that lose changes.
func losses() []kind {
	return []kind{
		{"new stream", 0, 0.3, true, (*simulation).newStream},
		{"stream ends", 0, 0.1, true, (*simulation).endStream},
		{"ledger lost", 0, 0.2, true, func(s *simulation, e event) { s.loseLedger(nil) }},
		{"ledger restored", 0, 0.2, true, (*simulation).restoreLedger},
		{"ledger exchanged", 0, 0.2, true, (*simulation).exchangeLedger},
		{"target exchanged", 0, 0.2, true, (*simulation).exchangeTarget},
		{"target lost", 0, 0.2, true, (*simulation).loseTarget},
		{"target restored", 0, 0.2, true, (*simulation).restoreTarget},
		{"mapping changed", 0, 0.2, true, (*simulation).changeMapping},
		{"child listed before its parent", 0, 0.3, true, (*simulation).childFirst},
		{"stream without images", 0.1, 0.05, true, (*simulation).withoutImages},
		{"shard gone", 0, 0.2, true, func(s *simulation, e event) {
			if child := s.rolled(e); child != nil {
				s.World.Inject("shard gone")
				child.Vanish()
				s.write()
				s.Source.Stream().Roll(child)
			}
		}},
	}
}

// limit bounds a delay so that tombstones outlive it.
func (s *simulation) limit(d time.Duration) time.Duration {
	if s.TombstoneAge > 0 {
		return min(d, s.TombstoneAge/8)
	}
	return d
}

func (s *simulation) span(e event, longest time.Duration) time.Duration {
	return time.Second + s.limit(time.Duration(e.long*float64(longest)))
}

// openShard returns a shard that accepts writes or, after the stream's end, one that did.
func (s *simulation) openShard(e event) *model.Shard {
	open := s.Source.Stream().Open()
	if len(open) == 0 {
		return s.Source.Stream().Shards[0]
	}
	return open[int(e.pick%uint64(len(open)))]
}

func (s *simulation) rolled(e event) *model.Shard {
	if sh := s.openShard(e); !sh.Closed {
		return s.Source.Stream().Roll(sh)
	}
	return nil
}

func (s *simulation) roll(e event) { s.rolled(e) }

func (s *simulation) split(e event) {
	if sh := s.openShard(e); !sh.Closed && len(s.Source.Stream().Open()) < 4 {
		s.Source.Stream().Split(sh)
	}
}

// hide omits a known shard from listings for some time.
func (s *simulation) hide(e event) {
	shards := s.Source.Stream().Shards
	sh := shards[int(e.pick%uint64(len(shards)))]
	if sh.Hidden || s.rec.shards[sh.Label+"/"+sh.ID] == nil {
		return
	}
	s.World.Inject("shard missing from listings")
	sh.Hidden = true
	s.World.After(s.span(e, time.Hour), func() { sh.Hidden = sh.Gone && !sh.StaysListed })
}

func (s *simulation) staysListed() {
	s.World.Inject("trimmed shards stay listed")
	for i, sh := range s.Source.Stream().Shards {
		sh.StaysListed = i%2 == 0 && !sh.Gone
	}
}

// childFirst lists a shard before its parent, so the parent's changes cannot be known to be
// applied.
func (s *simulation) childFirst(e event) {
	parent := s.rolled(e)
	if parent == nil {
		return
	}
	s.World.Inject("child listed before its parent")
	parent.ListedFrom = s.World.Now().Add(s.span(e, 2*time.Hour))
	for range 5 {
		s.write() // the parent's changes are lost, unless they are read later
	}
	s.Source.Stream().Roll(parent).ListedFrom = time.Time{}
}

func (s *simulation) pause(m *member, d time.Duration) {
	m.worker.Pause(d)
	m.paused = s.World.Elapsed() + d // a later pause replaces an earlier one
	m.healthy = max(m.healthy, s.World.Elapsed()+d)
}

// allDown takes every worker away, in half of the cases by a clean stop, and restarts them later.
func (s *simulation) allDown(e event, d time.Duration) {
	s.World.Inject("all workers down")
	s.World.Tracef("all workers are down for %s", d)
	for _, m := range s.crew {
		// No worker returns to a ledger that is about to be replaced.
		m.away = max(m.away, s.World.Elapsed()+d)
		if e.pick%2 == 0 {
			s.ask(m)
		} else {
			m.worker.Kill()
		}
	}
}

func (s *simulation) newStream(e event) {
	s.World.Inject("new stream")
	s.Source.EnableStream(1 + int(e.pick%3))
}

// later schedules an event that must happen before the faults end.
func (s *simulation) later(d time.Duration, does func()) {
	s.begun = max(s.begun, s.World.Elapsed()+d+time.Second)
	s.World.After(d, does)
}

// interrupt takes a worker away in the first hour, during the copy.
func (s *simulation) interrupt() {
	m := s.crew[s.World.Rand().IntN(len(s.crew))]
	if s.World.Rand().IntN(3) == 0 {
		s.ask(m)
		return
	}
	m.worker.Kill()
}

func (s *simulation) ask(m *member) {
	if m.worker.Over || m.worker.Dead() || m.asked {
		return
	}
	s.World.Inject("clean stop")
	m.asked, m.askedAt = true, s.World.Elapsed()
	m.worker.stop(context.Canceled)
}

func (s *simulation) cutOff(e event, source, target bool) {
	m := s.crew[int(e.pick%uint64(len(s.crew)))]
	d := s.span(e, 8*time.Hour)
	until := s.World.Elapsed() + d
	s.World.Inject("worker cut off")
	s.World.Tracef("%s is cut off for %s: from the source %v, from the target %v", m.worker.Name(), d, source, target)
	if source {
		for _, other := range s.crew {
			if other != m {
				s.contended = max(s.contended, min(other.noSource, until))
			}
		}
		m.noSource = until
	}
	if target {
		m.noTarget = until
	}
	m.healthy = max(m.healthy, until)
}

// failingShard is a shard whose reads all fail.
type failingShard struct {
	shard string
	until time.Duration
}

// failing is a service whose calls all fail.
type failing struct {
	until  time.Duration
	reason cdc.Reason
}

func (s *simulation) down(o *failing, reason cdc.Reason, d time.Duration) {
	s.World.Inject("service " + reason.String())
	s.World.Tracef("a service is %s for %s", reason, d)
	*o = failing{s.World.Elapsed() + d, reason}
	s.healthy = max(s.healthy, o.until)
}

func (s *simulation) standStill(e event) {
	w := s.crew[int(e.pick%uint64(len(s.crew)))].worker
	s.World.Inject("worker clock stood still")
	w.StandStill()
	s.World.After(s.span(e, 4*time.Hour), func() { w.Skew(0) })
}

// exchangeTarget replaces the target by a table that another pipeline, with its own ledger, has
// filled.
func (s *simulation) exchangeTarget(e event) {
	snapshot := s.backUpTarget()
	for _, w := range s.witnesses() {
		rows := snapshot[w.table]
		if !replaceText(rows, w.key, sink.LiveFamily, `"ledger":"`, `"ledger":"other-`) {
			return
		}
		// The other pipeline has its own counter, which begins at a value of its ledger
		// (checkpoint.Witness).
		rows[w.key].Column(sink.LiveFamily, model.CounterColumn).Cells[0].Value = strconv.FormatUint(1+e.pick>>2, 10)
	}
	s.later(s.span(e, 10*time.Hour), func() {
		s.World.Inject("target exchanged")
		s.World.Tracef("the target is exchanged")
		s.RestoreTarget(snapshot)
	})
}

// replaceText changes a stored record of a snapshot. It returns false if the record is missing.
func replaceText(snapshot map[string]*model.Row, key, family, was, is string) bool {
	text, ok := snapshot[key].Value(family, model.RecordColumn)
	if !ok {
		return false
	}
	row := snapshot[key].Clone()
	row.Column(family, model.RecordColumn).Cells[0].Value = strings.Replace(text, was, is, 1)
	snapshot[key] = row
	return true
}

func (s *simulation) restoreTarget(e event) {
	snapshot := s.backUpTarget()
	s.later(s.span(e, 10*time.Hour), func() {
		for _, w := range s.witnesses() {
			rows := snapshot[w.table]
			if rows != nil && (s.Target.Row(w.table, w.key) == rows[w.key] || s.isPresent(rows[w.key], w.beat)) {
				return // nothing could detect this, and no backup is restored that soon
			}
			if rows != nil && rows[w.key] == nil && s.canBeRemade() {
				return // it is lost as by loseTarget
			}
		}
		s.World.Inject("target restored")
		s.World.Tracef("the target is restored")
		s.RestoreTarget(snapshot)
	})
}

// witnessed reports whether the witness of every target table shows the ledger's generation.
func (s *simulation) witnessed() bool {
	for _, at := range s.witnesses() {
		if w, _ := s.witness(s.Target.Row(at.table, at.key)); w.Generation < at.generation {
			return false
		}
	}
	return true
}

// witnessRow locates a source table's witness in a target table, with the ledger's mirror of it.
type witnessRow struct {
	table, key string
	beat       uint64
	generation uint32
}

// witnesses returns all witnesses that should exist.
func (s *simulation) witnesses() []witnessRow { return s.witnessesBy((*Migration).State) }

// witnessesBy returns the witnesses that should exist according to each table's record.
func (s *simulation) witnessesBy(record func(m *Migration) checkpoint.TableState) (all []witnessRow) {
	state := record(s.Migration)
	for _, table := range s.Mapping.Tables() {
		w := witnessRow{table, s.Mapping.WitnessKey(), state.WitnessBeat, state.Generation}
		if table != s.Mapping.Table {
			w.beat = state.WitnessBeats[table]
		}
		all = append(all, w)
	}
	return all
}

// witness decodes a witness's row, or returns false if it is missing.
func (s *simulation) witness(row *model.Row) (w checkpoint.Witness, found bool) {
	text, ok := row.Value(sink.LiveFamily, model.RecordColumn)
	return w, ok && json.Unmarshal([]byte(text), &w) == nil
}

// isPresent reports whether a witness is as new as the ledger's mirror. It may be slightly older if
// the last updates, executed again in order, would make up for it. The mirror lags by one update
// until it is written, and a worker may end or be blocked before that.
func (s *simulation) isPresent(witness *model.Row, known uint64) bool {
	w, found := s.witness(witness)
	if !found {
		return false
	}
	pipeline, ok := s.Target.Row(model.StateTable, "default/pipeline").Value(model.LedgerFamily, model.RecordColumn)
	return ok && strings.Contains(pipeline, `"`+w.Ledger+`"`) && w.Beat+3 >= known
}

// changeMapping starts workers with another configuration of the same rows and with permission to
// accept it. The others must then end.
func (s *simulation) changeMapping(e event) {
	s.World.Inject("mapping changed")
	s.Entry.Drop = append(slices.Clone(s.Entry.Drop), fmt.Sprint("never there ", len(s.Entry.Drop)))
	s.hash = s.config().Hash(s.Entry)
	s.ask(s.crew[int(e.pick%uint64(len(s.crew)))])
}

// sourceFault and targetFault fail the calls of workers that cannot reach a service.
func (s *simulation) sourceFault(op, shard string) error {
	now := s.World.Elapsed()
	if s.oneCall.strikes(op, "", now) {
		s.World.Inject("one call fails at the source")
		return model.Fail(op, s.oneCall.source)
	}
	switch m := s.caller(); {
	case now < s.unreadable.until && shard == s.unreadable.shard:
		return model.Fail(op, cdc.Unavailable)
	case now < s.sourceDown.until:
		return model.Fail(op, s.sourceDown.reason)
	case m != nil && now < m.noSource:
		return model.Fail(op, cdc.Unavailable)
	case op == "GetRecords" && now < s.expired:
		s.World.Inject("iterator expired")
		return model.Fail(op, cdc.Expired)
	}
	return nil
}

func (s *simulation) targetFault(op, table, row string) error {
	s.rival(op, table, row)
	now := s.World.Elapsed()
	switch m := s.caller(); {
	case m == nil:
		return nil
	case s.oneCall.strikes(op, table, now):
		s.World.Inject("one call fails at the target")
		return &sink.Error{Op: op, Reason: s.oneCall.target, Code: "Code"}
	case now < s.targetDown.until && s.targetDown.reason == cdc.Denied:
		return &sink.Error{Op: op, Reason: sink.Denied, Code: "PermissionDenied"}
	case now < s.targetDown.until || now < m.noTarget:
		return &sink.Error{Op: op, Reason: sink.Unknown, Code: "Unavailable"}
	case s.World.Chance(s.throttled):
		s.World.Inject("write throttled")
		return &sink.Error{Op: op, Reason: sink.Throttled, Code: "ResourceExhausted"}
	}
	return nil
}

// caller returns the member whose task is running, or nil for the world's own tasks.
func (s *simulation) caller() *member {
	name := s.World.Running()
	for _, m := range s.crew {
		if m.worker != nil && m.worker.Name() == name {
			return m
		}
	}
	return nil
}
