package preflight

import (
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

func TestWideRows(t *testing.T) {
	for name, c := range map[string]struct {
		items, sharing, rows int
		bytes                int64
		wantRows             int
		wantEach             int64
	}{
		"three tenants":                 {1000, 1000, 3, 30e9, 3, 10e9},
		"one row":                       {100, 100, 1, 200e6, 1, 200e6},
		"a tenth of the items":          {1000, 100, 1, 2e9, 1, 200e6},
		"items of two rows each":        {1000, 2000, 2, 1e9, 2, 500e6},
		"small":                         {1000, 1000, 3, 250e6, 0, 0},
		"many rows, of which some wide": {1000, 1000, 100, 30e12, 0, 0},
		"rows that are seen once":       {100, 40, 40, 30e12, 0, 0},
		"no shared rows":                {1000, 0, 0, 30e12, 0, 0},
	} {
		s := Sampled{Items: make([]attribute.Item, c.items), shared: map[string]int{}}
		for i := range c.sharing {
			s.shared[fmt.Sprint("videos/", i%c.rows)]++
		}
		if rows, each := s.Wide(c.bytes); rows != c.wantRows || each != c.wantEach {
			t.Errorf("%s: %d rows of %d bytes", name, rows, each)
		}
	}
}
