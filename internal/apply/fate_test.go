package apply

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// The fate of a message, as judged by the ledger.
func TestFates(t *testing.T) {
	at := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	of := Records{Table: checkpoint.TableState{Generation: 7, Load: checkpoint.Load{Generation: 6}},
		Shards: []checkpoint.Shard{{Label: "former", ID: "s", Generation: 7, Hop: 4}, {Label: "L", ID: "s", Generation: 7, Hop: 5, Position: cdc.SequenceOf(9), Applied: 9, FirstRead: at, EventTime: at}},
		Merged: []checkpoint.Applied{{Track: checkpoint.Track{Generation: 7, Label: "L", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: 3}}},
			{Track: checkpoint.Track{Generation: 6, Label: "L", Shard: "s"}, Runs: checkpoint.Runs{{From: 5, To: 6}}}}}
	for name, c := range map[string]struct {
		edit func(c *relay.Change)
		want Fate
	}{
		"applied":                     {func(c *relay.Change) { c.Number = 2 }, Applied},
		"published":                   {func(*relay.Change) {}, Missing},
		"to come, perhaps":            {func(c *relay.Change) { c.Number, c.Sequence = 10, cdc.SequenceOf(10) }, Missing},
		"never to come":               {func(c *relay.Change) { c.Number, c.Time = 10, at.Add(-time.Hour) }, Refused},
		"of a higher generation":      {func(c *relay.Change) { c.Generation = 8 }, Refused},
		"of a former generation":      {func(c *relay.Change) { c.Generation = 6 }, Missing},
		"of one that a load replaced": {func(c *relay.Change) { c.Generation = 5 }, Applied},
		"of a load":                   {func(c *relay.Change) { c.Loaded = true }, Applied},
		"applied in a former one":     {func(c *relay.Change) { c.Generation, c.Number = 6, 5 }, Applied},
		"of a former stream":          {func(c *relay.Change) { c.Label = "former" }, Refused},
		"of no shard":                 {func(c *relay.Change) { c.Shard = "t" }, Refused},
		"of another ledger":           {func(c *relay.Change) { c.Ledger, c.Number = "k", 2 }, Foreign},
	} {
		change := relay.Change{Origin: relay.Origin{Ledger: "l", Label: "L", Shard: "s", Generation: 7, Hop: 5}, Number: 4, Change: cdc.Change{Sequence: cdc.SequenceOf(4), Time: at}}
		c.edit(&change)
		if got := FateOf(change, "l", of, at); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := FateOf(relay.Change{Origin: relay.Origin{Ledger: "l"}}, "l", Records{}, at); got != Foreign {
		t.Errorf("of no table: %s", got)
	}
}
