package dynamodbtest_test

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func (f *fixture) allShards(table string) []dynamodbtest.Shard {
	f.t.Helper()
	shards, err := f.server.Shards(table)
	f.noError(err)
	return shards
}

func (f *fixture) openShards(table string) []dynamodbtest.Shard {
	f.t.Helper()
	return slices.DeleteFunc(f.allShards(table), func(s dynamodbtest.Shard) bool { return !s.Open })
}

// checkRanges fails unless the open shards own every hash exactly once (invariant S1).
func checkRanges(t interface{ Fatalf(string, ...any) }, open []dynamodbtest.Shard) {
	slices.SortFunc(open, func(a, b dynamodbtest.Shard) int {
		if a.FirstHash < b.FirstHash {
			return -1
		}
		return 1
	})
	next := uint64(0)
	for i, sh := range open {
		if sh.FirstHash != next || sh.LastHash < sh.FirstHash {
			t.Fatalf("shard %d owns %d to %d, want from %d", i, sh.FirstHash, sh.LastHash, next)
		}
		next = sh.LastHash + 1
	}
	if open[len(open)-1].LastHash != math.MaxUint64 {
		t.Fatalf("nobody owns hashes from %d", next)
	}
}

func TestInitialShards(t *testing.T) {
	id := regexp.MustCompile(`^shardId-[0-9]{20}-[0-9a-f]{8}$`)
	for _, n := range []int{1, 2, 3, 10} {
		f := newFixture(t, dynamodbtest.Options{InitialShards: n})
		f.createTable("Orders", "KEYS_ONLY", "")
		open := f.openShards("Orders")
		if len(open) != n {
			t.Errorf("%d shards, want %d", len(open), n)
		}
		checkRanges(t, open)
		f.putKeys("Orders", "k", 50)
		arn := f.streamARN("Orders")
		total := 0
		for _, sh := range f.shards(arn) {
			if !id.MatchString(*sh.ShardId) || sh.ParentShardId != nil || sh.SequenceNumberRange.EndingSequenceNumber != nil {
				t.Errorf("shard %s", *sh.ShardId)
			}
			total += len(f.records(arn, *sh.ShardId))
		}
		if total != 50 {
			t.Errorf("%d records in %d shards", total, n)
		}
	}
}

func TestSplitAndRoll(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	root := f.onlyShard(arn)
	f.putKeys("Orders", "k", 100)
	children, err := f.server.SplitShard("Orders", root)
	f.noError(err)
	f.putKeys("Orders", "l", 100)
	grandchild, err := f.server.RollShard("Orders", children[0])
	f.noError(err)
	f.putKeys("Orders", "m", 100)
	checkRanges(t, f.openShards("Orders"))
	parents := map[string]string{}
	closed := map[string]bool{}
	for _, sh := range f.shards(arn) {
		if sh.ParentShardId != nil {
			parents[*sh.ShardId] = *sh.ParentShardId
		}
		closed[*sh.ShardId] = sh.SequenceNumberRange.EndingSequenceNumber != nil
	}
	if diff := cmp.Diff(map[string]string{children[0]: root, children[1]: root, grandchild: children[0]}, parents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{root: true, children[0]: true, children[1]: false, grandchild: false}, closed); diff != "" {
		t.Error(diff)
	}
	counts := map[string]int{}
	for id := range closed {
		counts[id] = len(f.records(arn, id))
	}
	if counts[root] != 100 || counts[children[0]]+counts[children[1]]+counts[grandchild] != 200 || counts[children[0]] == 0 || counts[grandchild] == 0 {
		t.Errorf("records %v", counts)
	}
	_, err = f.server.SplitShard("Orders", root)
	wantControlError(t, err, "ValidationException")
	_, err = f.server.RollShard("Orders", "shardId-absent")
	wantControlError(t, err, "ResourceNotFoundException")
	_, err = f.server.RollShard("Absent", root)
	wantControlError(t, err, "ResourceNotFoundException")
}

// A key's records stay in the shard that owns it, and continue in that shard's descendants.
func TestShardOf(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{InitialShards: 4})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	before, err := f.server.ShardOf("Orders", "some key")
	f.noError(err)
	f.put("Orders", attrs{"pk": str("some key")})
	children, err := f.server.SplitShard("Orders", before)
	f.noError(err)
	after, err := f.server.ShardOf("Orders", "some key")
	f.noError(err)
	f.remove("Orders", attrs{"pk": str("some key")})
	if !slices.Contains(children, after) || len(f.records(arn, before)) != 1 || len(f.records(arn, after)) != 1 {
		t.Errorf("before %s, after %s of %v", before, after, children)
	}
}

