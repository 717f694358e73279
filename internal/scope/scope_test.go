package scope

import (
	"math/big"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// TestMain lets garbage grow: what lives is small, and what is made for each scenario is not.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// everyWay is every numbering of new shards.
var everyWay = []numbering{onward, lower, equal, longer}

// scope is what is explored: for the item that stays in its row every numbering; for the one that moves the two that are worst,
// for hops make them all alike. With REPLICATOR_SCOPE=wide it is every numbering for both.
func scope() []setting {
	if race {
		return fewerStreams()
	}
	ways := []numbering{lower, longer}
	if os.Getenv("REPLICATOR_SCOPE") == "wide" {
		ways = everyWay
	}
	var all []setting
	for _, h := range histories(false) {
		all = append(all, h.settings(everyWay...)...)
	}
	for _, h := range histories(true) {
		all = append(all, h.settings(ways...)...)
	}
	return all
}

// fewerStreams has all histories, but for the item that moves streams of one shard alone.
func fewerStreams() []setting {
	var all []setting
	for _, h := range histories(false) {
		all = append(all, h.settings(everyWay...)...)
	}
	for _, h := range histories(true) {
		all = append(all, h.settings()...)
	}
	return all
}

// plainScope is what is explored one by one: all histories of the item that stays, in streams that split or are raised once, and some
// of the item that moves.
func plainScope() []setting {
	var all []setting
	for _, h := range histories(false) {
		all = append(all, h.settings(lower)...)
	}
	for _, at := range [][changesOf + 1]address{{"a", "b", "c", absent}, {absent, "a", "b", "a"}, {"a", lacking, "b", "b"}} {
		h := history{mapping: tenants, moving: true, at: at}
		all = append(all, setting{history: h, raised: never}, setting{history: h, splits: [changesOf]numbering{none, none, equal}, raised: 2})
	}
	return all
}

// Every order of every execution: whatever is split, raised, crashed, replayed, late or repeated, the row's version never
// falls, and in the end the rows are those of the item.
func TestEveryOrderOfEveryExecution(t *testing.T) {
	t.Parallel()
	start := time.Now()
	e := newExplorer(realCode())
	for _, s := range scope() {
		if !e.explore(s) {
			t.Fatal(e.wrong)
		}
	}
	n := e.executions()
	t.Logf("%d streams of histories, %d scenarios, %d distinct; %d row problems with %d states; %s executions; %s",
		e.settings, e.scenarios, len(e.combined), len(e.verdicts), e.states, n, time.Since(start).Round(time.Millisecond))
	if n.Cmp(big.NewInt(3_000_000)) < 0 {
		t.Error("that is less than was promised")
	}
}

// The same without merging anything, for all scenarios of some streams that are small enough: every execution is run by itself,
// and their number is the one that the merged search counts.
func TestExecutionsOneByOne(t *testing.T) {
	t.Parallel()
	atLeast, atMostEach := uint64(3_000_000), int64(7_000)
	if race {
		atLeast, atMostEach = 100_000, 1_000
	}
	start, total, scenarios, larger := time.Now(), uint64(0), 0, 0
	e := newExplorer(realCode())
	for _, s := range plainScope() {
		q := newRequester(s, e.code)
		q.scenarios(func(sc scenario) bool {
			rows := q.problems(sc)
			var counts [][]uint64
			for _, p := range rows {
				counts = append(counts, p.merged().complete)
			}
			merged := joint(counts)
			if merged.Cmp(big.NewInt(atMostEach)) > 0 {
				larger++
				return true
			}
			complete, wrong := plain(rows, 0)
			if wrong != "" {
				t.Errorf("%s; %s: %s", s, sc, wrong)
			}
			if !merged.IsUint64() || merged.Uint64() != complete {
				t.Errorf("%s; %s: %d executions one by one, %s merged", s, sc, complete, merged)
			}
			total += complete
			scenarios++
			return !t.Failed()
		})
	}
	t.Logf("%d scenarios, %d executions; %d scenarios are larger; %s", scenarios, total, larger, time.Since(start).Round(time.Millisecond))
	if total < atLeast {
		t.Errorf("that is less than %d", atLeast)
	}
}

// What is explored holds what the package comment says.
func TestScopeIsComplete(t *testing.T) {
	has := func(list []string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !slices.Contains(list, w) {
				t.Errorf("%q is not among %q", w, list)
			}
		}
	}
	var lives, moves, plans, raised []string
	for _, h := range histories(false) {
		lives = append(lives, h.String())
	}
	for _, h := range histories(true) {
		moves = append(moves, h.String())
	}
	has(lives, "a → a → a → no item", "a → no item → a → no item", "no item → a → no item → a")
	has(moves, "a → b → c → d", "a → b → a → b", "no item → a → unmappable → b", "a → no item → b → no item", "unmappable → a → b → c")
	if len(lives) != 8 {
		t.Errorf("%d lives of an item that stays: %q", len(lives), lives)
	}
	quiet := setting{history: histories(false)[0], raised: never}
	for _, p := range quiet.plans() {
		plans = append(plans, p.String())
	}
	has(plans, "1-3", "1-1, 2-2, 3-3", "1-2 (not committed), 1-1, 2-3", "1-1, 2-3 (not committed), 2-2, 3-3",
		"1-1 (not committed), 2-2 (not committed), 3-3 (not committed), 1-3")
	gap := setting{history: quiet.history, raised: 2}
	for _, p := range gap.plans() {
		raised = append(raised, p.String())
	}
	has(raised, "1-1, 2-2, 3-3'", "1-1, 2-2 (not committed), 2-3'", "1-2 (not committed), 3-3', gap", "1-1, 3-3', gap", "1-3'")
	for s, want := range map[*setting][]int64{ // the numbers without their twenty zeros, and hops from the root's on
		{raised: never}: {9, 80, 700, 0, 0, 0},
		{raised: never, splits: [changesOf]numbering{none, lower, equal}}:    {9, 3, 3, 0, 1, 2},
		{raised: never, splits: [changesOf]numbering{none, none, longer}}:    {9, 80, 100000, 0, 0, 1},
		{raised: 1, replaced: lower, splits: [changesOf]numbering{2: lower}}: {9, 3, 2, 0, 0, 1},
	} {
		places := s.places()
		for i, p := range places[1:] {
			number := new(big.Int)
			number.SetString(strings.TrimSuffix(p.sequence.String(), strings.Repeat("0", 20)), 10)
			if number.Int64() != want[i] || int64(p.hop)-cdc.RootHop != want[changesOf+i] {
				t.Errorf("%s: change %d has number %s, hop %d", s, i+1, number, p.hop)
			}
		}
	}
}
