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

// TestDualWrites: an application of two processes, with clocks that differ, writes both stores beside two workers, and all are killed
// in turn. A delay after it has stopped verify finds nothing.
func TestDualWrites(t *testing.T) {
	t.Parallel() // mostly it waits
	o, ctx := prepare(t, Options{Seed: number(t, "REPLICATOR_PROCESS_SEED", 1)})
	if err := DualWrites(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Error(err)
	}
}

// TestCutover: such an application is cut over, beside two workers, by a freeze that is refused once and a switch whose answer is lost once. Verify
// finds nothing; after finalize the target holds nothing of ours, and run refuses.
func TestCutover(t *testing.T) {
	t.Parallel() // mostly it waits
	o, ctx := prepare(t, Options{Seed: number(t, "REPLICATOR_PROCESS_SEED", 1)})
	if err := Cutover(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Error(err)
	}
}

func play(t *testing.T, o Options) {
	rounds := number(t, "REPLICATOR_PROCESS_ROUNDS", 0)
	o.Rounds, o.Seed = int(rounds), number(t, "REPLICATOR_PROCESS_SEED", 1)
	if emulator := os.Getenv("REPLICATOR_PROCESS_BIGTABLE"); emulator != "" {
		o.Bigtable = BigtableEmulator(emulator)
	}
	if rounds == 0 {
		o.Rounds, o.Smoke = 1, true
	}
	o, ctx := prepare(t, o)
	if err := Run(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Error(err)
	}
}

// prepare builds the program into a directory, and bounds the test.
func prepare(t *testing.T, o Options) (Options, context.Context) {
	t.Helper()
	o.Log = t.Output()
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		// Earlier than the test's own, which would leave the processes behind.
		const margin = 15 * time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-margin), fmt.Errorf("the test's time is over; give it more with -timeout"))
		t.Cleanup(cancel)
	}
	var err error
	if o.Services, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	// Not a directory of the test's: logs of what went wrong outlive it.
	if o.Dir, err = os.MkdirTemp("", "replicator-processes-"); err != nil {
		t.Fatal(err)
	}
	if o.Program, err = Build(ctx, o.Dir); err != nil {
		t.Fatal(err)
	}
	return o, ctx
}
