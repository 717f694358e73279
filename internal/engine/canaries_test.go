package engine

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// flock is a source and a database that each hold an item and a canary.
type flock struct {
	Database
	cdc.Source
	item, canary attribute.Item
	page         cdc.Page
}

func (f flock) Read(context.Context, cdc.Iterator) (cdc.Page, error) { return f.page, nil }

func (f flock) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	return backfill.ScanPage{Items: []attribute.Item{f.item, f.canary}}, nil
}

// H100: whatever its generation, a canary never reaches the code that applies changes, loads or
// compares.
func TestH100_CanariesAreNeverApplied(t *testing.T) {
	key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindN}, {Name: "sk", Type: attribute.KindB}}
	mapping, err := transform.NewMapping("Orders", "orders", "d", key)
	if err != nil {
		t.Fatal(err)
	}
	set := canary.New("ledger", "Orders")
	one, err := attribute.Number("1")
	if err != nil {
		t.Fatal(err)
	}
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: one}, {Name: "sk", Value: attribute.Binary([]byte("x"))}})
	at := time.Date(2026, 11, 2, 1, 0, 0, 0, time.UTC)
	change := func(item attribute.Item, event cdc.Event) cdc.Change {
		k, _ := item.Get("pk")
		b, _ := item.Get("sk")
		c := cdc.Change{Event: event, Time: at, Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: k}, {Name: "sk", Value: b}})}
		if event != cdc.Remove {
			c.New = item
		}
		return c
	}
	f := flock{item: item, canary: set.Item(7, key, 3, "once")}
	f.page = cdc.Page{At: at.Add(time.Minute), Changes: []cdc.Change{change(f.canary, cdc.Insert), change(item, cdc.Insert), change(f.canary, cdc.Remove)}}

	page, err := stoppableSource{f, &Reads{}, unheard, set}.Read(t.Context(), "i")
	if err != nil || len(page.Changes) != 1 || set.Has(page.Changes[0].Keys) || len(page.Canaries) != 2 {
		t.Fatalf("of a page with two canaries %d changes and %d canaries are left: %v", len(page.Changes), len(page.Canaries), err)
	}
	scanned, err := stoppableDatabase{f, &Reads{}, unheard, set, keyNames(mapping)}.Scan(t.Context(), "Orders", 0, 1, attribute.Item{}, 0)
	if err != nil || len(scanned.Items) != 1 || !scanned.Items[0].Equal(item) {
		t.Errorf("a scan gives %d items: %v", len(scanned.Items), err)
	}
	if other := canary.New("another ledger", "Orders"); other.Has(f.canary, "pk", "sk") {
		t.Error("canaries of two ledgers are the same items")
	}
}