// Any sequence of splits and rolls keeps invariants S1 and S2.
func TestRandomReshardingKeepsRanges(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	serial := 0
	rapid.Check(t, func(rt *rapid.T) {
		serial++
		table := "Table" + strconv.Itoa(serial)
		f.createTable(table, "KEYS_ONLY", "")
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			open := f.openShards(table)
			target := open[rapid.IntRange(0, len(open)-1).Draw(rt, "shard")].ID
			var err error
			if rapid.Bool().Draw(rt, "split") {
				_, err = f.server.SplitShard(table, target)
			} else {
				_, err = f.server.RollShard(table, target)
			}
			if err != nil {
				rt.Fatalf("%v", err)
			}
			checkRanges(rt, f.openShards(table))
		}
		byID := map[string]dynamodbtest.Shard{}
		for _, sh := range f.allShards(table) {
			byID[sh.ID] = sh
		}
		for _, sh := range byID {
			if parent, found := byID[sh.Parent]; sh.Parent != "" && (!found || parent.Open || sh.FirstHash < parent.FirstHash || sh.LastHash > parent.LastHash) {
				rt.Fatalf("%s is no child of %s", sh.ID, sh.Parent)
			}
		}
	})
}

func TestAutoRoll(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{AutoRoll: 4 * time.Hour, InitialShards: 2})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	f.putKeys("Orders", "k", 10)
	f.clock.Advance(4*time.Hour - time.Second)
	if n := len(f.shards(arn)); n != 2 {
		t.Errorf("%d shards before the time", n)
	}
	f.clock.Advance(time.Second)
	f.putKeys("Orders", "l", 10)
	if n := len(f.shards(arn)); n != 4 {
		t.Errorf("%d shards after one roll", n)
	}
	f.clock.Advance(4 * time.Hour)
	if n := len(f.shards(arn)); n != 6 {
		t.Errorf("%d shards after two rolls; listing rolls as writing does", n)
	}
	f.noError(f.server.SetAutoRoll("Orders", 0))
	f.clock.Advance(4 * time.Hour)
	if n := len(f.shards(arn)); n != 6 {
		t.Errorf("%d shards after rolling stopped", n)
	}
	total := 0
	for _, sh := range f.shards(arn) {
		total += len(f.records(arn, *sh.ShardId))
	}
	if total != 20 {
		t.Errorf("%d records", total)
	}
}

func TestClosedShardEndsWithItsLastRecords(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	root := f.onlyShard(arn)
	f.putKeys("Orders", "k", 1500)
	it, err := f.iterator(arn, root, "TRIM_HORIZON", "")
	f.noError(err)
	child, err := f.server.RollShard("Orders", root)
	f.noError(err)
	first, err := f.page(it)
	f.noError(err)
	last, err := f.page(*first.NextShardIterator)
	f.noError(err)
	if len(first.Records) != 1000 || len(last.Records) != 500 || last.NextShardIterator != nil {
		t.Errorf("pages of %d and %d, next %v", len(first.Records), len(last.Records), last.NextShardIterator)
	}
	// A closed shard without records ends immediately, an open one never.
	grandchild, err := f.server.RollShard("Orders", child)
	f.noError(err)
	for id, open := range map[string]bool{child: false, grandchild: true} {
		it, err := f.iterator(arn, id, "LATEST", "")
		f.noError(err)
		out, err := f.page(it)
		f.noError(err)
		if len(out.Records) != 0 || (out.NextShardIterator != nil) != open {
			t.Errorf("%s: %d records, next %v", id, len(out.Records), out.NextShardIterator)
		}
	}
}

