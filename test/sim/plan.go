package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// plan holds everything that a seed decides before its run begins: the system, the faults, and
// their times. Leaving out one kind of fault does not change the others, so that a failing run can
// be reduced.
type plan struct {
	seed            uint64
	length          time.Duration // of the part with faults
	shards, workers int
	lease, poll     time.Duration
	pass, list      time.Duration
	shardLife       time.Duration // the latest time until a shard is rolled, as the service does
	// unloaded follows only changes: from now on or, with atHorizon, from the oldest change in the
	// stream. A table that is loaded ignores both.
	unloaded, atHorizon bool
	byHand              bool // existing items are copied only after a command
	moving              bool
	newImages           bool
	mapping             string // "": the mapping without rules
	keys                int
	segments            int  // of a load
	again               bool // no loads are requested after gaps
	ending              ending
	policy              policy
	bytes               int64 // the most bytes of a worker's requests in flight, 0 for the default
	pages               int   // the most pages that a worker holds for shards that are behind, 0 for the default
	joined              bool  // a pattern finds the table
	clustered           bool  // the target's cluster can be determined
	awkward             bool  // primary keys have delimiters, escapes and control characters
	long                bool  // and are long
	shared              bool  // the target has other writers' rows
	// tombstoneAge is how long tombstones are kept, 0 for ever. All other delays are then limited
	// to a part of it.
	tombstoneAge time.Duration
	rates        map[string]float64
	events       []event
	writes       []event // bursts of the application
}

// event is a fault at an instant. Long and pick are its own random numbers.
type event struct {
	name string // of this event, for leaving it out
	at   time.Duration
	kind *kind
	long float64 // duration, as a fraction of the longest
	pick uint64
}

// kind is a kind of fault that happens from time to time.
type kind struct {
	name string
	// perDay is the most faults in a virtual day. chance is the share of seeds that have the kind.
	perDay, chance float64
	// gap means that it may lose changes, so that a gap may be declared after it.
	gap  bool
	does func(s *simulation, e event)
}

// apart reports whether only chance decides if a seed has the kind. The other kinds lose changes,
// and drawGaps chooses among them.
func (k *kind) apart() bool { return !k.gap || k.perDay > 0 }

// rate is a kind of fault that may affect each call.
type rate struct {
	name string
	most float64
	set  func(s *simulation, p float64)
}

var rates = []rate{
	{"replies lost", 0.1, func(s *simulation, p float64) { s.Target.LoseReply = p }},
	{"requests late", 0.1, func(s *simulation, p float64) { s.Target.Late = p }},
	{"requests dropped", 0.1, func(s *simulation, p float64) { s.Target.Drop = p }},
	{"requests repeated", 0.3, func(s *simulation, p float64) { s.Target.Twice = p }},
	{"source throttled", 0.2, func(s *simulation, p float64) { s.Source.Throttle = p }},
	{"iterators expire", 0.1, func(s *simulation, p float64) { s.Source.Expire = p }},
	{"listings late", 1, func(s *simulation, p float64) { s.Source.ListLate = p }},
	{"closed shown open", 1, func(s *simulation, p float64) { s.Source.ShowOpen = p }},
	{"descriptions late", 1, func(s *simulation, p float64) { s.Source.DescribeLate = p }},
	{"time runs back", 1, func(s *simulation, p float64) { s.Source.TimeRunsBack = p > 0 }},
	{"sequence restarts", 1, func(s *simulation, p float64) { s.Source.RestartSequence = p > 0 }},
	{"horizon pinned", 1, func(s *simulation, p float64) { s.Source.PinHorizon = p > 0 }},
	{"ended streams stay", 1, func(s *simulation, p float64) { s.Source.KeepEnded = p > 0 }},
	{"small pages", 1, func(s *simulation, p float64) { s.Source.PageSize = 1 + int(p*10) }},
	{"slow source", 3, func(s *simulation, p float64) { s.Source.Latency = time.Duration(p * float64(time.Second)) }},
	{"slow target", 3, func(s *simulation, p float64) { s.Target.Latency = time.Duration(p * float64(time.Second)) }},
	{"very late", 3600, func(s *simulation, p float64) {
		s.Target.LateBy = s.limit(time.Duration(p*float64(time.Second)) + time.Second)
	}},
	{"target throttled", 0.2, func(s *simulation, p float64) { s.throttled = p }},
	{"poison items", 0.1, func(s *simulation, p float64) { s.poisoned = p }},
	{"rows rejected", 0.1, func(s *simulation, p float64) { s.rejected = p }},
	{"copy throttled", 1, func(s *simulation, p float64) {
		if s.copyRate = 0.005 + 0.05*p; p < 0.2 {
			s.copyRate /= 100 // for days
		}
	}},
	{"workers gone after ledger writes", 0.3, func(s *simulation, p float64) { s.strikes = p }},
	{"workers stand still at ledger writes", 0.1, func(s *simulation, p float64) { s.stills = p }},
	{"copy interrupted", 3, func(s *simulation, p float64) { s.interruptions = 1 + int(p) }},
	{"clocks differ", 1, func(s *simulation, p float64) { s.clocks = p }},
	{"rival writes", 0.3, func(s *simulation, p float64) { s.rivals = p }},
	{"parked items retried", 1, func(s *simulation, p float64) { s.retries = p }},
	{"parked items given up", 1, func(s *simulation, p float64) { s.drops = p }},
	{"pages overlap", 1, func(s *simulation, p float64) { s.Source.Overlap = p }},
	{"reads torn", 0.3, func(s *simulation, p float64) { s.Target.Torn = p }},
	{"reads broken off", 0.1, func(s *simulation, p float64) { s.Target.Broken = p }},
	{"listings in pages", 8, func(s *simulation, p float64) {
		s.Source.ShardPage, s.Source.Paging = 1+int(p), stream(s.plan.seed, "pages of shards")
	}},
	{"silence", 0.01, func(s *simulation, p float64) { s.Target.Silent, s.Source.Silent = p, p }},
}

