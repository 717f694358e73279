package scope

import (
	"math/big"
	"os"
	"runtime/debug"
	"testing"
	"time"
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
