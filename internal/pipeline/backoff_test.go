package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// inBothRuntimes runs a script in virtual time of the simulation, and in plain Go within a bubble.
func inBothRuntimes(t *testing.T, script func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { script(t.Context()) })
	if err := virtual.NewWorld(1, listingsBegin, false).Run(48*time.Hour, script); err != nil {
		t.Fatal(err)
	}
}

// A backoff ends with the lease under which it waits: whoever lost one looks for the next at once.
// It ends with a stop as well.
func TestABackoffEndsWithItsLease(t *testing.T) {
	lost := errors.New("lease lost")
	for name, ends := range map[string]func(stop, lease context.CancelCauseFunc){
		"lease": func(_, lease context.CancelCauseFunc) { lease(lost) },
		"stop":  func(stop, _ context.CancelCauseFunc) { stop(lost) },
	} {
		inBothRuntimes(t, func(ctx context.Context) {
			stop, halt := context.WithCancelCause(ctx)
			lease, lose := context.WithCancelCause(ctx)
			began := task.Mono(ctx)
			g := task.NewGroup(ctx, 0)
			g.Go("end", func(ctx context.Context) error {
				err := task.Sleep(ctx, 10*time.Minute)
				ends(halt, lose)
				return err
			})
			r := &retrier{events: Events{}.orSilent()}
			err := r.retry(lifecycle{drain: stop, work: lease}, "read", func(context.Context) error { return &cdc.Error{Op: "Scan", Reason: cdc.Unavailable, Err: lost} })
			if took := task.Mono(ctx) - began; !cdc.Is(err, cdc.Unavailable) || took != 10*time.Minute {
				t.Errorf("%s: it ends after %s with %v", name, took, err)
			}
			_ = g.Wait()
		})
	}
}

// dated is a source that answers on a clock a month behind the worker's.
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

// The writer is told the time that the page came with: the changes of a moment ago are not old,
// whatever the worker's clock says.
func TestH81_PagesBringTheirTime(t *testing.T) {
	o := crowd(t, newBacklog(5), targets{}, "Orders")
	o.Open = func(string) cdc.Source { return dated{newBacklog(5)} }
	applied, parked := 0, 0
	o.Writer = sink.NewWriter(sink.Options{Table: targets{}, Parking: nowhere{}, MaxImageAge: behindTheWorker / 2, Events: sink.Events{
		Applied: func(string, time.Duration) { applied++ }, Parked: func(string, string) { parked++ }}})
	play(t, &checkpointtest.Memory{}, time.Minute, o, behind(1, "Orders"))
	if applied != 5 || parked != 0 {
		t.Errorf("%d changes applied, %d parked", applied, parked)
	}
}

// nowhere is a parking lot that keeps nothing.
type nowhere struct{ sink.ParkingLot }

func (nowhere) Park(context.Context, transform.Parked) error { return nil }
