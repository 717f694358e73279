package cdc

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/attribute/attributetest"
	"pgregory.net/rapid"
)

func must[T any](v T, err error) T { return attributetest.Must(v, err) }

func items(least int) *rapid.Generator[attribute.Item] { return attributetest.Items(least) }

func everyType() attribute.Item { return attributetest.EveryType() }

func changes() *rapid.Generator[Change] {
	return rapid.Custom(func(t *rapid.T) Change {
		return Change{
			Event:    Event(rapid.IntRange(int(Insert), int(Remove)).Draw(t, "event")),
			Sequence: must(ParseSequenceNumber(rapid.StringMatching(`[0-9]{0,40}`).Draw(t, "sequence"))),
			Time:     time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 0),
			Expired:  rapid.Bool().Draw(t, "expired"),
			Keys:     items(1).Draw(t, "keys"),
			Old:      items(0).Draw(t, "old"),
			New:      items(0).Draw(t, "new"),
		}
	})
}

func sameChange(a, b Change) bool {
	return a.Event == b.Event && a.Sequence == b.Sequence && a.Time.Equal(b.Time) && a.Expired == b.Expired &&
		a.Keys.Equal(b.Keys) && a.Old.Equal(b.Old) && a.New.Equal(b.New)
}
