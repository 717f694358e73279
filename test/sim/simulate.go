package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// SimOptions change a run. With the zero value the seed decides everything.
type SimOptions struct {
	// Trace keeps a line for every step.
	Trace bool
	// Without names what to leave out: kinds of faults, single faults, and bursts of the
	// application's writes.
	Without []string
	// Mapping is the mapping of the run, one of MappingNames. Without it the seed chooses, in most
	// cases the mapping without rules.
	Mapping string
	// Dense gives the run about twice as many kinds of faults as the seed chooses, especially of
	// those that lose changes. It finds bugs that need several rare faults sooner.
	Dense bool

	// Verifies verifies the table beside the load and after the faults, with damaged rows.
	Verifies bool
	// Relay makes the workers publish what they read, to a topic with its own faults. In most of
	// these runs appliers write instead of the workers.
	Relay bool
	// Appliers is their number; with 0 the seed decides.
	Appliers int

	// Failovers routes the target's app profile to another cluster permanently.
	Failovers bool
	// Exports also loads the table from exports.
	Exports bool
	// Fast makes the first load a fast one, if that is allowed.
	Fast bool
	// Plain makes most seeds allow a fast load: they have the mapping without rules, no rows of
	// others, and a load.
	Plain bool
	// Cutovers plays cutovers (SimulateCutover) instead of everything else.
	Cutovers bool
	// Mappings plays mappings that are replaced (SimulateMappingChanges) instead of everything
	// else.
	Mappings bool
	// Neighbours plays two pipelines on one target (simulateNeighbours) instead of everything else.
	Neighbours bool
	// Fallback plays the way back after a cutover (simulateFallback) instead of everything else.
	Fallback bool
	// Rollback plays rollbacks and another cutover between them (simulateRollback) instead.
	Rollback bool
	// DualWrites plays an application that writes both stores (SimulateDualWrites) instead of
	// everything else.
	DualWrites bool

	sabotage func(s *simulation) // for tests: acts like a bug
}

// Report is the result of a run.
type Report struct {
	Seed uint64
	// Failures lists the broken invariants, none after a good run. Each begins with the checker's
	// name and a colon.
	Failures []string
	// Injected counts the faults that took effect.
	Injected map[string]int
	Elapsed  time.Duration // virtual
	Steps    int
	Gap      bool // a gap was declared
	Exported int  // loads from exports that ended
	Moot     bool // no export can be loaded, because the stream has ended
	Trace    string
}

// Checker returns the name of the checker that failed first, or "".
func (r Report) Checker() string {
	if len(r.Failures) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(r.Failures[0], ":")
	return name
}

// simEpoch is the start of every run.
var simEpoch = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// stepLimit is far above the steps of a run.
const stepLimit = 20_000_000

// Simulate plays the whole system under one seed for more than a virtual day, with several workers,
// a random selection of all faults, checkers at every step, and a complete comparison after the
// faults. The same seed gives the same run, step by step.
func Simulate(seed uint64, o SimOptions) (r Report) {
	if o.Cutovers {
		return SimulateCutover(seed, CutoverOptions{Trace: o.Trace})
	}
	if o.Mappings {
		return SimulateMappingChanges(seed, MappingOptions{Trace: o.Trace, Fast: o.Fast})
	}
	if o.Neighbours {
		return simulateNeighbours(seed, o.Trace)
	}
	if o.Fallback {
		return simulateFallback(seed, o.Trace)
	}
	if o.Rollback {
		return simulateRollback(seed, o.Trace)
	}
	if o.DualWrites {
		return SimulateDualWrites(seed, DualOptions{Trace: o.Trace})
	}
	s := newSimulation(newPlan(seed, o), o)
	defer func() {
		r = s.report()
		if p := recover(); p != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("panic: %v", p))
		}
	}()
	if err := s.World.Run(300*time.Hour, s.play); err != nil {
		s.fail("I10", "%v", err)
	}
	return r
}

func (s *simulation) report() Report {
	exported := 0
	if s.exports != nil {
		exported = s.exports.ended
	}
	return Report{
		Exported: exported, Moot: s.Source.Stream().Ended, Seed: s.plan.seed, Failures: slices.Concat(s.Broken(), s.failures), Injected: s.World.Injected(), Elapsed: s.World.Elapsed(),
		Steps: s.World.Steps(), Gap: len(s.Gaps) > 0, Trace: s.World.Trace(),
	}
}

