package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// loading is a ledger with a table in its first generation.
func loading(t *testing.T, store *checkpointtest.Memory) (*checkpoint.Ledger, checkpoint.TableState) {
	t.Helper()
	ledger, err := checkpoint.Open(t.Context(), store, "load", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	state, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.Adopted, s.Listed = 1, 1, 1
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ledger, state
}

// TestH71_ALoadDoesNotCompleteTheNext: between a load's last look and its note that it is complete a gap is declared, and the load begins that makes up
// for it. What is noted then is not said of that one.
func TestH71_ALoadDoesNotCompleteTheNext(t *testing.T) {
	ctx, store := t.Context(), &checkpointtest.Memory{}
	mapping := ordersMapping(t)
	ledger, state := loading(t, store)
	looked := false
	store.OnRead = func(ctx context.Context, prefix string) error {
		if looked = looked || strings.Contains(prefix, "/shard/"); !looked || strings.Contains(prefix, "/shard/") {
			return nil
		}
		store.OnRead = nil
		now, err := ledger.Raise(ctx, "Orders", 1, checkpoint.DeclaredGap{Reason: "lost"}, nil)
		if err == nil {
			_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
				s.NeedsLoad, s.Load = false, checkpoint.Load{Generation: now.Generation, StartedAt: task.Now(ctx).UTC()}
				return nil
			})
		}
		return err
	}
	target := &checkpointtest.Memory{}
	o := &Options{Ledger: ledger, Floors: &Floors{}, Witness: func(string) checkpoint.Store { return target }, Events: Events{}.orSilent()}
	if err := (&rig{Options: o, Table: Table{Mapping: mapping}}).loader().loaded(until(ctx), state, backfill.Progress{Items: 7}); err != nil {
		t.Fatal(err)
	}
	if now, _, err := ledger.Table(ctx, "Orders"); err != nil || store.OnRead != nil || now.Loaded() || now.Load.Items != 0 {
		t.Errorf("%+v, %v", now, err)
	}
}

// onePage is a table whose one page, which is empty, takes ten seconds.
type onePage struct{ streaming }

func (onePage) Scan(ctx context.Context, _ string, _, _ int, _ attribute.Item, _ int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, task.Sleep(ctx, 10*time.Second)
}

// A load that goes on is told with what was copied before, and its rate is of what is copied now: neither of that nor of a load before it.
func TestALoadThatGoesOnIsTold(t *testing.T) {
	mapping := ordersMapping(t)
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		target, started := &checkpointtest.Memory{}, int64(-1)
		k.Mapping, k.MappingHash, k.Copy, k.Database, k.Segments = mapping, state.MappingHash, true, onePage{}, 1
		k.Writer, k.Witness = sink.NewWriter(sink.Options{}), func(string) checkpoint.Store { return target }
		k.Events.CopyStarted = func(_ string, _, done int64) { started = done }
		k.loader().meter.Add(task.Mono(ctx), 0) // of a load before
		keeper, err := seated(ctx, k)
		if err != nil {
			t.Error(err)
			return
		}
		saved, err := json.Marshal(backfill.Progress{Generation: 1, Total: 1, Next: 1, Open: []backfill.Open{{}}, Items: 5000})
		if err = errors.Join(err, keeper.SaveScan(ctx, saved, checkpoint.Pace{}), k.loader().copy(until(ctx), keeper)); err != nil {
			t.Error(err)
		}
		seat, errSeat := k.Ledger.KeeperLease(ctx, "Orders")
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err = errors.Join(err, errSeat); err != nil || !now.Loaded() || now.Load.Items != 5000 || started != 5000 || seat.Pace().At.IsZero() || seat.Pace().Rate != 0 {
			t.Errorf("begun with %d items, at %g a second: %+v, %v", started, seat.Pace().Rate, now.Load, err)
		}
	})
}

// overtaken is a table whose copy becomes vain while its first page is read.
type overtaken struct{ streaming }

func (overtaken) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, sink.ErrFenced
}

