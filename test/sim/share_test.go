package sim

import (
	"os"
	"strconv"
	"testing"
)

// racing is set if the race detector is built in.
var racing bool

// brief reports whether only a share of the seeds is played: with -short, as in `make test`, and
// with the race detector. `make prove` plays all.
func brief() bool { return racing || testing.Short() }

// brieflyOf divides the number of seeds in a brief run.
const brieflyOf = 10

// seedsOf returns how many seeds of a scenario a test plays: the given number, or SIM_SEEDS if it
// is set, or one in a brief run.
func seedsOf(t *testing.T, whole uint64) uint64 {
	t.Helper()
	if brief() {
		whole = 1
	}
	return fromEnvironment(t, "SIM_SEEDS", whole)
}

func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// partOf returns the whole list, or in a brief run a tenth of it, at least one.
func partOf[T any](all []T) []T {
	if brief() {
		return all[:max(1, len(all)/brieflyOf)]
	}
	return all
}

// happened counts events in the runs of a test.
type happened map[string]int

func (h happened) add(injected map[string]int) {
	for name, times := range injected {
		h[name] += times
	}
}

// demand fails for each named event that never happened, because such runs would prove little. A
// brief run need not show every event.
func (h happened) demand(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if h[name] == 0 && !brief() {
			t.Errorf("nothing of the kind %q happened", name)
		}
	}
}
