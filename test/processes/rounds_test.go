package processes

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestMain makes this binary the services' as well.
func TestMain(m *testing.M) {
	if text := os.Getenv(ServiceVariable); text != "" {
		if err := Serve(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == otherProgram {
		listenAt(os.Args[2])
	}
	os.Exit(m.Run())
}

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRounds is one short round in which a worker is killed. With REPLICATOR_PROCESS_ROUNDS it is so many whole ones, beginning
// with the seed REPLICATOR_PROCESS_SEED, and REPLICATOR_PROCESS_BIGTABLE is Google's Bigtable emulator, to be used in place of the
// embedded one.
func TestRounds(t *testing.T) { play(t, Options{}) }

// TestRelay is the same for a relay and four appliers of its topic; the short round kills the relay and an applier.
func TestRelay(t *testing.T) { play(t, Options{Relay: true}) }

func play(t *testing.T, o Options) {
	rounds := number(t, "REPLICATOR_PROCESS_ROUNDS", 0)
	o.Rounds, o.Seed, o.Log = int(rounds), number(t, "REPLICATOR_PROCESS_SEED", 1), t.Output()
	if emulator := os.Getenv("REPLICATOR_PROCESS_BIGTABLE"); emulator != "" {
		o.Bigtable = BigtableEmulator(emulator)
	}
	if rounds == 0 {
		o.Rounds, o.Smoke = 1, true
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		// Earlier than the test's own, which would leave the processes behind.
		const margin = 15 * time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-margin), fmt.Errorf("the test's time is over; give it more with -timeout"))
		defer cancel()
	}
	var err error
	if o.Services, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	// Not a directory of the test's: logs of what went wrong outlive it.
	if o.Dir, err = os.MkdirTemp("", "replicator-processes-"); err != nil {
		t.Fatal(err)
	}
	if o.Program, err = Build(ctx, o.Dir); err == nil {
		err = Run(ctx, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Error(err)
	}
}
