package dynamodbtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// keysFrom returns the partition keys of the page at an iterator.
func (f *fixture) keysFrom(iterator string) string {
	f.t.Helper()
	out, err := f.page(iterator)
	f.noError(err)
	var keys []string
	for _, r := range out.Records {
		keys = append(keys, r.Dynamodb.Keys["pk"].(*streamtypes.AttributeValueMemberS).Value)
	}
	return strings.Join(keys, " ")
}

func (f *fixture) atTimestamp(arn, shard string, at time.Time) (string, error) {
	out, err := f.streams.GetShardIterator(f.ctx, &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &arn, ShardId: &shard, ShardIteratorType: "AT_TIMESTAMP", Timestamp: &at,
	})
	if err != nil {
		return "", err
	}
	return *out.ShardIterator, nil
}

func TestIteratorTypes(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	for _, pk := range []string{"a", "b", "c", "d"} {
		f.put("Orders", attrs{"pk": str(pk)})
		f.clock.Advance(10 * time.Second)
	}
	records := f.records(arn, shard)
	second := *records[1].Dynamodb.SequenceNumber
	listed := f.shards(arn)[0].SequenceNumberRange.StartingSequenceNumber
	cases := []struct {
		kind   streamtypes.ShardIteratorType
		number string
		want   string
	}{
		{"TRIM_HORIZON", "", "a b c d"},
		{"LATEST", "", ""},
		{"AT_SEQUENCE_NUMBER", second, "b c d"},
		{"AFTER_SEQUENCE_NUMBER", second, "c d"},
		{"AT_SEQUENCE_NUMBER", *listed, "a b c d"},
		{"AFTER_SEQUENCE_NUMBER", *records[3].Dynamodb.SequenceNumber, ""},
		{"AFTER_SEQUENCE_NUMBER", "000" + second, "c d"},
	}
	for _, c := range cases {
		it, err := f.iterator(arn, shard, c.kind, c.number)
		f.noError(err)
		if got := f.keysFrom(it); got != c.want {
			t.Errorf("%s %s gives %q, want %q", c.kind, c.number, got, c.want)
		}
	}
	second1 := start.Truncate(time.Second).Add(10 * time.Second)
	for at, want := range map[time.Time]string{
		start.Add(-time.Hour):           "a b c d",
		start.Add(-30 * time.Hour):      "a b c d",
		second1:                         "b c d",
		second1.Add(time.Millisecond):   "c d",
		second1.Add(20 * time.Second):   "d",
		f.clock.Now():                   "",
		f.clock.Now().Add(-time.Second): "",
		second1.Add(-time.Millisecond):  "b c d",
	} {
		it, err := f.atTimestamp(arn, shard, at)
		f.noError(err)
		if got := f.keysFrom(it); got != want {
			t.Errorf("AT_TIMESTAMP %s gives %q, want %q", at, got, want)
		}
	}
	// Later records come to an iterator at the end.
	it, err := f.iterator(arn, shard, "LATEST", "")
	f.noError(err)
	f.put("Orders", attrs{"pk": str("e")})
	if got := f.keysFrom(it); got != "e" {
		t.Errorf("LATEST gives %q", got)
	}
}

func TestIteratorsRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	last := *f.records(arn, shard)[0].Dynamodb.SequenceNumber
	for _, c := range []struct {
		kind   streamtypes.ShardIteratorType
		number string
	}{
		{"AT_SEQUENCE_NUMBER", ""}, {"AFTER_SEQUENCE_NUMBER", ""}, {"TRIM_HORIZON", last}, {"LATEST", last}, {"AT_TIMESTAMP", ""}, {"NEWEST", ""},
		{"AT_SEQUENCE_NUMBER", "not a number at all, this"}, {"AT_SEQUENCE_NUMBER", strings.Repeat("9", 41)},
		{"AFTER_SEQUENCE_NUMBER", "100000000000000000000"}, {"AFTER_SEQUENCE_NUMBER", last + "0"},
	} {
		_, err := f.iterator(arn, shard, c.kind, c.number)
		f.wantCode(err, "ValidationException")
	}
	_, err := f.atTimestamp(arn, shard, f.clock.Now().Add(time.Second))
	f.wantCode(err, "ValidationException")
	it, err := f.iterator(arn, shard, "TRIM_HORIZON", "")
	f.noError(err)
	swapped := strings.Replace(it, "Orders", "Others", 1)
	for _, text := range []string{"", "nonsense", it + "x", it[:len(it)-4] + "AAAA", swapped, arn + "|1|", arn + "|1|AAAA"} {
		if text == "" {
			continue
		}
		_, err := f.page(text)
		f.wantCode(err, "ValidationException")
	}
}

func TestIteratorExpires(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	it, err := f.iterator(arn, shard, "TRIM_HORIZON", "")
	f.noError(err)
	f.clock.Advance(15*time.Minute - time.Nanosecond)
	out, err := f.page(it)
	f.noError(err)
	f.clock.Advance(time.Nanosecond)
	_, err = f.page(it)
	f.wantCode(err, "ExpiredIteratorException")
	// The next iterator's life begins when it is returned.
	f.clock.Advance(14 * time.Minute)
	_, err = f.page(*out.NextShardIterator)
	f.noError(err)
	it, err = f.iterator(arn, shard, "TRIM_HORIZON", "")
	f.noError(err)
	f.noError(f.server.ExpireIterators("Orders"))
	_, err = f.page(it)
	f.wantCode(err, "ExpiredIteratorException")
	it, err = f.iterator(arn, shard, "TRIM_HORIZON", "")
	f.noError(err)
	if got := f.keysFrom(it); got != "a" {
		t.Errorf("a new iterator gives %q", got)
	}
}

