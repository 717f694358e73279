package cutover

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// Of several tables the one counts whose moment comes last.
func TestWhichTableTheMomentWaitsFor(t *testing.T) {
	now := kit.Begin
	ended := func(id string, left time.Duration) checkpoint.Shard {
		sh := kit.DoneShard(id, "", false)
		sh.Label, sh.DoneAt = "", now.Add(left-drain.LongestListing(checkpoint.CutoverPlan{}))
		return sh
	}
	figures := map[string]readiness.Figures{"Orders": {Shards: []checkpoint.Shard{ended("o", time.Minute)}}, "Parts": {Shards: []checkpoint.Shard{ended("p", 100*time.Second)}}, "Users": {}}
	for _, tables := range [][]string{{"Orders", "Parts", "Users"}, {"Users", "Parts", "Orders"}} {
		var found []readiness.Figures
		for _, table := range tables {
			found = append(found, figures[table])
		}
		why, next := tooLong(checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Tables: tables}}, found, 0, now)
		if want := now.Add(95 * time.Second); !next.Equal(want) || !strings.HasPrefix(why, "shard p of table Parts ") || !strings.Contains(why, "1m43s") || !strings.Contains(why, " 8s") || !strings.HasSuffix(why, want.Format(time.TimeOnly)) {
			t.Errorf("%v: %s, next %s", tables, why, next)
		}
	}
}

