package scope

import (
	"os"
	"runtime/debug"
	"testing"
	"time"
)

// TestMain lets garbage accumulate, because little memory stays live and each scenario allocates
// much.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// scope returns the settings to explore. An item that stays in its row gets every numbering. An
// item that moves gets only the two worst, because hops make all numberings equivalent.
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

// Every order of every execution: whatever is split, raised, crashed, replayed, late or repeated,
// the row's version never falls, and in the end the rows show the item.
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
