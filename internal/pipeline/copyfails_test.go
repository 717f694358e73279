package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// An error that ends the process does so, whatever else a copy ends with in the same moment: here a gap that cannot be declared, because the ledger was
// exchanged.
func TestAGapThatEndsACopyHidesNoFatalError(t *testing.T) {
	ctx, store := t.Context(), &checkpointtest.Memory{}
	ledger, state := loading(t, store)
	state, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.Load = checkpoint.Load{Generation: 1, StartedAt: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
		return nil
	})
	if err == nil { // a root that was first read after the copy had begun, and a day late
		err = ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", ID: "root", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 1,
			FirstRead: state.Load.StartedAt.Add(72 * time.Hour)})
	}
	if err != nil {
		t.Fatal(err)
	}
	looked := false
	store.OnRead = func(_ context.Context, prefix string) error {
		if looked {
			return checkpoint.ErrLedgerExchanged
		}
		looked = strings.Contains(prefix, "/shard/")
		return nil
	}
	o := &Options{Ledger: ledger, Floors: &Floors{}, Witness: func(string) checkpoint.Store { return &checkpointtest.Memory{} }, Events: Events{}.orSilent()}
	err = (&rig{Options: o, Table: Table{Mapping: ordersMapping(t)}}).loader().loaded(until(ctx), state, backfill.Progress{Items: 7})
	if !errors.Is(err, checkpoint.ErrLedgerExchanged) {
		t.Errorf("it ends with %v", err)
	}
}

// stopsOnPage is a table whose first page is refused, because a stop was asked for meanwhile.
type stopsOnPage struct {
	streaming
	asked func()
}

func (s stopsOnPage) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	s.asked()
	return backfill.ScanPage{}, errStopped
}

// The last save of a copy that is stopped finds that the ledger is another one: that is no clean stop.
func TestAStopHidesNoFatalErrorOfACopy(t *testing.T) {
	mapping := ordersMapping(t)
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		store := &checkpointtest.Memory{}
		ledger, err := checkpoint.Open(ctx, store, "stops", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { *s = state; s.Source = "Orders"; return nil })
		}
		k.Options.Ledger = ledger
		stop, cancel := context.WithCancel(ctx)
		defer cancel()
		k.Mapping, k.MappingHash, k.Copy, k.Segments = mapping, state.MappingHash, true, 1
		k.Database = stopsOnPage{asked: func() {
			cancel()
			store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, checkpoint.ErrLedgerExchanged }
		}}
		k.Writer, k.Witness = sink.NewWriter(sink.Options{}), func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		keeper, errSeat := seated(ctx, k)
		if err = errors.Join(err, errSeat); err == nil {
			err = k.loader().copy(lifecycle{drain: stop, work: ctx}, keeper)
		}
		if !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A copy's progress that cannot be read is told again and again, less and less often, under the seat that is held all the while: neither a loop of seats
// that are taken and left, nor a copy that begins anew as if nothing was wrong.
func TestProgressThatCannotBeReadIsToldAndWaitedFor(t *testing.T) {
	const secret = "customer-4711"
	mapping := ordersMapping(t)
	for _, saved := range []string{`{"total": "` + secret + `"}`, `{"generation": 1, "total": 3, "next": 7}`} {
		listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
			k.Mapping, k.MappingHash, k.Copy, k.Database, k.Segments = mapping, state.MappingHash, true, onePage{}, 1
			k.Writer, k.Witness = sink.NewWriter(sink.Options{}), func(string) checkpoint.Store { return &checkpointtest.Memory{} }
			var told []error
			k.Events.Retry = func(_, _ string, _ time.Duration, err error) { told = append(told, err) }
			k.Events.CopyStarted = func(string, int64, int64) { t.Error("a copy began") }
			keeper, err := seated(ctx, k)
			if err == nil {
				err = keeper.SaveScan(ctx, []byte(saved), checkpoint.Pace{})
			}
			var trouble checkpoint.Trouble
			note := func(now checkpoint.Trouble) {
				if now != (checkpoint.Trouble{}) {
					trouble = now
				}
			}
			stop, cancel := task.WithTimeout(ctx, time.Hour)
			defer cancel()
			if err = errors.Join(err, k.loader().copy(lifecycle{drain: stop, work: ctx, note: note}, keeper)); err != nil || task.Mono(ctx) < time.Hour {
				t.Errorf("it ends after %s with %v", task.Mono(ctx), err)
			}
			if len(told) == 0 {
				t.Error("nobody was told")
				return
			}
			if len(told) < 60 || len(told) > 400 || !errors.Is(told[0], backfill.ErrProgress) || strings.Contains(told[0].Error(), secret) {
				t.Errorf("told %d times in an hour: %v", len(told), told[0])
			}
			if trouble.Step != "read the copy's progress" || !strings.Contains(trouble.Cause, "progress of a copy") || strings.Contains(trouble.Cause, secret) {
				t.Errorf("%+v", trouble)
			}
		})
	}
}

// inBothRuntimes runs a script in virtual time of the simulation, and in plain Go within a bubble.
func inBothRuntimes(t *testing.T, script func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { script(t.Context()) })
	if err := virtual.NewWorld(1, listingsBegin, false).Run(48*time.Hour, script); err != nil {
		t.Fatal(err)
	}
}

// A backoff ends with the lease under which it waits: whoever lost one looks for the next at once. It ends with a stop as well.
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

// The writer is told the time that the page came with: the changes of a moment ago are not old, whatever the worker's clock says.
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
