package cost

import (
	"testing"
	"time"
)

// The needs follow from the changes, the shards and the copies.
func TestSize(t *testing.T) {
	p := Default()
	guarded := Copy{RowsPerSecond: 10_000, Time: time.Hour}
	for _, c := range []struct {
		name     string
		shards   int
		measured float64
		copies   []Copy
		cluster  Cluster
		want     Sizing
	}{
		{"an idle table", 1, 0.5, nil, Cluster{}, Sizing{0.5, true, 2, 0.25, 128 << 20, 1, 1, 0}},
		{"nothing measured", 4, 0, nil, Cluster{Nodes: 3}, Sizing{4000, false, 2, 0.5, 128 << 20, 1, 1, 3}},
		{"a copy", 4, 100, []Copy{guarded}, Cluster{}, Sizing{100, true, 2, 0.75, 128 << 20, 1, 2, 0}},
		{"a fast copy", 4, 100, []Copy{{RowsPerSecond: 50_000, Time: time.Hour, Fast: true}}, Cluster{}, Sizing{100, true, 2, 0.75, 128 << 20, 1, 6, 0}},
		{"an empty table", 4, 100, []Copy{{RowsPerSecond: 10_000}}, Cluster{}, Sizing{100, true, 2, 0.25, 128 << 20, 1, 1, 0}},
		{"many idle shards", 1000, 10, nil, Cluster{}, Sizing{10, true, 2, 0.5, 384 << 20, 1, 1, 0}},
		{"many busy shards", 100, 100_000, nil, Cluster{}, Sizing{100_000, true, 5, 2, 256 << 20, 19, 19, 0}},
		{"a cluster on HDD", 1, 1000, nil, Cluster{HDD: true}, Sizing{1000, true, 2, 0.25, 128 << 20, 4, 4, 0}},
	} {
		if got := p.Size(c.shards, c.measured, c.copies, c.cluster); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
