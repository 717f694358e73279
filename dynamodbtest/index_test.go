package dynamodbtest

import (
	"math/big"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// The index agrees with a sorted map after any sequence of writes, also beyond the length of a
// chunk.
func TestIndexAgreesWithMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		model := map[string]*stored{}
		keys := rapid.IntRange(0, 3000)
		steps := rapid.SliceOfN(keys, 0, 3000).Draw(t, "keys")
		deleteEvery := rapid.IntRange(2, 5).Draw(t, "delete every")
		bytes := 0
		for i, n := range steps {
			key := strconv.Itoa(n)
			var got *stored
			old := model[key]
			if i%deleteEvery == 0 {
				got = x.delete(key)
				delete(model, key)
			} else {
				it := &stored{size: n}
				got = x.set(key, it)
				model[key] = it
				bytes += n
			}
			if old != nil {
				bytes -= old.size
			}
			if got != old {
				t.Fatalf("step %d: key %s held another item", i, key)
			}
		}
		if x.count != len(model) || x.bytes != bytes {
			t.Fatalf("count %d of %d, bytes %d of %d", x.count, len(model), x.bytes, bytes)
		}
		want := sortedKeys(model)
		from := strconv.Itoa(keys.Draw(t, "from"))
		for _, after := range []bool{false, true} {
			at, found := slices.BinarySearch(want, from)
			if found && after {
				at++
			}
			var got []string
			x.ascend(from, after, func(e entry) bool {
				if x.get(e.key) != model[e.key] || e.item != model[e.key] {
					t.Fatalf("key %s has another item", e.key)
				}
				got = append(got, e.key)
				return true
			})
			if !slices.Equal(got, want[at:]) {
				t.Fatalf("from %s: %d keys, want %d", from, len(got), len(want)-at)
			}
		}
	})
}

func TestSequenceArithmetic(t *testing.T) {
	digits := rapid.StringMatching(`[1-9][0-9]{0,39}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := digits.Draw(t, "a"), digits.Draw(t, "b")
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		if got := compareSequence(a, b); got != x.Cmp(y) {
			t.Fatalf("compare %s with %s: %d", a, b, got)
		}
		if got := compareSequence("00"+a, a); got != 0 {
			t.Fatalf("leading zeros count: %d", got)
		}
		if got := addSequence(a, b); got != x.Add(x, y).String() {
			t.Fatalf("%s + %s = %s", a, b, got)
		}
	})
	for text, want := range map[string]bool{"": false, "1": true, "-1": false, "1x": false, "0000": true} {
		if validSequence(text) != want {
			t.Errorf("%q", text)
		}
	}
}
