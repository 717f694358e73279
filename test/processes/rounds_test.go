package processes

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestMain lets this binary also serve as the services.
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

// TestRounds plays one short round in which a worker is killed. REPLICATOR_PROCESS_ROUNDS plays
// that many complete rounds instead, from the seed REPLICATOR_PROCESS_SEED.
// REPLICATOR_PROCESS_BIGTABLE is the path of Google's Bigtable emulator, which then replaces the
// embedded one.
func TestRounds(t *testing.T) { play(t, Options{}) }

// TestRelay does the same with a relay and four appliers of its topic. The short round kills the
// relay and an applier.
func TestRelay(t *testing.T) { play(t, Options{Relay: true}) }

// TestDualWrites: two processes of an application, with different clocks, write both stores beside
// two workers, and all are killed in turn. After the application's end and the settle time, verify
// finds nothing.
func TestDualWrites(t *testing.T) {
	t.Parallel() // it mostly waits
	o, ctx := prepare(t, Options{Seed: number(t, "REPLICATOR_PROCESS_SEED", 1)})
	if err := DualWrites(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Error(err)
	}
}

// TestCutover: such an application is cut over, beside two workers. The freeze is refused once, and
// the switch's answer is lost once. Verify finds nothing. After finalize the target holds none of
// replicator's metadata, and run refuses.
func TestCutover(t *testing.T) {
	t.Parallel() // it mostly waits
	o, ctx := prepare(t, Options{Seed: number(t, "REPLICATOR_PROCESS_SEED", 1)})
	if err := Cutover(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Error(err)
	}
}

// TestRollback: an application is moved to the target, where it writes for a minute while workers
// are killed, and back, and forward again. At each switch both stores equal its own memory.
func TestRollback(t *testing.T) {
	t.Parallel() // it mostly waits
	o, ctx := prepare(t, Options{Seed: number(t, "REPLICATOR_PROCESS_SEED", 1)})
	if err := Rollback(ctx, o); err != nil {
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

// prepare builds the program into a directory, and limits the test's time.
func prepare(t *testing.T, o Options) (Options, context.Context) {
	t.Helper()
	o.Log = t.Output()
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		// The deadline is earlier than the test's own, which would leave the processes running.
		const margin = 15 * time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-margin), fmt.Errorf("the test's time is over; give it more with -timeout"))
		t.Cleanup(cancel)
	}
	var err error
	if o.Services, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	// This is not the test's own directory, so that the logs of a failure are kept.
	if o.Dir, err = os.MkdirTemp("", "replicator-processes-"); err != nil {
		t.Fatal(err)
	}
	if o.Program, err = Build(ctx, o.Dir); err != nil {
		t.Fatal(err)
	}
	return o, ctx
}