// What the search for canaries does next: it writes a batch, waits until that is read, gives up at
// the maximum, and shows only a search that lasts.
func TestWhatTheSearchForCanariesDoesNext(t *testing.T) {
	open := []checkpoint.Shard{kit.ShardOf("a", ""), kit.ShardOf("b", "")}
	searching := func(shards, written int) string {
		return fmt.Sprintf("table Orders: searching for canaries that reach %d of 2 open shards; candidates so far: %d", shards, written)
	}
	reading := func(n int) []checkpoint.Shard { // half of them in each shard, always the same one
		return []checkpoint.Shard{kit.CandidatesIn(kit.ShardOf("a", ""), 3, make([]int, n/2)...), kit.CandidatesIn(kit.ShardOf("b", ""), 3, make([]int, n-n/2)...)}
	}
	covered := []checkpoint.Shard{kit.CandidatesIn(kit.ShardOf("a", ""), 3, 1, 2), kit.CandidatesIn(kit.ShardOf("b", ""), 3, 3, 4)}
	for name, c := range map[string]struct {
		shards  []checkpoint.Shard
		written int // canaries that the table may hold
		most    int
		tried   *candidates
		ago     time.Duration // since the last candidate was written
		former  bool          // what was tried is of another attempt
		want    coverage
	}{
		"nothing is written":         {open, 0, 100, nil, 0, false, coverage{waits: searching(2, 0), brief: true, next: map[string]int{"Orders": 8}}},
		"a batch is written":         {open, 8, 100, &candidates{sent: 8, from: 8, until: 8}, 5 * time.Second, false, coverage{waits: searching(2, 8), brief: true}},
		"it is not read soon":        {open, 8, 100, &candidates{sent: 8, from: 8, until: 8}, 5*time.Second + 1, false, coverage{waits: searching(2, 8)}},
		"many are written":           {open, 9, 100, &candidates{sent: 9, from: 9, until: 9}, 0, false, coverage{waits: searching(2, 9)}},
		"almost the listing bound":   {open, 8, 100, &candidates{sent: 8, from: 8, until: 8}, 2*time.Minute - 1, false, coverage{waits: searching(2, 8)}},
		"the listing bound":          {open, 8, 100, &candidates{sent: 8, from: 8, until: 8}, 2 * time.Minute, false, coverage{waits: searching(2, 8), next: map[string]int{"Orders": 8}}},
		"a batch is read":            {reading(8), 8, 100, &candidates{sent: 8, from: 8, until: 8}, time.Second, false, coverage{waits: searching(2, 8), brief: true, next: map[string]int{"Orders": 8}}},
		"other ones are read":        {reading(10), 18, 100, &candidates{sent: 8, from: 18, until: 18, before: 3}, time.Second, false, coverage{waits: searching(2, 18), brief: true}},
		"a write has failed":         {open, 8, 100, &candidates{sent: 2, from: 2, until: 8}, time.Second, false, coverage{waits: searching(2, 8), brief: true, next: map[string]int{"Orders": 6}}},
		"another attempt tried":      {open, 8, 100, &candidates{sent: 9, from: 9, until: 9}, time.Minute, true, coverage{waits: searching(2, 8), brief: true, next: map[string]int{"Orders": 8}}},
		"the maximum is written":     {reading(8), 8, 8, &candidates{sent: 8, from: 8, until: 8}, time.Second, false, coverage{brief: true, uncovered: true}},
		"the maximum is not read":    {open, 8, 8, &candidates{sent: 8, from: 8, until: 8}, time.Second, false, coverage{waits: searching(2, 8), brief: true}},
		"all are covered":            {covered, 8, 100, &candidates{sent: 9, from: 8, until: 8}, time.Minute, false, coverage{brief: true}},
		"all but one are covered":    {[]checkpoint.Shard{covered[0], open[1]}, 4, 100, &candidates{sent: 2, from: 4, until: 4}, time.Second, false, coverage{waits: searching(1, 4), brief: true, next: map[string]int{"Orders": 4}}},
		"another driver wrote these": {reading(5), 5, 100, nil, 0, false, coverage{waits: searching(2, 5), brief: true, next: map[string]int{"Orders": 8}}},
	} {
		playScene(t, func(s *scene) {
			s.driver.Settings.Candidates = c.most
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
			k := checkpoint.Cutover{Attempt: 3, Candidates: map[string]int{"Orders": c.written}, CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders"}}}
			f := ready()
			f.Shards = c.shards
			if c.tried != nil {
				v.covering = covering{3, map[string]*candidates{"Orders": c.tried}}
				c.tried.written = task.Mono(s.Ctx) - c.ago
			}
			if c.former {
				v.covers = 2
			}
			got := v.coverage(s.Ctx, k, []readiness.Figures{f})
			if c.want.next == nil {
				c.want.next = map[string]int{}
			}
			if got.waits != c.want.waits || got.brief != c.want.brief || got.uncovered != c.want.uncovered || !maps.Equal(got.next, c.want.next) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
			if c.tried == nil { // candidates that were read before do not count as those of this driver
				v.tried["Orders"].sent, v.tried["Orders"].written = 5, task.Mono(s.Ctx)
				if again := v.coverage(s.Ctx, k, []readiness.Figures{f}); len(again.next) > 0 {
					t.Errorf("%s: it goes on before its candidates are read: %+v", name, again)
				}
			}
		})
	}
}

// Without settings a driver has these.
func TestTheDefaultsOfADriver(t *testing.T) {
	want := Settings{Ready: readiness.Limits{Lease: 20 * time.Second}, Pass: time.Second, Idle: 5 * time.Second, Hook: 30 * time.Second, Call: 10 * time.Minute, Look: time.Minute, Silent: 2 * time.Second, Ask: 200 * time.Millisecond, Quiet: 20 * time.Second,
		Brisk: 200 * time.Millisecond, Carried: time.Minute, Fresh: 200 * time.Millisecond, Candidates: 20_000}
	if diff := cmp.Diff(want, Settings{}.orDefault()); diff != "" {
		t.Error(diff)
	}
	given := Settings{Ready: readiness.Limits{Lease: 1, Small: 2}, Pass: 3, Idle: 4, Hook: 5, Call: 6, Look: 7, Silent: 8, Ask: 9, Quiet: 10, Brisk: 11, Carried: 14, Fresh: 12, Candidates: 13}
	if got := given.orDefault(); got != given {
		t.Errorf("%+v", got)
	}
	if v := (&drive{settings: Settings{Pass: 5, Brisk: 7}, advanced: true}); v.rest(nil) != 5 {
		t.Errorf("a short pass becomes %s", v.rest(nil))
	}
	for step, want := range map[checkpoint.CutoverStep]time.Duration{checkpoint.CutoverChecks: 9, checkpoint.CutoverFreeze: 9, checkpoint.CutoverDrain: 2, checkpoint.CutoverVerify: 2, checkpoint.CutoverFence: 2, checkpoint.CutoverSwitching: 9, checkpoint.CutoverWatching: 9} {
		v := &drive{settings: Settings{Pass: 9, Brisk: 2}, last: checkpoint.Cutover{Step: step}}
		if got := v.rest(nil); got != want || v.rest(errors.New("away")) != 9 {
			t.Errorf("%s: %s, after a failure %s", step, got, v.rest(errors.New("away")))
		}
		if v.advanced = true; v.rest(nil) != 2 {
			t.Errorf("%s: %s after a step", step, v.rest(nil))
		}
	}
}

// The hooks are called by an attempt that freezes and switches, until it has switched.
func TestWhichStepsCallHooks(t *testing.T) {
	for step, want := range map[checkpoint.CutoverStep]bool{"": false, checkpoint.CutoverRequested: true, checkpoint.CutoverFence: true, checkpoint.CutoverSwitching: true, checkpoint.CutoverCancelling: true, checkpoint.CutoverWatching: false, checkpoint.CutoverDone: false, checkpoint.CutoverCancelled: false} {
		if c := (checkpoint.Cutover{Step: step}); calls(c) != want {
			t.Errorf("%q: %t", step, !want)
		}
		if calls(checkpoint.Cutover{Step: step, CutoverPlan: checkpoint.CutoverPlan{Rehearse: true}}) {
			t.Errorf("a rehearsal calls at %q", step)
		}
	}
}

// A record of a process without the fence counts for a day, not longer. The process is named that
// did not answer.
func TestHowLongAWriterWithoutAFenceCounts(t *testing.T) {
	c := checkpoint.Cutover{Attempt: 3, CutoverPlan: checkpoint.CutoverPlan{Targets: []string{"bare", "t"}}, Raised: map[string]uint64{"t": 7}}
	now := kit.Begin
	writer := func(name string, age time.Duration, target string, w checkpoint.Writing) checkpoint.Writer {
		return checkpoint.Writer{Worker: name, At: now.Add(-age), Targets: map[string]checkpoint.Writing{target: w}}
	}
	for age, want := range map[time.Duration]string{24 * time.Hour: "old", 24*time.Hour + 1: ""} {
		all := []checkpoint.Writer{writer("old", age, "bare", checkpoint.Writing{Unfenced: true}), writer("dropped", 0, "t", checkpoint.Writing{Number: 6})}
		if silent, doubtful := judgeWriters(c, all, now); silent != want || doubtful != "" {
			t.Errorf("of an age of %s: %q, %q", age, silent, doubtful)
		}
	}
	all := []checkpoint.Writer{writer("a", 0, "t", checkpoint.Writing{Number: 7, Doubt: 7}), writer("b", 0, "t", checkpoint.Writing{Number: 7})}
	if silent, doubtful := judgeWriters(c, all, now); silent != "b" || doubtful != "a" {
		t.Errorf("%q, %q", silent, doubtful)
	}
}

// Another cutover of the same tables is a rival, and so is a table that writes the same target and
// is not in the cutover. A table that never wrote is none.
func TestWhoIsARival(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		v, c := &drive{Driver: s.driver}, s.Cutover()
		rival := func(when, want string) {
			t.Helper()
			if why, err := v.rival(s.Ctx, c); err != nil || why != want && (want == "" || !strings.Contains(why, want)) {
				t.Errorf("%s: %q, want %q, %v", when, why, want, err)
			}
		}
		rival("alone", "")
		s.Change("Users", func(st *checkpoint.TableState) { st.Targets = []string{"users", "orders"} })
		rival("a table that never wrote", "")
		s.Change("Users", func(st *checkpoint.TableState) { st.Generation = 1 })
		rival("a table that wrote", "table Users ")
		s.Change("Users", func(st *checkpoint.TableState) { st.Targets = []string{"users"} })
		rival("a table of another target", "")
		_, err := s.Ledger.UpdateCutover(s.Ctx, "other", func(o *checkpoint.Cutover) error {
			return o.Start(checkpoint.CutoverPlan{Group: "other", Tables: []string{"Parts"}, Targets: []string{"else"}, After: 7}, s.Now())
		})
		s.Must(err)
		rival("another cutover", "attempt 8 of other")
		_, err = s.Ledger.UpdateCutover(s.Ctx, "other", func(o *checkpoint.Cutover) error { return o.Cancel("no", s.Now()) })
		s.Must(err)
		rival("one that is over", "")
	})
}