func TestRecordsAreTrimmedAfter24Hours(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	f.put("Orders", attrs{"pk": str("b")})
	f.clock.Advance(time.Hour)
	f.put("Orders", attrs{"pk": str("c")})
	var numbers []string
	for _, r := range f.records(arn, shard) {
		numbers = append(numbers, *r.Dynamodb.SequenceNumber)
	}
	seek := func(kind streamtypes.ShardIteratorType, number string) string {
		it, err := f.iterator(arn, shard, kind, number)
		f.noError(err)
		return it
	}
	read := func(iterator string) string { return f.keysFrom(iterator) }

	f.clock.Advance(23*time.Hour - time.Second)
	if got := read(seek("TRIM_HORIZON", "")); got != "a b c" {
		t.Errorf("before 24 hours: %q", got)
	}
	afterFirst := seek("AFTER_SEQUENCE_NUMBER", numbers[0])
	afterSecond := seek("AFTER_SEQUENCE_NUMBER", numbers[1])
	fromHorizon := seek("TRIM_HORIZON", "")
	f.clock.Advance(time.Second)
	// The horizon returns no error: the first two records are silently gone.
	if got := read(seek("TRIM_HORIZON", "")); got != "c" {
		t.Errorf("from the horizon: %q", got)
	}
	if got := read(fromHorizon); got != "c" {
		t.Errorf("from a horizon taken before the trim: %q", got)
	}
	for _, number := range numbers[:2] {
		_, err := f.iterator(arn, shard, "AT_SEQUENCE_NUMBER", number)
		f.wantCode(err, "TrimmedDataAccessException")
		_, err = f.iterator(arn, shard, "AFTER_SEQUENCE_NUMBER", number)
		f.wantCode(err, "TrimmedDataAccessException")
	}
	if got := read(seek("AT_SEQUENCE_NUMBER", numbers[2])); got != "c" {
		t.Errorf("at the oldest record: %q", got)
	}
	// An iterator whose next record was trimmed since.
	_, err := f.page(afterFirst)
	f.wantCode(err, "TrimmedDataAccessException")
	if got := read(afterSecond); got != "c" {
		t.Errorf("an iterator that lost nothing: %q", got)
	}
	if it, err := f.atTimestamp(arn, shard, start); err != nil || read(it) != "c" {
		t.Errorf("AT_TIMESTAMP before the trim: %v", err)
	}
}

func TestTrimTo(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	root := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	f.clock.Advance(time.Second)
	f.put("Orders", attrs{"pk": str("b")})
	f.clock.Advance(time.Second)
	child, err := f.server.RollShard("Orders", root)
	f.noError(err)
	f.put("Orders", attrs{"pk": str("c")})
	f.noError(f.server.TrimTo("Orders", start))
	shards := f.allShards("Orders")
	if shards[0].Trimmed != 1 || shards[0].Records != 1 {
		t.Errorf("%+v", shards[0])
	}
	// A closed shard without records stays until its end is as old.
	f.noError(f.server.TrimTo("Orders", start.Add(time.Second)))
	if n := len(f.shards(arn)); n != 2 {
		t.Errorf("%d shards", n)
	}
	it, err := f.iterator(arn, root, "TRIM_HORIZON", "")
	f.noError(err)
	if out, err := f.page(it); err != nil || len(out.Records) != 0 || out.NextShardIterator != nil {
		t.Errorf("a trimmed closed shard: %v", err)
	}
	f.noError(f.server.TrimTo("Orders", start.Add(2*time.Second)))
	listed := f.shards(arn)
	if len(listed) != 1 || *listed[0].ShardId != child || *listed[0].ParentShardId != root {
		t.Errorf("%d shards", len(listed))
	}
	_, err = f.page(it)
	f.wantCode(err, "ResourceNotFoundException")
	_, err = f.iterator(arn, root, "TRIM_HORIZON", "")
	f.wantCode(err, "ResourceNotFoundException")
}

func TestClosedShardsDisappearAfter24Hours(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	root := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	f.clock.Advance(time.Hour)
	child, err := f.server.RollShard("Orders", root)
	f.noError(err)
	var got []int
	for _, hours := range []int{23, 1, 24} {
		f.clock.Advance(time.Duration(hours)*time.Hour - time.Second)
		got = append(got, len(f.shards(arn)))
		f.clock.Advance(time.Second)
		got = append(got, len(f.shards(arn)))
	}
	// A record is removed after 24 hours, a closed shard 24 hours after its end, and an open one
	// never.
	if diff := cmp.Diff([]int{2, 2, 2, 1, 1, 1}, got); diff != "" {
		t.Error(diff)
	}
	if f.onlyShard(arn) != child {
		t.Error("the wrong shard is left")
	}
}