// simulation is one run.
type simulation struct {
	*Migration
	plan      plan
	options   SimOptions
	work      *workload // of a run with rules
	rec       *recorder
	relay     *relaying  // nil if nothing is published
	exports   *exporting // nil if nothing is exported
	ctx       context.Context
	failures  []string
	crew      []*member
	hired     int
	verifiers int             // number of verifies begun or resumed
	sampled   map[string]bool // rows that workers found to differ, among those just applied
	loads     *loads
	firstHash string // of the mapping at the start of the run
	hash      string // of the mapping of new workers

	throttled, poisoned, rejected float64
	strikes, stills               float64
	rivals, clocks                float64
	retries, drops                float64       // how often an operator decides about parked items, and the share that is dropped
	started                       time.Duration // when the first worker started, if late
	peaceful                      bool          // the faults are over
	peaceFrom                     time.Duration // the end of the faults
	interruptions                 int           // of the load, about that often
	copyRate                      float64       // rows per second of the load, 0 for no limit
	sourceDown, targetDown        failing
	oneCall                       failingCall
	unreadable                    failingShard
	healthy                       time.Duration // since when both services work
	begun                         time.Duration // until then, a fault that has begun is not over
	expired                       time.Duration // until then every iterator is too old
	contended                     time.Duration // until then several workers cannot reach the source
	disturbed                     time.Duration // when items last changed while a run drained
	tooLate                       bool          // items changed shortly before a drained run ended
	elsewhere                     time.Duration // until then the app profile routes to another cluster
	fast                          bool          // a fast load has begun
	failedOver                    bool          // the app profile was permanently routed elsewhere
	written                       int
	doubted                       int               // the era in which the last reading of the status found the table not in sync; -1 for none
	doubtedAt                     time.Duration     // and the time of the first such reading
	doubtedBeat                   uint64            // and the witness's counter then
	looked                        time.Duration     // when checks that do not run at every step last ran
	made                          map[string]uint64 // by the witness's table and key, the counter with which it was created
}

// member is a place in the crew: a worker, or its replacement.
type member struct {
	worker             *Worker
	asked              bool          // to stop
	askedAt            time.Duration // when
	paused             time.Duration // until then
	away               time.Duration // no replacement starts until then
	noSource, noTarget time.Duration // cut off from a service until then
	healthy            time.Duration // since when it works
}

// works reports whether the worker is running.
func (m *member) works() bool { return !m.worker.Over && !m.worker.Dead() }

func newSimulation(p plan, o SimOptions) *simulation {
	w := virtual.NewWorld(p.seed, simEpoch, o.Trace)
	w.StepLimit = stepLimit
	var rowKey []string
	plain := "{ from: Orders, to: orders }"
	if p.moving {
		rowKey = []string{"value", "pk", "sk"}
		plain = `{ from: Orders, to: orders, families: { d: maxversions=1 }, rules: [{ row_key: "{value}#{pk}#{sk}" }] }`
	}
	s := &simulation{sampled: map[string]bool{}, plan: p, options: o, made: map[string]uint64{}, doubted: -1}
	s.loads = &loads{simulation: s}
	if p.mapping == "" {
		s.Migration = NewMigration(w, p.shards, rowKey...)
		s.Entry = entryOf(plain)
	} else {
		chosen := shapeNamed(p.mapping)
		s.Migration = NewMigrationBy(w, p.shards, chosen.mapping, chosen.families...)
		s.Entry = chosen.entry
		s.work = newWorkload(chosen, stream(p.seed, "items"), 2*p.keys, p.long)
	}
	s.hash = s.config().Hash(s.Entry)
	s.firstHash = s.hash
	s.Lease, s.TombstoneAge = p.lease, p.tombstoneAge
	s.Timing = engine.Timing{Poll: p.poll, Soon: p.poll / 8, Pass: p.pass, List: p.list}
	s.MaxImageAge = p.tombstoneAge / 2
	s.Policy, s.InFlight = p.policy, p.bytes
	if p.newImages && s.Mapping.DependsOnKeyOnly() {
		s.Source.View = "NEW_IMAGE"
	}
	if p.shared {
		s.placeOthers()
	}
	s.rec = newRecorder(s.Migration)
	s.rec.fast = o.Fast
	if s.work == nil {
		s.rec.layout = newNaive(&s.Entry, s.Mapping)
	} else {
		s.rec.layout, s.Outlives = s.work.layout, s.work.outlives
		s.Source.TimeToLive = s.work.ttl != ""
	}
	s.Watch = func(table, key string, before, after *model.Row) {
		s.rec.watch(table, key, before, after)
		s.look(table, key, before, after)
	}
	s.Source.Fault, s.Target.Fault = s.sourceFault, s.targetFault
	s.Target.LateBy = s.limit(time.Minute)
	s.Target.Reject = rejects
	for _, r := range rates {
		if p, ok := p.rates[r.name]; ok {
			r.set(s, p)
		}
	}
	if o.Fast {
		rng := stream(p.seed, "fast load")
		s.Target.BulkLate, s.Target.BulkLateBy = 0.1+0.6*rng.Float64(), s.limit(time.Hour)
		if rng.IntN(4) == 0 && s.Mapping.NotPlain() == "" {
			s.Source.Timeless = 0.1 * rng.Float64()
		}
	}
	if s.Mapping.KeepsVersions() {
		s.rejected = 0 // an earlier image that the target rejects would park the newest one
	}
	if o.Relay {
		s.relay = newRelaying(s)
		if n := cmp.Or(o.Appliers, drawAppliers(p.seed)); n > 0 {
			s.relay.appliers, s.FromTopic = newAppliers(s.relay, n), true
		}
	}
	if o.Exports {
		s.exports = newExporting(s)
		s.rec.exports, s.rec.byHand = s.exports.service, p.byHand
	}
	return s
}

