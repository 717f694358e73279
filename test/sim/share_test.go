package sim

import (
	"os"
	"strconv"
	"testing"
)

// racing is set where the race detector is built in.
var racing bool

// brief reports whether a share of the seeds is played: with -short, as `make test` asks, and under
// the race detector. `make prove` plays all.
func brief() bool { return racing || testing.Short() }

// brieflyOf divides what a brief run plays.
const brieflyOf = 10

// seedsOf is how many seeds of a play a test plays: so many, but SIM_SEEDS where that is set, and
// one in a brief run.
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

// partOf is all of these; in a brief run a tenth, at least one.
func partOf[T any](all []T) []T {
	if brief() {
		return all[:max(1, len(all)/brieflyOf)]
	}
	return all
}

// happened counts what happened in the runs of a test.
type happened map[string]int

func (h happened) add(injected map[string]int) {
	for name, times := range injected {
		h[name] += times
	}
}

// demand fails for each of these that never happened: such runs would prove little. The seeds of a
// brief run do not show everything.
func (h happened) demand(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if h[name] == 0 && !brief() {
			t.Errorf("nothing of the kind %q happened", name)
		}
	}
}
