package verify

import (
	"fmt"
	"maps"
	"testing"
	"unsafe"
)

// The sums of a part are of rows that are scattered over all buckets. Few rows take little memory,
// and many rows at most what all buckets take.
func TestSumsTakeMemoryByTheirRows(t *testing.T) {
	for _, c := range []struct{ rows, most int }{{0, 1 << 20}, {10_000, 4 << 20}, {1_000_000, 33 << 20}} {
		s, want := NewSums([]byte("key")), map[uint32]bucket{}
		for n := range c.rows {
			h := s.row("orders", fmt.Sprint(n))
			a := s.address(h, "")
			b := want[h.bucket()]
			b.cells.add(a)
			b.addresses.add(a)
			want[h.bucket()] = b
			s.at(h.bucket()).cells.add(a)
			s.at(h.bucket()).addresses.add(a)
		}
		got := map[uint32]bucket{}
		s.each(func(n uint32, b *bucket) { got[n] = *b })
		if !maps.Equal(got, want) {
			t.Errorf("the sums of %d rows differ from the sums in a map", c.rows)
		}
		if bytes := int(unsafe.Sizeof(*s)) + len(s.blocks)*blockPages*pageSize*int(unsafe.Sizeof(bucket{})); bytes > c.most {
			t.Errorf("%d rows take %d bytes, at most %d", c.rows, bytes, c.most)
		}
	}
}
