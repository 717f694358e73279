package apply

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// H114, H100: the generation, the mapping and the ledger of a message decide what happens to it.
func TestH114_H100_WhatBecomesOfAMessage(t *testing.T) {
	loading := checkpoint.Load{Generation: 7}
	for name, c := range map[string]struct {
		generation         uint32
		ledger, hash, omit string
		load               checkpoint.Load
		want               verdict
	}{
		"of the present generation":            {7, "l", "h", "", loading, write},
		"without images":                       {7, "l", "h", "too_large", loading, settled},
		"of a change before the start":         {7, "l", "h", "before_start", loading, settled},
		"of a generation that is not read yet": {8, "l", "h", "", loading, later},
		"the same, under another mapping":      {8, "l", "g", "", loading, later},
		"of a mapping that is not read yet":    {7, "l", "g", "", loading, later},
		"of it, and without images":            {7, "l", "g", "too_large", loading, later},
		"before the load of the next one":      {6, "l", "h", "", checkpoint.Load{Generation: 5}, write},
		"after that load has begun":            {6, "l", "h", "", loading, drop},
		"after a load that a raise ended":      {5, "l", "h", "", checkpoint.Load{Generation: 6}, drop},
		"and while the next one is asked for":  {5, "l", "h", "", checkpoint.Load{Before: 6}, drop},
		"of a former mapping":                  {6, "l", "g", "", checkpoint.Load{Generation: 5}, drop},
		"of a ledger that was lost":            {7, "k", "h", "", loading, drop},
	} {
		state := checkpoint.TableState{Generation: 7, Load: c.load}
		m := relay.Change{Origin: relay.Origin{Ledger: c.ledger, Generation: c.generation, MappingHash: c.hash}, Omitted: relay.Omission(c.omit)}
		if got, _ := admit(&state, &relay.Change{Loaded: true, Origin: m.Origin}, "l", "h"); got != drop {
			t.Errorf("%s: an item of a load: %d", name, got)
		}
		if got, d := admit(&state, &m, "l", "h"); got != c.want || d.sure != (got == later) {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Old images of a table are decoded if something uses them: dual writes, and published parked
// items.
func TestOldImagesThatAreDecoded(t *testing.T) {
	playScene(t, func(s *scene) {
		orders := s.Tables[0]
		late := orders
		late.Late = time.Minute
		for name, c := range map[string]struct {
			spec      engine.Spec
			published bool
			newOnly   bool
		}{"nothing uses them": {orders, false, true}, "parked items are published": {orders, true, false}, "dual writes": {late, false, false}} {
			s.Tables, s.ParkedPublished = []engine.Spec{c.spec}, c.published
			if _, l := s.process(); l.newOnly != c.newOnly {
				t.Errorf("%s: left out is %t", name, l.newOnly)
			}
		}
	})
}
