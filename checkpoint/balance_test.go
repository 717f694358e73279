package checkpoint_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func TestBusiest(t *testing.T) {
	for _, test := range []struct {
		held map[string]int
		from string // all workers if ""
		want string
	}{
		{map[string]int{}, "", ""},
		{map[string]int{"me": 5}, "", ""},
		{map[string]int{"a": 1}, "", ""},
		{map[string]int{"a": 2}, "", "a"},
		{map[string]int{"a": 3, "me": 2}, "", ""},
		{map[string]int{"a": 4, "me": 2}, "", "a"},
		{map[string]int{"a": 4, "b": 5, "c": 4, "me": 2}, "", "b"},
		{map[string]int{"b": 4, "a": 4, "me": 1}, "", "a"},
		{map[string]int{"a": 4, "b": 9, "me": 2}, "a", "a"}, // b holds none of this table
		{map[string]int{"a": 3, "b": 9, "me": 2}, "a", ""},
	} {
		from := []string{test.from}
		if test.from == "" {
			from = slices.Sorted(maps.Keys(test.held))
		}
		if got := checkpoint.Busiest(test.held, "me", from); got != test.want {
			t.Errorf("%v: %q, want %q", test.held, got, test.want)
		}
	}
}

// Takeovers one by one end, from any start, in no more steps than there are shards. The numbers
// then differ by at most one.
func TestBusiestEvensOut(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		held, total := map[string]int{}, 0
		for i := range 1 + random.IntN(6) {
			held[fmt.Sprint(i)] = random.IntN(40)
			total += held[fmt.Sprint(i)]
		}
		workers := slices.Sorted(maps.Keys(held))
		steps := 0
		for moved := true; moved; {
			moved = false
			for _, me := range workers {
				if from := checkpoint.Busiest(held, me, workers); from != "" {
					held[from]--
					held[me]++
					moved = true
					steps++
				}
			}
		}
		counts := slices.Collect(maps.Values(held))
		if slices.Max(counts)-slices.Min(counts) > 1 || steps > total {
			t.Errorf("seed %d: %v after %d steps", seed, held, steps)
		}
	}
}
