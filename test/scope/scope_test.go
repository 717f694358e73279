package scope

import (
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

// scope is what is explored: for the item that stays in its row every numbering; for the one that moves the two that are worst,
// for hops make them all alike.
func scope() []setting {
	var all []setting
	for _, h := range histories(false) {
		all = append(all, h.settings(onward, lower, equal, longer)...)
	}
	for _, h := range histories(true) {
		all = append(all, h.settings(lower, longer)...)
	}
	return all
}

// Every order of every execution: whatever is split, raised, crashed, replayed, late or repeated, the row's version never
// falls, and in the end the rows are those of the item.
func TestEveryOrderOfEveryExecution(t *testing.T) {
	t.Parallel()
	start := time.Now()
	e := newExplorer()
	for _, s := range scope() {
		if !e.explore(s) {
			t.Fatal(e.wrong)
		}
	}
	t.Logf("%d streams of histories, %d scenarios; %d row problems with %d states; %s",
		e.settings, e.scenarios, len(e.verdicts), e.states, time.Since(start).Round(time.Millisecond))
	if e.scenarios < 1_200_000 {
		t.Error("that is less than was promised")
	}
}
