package backfill

import (
	"testing"

	"pgregory.net/rapid"
)

// The size of an export decides how many files are in a part: thousands of tiny files are few parts,
// and a huge export has parts of at most about ten minutes.
func TestGroupOf(t *testing.T) {
	const gigabyte = int64(1 << 30)
	for _, c := range []struct {
		files []int
		bytes int64
		parts int
	}{
		{[]int{5000}, 1 << 20, 64}, {[]int{5000}, 10 * gigabyte, 157}, {[]int{5000}, 1000 * gigabyte, 1000}, {[]int{5000}, 24_000 * gigabyte, 1667},
		{[]int{5000}, 1 << 50, 2500}, {[]int{40}, 1 << 50, 40}, {[]int{3, 0, 2}, 1, 6}, {[]int{0}, 1, 1}, {nil, 1, 0}, {[]int{5000}, 0, 1000},
		{[]int{100_000, 100}, 100_000 * gigabyte, 4004},
	} {
		if n := partsWith(c.files, GroupOf(c.files, c.bytes)); n != c.parts {
			t.Errorf("%v, %d bytes: %d parts, want %d", c.files, c.bytes, n, c.parts)
		}
	}
}

// The number of parts alone determines the group again, whatever size it was chosen by: a load that
// another version sealed keeps its meaning.
func TestThePartsDetermineTheGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(rapid.IntRange(0, 9000), 1, 4).Draw(t, "files")
		group := rapid.SampledFrom([]int{1, GroupOf(files, 0), GroupOf(files, rapid.Int64Range(1, 1<<50).Draw(t, "bytes"))}).Draw(t, "group")
		if again, ok := GroupFor(files, partsWith(files, group)); !ok || again != group {
			t.Errorf("%v with groups of %d: %d, %t", files, group, again, ok)
		}
	})
}
