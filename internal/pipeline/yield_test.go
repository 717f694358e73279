package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A coordinator releases its lease because the source does not answer it. It then avoids the lease
// for a while; otherwise it might be the first to take it again.
func TestH63_AYieldedLeaseIsLeftToOthers(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Mapping, k.Witness = mapping, func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		k.Timing, k.Database = engine.Timing{}.OrDefault(k.Ledger.Lease()), &silentDatabase{asked: true}
		coordinator, err := keeping(ctx, k)
		if err != nil {
			t.Error(err)
			return
		}
		if rest, err := coordinatorOf(k).serve(engine.Until(ctx), coordinator); err != nil || rest != k.Timing.YieldBackoff() || rest <= 2*k.Timing.Pass {
			t.Errorf("it stays away for %s, %v", rest, err)
		}
		if lease, err := k.Ledger.CoordinatorLease(ctx, "Orders"); err != nil || lease.Owner() != "" {
			t.Errorf("the coordinator lease is still %q's, %v", lease.Owner(), err)
		}
	})
}

// While the source is silent, a worker releases its only shard every minute and acquires it again a
// moment later. It reports its lag all the while: otherwise an alert that waits for some minutes
// would restart whenever no lag is reported.
func TestLagOfAShardThatIsGivenUp(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // the world of play begins then
	given, last, gaps, untold := 0, time.Duration(-1), 0, false
	o := crowd(t, newBacklog(5), enginetest.Targets{}, "Orders")
	silent := quiet{newBacklog(5), &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: errors.New("no")}}
	o.Open = func(string) cdc.Source { return silent }
	o.Events.ShardLeft = func(_, _ string, err error) {
		if errors.Is(err, engine.ErrYield) {
			given++
		}
	}
	o.Events.NotReading = func(string) { untold = last >= 0 }
	o.Events.Lag = func(_ string, lag, _ time.Duration) {
		if untold {
			gaps++
		}
		if lag < last {
			t.Errorf("a lag of %s after one of %s", lag, last)
		}
		last, untold = lag, false
	}
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		if err := enginetest.Behind(0, "Orders")(ctx, l); err != nil {
			return err
		}
		return l.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/Orders", ID: "Orders0", State: checkpoint.Reading, Hop: cdc.RootHop,
			Generation: 7, EventTime: begin, ReadAt: begin})
	})
	if given < 5 || gaps > 0 || last < 9*time.Minute {
		t.Errorf("given up %d times, %d times without a lag in between; the last was %s", given, gaps, last)
	}
}

// While the source is silent, a shard and the coordinator lease are released each minute and
// acquired again. Their rows show since when the source has been silent, not since the last
// acquisition. Once it has answered, the next failure has a new begin.
func TestTroubleOfWhatIsGivenUp(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // the world of play begins then
	given := 0
	o := crowd(t, newBacklog(5), enginetest.Targets{}, "Orders")
	silent := quiet{newBacklog(5), &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: errors.New("no")}}
	o.Open = func(string) cdc.Source { return silent }
	o.Events.ShardLeft = func(string, string, error) { given++ }
	told, last, look := 0, time.Time{}, func() {}
	moments, last := 0, time.Time{}
	o.Events.Ledger = func(checkpoint.TableState, map[checkpoint.State]int) { look() }
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		look = func() {
			kept, err := l.CoordinatorLease(ctx, "Orders")
			if since := kept.Heartbeat().Trouble.Since; err == nil && !since.IsZero() && (moments == 0 || since.After(last)) {
				moments, last = moments+1, since
			}
			shards, err := l.Shards(ctx, "Orders")
			if err != nil || len(shards) == 0 || shards[0].Trouble == (checkpoint.Trouble{}) {
				return
			}
			if since := shards[0].Trouble.Since; told == 0 || since.After(last) {
				told, last = told+1, since
			}
		}
		return errors.Join(enginetest.Behind(0, "Orders")(ctx, l), l.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/Orders", ID: "Orders0", State: checkpoint.Reading, Hop: cdc.RootHop,
			Generation: 7, EventTime: begin, ReadAt: begin}))
	})
	if given < 5 || told != 1 || last.Sub(begin) > time.Minute {
		t.Errorf("given up %d times; told since %d moments, the last %s after the beginning", given, told, last.Sub(begin))
	}
	if moments != 1 || last.Sub(begin) > time.Minute {
		t.Errorf("the coordinator lease is in trouble since %d moments, the last %s after the beginning", moments, last.Sub(begin))
	}
	var v engine.Outages
	failed := func(step string, at time.Duration) time.Duration {
		return v.Since("s", checkpoint.Trouble{Step: step, Since: begin.Add(at)}, at).Since.Sub(begin)
	}
	failed("read", time.Minute)
	v.GiveUp("s", 2*time.Minute)
	for _, c := range []struct {
		step     string
		at, want time.Duration
	}{{"write", 3 * time.Minute, 3 * time.Minute}, {"read", 4 * time.Minute, 4 * time.Minute}} {
		if got := failed(c.step, c.at); got != c.want {
			t.Errorf("%s after another step: since %s", c.step, got)
		}
	}
	v.GiveUp("s", 5*time.Minute)
	if got := failed("read", 6*time.Minute); got != 4*time.Minute {
		t.Errorf("taken back: since %s", got)
	}
	v.Answered("s")
	if got := failed("read", 7*time.Minute); got != 7*time.Minute {
		t.Errorf("it has answered: since %s", got)
	}
	v.GiveUp("s", 8*time.Minute)
	if got := failed("read", 30*time.Minute); got != 30*time.Minute {
		t.Errorf("long after it was given up: since %s", got)
	}
}

