package follow

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
)

// H100: of a canary only its attempt is noted, and the shard does not count as caught up by it.
func TestH100_CanariesAreNoted(t *testing.T) {
	at := time.Date(2026, 11, 2, 1, 0, 0, 0, time.UTC)
	mapping, set := enginetest.OrdersMapping(t), canary.New("ledger", "Orders")
	change := func(item attribute.Item) cdc.Change {
		pk, _ := item.Get("pk")
		return cdc.Change{Event: cdc.Insert, Time: at, Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: pk}}), New: item}
	}
	page := set.Strip(cdc.Page{At: at.Add(time.Minute), Changes: []cdc.Change{change(set.Item(7, mapping.PrimaryKey, 3, "once")), change(enginetest.Keyed("x"))}})
	progress := checkpoint.Progress{CaughtUp: true}
	sight(&progress, mapping, page, 5*time.Second)
	if progress.Cutover.Canary != 3 || progress.CaughtUp || !progress.Cutover.BehindAt.Equal(page.At) || !progress.Cutover.WrittenAt.Equal(at) || progress.Cutover.Written == "" {
		t.Errorf("of the page is noted %+v", progress)
	}
}
