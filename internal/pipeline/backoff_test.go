package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// dated is a source whose clock is a month behind the worker's.
type dated struct{ *backlog }

const behindTheWorker = 30 * 24 * time.Hour

func (d dated) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	page, err := d.backlog.Read(ctx, at)
	page.At = task.Now(ctx).Add(-behindTheWorker)
	for i := range page.Changes {
		page.Changes[i].Time = page.At
	}
	return page, err
}

// The writer gets the time of the page's answer: recent changes are not old, whatever the worker's
// clock says.
func TestH81_PagesBringTheirTime(t *testing.T) {
	o := crowd(t, newBacklog(5), enginetest.Targets{}, "Orders")
	o.Open = func(string) cdc.Source { return dated{newBacklog(5)} }
	applied, parked := 0, 0
	o.Writer = sink.NewWriter(sink.Options{Table: enginetest.Targets{}, Parking: nowhere{}, MaxImageAge: behindTheWorker / 2, Events: sink.Events{
		Applied: func(context.Context, string, time.Duration) { applied++ }, Parked: func(string, string) { parked++ }}})
	play(t, &checkpointtest.Memory{}, time.Minute, o, enginetest.Behind(1, "Orders"))
	if applied != 5 || parked != 0 {
		t.Errorf("%d changes applied, %d parked", applied, parked)
	}
}

// nowhere is a parking lot that keeps nothing.
type nowhere struct{ sink.ParkingLot }

func (nowhere) Park(context.Context, transform.Parked) error { return nil }
