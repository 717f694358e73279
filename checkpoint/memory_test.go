package checkpoint_test

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// TestRowsAreKnownByTheirText: a cached record is used only while the row has the same text,
// whatever its counter: a restored ledger repeats counters.
func TestRowsAreKnownByTheirText(t *testing.T) {
	ctx := context.Background()
	store := &checkpointtest.Memory{}
	looks, writes := openOn(t, ctx, store, "looks", lease), openOn(t, ctx, store, "writes", lease)
	create(t, ctx, writes, shard("b", ""), shard("d", ""))
	if n := len(rows(t, ctx, looks)); n != 2 {
		t.Fatalf("%d shards", n)
	}
	create(t, ctx, writes, shard("a", ""), shard("c", "b"), shard("e", ""))
	seen := rows(t, ctx, looks)
	if len(seen) != 5 || seen["c"].Parent != "b" || seen["d"].Counter != 1 {
		t.Fatalf("after three more: %+v", seen)
	}
	check(t, writes.Remove(ctx, seen["c"]))
	again := shard("c", "d")
	create(t, ctx, writes, again)
	seen = rows(t, ctx, looks)
	if len(seen) != 5 || seen["c"].Parent != "d" || seen["c"].Counter != 1 {
		t.Errorf("a row that was written anew under the same counter is %+v", seen["c"])
	}
	check(t, writes.Remove(ctx, seen["a"]))
	if seen = rows(t, ctx, looks); len(seen) != 4 || seen["e"].ID != "e" {
		t.Errorf("after a removal: %+v", seen)
	}
}

// TestRecordsAreTheCallersOwn: a caller's changes to a record are invisible to the next caller.
func TestRecordsAreTheCallersOwn(t *testing.T) {
	ctx := context.Background()
	l := openOn(t, ctx, &checkpointtest.Memory{}, "w", lease)
	create(t, ctx, l, shard("a", ""))
	_, err := l.Raise(ctx, source, table(t, ctx, l).Generation, checkpoint.DeclaredGap{Reason: "once"}, nil)
	check(t, err)
	state, shards := table(t, ctx, l), rows(t, ctx, l)
	state.Gaps[0].Reason = "changed"
	s := shards["a"]
	s.Parent = "changed"
	shards["a"] = s
	list, err := l.Shards(ctx, source)
	check(t, err)
	list[0].State = checkpoint.Done
	if g := table(t, ctx, l).Gaps; len(g) != 1 || g[0].Reason != "once" {
		t.Errorf("gaps are %+v", g)
	}
	if s := row(t, ctx, l, "a"); s.State != checkpoint.Waiting || s.Parent != "" {
		t.Errorf("the shard is %+v", s)
	}
}
