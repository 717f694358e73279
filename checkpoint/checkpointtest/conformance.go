package checkpointtest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Conformance tests a store. The argument `open` must return a separate, empty store for each test.
func Conformance(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s checkpoint.Store)
	}{
		{"a row is created once", createsOnce},
		{"a row is replaced by its counter alone", replacesByCounter},
		{"counters are compared as a whole", comparesWhole},
		{"a counter moves to a given value", movesCounter},
		{"a row is removed by its counter alone", removesByCounter},
		{"a removed row may be created again", createsAgain},
		{"a prefix gives its rows and no others", readsPrefix},
		{"a prefix may hold any byte", readsBinaryPrefix},
		{"data comes back as it was", keepsData},
		{"one of many wins", oneWins},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func swap(t *testing.T, s checkpoint.Store, key string, was uint64, data string) bool {
	t.Helper()
	var bytes []byte
	if data != "" {
		bytes = []byte(data)
	}
	done, err := s.Swap(t.Context(), key, was, was+1, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// expect compares the rows under a prefix with `want`. Each entry of `want` has the form "key
// counter data".
func expect(t *testing.T, s checkpoint.Store, prefix string, want ...string) {
	t.Helper()
	rows, err := s.Read(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %d %s", r.Key, r.Counter, r.Data))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("under %q: %q, want %q", prefix, got, want)
	}
}

// step is a swap with its expected outcome.
type step struct {
	was  uint64
	data string // "" removes
	done bool
}

func take(t *testing.T, s checkpoint.Store, key string, steps ...step) {
	t.Helper()
	for i, step := range steps {
		if done := swap(t, s, key, step.was, step.data); done != step.done {
			t.Fatalf("step %d, swap of counter %d: %v", i+1, step.was, done)
		}
	}
}

func createsOnce(t *testing.T, s checkpoint.Store) {
	expect(t, s, "p/a")
	take(t, s, "p/a", step{0, "one", true}, step{0, "two", false})
	expect(t, s, "p/a", "p/a 1 one")
}

func replacesByCounter(t *testing.T, s checkpoint.Store) {
	take(t, s, "p/a",
		step{1, "of a row that is not there", false},
		step{0, "one", true}, step{1, "two", true},
		step{1, "by a process that saw one", false}, step{3, "by a process that sees the future", false},
		step{2, "three", true}, step{0, "created", false})
	expect(t, s, "p/a", "p/a 3 three")
}

// comparesWhole checks that Swap compares the whole counter: a prefix of the counter or a longer
// counter must not match. Compared as text, 9 would sort above 10.
func comparesWhole(t *testing.T, s checkpoint.Store) {
	for n := range uint64(12) {
		take(t, s, "p/a", step{n, fmt.Sprint("write ", n+1), true})
	}
	take(t, s, "p/a", step{1, "x", false}, step{2, "x", false}, step{120, "x", false}, step{11, "x", false}, step{12, "last", true})
	expect(t, s, "p/a", "p/a 13 last")
}

// movesCounter checks that a counter need not begin at 1, rise by one or be small.
func movesCounter(t *testing.T, s checkpoint.Store) {
	const far = uint64(1)<<63 + 5
	for i, move := range []struct {
		was, next uint64
		done      bool
	}{{0, far, true}, {0, 1, false}, {far - 1, 1, false}, {far, 7, true}, {far, 9, false}, {7, far, true}} {
		done, err := s.Swap(t.Context(), "p/a", move.was, move.next, fmt.Append(nil, i))
		if err != nil || done != move.done {
			t.Fatalf("move %d, from %d to %d: %v, %v", i, move.was, move.next, done, err)
		}
	}
	expect(t, s, "p/a", fmt.Sprintf("p/a %d 5", far))
}

func removesByCounter(t *testing.T, s checkpoint.Store) {
	take(t, s, "p/a", step{0, "one", true}, step{1, "two", true}, step{1, "", false})
	expect(t, s, "p/a", "p/a 2 two")
	take(t, s, "p/a", step{2, "", true}, step{2, "three", false}, step{2, "", false})
	expect(t, s, "p/a")
}

func createsAgain(t *testing.T, s checkpoint.Store) {
	take(t, s, "p/a", step{0, "one", true}, step{1, "", true}, step{0, "again", true})
	expect(t, s, "p/a", "p/a 1 again")
}

func readsPrefix(t *testing.T, s checkpoint.Store) {
	for _, key := range []string{"p/shard/ab/1", "p/shard/a.b/1", "p/shard/a/2", "p/shard/a/1", "p/table/a", "q/shard/a/1", "p/shard/a"} {
		take(t, s, key, step{0, key, true})
	}
	expect(t, s, "p/shard/a/", "p/shard/a/1 1 p/shard/a/1", "p/shard/a/2 1 p/shard/a/2")
	expect(t, s, "p/shard/a", "p/shard/a 1 p/shard/a", "p/shard/a.b/1 1 p/shard/a.b/1", "p/shard/a/1 1 p/shard/a/1",
		"p/shard/a/2 1 p/shard/a/2", "p/shard/ab/1 1 p/shard/ab/1")
	expect(t, s, "p/keeper/")
}

func readsBinaryPrefix(t *testing.T, s checkpoint.Store) {
	for _, key := range []string{"\xff\xff", "\xff\xffa", "\xff", "\xfe\xff"} {
		take(t, s, key, step{0, "x", true})
	}
	expect(t, s, "\xff\xff", "\xff\xff 1 x", "\xff\xffa 1 x")
}

func keepsData(t *testing.T, s checkpoint.Store) {
	data := bytes.Repeat([]byte(`{"text":"\u00e9 \" \n","n":1}`+"\x00\xff"), 10_000)
	if done, err := s.Swap(t.Context(), "p/a", 0, 1, data); err != nil || !done {
		t.Fatal(done, err)
	}
	stored := bytes.Clone(data)
	data[0] = 'x' // the caller may reuse its bytes
	rows, err := s.Read(t.Context(), "p/a")
	if err != nil || len(rows) != 1 || !bytes.Equal(rows[0].Data, stored) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
}

func oneWins(t *testing.T, s checkpoint.Store) {
	const workers, rounds = 8, 10
	var won atomic.Int64
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := range uint64(rounds) {
				done, err := s.Swap(t.Context(), "p/a", n, n+1, fmt.Append(nil, w))
				if err != nil {
					t.Error(err)
				}
				if done {
					won.Add(1)
				}
			}
		})
	}
	all.Wait()
	rows, err := s.Read(t.Context(), "p/a")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if rows[0].Counter != uint64(won.Load()) {
		t.Fatalf("counter %d after %d swaps that took place", rows[0].Counter, won.Load())
	}
}
