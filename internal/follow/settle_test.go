package follow

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// settledPage is a page of one change, with images of about a kilobyte.
func settledPage(n int) *transform.Batch {
	keys := attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(fmt.Sprintf("k%d", n))}})
	image := attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(fmt.Sprintf("k%d", n))}, {Name: "v", Value: attribute.String(string(make([]byte, 1000)))}})
	b := transform.Fold(settledMapping, []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(n + 1)), Time: time.Unix(int64(n), 0), Keys: keys, New: image}},
		transform.Stamp{Generation: 1, Hop: 500_000, DualWrites: true})
	return &b
}

var settledMapping = func() *transform.Mapping {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	return m
}()

// H111: what waits is bounded by bytes. Pages beyond that are dropped, and neighbours among them are
// one stretch, so that a hundred thousand pages of one change take no more than ten thousand.
func TestH111_WhatWaitsIsFlat(t *testing.T) {
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	held := func(pages int) (uint64, int) {
		const room = 4 << 20
		before := heap()
		s := &settler{follower: &follower{Common: &engine.Common{}, late: 10 * time.Minute, room: &SettleRoom{left: room}}}
		var at checkpoint.Progress
		for n := range pages {
			to := at
			to.Position.After = cdc.SequenceOf(uint64(n + 1))
			s.hold(settledPage(n), 1, at, to, time.Duration(n)*5*time.Millisecond)
			at = to
		}
		if s.pending != uint64(pages) {
			t.Fatalf("%d changes wait, of %d", s.pending, pages)
		}
		for i := 1; i < len(s.queue); i++ {
			if s.queue[i].from.Position.After != s.queue[i-1].to.Position.After || s.queue[i].due < s.queue[i-1].due {
				t.Fatalf("page %d does not follow the one before it", i)
			}
		}
		taken := heap() - before
		entries := len(s.queue)
		runtime.KeepAlive(s)
		return taken, entries
	}
	few, n := held(10_000)
	many, m := held(100_000)
	t.Logf("10,000 waiting: %d entries, %d KiB; 100,000: %d entries, %d KiB", n, few>>10, m, many>>10)
	if many > few+few/10+64<<10 {
		t.Errorf("100,000 waiting changes take %d bytes, 10,000 take %d", many, few)
	}
}
