package backfill

import "testing"

func TestPartsOf(t *testing.T) {
	for _, c := range []struct {
		bytes    int64
		segments int
		want     int
	}{
		{0, 4, 4}, {999_999, 1, 1}, {999_999, 16, 4}, // small tables are not worth many parts
		{1_000_000, 4, 16}, {1_000_000, 0, 4}, {1_000_000, 1_000_000, 1024},
		{2000 << 20, 4, 32}, {2000<<20 + 64<<20, 4, 33}, {1 << 50, 4, 1024},
	} {
		if got := PartsOf(c.bytes, c.segments); got != c.want {
			t.Errorf("%d bytes in %d segments: %d parts, want %d", c.bytes, c.segments, got, c.want)
		}
	}
}