// A copy that is left is told as such, done or not: else whoever was told that it began would go on showing it.
func TestACopyThatIsLeftIsTold(t *testing.T) {
	mapping := ordersMapping(t)
	for _, c := range []struct {
		database Database
		want     string
	}{{onePage{}, "started done left"}, {overtaken{}, "started left"}} {
		listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
			target := &checkpointtest.Memory{}
			k.Mapping, k.MappingHash, k.Copy, k.Database, k.Segments = mapping, state.MappingHash, true, c.database, 1
			k.Writer, k.Witness = sink.NewWriter(sink.Options{}), func(string) checkpoint.Store { return target }
			var told []string
			k.Events.CopyStarted = func(string, int64, int64) { told = append(told, "started") }
			k.Events.CopyDone = func(string, int64) { told = append(told, "done") }
			k.Events.CopyLeft = func(string) { told = append(told, "left") }
			keeper, err := seated(ctx, k)
			if err == nil {
				err = k.loader().copy(until(ctx), keeper)
			}
			if got := strings.Join(told, " "); err != nil || got != c.want {
				t.Errorf("told %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

// refusing is a table that cannot be described, or whose items cannot be read, for want of capacity.
type refusing struct {
	streaming
	describe bool
}

func (r refusing) Describe(ctx context.Context, table string) (backfill.Description, error) {
	if r.describe {
		return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.Throttled}
	}
	return r.streaming.Describe(ctx, table)
}

func (refusing) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, &cdc.Error{Op: "Scan", Reason: cdc.Throttled}
}

// A stop ends the waits of a copy between two attempts. They come to most of a minute, which is longer than the grace: the keeper's seat would stay behind.
func TestAStopEndsTheWaitsOfACopy(t *testing.T) {
	mapping := ordersMapping(t)
	for name, database := range map[string]Database{"described": refusing{describe: true}, "read": refusing{}, "completed": onePage{}} {
		listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
			target := &checkpointtest.Memory{OnRead: func(context.Context, string) error { return errors.New("no answer") }}
			k.Mapping, k.MappingHash, k.Copy, k.Database, k.Segments = mapping, state.MappingHash, true, database, 1
			k.Writer, k.Witness = sink.NewWriter(sink.Options{}), func(string) checkpoint.Store { return target }
			keeper, err := seated(ctx, k)
			if err != nil {
				t.Error(err)
				return
			}
			keeping := task.NewGroup(ctx, 0)
			keeping.Go("renew", func(context.Context) error { return keeper.Keep() })
			stop, cancel := task.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			err = k.loader().copy(lifecycle{drain: stop, work: keeper.Context()}, keeper)
			if now := task.Mono(ctx); err != nil || now < 10*time.Minute || now > 10*time.Minute+time.Second {
				t.Errorf("while it is %s: ended after %s with %v", name, now, err)
			}
			keeper.Abandon()
			_ = keeping.Wait()
		})
	}
}

// Where a table begins to be followed cuts off, or is owed, only what no load brings.
func TestACopiedTableIsNotCut(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	began := at.Add(-checkpoint.Slack)
	for name, c := range map[string]struct {
		table      Table
		cut, since time.Time
	}{
		"copied":                   {Table{Copy: true}, time.Time{}, time.Time{}},
		"copied, and from now on":  {Table{Copy: true, FromNow: true}, time.Time{}, time.Time{}},
		"from now on":              {Table{FromNow: true}, began, time.Time{}},
		"as far as the stream has": {Table{}, time.Time{}, began},
	} {
		ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "begin", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		k := newRig(ledger, c.table)
		if s, err := k.reconciler().begin(t.Context(), backfill.Description{At: at}, nil); err != nil || !s.Cut.Equal(c.cut) || !s.Since.Equal(c.since) {
			t.Errorf("%s: cut at %s, followed since %s, %v", name, s.Cut, s.Since, err)
		}
	}
}

// streaming is a table with a stream.
type streaming struct{ Database }

func (streaming) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	return backfill.Description{Name: "Orders", StreamEnabled: true, StreamARN: "arn/L", StreamLabel: "L", ViewType: "NEW_AND_OLD_IMAGES", At: task.Now(ctx)}, nil
}

// listedOnce is a stream of one shard.
type listedOnce struct{ quietShard }

func (listedOnce) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "s"}}, At: task.Now(ctx)}, nil
}

// TestH13_AListingIsNotedAfterItsShards: a listing that is noted says that its shards have their rows, by which a run with Once tells that nothing follows
// a shard. A keeper may end between the two.
func TestH13_AListingIsNotedAfterItsShards(t *testing.T) {
	m := ordersMapping(t)
	var order []string
	store := &checkpointtest.Memory{OnSwap: func(_ context.Context, key string, execute func() bool) (bool, error) {
		if parts := strings.Split(key, "/"); parts[1] == "shard" || parts[1] == "open" {
			order = append(order, parts[1])
		}
		return execute(), nil
	}}
	play(t, store, 10*time.Second, Options{
		Database: streaming{}, Writer: sink.NewWriter(sink.Options{Table: targets{}, InFlight: 16}),
		Open:    func(string) cdc.Source { return listedOnce{} },
		Witness: func(string) checkpoint.Store { return &checkpointtest.Memory{} },
		Tables:  []Table{{Mapping: m}},
	}, func(context.Context, *checkpoint.Ledger) error { return nil })
	if len(order) < 2 || order[0] != "shard" {
		t.Errorf("rows are written in the order %q", order)
	}
}