// unwell is a steady database that does not answer during the first minutes, nor again later.
type unwell struct {
	steady
	from, until, again time.Duration
}

func (d unwell) Describe(ctx context.Context, table string) (backfill.Description, error) {
	if now := task.Mono(ctx); now >= d.from && now < d.until || now >= d.again {
		return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.Unavailable, Err: errors.New("no")}
	}
	return d.steady.Describe(ctx, table)
}

// A complete pass of the coordinator ends its trouble, however often it released its lease before.
// If a step fails some minutes later, the new trouble begins at that time.
func TestTheLeasesTroubleEndsWithARound(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // the world of play begins then
	var first, last time.Duration
	o := clusterOptions(t, &rolled{}, nil)
	o.Cluster, o.Database = nil, unwell{from: time.Minute, until: 4 * time.Minute, again: 7 * time.Minute}
	look := func() {}
	o.Events.Ledger = func(checkpoint.TableState, map[checkpoint.State]int) { look() }
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		look = func() {
			lease, err := l.CoordinatorLease(ctx, "Orders")
			switch since := lease.Heartbeat().Trouble.Since; {
			case err != nil || since.IsZero():
			case task.Mono(ctx) < 4*time.Minute:
				first = since.Sub(begin)
			case task.Mono(ctx) >= 8*time.Minute:
				last = since.Sub(begin)
			}
		}
		return begun(ctx, l)
	})
	if first < time.Minute || first > 3*time.Minute || last < 7*time.Minute {
		t.Errorf("in trouble since %s at first, and since %s in the end", first, last)
	}
}

// moody is a backlog that does not answer during the first minutes, nor again later.
type moody struct{ *backlog }

func (m moody) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	if now := task.Mono(ctx); now >= time.Minute && now < 4*time.Minute || now >= 7*time.Minute {
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: errors.New("no")}
	}
	return m.backlog.Read(ctx, at)
}

// A page ends the trouble of a shard, like a pass ends that of the coordinator lease, however often
// the shard was released before.
func TestAShardsTroubleEndsWithAPage(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // the world of play begins then
	var first, last time.Duration
	o := crowd(t, newBacklog(5), enginetest.Targets{}, "Orders")
	o.Open = func(string) cdc.Source { return moody{newBacklog(5)} }
	look := func() {}
	o.Events.Ledger = func(checkpoint.TableState, map[checkpoint.State]int) { look() }
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		look = func() {
			shards, err := l.Shards(ctx, "Orders")
			if err != nil || len(shards) != 1 || shards[0].Trouble.Since.IsZero() {
				return
			}
			switch since := shards[0].Trouble.Since.Sub(begin); {
			case task.Mono(ctx) < 4*time.Minute:
				first = since
			case task.Mono(ctx) >= 8*time.Minute:
				last = since
			}
		}
		return enginetest.Behind(1, "Orders")(ctx, l)
	})
	if first < time.Minute || first > 2*time.Minute || last < 7*time.Minute {
		t.Errorf("in trouble since %s at first, and since %s in the end", first, last)
	}
}

// The coordinator of a dropped table avoids its lease until the table is listed again; otherwise it
// would describe the table in every pass.
func TestTheLeaseOfADroppedTableIsLeftAlone(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Mapping, k.Joined, k.Database = mapping, true, enginetest.Dropped{}
		k.Witness = func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		k.Timing = engine.Timing{}.OrDefault(k.Ledger.Lease())
		coordinator, err := keeping(ctx, k)
		if err != nil {
			t.Error(err)
			return
		}
		if rest, err := coordinatorOf(k).serve(engine.Until(ctx), coordinator); err != nil || rest != k.Timing.List || !k.Table().Tracker.IsSuspended() {
			t.Errorf("it stays away for %s, %v; aside %v", rest, err, k.Table().Tracker.IsSuspended())
		}
	})
}