func TestListingPagesAndChildShards(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{InitialShards: 120})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	out, err := f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
	f.noError(err)
	d := out.StreamDescription
	if len(d.Shards) != 100 || *d.LastEvaluatedShardId != *d.Shards[99].ShardId || !d.CreationRequestDateTime.Equal(start) || *d.TableName != "Orders" || len(d.KeySchema) != 1 {
		t.Errorf("%d shards, last %v", len(d.Shards), d.LastEvaluatedShardId)
	}
	all := f.shards(arn)
	if len(all) != 120 || !slices.IsSortedFunc(all, func(a, b streamtypes.Shard) int {
		if *a.ShardId < *b.ShardId {
			return -1
		}
		return 1
	}) {
		t.Errorf("%d shards, or not sorted by id", len(all))
	}
	parent := *all[60].ShardId
	children, err := f.server.SplitShard("Orders", parent)
	f.noError(err)
	slices.Sort(children)
	childrenOf := func(id string, after *string, limit int32) (ids []string, last *string) {
		out, err := f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{
			StreamArn: &arn, ExclusiveStartShardId: after, Limit: &limit, ShardFilter: &streamtypes.ShardFilter{Type: "CHILD_SHARDS", ShardId: &id},
		})
		f.noError(err)
		for _, sh := range out.StreamDescription.Shards {
			ids = append(ids, *sh.ShardId)
		}
		return ids, out.StreamDescription.LastEvaluatedShardId
	}
	ids, last := childrenOf(parent, nil, 100)
	if diff := cmp.Diff(children, ids); diff != "" || last != nil {
		t.Error(diff)
	}
	ids, last = childrenOf(parent, nil, 1)
	if diff := cmp.Diff(children[:1], ids); diff != "" || last == nil {
		t.Error(diff)
	}
	ids, last = childrenOf(parent, last, 1)
	if diff := cmp.Diff(children[1:], ids); diff != "" || last != nil {
		t.Error(diff)
	}
	if ids, _ := childrenOf(children[0], nil, 100); ids != nil {
		t.Errorf("children of a leaf: %v", ids)
	}
	for _, limit := range []int32{0, 101} {
		_, err := f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, Limit: &limit})
		f.wantCode(err, "ValidationException")
	}
	_, err = f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, ShardFilter: &streamtypes.ShardFilter{Type: "PARENTS", ShardId: &parent}})
	f.wantCode(err, "ValidationException")
}

func TestListingFaults(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{InitialShards: 4})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	f.noError(f.server.DelayListing("Orders", time.Minute, 2*time.Minute))
	parent := *f.shards(arn)[0].ShardId
	child, err := f.server.RollShard("Orders", parent)
	f.noError(err)
	see := func() (childListed, parentClosed bool) {
		for _, sh := range f.shards(arn) {
			childListed = childListed || *sh.ShardId == child
			parentClosed = parentClosed || *sh.ShardId == parent && sh.SequenceNumberRange.EndingSequenceNumber != nil
		}
		return
	}
	check := func(wantListed, wantClosed bool) {
		t.Helper()
		if listed, closed := see(); listed != wantListed || closed != wantClosed {
			t.Errorf("child listed %v, parent closed %v", listed, closed)
		}
	}
	check(false, false)
	// A shard can be read, hidden or not, and a closed parent ends.
	if _, err := f.iterator(arn, child, "TRIM_HORIZON", ""); err != nil {
		t.Error(err)
	}
	it, err := f.iterator(arn, parent, "TRIM_HORIZON", "")
	f.noError(err)
	if out, err := f.page(it); err != nil || out.NextShardIterator != nil {
		t.Errorf("parent goes on: %v", err)
	}
	f.clock.Advance(time.Minute)
	check(true, false)
	f.clock.Advance(time.Minute)
	check(true, true)
	f.noError(f.server.HideShard("Orders", child, f.clock.Now().Add(time.Second)))
	f.noError(f.server.ShowOpen("Orders", parent, f.clock.Now().Add(time.Second)))
	check(false, false)
	f.clock.Advance(time.Second)
	check(true, true)
	if n := len(f.allShards("Orders")); n != 5 {
		t.Errorf("the control sees %d shards", n)
	}
}

func TestRepeatedAndShortPages(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{InitialShards: 7})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	f.noError(f.server.SetListingPage("Orders", 3))
	f.noError(f.server.RepeatPages("Orders", 1))
	var got []string
	for _, sh := range f.shards(arn) {
		got = append(got, *sh.ShardId)
	}
	var want []string
	for _, sh := range f.allShards("Orders") {
		want = append(want, sh.ID)
	}
	want = slices.Concat(want[:3], want[:3], want[3:])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	f.noError(f.server.SetListingPage("Orders", 0))
	if n := len(f.shards(arn)); n != 7 {
		t.Errorf("%d shards", n)
	}
}

func TestEmptyPages(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	_, err := f.server.RollShard("Orders", shard)
	f.noError(err)
	f.noError(f.server.EmptyPages("Orders", shard, 3))
	it, err := f.iterator(arn, shard, "TRIM_HORIZON", "")
	f.noError(err)
	var sizes []int
	for {
		out, err := f.page(it)
		f.noError(err)
		sizes = append(sizes, len(out.Records))
		if out.NextShardIterator == nil {
			break
		}
		it = *out.NextShardIterator
	}
	if diff := cmp.Diff([]int{0, 0, 0, 1}, sizes); diff != "" {
		t.Error(diff)
	}
}