// look observes every write, after the recorder.
func (s *simulation) look(table, key string, before, after *model.Row) {
	if table == model.StateTable && strings.HasPrefix(key, "default/sampled/") {
		s.checkSampled(after)
	}
	if s.options.Fast && table == model.StateTable && key == "default/table/"+s.Source.Name {
		s.noteFast(after)
	}
	s.noteMade(table, key, before, after)
	s.checkGap(table, key, before, after)
	if s.relay != nil {
		s.relay.written(table, key, after)
	}
	if s.exports != nil && table == model.StateTable && strings.HasPrefix(key, "default/table/") {
		s.exports.noted(before, after)
	}
	s.strike(table, key, before, after)
}

// noteFast makes the application change items while a fast load copies them, and while its late
// entries are on their way.
func (s *simulation) noteFast(after *model.Row) {
	state, ok := decoded[checkpoint.TableState](after)
	if !ok || !state.Load.Fast || s.fast {
		return
	}
	s.World.Inject("fast load")
	s.fast = true
	rng := stream(s.plan.seed, "changes beside a fast load")
	s.World.Go("changes beside a fast load", func(ctx context.Context) {
		for range rng.IntN(40) {
			if task.Sleep(ctx, s.World.UpTo(s.Target.BulkLateBy/10)) != nil || s.peaceful {
				return
			}
			s.write()
		}
	})
}

// fail records a failure of a checker.
func (s *simulation) fail(checker, format string, args ...any) {
	text := checker + ": " + fmt.Sprintf(format, args...)
	s.World.Tracef("VIOLATION %s", text)
	s.failures = append(s.failures, text)
}

// bad reports whether the run is over because of a failure.
func (s *simulation) bad() bool { return len(s.failures) > 0 || len(s.Broken()) > 0 }

// play is the script: a table with items, a crew, the planned faults, and then the end of the
// faults and the final checks.
func (s *simulation) play(ctx context.Context) {
	s.ctx = ctx
	s.fill()
	if s.plan.unloaded { // some of the earlier changes are before the cut, and some are not
		for range 40 {
			s.write()
			_ = task.Sleep(s.ctx, s.World.UpTo(45*time.Second))
		}
	}
	if s.exports != nil {
		s.exports.prelude()
		s.started = s.World.Elapsed()
		s.exports.begin()
	}
	for range s.plan.workers {
		m := &member{}
		s.crew = append(s.crew, m)
		s.hire(m)
	}
	if s.relay != nil && s.relay.appliers != nil {
		s.relay.appliers.begin()
	}
	s.World.Go("faults", func(ctx context.Context) {
		s.follow(ctx, s.plan.events, func(e event) { s.World.Tracef("FAULT %s", e.name); e.kind.does(s, e) })
	})
	if o := s.options; o.sabotage != nil {
		o.sabotage(s)
	}
	(&operator{s: s}).begin()
	s.World.Go("operator of loads", s.loads.mend)
	s.World.Go("verifier", s.verifies)
	s.World.Go("repairer", s.repairs)
	for range s.interruptions {
		s.World.After(s.World.UpTo(45*time.Minute), s.interrupt)
	}
	s.World.Go("application", func(ctx context.Context) { s.follow(ctx, s.plan.writes, s.burst) })
	for s.World.Elapsed() < s.started+s.plan.length && !s.bad() {
		s.tick()
	}
	for !s.bad() && s.World.Elapsed() < s.troubled() {
		s.tick()
	}
	if !s.bad() {
		s.judge()
	}
}