// wrongest returns the largest error of the workers' clocks: hours in most seeds, two days in some.
func wrongest(seed uint64) time.Duration {
	if stream(seed, "days").IntN(4) == 0 {
		return 48 * time.Hour
	}
	return 2 * time.Hour
}

// newPlan draws the plan of a seed.
func newPlan(seed uint64, o SimOptions) plan {
	rng := stream(seed, "system")
	hours := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*rng.Float64()) * float64(time.Hour))
	}
	one := func(n int) bool { return rng.IntN(n) == 0 }
	p := plan{seed: seed, length: hours(24, 32), shards: 1 + rng.IntN(3), workers: 1 + rng.IntN(3), keys: 4 + rng.IntN(14), rates: map[string]float64{}}
	p.shardLife = hours(3.5, 6)
	if one(8) {
		p.length = hours(74, 90) // long enough for rows of the ledger to be removed
	}
	p.lease = time.Duration(6+rng.IntN(9)) * time.Minute
	p.pass = p.lease * time.Duration(2+rng.IntN(3)) / 4
	p.poll = time.Duration(2+rng.IntN(6)) * time.Minute
	p.list = time.Duration(6+rng.IntN(12)) * time.Minute
	p.moving, p.unloaded, p.newImages = one(4), one(8), one(5)
	if aged := one(4); aged {
		p.tombstoneAge = hours(1, 8)
		p.lease = min(p.lease, max(4*time.Minute, p.tombstoneAge/20))
		p.pass = p.lease * time.Duration(1+rng.IntN(2)) / 4
	}
	p.ending, p.policy, p.joined, p.clustered = drawEnding(seed), drawPolicy(seed), stream(seed, "pattern").IntN(4) == 0, stream(seed, "cluster").IntN(4) == 0
	p.awkward, p.segments = stream(seed, "keys").IntN(3) == 0, 1+stream(seed, "segments").IntN(5)
	p.atHorizon = stream(seed, "horizon").IntN(2) == 0
	p.long = stream(seed, "long keys").IntN(8) == 0
	p.again = stream(seed, "mends").IntN(2) == 0
	if p.mapping = o.Mapping; p.mapping == "" && !o.Plain && stream(seed, "rules").IntN(4) < 2 {
		p.mapping = shapeOf(seed)
	}
	if o.Verifies {
		p.byVerifies(o.Mapping == "")
	}
	p.moving = p.moving && p.mapping == ""
	if o.Exports {
		p.byExports()
	}
	p.shared = p.mapping == "mappings/merged" || stream(seed, "others' rows").IntN(6) == 0 && !o.Plain
	p.unloaded = p.unloaded && !o.Plain
	if rng := stream(seed, "pages"); rng.IntN(4) == 0 {
		p.pages = 1 + rng.IntN(2)
	}
	if rng := stream(seed, "bytes"); rng.IntN(4) == 0 {
		p.bytes = 1<<10 + rng.Int64N(40<<10)
	}
	gaps, without := drawGaps(seed, o.Dense), map[string]bool{}
	for _, name := range o.Without {
		without[name] = true
	}
	for _, r := range rates {
		rng := stream(seed, r.name)
		if rng.IntN(2) == 0 && !without[r.name] {
			p.rates[r.name] = r.most * rng.Float64()
		}
	}
	for i := range kinds {
		k := &kinds[i]
		rng := stream(seed, k.name)
		if chance := rng.Float64(); k.apart() && chance >= k.likely(o.Dense) || !k.apart() && !slices.Contains(gaps, k.name) || without[k.name] {
			continue
		}
		n := 1 + int(k.perDay*rng.Float64()*p.length.Hours()/24)
		if k.gap {
			n = 1 + rng.IntN(4)/3
		}
		for i := range n {
			e := event{at: time.Duration(rng.Float64() * float64(p.length)), kind: k, long: rng.Float64() * rng.Float64(), pick: rng.Uint64()}
			if k.gap && e.pick>>32%4 == 0 {
				e.at /= 16 // during the copy
			}
			if e.name = fmt.Sprintf("%s #%d", k.name, i+1); !without[e.name] {
				p.events = append(p.events, e)
			}
		}
	}
	if o.Failovers {
		p.byFailovers(without)
	}
	slices.SortStableFunc(p.events, byTime)
	p.drawWrites(without)
	return p
}