// The result of a large table adds everything that the sample found to the full verify, and ends
// with the sample. A rehearsal has no sample, because the application writes.
func TestTheResultOfALargeTableAddsTheSample(t *testing.T) {
	playScene(t, func(s *scene) {
		s.full = checkpoint.VerifyCounts{Items: 30_000, Rows: 30_001, Compared: 29_999}
		s.withItems("Orders", 30_000, 0)
		c := s.play(plan())
		s.sample = checkpoint.VerifyCounts{Items: 2000, Rows: 2000, Compared: 1999, Missing: 1, Different: 2, Extra: 3, Foreign: 4, InFlight: 5}
		v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
		s.Sleep(time.Minute)
		for _, rehearse := range []bool{false, true} {
			c.Rehearse = rehearse
			state := s.Table("Orders")
			got, err := v.finalRecheck(s.Ctx, c, state)
			want := state.Verify.Full
			if want.Number, want.Why = 0, "all rows by verify 2, then the rows of every change"; !rehearse {
				want.Missing, want.Different, want.Extra, want.Foreign, want.InFlight, want.EndedAt = 1, 2, 3, 4, 5, s.Now()
				want.Why += ", at last 2000 random items"
			}
			if diff := cmp.Diff(want, got.result); c.Step != checkpoint.CutoverWatching || err != nil || diff != "" || got.waits+got.why != "" {
				t.Errorf("%s, %s: %s%s %v\n%s", c.Step, c.Reason, got.waits, got.why, err, diff)
			}
		}
	})
}