// follow runs the planned events, each at its time.
func (s *simulation) follow(ctx context.Context, events []event, does func(e event)) {
	for _, e := range events {
		if wait := s.started + e.at - s.World.Elapsed(); wait > 0 && task.Sleep(ctx, wait) != nil {
			return
		}
		does(e)
	}
}

// troubled returns when the current faults end.
func (s *simulation) troubled() time.Duration {
	until := max(s.healthy, s.expired, s.begun)
	for _, m := range s.crew {
		until = max(until, m.healthy, m.away)
	}
	return until
}

// tick lets about a minute pass and runs the checks that no single write triggers.
func (s *simulation) tick() {
	if !s.pass() {
		return
	}
	for _, m := range s.crew {
		s.checkStopped(m)
		s.replace(m)
	}
	if now := s.World.Elapsed(); now-s.looked > 10*time.Minute {
		s.looked = now
		s.checkStarved()
		s.checkStill()
	}
}

// pass lets about a minute pass for the stream and the target. It returns false if the run is over.
func (s *simulation) pass() bool {
	if task.Sleep(s.ctx, 30*time.Second+s.World.UpTo(time.Minute)) != nil {
		return false
	}
	if s.TombstoneAge > 0 {
		for _, table := range s.Mapping.Tables() {
			s.Target.Collect(table, sink.GoneFamily, s.TombstoneAge)
		}
	}
	s.rollAged(s.Source)
	return true
}

// rollAged ends shards that have reached the service's maximum age.
func (s *simulation) rollAged(t *model.Table) {
	for _, sh := range t.Stream().Open() {
		if s.World.Now().Sub(sh.Begun) > s.plan.shardLife {
			t.Stream().Roll(sh)
		}
	}
}

func (s *simulation) hire(m *member, adjust ...func(*engine.Options)) {
	s.hired++
	m.asked, m.noSource, m.noTarget, m.paused = false, 0, 0, 0
	m.healthy = s.World.Elapsed()
	hash, plan := s.hash, s.plan
	name := fmt.Sprintf("worker%d", s.hired)
	m.worker = s.Start(name, func(o *engine.Options) {
		t := &o.Tables[0]
		t.Segments, t.LoadAgain = 1+(s.plan.segments+s.hired)%5, s.plan.again
		if s.copyRate > 0 {
			t.Limits.RowsPerSecond = &s.copyRate
		}
		t.MappingHash, t.AcceptMapping, t.Copy, t.FromNow = hash, hash == s.hash, !plan.unloaded && !plan.byHand, !plan.atHorizon
		t.AdoptRows = s.plan.shared
		if s.options.Fast {
			t.LoadMode = checkpoint.AutoLoad
		}
		o.Database, o.Open, o.Pages = database{s.Source}, s.open, s.plan.pages
		if s.options.Verifies {
			o.Rows, t.Settle = model.Target{Bigtable: s.Target}, 30*time.Second
			t.Sample, t.SampleEvery = 0.5, 20*time.Minute
		}
		if s.relay != nil {
			s.relay.hire(o)
		}
		if s.exports != nil {
			o.Folders = s.exports.service.folder
		}
		if s.plan.clustered {
			o.Cluster = s.whichCluster
		}
		if s.plan.joined {
			spec := *t
			spec.Joined = true
			o.Tables, o.Discover, o.DiscoverEvery = nil, s.found(o, spec), s.plan.list
		}
		for _, f := range adjust {
			f(o)
		}
	})
	if s.clocks > 0 { // no worker's clock is ever right, not even the first one's
		s.World.Inject("worker clock wrong from its start")
		m.worker.Skew(time.Duration(s.clocks * (2*s.World.Rand().Float64() - 1) * float64(s.limit(wrongest(plan.seed)))))
	}
}

// replace starts another worker in place of one that ended. A worker that ended by itself needs a
// reason.
func (s *simulation) replace(m *member) {
	if m.works() {
		return
	}
	if m.worker.Over && m.worker.Err != nil && !s.excused(m.worker.Err) {
		s.fail("I10", "%s ended by itself: %v", m.worker.Name(), m.worker.Err)
	}
	if m.worker.Over && m.worker.Err == nil && !m.asked && !m.worker.Dead() {
		s.fail("I10", "%s ended by itself without a reason", m.worker.Name())
	}
	if s.World.Elapsed() >= m.away {
		s.hire(m)
	}
}
