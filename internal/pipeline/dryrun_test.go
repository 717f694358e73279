package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// busyShard gives a change with every page, which was made a second before it, and pages come ten seconds apart.
type busyShard struct {
	cdc.Source
	now   time.Time
	pages int
}

func (b *busyShard) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) {
	return "i", nil
}

func (b *busyShard) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	if b.pages++; b.pages > 9 {
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Trimmed, Err: errors.New("too many pages")}
	}
	b.now = b.now.Add(10 * time.Second)
	key := cdc.NewItem([]cdc.Attribute{{Name: "pk", Value: cdc.String(fmt.Sprint(b.pages))}})
	change := cdc.Change{Event: cdc.Insert, Keys: key, New: key, Sequence: cdc.SequenceOf(uint64(b.pages)), Time: b.now.Add(-time.Second)}
	return cdc.Page{Changes: []cdc.Change{change}, Next: "i", At: b.now}, nil
}

// A shard that is written to all the time never gives an empty page: a dry run reads what was there when it began.
func TestDryRunOfABusyTableEnds(t *testing.T) {
	m := ordersMapping(t)
	o := Options{Timing: Timing{}.orDefault(0), Events: Events{}.orSilent()}
	r := &rehearsal{table: newTable(&o, Table{Mapping: m}, func(error) {}), found: Rehearsal{Unmappable: map[string]int64{}}}
	shard := &busyShard{now: time.Unix(1_800_000_000, 0)}
	if err := r.shard(context.Background(), &cdc.Reader{Source: shard, Shard: "s"}); err != nil {
		t.Fatal(err)
	}
	if shard.pages != 2 || r.found.Changes != 2 {
		t.Errorf("%d pages with %d changes were read", shard.pages, r.found.Changes)
	}
}
