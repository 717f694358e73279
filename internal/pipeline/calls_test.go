package pipeline

import (
	"context"
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
)

// stopping is a source and a database in each of whose calls a stop comes; the call tells what
// became of its context.
type stopping struct{ reads *reads }

func (s stopping) stop(ctx context.Context) error {
	s.reads.cancel(errors.New("stop"))
	return ctx.Err()
}

func (s stopping) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, s.stop(ctx)
}

func (s stopping) Seek(ctx context.Context, _ string, _ cdc.Position) (cdc.Iterator, error) {
	return "", s.stop(ctx)
}

func (s stopping) Read(ctx context.Context, _ cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{}, s.stop(ctx)
}

func (s stopping) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	return backfill.Description{}, s.stop(ctx)
}

func (s stopping) Scan(ctx context.Context, _ string, _, _ int, _ attribute.Item, _ int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, s.stop(ctx)
}

func (s stopping) Get(ctx context.Context, _ string, _ attribute.Item) (attribute.Item, bool, error) {
	return attribute.Item{}, false, s.stop(ctx)
}

// unheard passes over the time of an answer.
func unheard(context.Context, time.Time) {}

// A stop ends every call to the source that is under way, whatever it asks for: one that hangs
// would take the whole grace, and leases and the keeper lease would stay behind.
func TestAStopEndsEveryCall(t *testing.T) {
	calls := &reads{}
	source, database := stoppableSource{stopping{calls}, calls, unheard, nil}, stoppableDatabase{stopping{calls}, calls, unheard, nil, nil}
	for name, call := range map[string]func(ctx context.Context) error{
		"ListPage": func(ctx context.Context) error { _, err := source.ListPage(ctx, "", ""); return err },
		"Seek":     func(ctx context.Context) error { _, err := source.Seek(ctx, "s", cdc.Position{}); return err },
		"Read":     func(ctx context.Context) error { _, err := source.Read(ctx, "i"); return err },
		"Describe": func(ctx context.Context) error { _, err := database.Describe(ctx, "Orders"); return err },
		"Get": func(ctx context.Context) error {
			_, _, err := database.Get(ctx, "Orders", attribute.Item{})
			return err
		},
		"Scan": func(ctx context.Context) error {
			_, err := database.Scan(ctx, "Orders", 0, 1, attribute.Item{}, 1)
			return err
		},
	} {
		if err := call(context.Background()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s goes on after a stop: %v", name, err)
		}
		if len(calls.cancels) != 0 {
			t.Errorf("%s is under way still", name)
		}
	}
}

// A table of the same name in another account is as little the one that is followed as one in
// another region or partition.
func TestTheTableOfThatNameElsewhere(t *testing.T) {
	const followed = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-01T00:00:00.000"
	for _, c := range []struct {
		from, to string
		fails    bool
	}{
		{"2026-11-01", "2026-11-02", false}, {"111122223333", "444455556666", true}, {"eu-west-1", "eu-west-2", true}, {"arn:aws:", "arn:aws-cn:", true},
	} {
		var elsewhere *SourceError
		found := strings.Replace(followed, c.from, c.to, 1)
		if err := CheckSource(backfill.Description{Name: "Orders", StreamARN: found}, followed); errors.As(err, &elsewhere) != c.fails {
			t.Errorf("%s: %v", found, err)
		}
	}
}

// throttledStream does not say whether it is over.
type throttledStream struct{ cdc.Source }

func (throttledStream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.Throttled, Err: errors.New("no")}
}

// TestH24_WhoDoesNotAnswerIsNotOver: a stream that does not answer for the moment has not ended,
// and an old answer of its table's is not believed for that.
func TestH24_WhoDoesNotAnswerIsNotOver(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		k.Open = func(string) cdc.Source { return throttledStream{} }
		if over, err := reconcilerOf(k).over(ctx, state); over || !cdc.Is(err, cdc.Throttled) {
			t.Errorf("over %v, %v", over, err)
		}
		k.Open = func(string) cdc.Source { return endedStream{} }
		if over, err := reconcilerOf(k).over(ctx, state); !over || err != nil {
			t.Errorf("gone: over %v, %v", over, err)
		}
	})
}

// What becomes durable is told with the rows it was folded into, and the ledger tells how many
// changes a second were applied, not how many rows.
func TestWhatWasAppliedIsTold(t *testing.T) {
	var told [2]int // changes, rows
	rated := false
	store := &checkpointtest.Memory{}
	store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
		done := execute()
		rows, err := store.Read(ctx, key)
		rated = rated || strings.Contains(key, "/shard/") && len(rows) == 1 && strings.Contains(string(rows[0].Data), `"rate":`)
		return done, err
	}
	o := crowd(t, newBacklog(500), targets{}, "Orders")
	o.Events.Applied = func(_ string, changes Tally, rows int) { told[0], told[1] = told[0]+changes.Changes(), told[1]+rows }
	play(t, store, time.Minute, o, behind(1, "Orders"))
	if told != [2]int{500, 500} || !rated {
		t.Errorf("%d changes in %d rows were told, and a rate %v", told[0], told[1], rated)
	}
}

// TestADroppedTableStaysSuspended: a pass takes back that a table is suspended when it has found
// the table, and not before: it was dropped since what the ledger says, and is left two days after
// that.
func TestADroppedTableStaysSuspended(t *testing.T) {
	mapping := ordersMapping(t)
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, _ checkpoint.TableState) {
		k.Mapping, k.Joined, k.Database, k.Witness = mapping, true, dropped{}, func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		if err := suspend(ctx, k.Ledger, k.Events, "Orders", GoneReason); err != nil {
			t.Error(err)
		}
		since := task.Now(ctx)
		err := errors.Join(task.Sleep(ctx, time.Minute), reconcilerOf(k).complete(until(ctx)))
		state, _, errTable := k.Ledger.Table(ctx, "Orders")
		if !errors.Is(err, errGone) || errTable != nil || state.Suspended.Reason != GoneReason || !state.Suspended.Since.Equal(since) {
			t.Errorf("%+v, %v, %v", state.Suspended, err, errTable)
		}
	})
}

// A table that is followed does not join once more, however often tables are looked for: two
// keepers and two readers of one process would contend for it.
func TestATableJoinsOnce(t *testing.T) {
	o := clusterOptions(t, &rolled{}, nil)
	o.Cluster, o.DiscoverEvery = nil, time.Minute
	spec, looks, joined := o.Tables[0], 0, 0
	spec.Joined, o.Tables = true, nil
	o.Discover = func(_ context.Context, followed func(string) bool) (Discovery, error) {
		if looks++; followed("Orders") != (looks > 1) {
			t.Errorf("look %d: it is followed %v", looks, followed("Orders"))
		}
		return Discovery{Tables: []Table{spec}}, nil
	}
	o.Events.Joined = func(string) { joined++ }
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, begun)
	if looks < 10 || joined != 1 {
		t.Errorf("in %d looks it joined %d times", looks, joined)
	}
}