// Of several changes after the freeze the first one is the reason. A late tail is described as one.
func TestWhichChangeIsTheReason(t *testing.T) {
	early := checkpoint.CutoverStraggler{Table: "Orders", Key: "k1", At: kit.Begin}
	tail := checkpoint.CutoverStraggler{Table: "Parts", Key: "k2", At: kit.Begin.Add(time.Minute), Tail: true}
	for _, all := range [][]checkpoint.CutoverStraggler{{early, tail}, {tail, early}} {
		why, err := (&drive{}).stray(t.Context(), checkpoint.Cutover{FrozenAt: kit.Begin, Stragglers: all}, nil)
		if of := all[0]; err != nil || !strings.Contains(why, "item "+of.Key+" of table "+of.Table) || !strings.Contains(why, of.At.Format(time.RFC3339)) || strings.Contains(why, "before the freeze") != of.Tail || strings.Contains(why, "still writes") == of.Tail {
			t.Errorf("%s, %v", why, err)
		}
	}
	if why, err := (&drive{}).stray(t.Context(), checkpoint.Cutover{Stragglers: []checkpoint.CutoverStraggler{early}}, nil); err != nil || why != "" {
		t.Errorf("in a rehearsal: %s, %v", why, err)
	}
	for change, want := range map[time.Duration]bool{time.Second: false, time.Second + 1: true, 0: false} {
		if after(kit.Begin.Add(change), kit.Begin) != want {
			t.Errorf("%s after the freeze: %t", change, !want)
		}
	}
}

// The output of a hook is stored up to a kilobyte.
func TestHowMuchOfAnOutputIsStored(t *testing.T) {
	text := strings.Repeat("ab cd ef ", 114)[:1024]
	if got := limit(text); got != text {
		t.Errorf("%d bytes of %d", len(got), len(text))
	}
	if got := limit(text + "x"); got != text+"…" {
		t.Errorf("%d bytes", len(got))
	}
}