// byVerifies turns the plan into a run with verifies. A third of these runs have a table of many
// pages. A quarter of those with a free choice of mapping keep items that the time to live removes.
func (p *plan) byVerifies(free bool) {
	rng := stream(p.seed, "verified")
	if rng.IntN(3) == 0 {
		p.keys *= 5
	}
	if rng.IntN(4) == 0 && free {
		p.mapping = "mappings/outliving"
	}
}

// likely returns the share of seeds that have the kind.
func (k *kind) likely(dense bool) float64 {
	if dense {
		return min(2*k.chance, 0.9)
	}
	return k.chance
}

// drawGaps chooses the faults that lose changes: none in most seeds, and seldom more than one kind,
// because the first declared gap hides whether a second one would be declared. With dense faults
// most seeds have some.
func drawGaps(seed uint64, dense bool) []string {
	rng := stream(seed, "gaps")
	var all, chosen []string
	for i := range kinds {
		if !kinds[i].apart() {
			all = append(all, kinds[i].name)
		}
	}
	more, most := 2, 3
	if dense {
		more, most = 4, 4
	}
	for rng.IntN(5) < more && len(chosen) < most {
		chosen = append(chosen, all[rng.IntN(len(all))])
	}
	return chosen
}

// drawWrites plans the application's bursts.
func (p *plan) drawWrites(without map[string]bool) {
	rng := stream(p.seed, "application")
	every := time.Duration(10+rng.IntN(50)) * time.Minute
	for at := time.Duration(0); at < p.length; at += time.Duration(rng.Float64() * 2 * float64(every)) {
		e := event{name: fmt.Sprintf("burst at %.0f s", at.Seconds()), at: at, long: rng.Float64(), pick: rng.Uint64()}
		if !without[e.name] {
			p.writes = append(p.writes, e)
		}
	}
}

func byTime(a, b event) int { return int(min(max(a.at-b.at, -1), 1)) }

// stream returns a separate source of randomness for one part of the plan.
func stream(seed uint64, name string) *rand.Rand {
	hash := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, hash))
}

// Effects lists the faults that must take effect over a number of seeds. Otherwise the simulation
// proves less than it claims.
func Effects() []string {
	return []string{
		"all workers down", "call throttled", "change trimmed before it was applied", "child listed before its parent", "clean stop",
		"item changed while its table is copied", "item changed while its table is swept", "load asked for", "load begun anew",
		"load begun anew while copying", "load begun anew while sweeping", "load paused", "load resumed", "request refused by the fence",
		"sweep approved", "sweep put a row again", "sweep removed a row", "sweep without a fence", "target of several tables swept", "target swept",
		"closed shard shown open", "drained to the end", "empty pages", "ended stream not found",
		"horizon after a trim, without an error", "item moved to another row", "item parked", "item read slowly", "item removed by its time to live", "iterator expired", "iterator too old",
		"ledger exchanged", "ledger lost", "ledger restored", "mapping changed", "new stream", "no answer for minutes", "no answer of the control plane", "nothing read for 18 hours",
		"one call fails at the source", "one call fails at the target", "page of a scan without items", "page with changes that were read before", "parked item given up", "parked item healed",
		"parked item retried", "parked item superseded", "poison item", "process killed", "process paused", "read broken off", "reply lost", "request dropped",
		"request executed after a newer one", "request executed after its caller gave up", "request executed late", "request executed twice",
		"rival write of a table's record", "row rejected", "row repaired", "rows read at several moments", "sequence numbers grew longer",
		"sequence numbers restarted", "server clock wrong", "service denied", "service unavailable", "shard gone", "shard listed late",
		"shard missing from listings", "shard rolled", "shard split", "shards rolled behind stale listings", "slow message", "stream disabled", "stream disabled while nobody runs",
		"stream enabled again long after", "stream without images",
		"table described late", "table out of sight", "table set aside", "target exchanged", "target lost", "target restored", "time ran back", "tombstone collected",
		"trimmed shards stay listed", "worker clock jumped", "worker clock stood still", "worker clock wrong from its start", "worker cut off",
		"worker ended by a limit of parked items", "worker ended by an item", "worker ended by another cluster", "worker gone after a ledger write",
		"worker stood still at a ledger write", "write throttled",
	}
}
