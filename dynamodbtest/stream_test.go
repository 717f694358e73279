package dynamodbtest_test

import (
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func TestRecordsOfEachViewType(t *testing.T) {
	for _, view := range []types.StreamViewType{"KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"} {
		t.Run(string(view), func(t *testing.T) {
			f := newFixture(t, dynamodbtest.Options{Region: "eu-west-1"})
			f.createTable("Orders", view, "N")
			f.put("Orders", attrs{"pk": str("a"), "sk": num("1"), "v": str("one")})
			f.put("Orders", attrs{"pk": str("a"), "sk": num("1"), "v": str("two")})
			f.remove("Orders", attrs{"pk": str("a"), "sk": num("1")})
			arn := f.streamARN("Orders")
			records := f.records(arn, f.onlyShard(arn))
			if len(records) != 3 {
				t.Fatalf("%d records", len(records))
			}
			showsNew := view == "NEW_IMAGE" || view == "NEW_AND_OLD_IMAGES"
			showsOld := view == "OLD_IMAGE" || view == "NEW_AND_OLD_IMAGES"
			ids := map[string]bool{}
			for i, r := range records {
				d := r.Dynamodb
				if want := []streamtypes.OperationType{"INSERT", "MODIFY", "REMOVE"}[i]; r.EventName != want {
					t.Errorf("record %d is %s", i, r.EventName)
				}
				if (d.NewImage != nil) != (showsNew && i < 2) || (d.OldImage != nil) != (showsOld && i > 0) {
					t.Errorf("record %d: new image %v, old image %v", i, d.NewImage != nil, d.OldImage != nil)
				}
				if *r.EventVersion != "1.1" || *r.EventSource != "aws:dynamodb" || *r.AwsRegion != "eu-west-1" || r.UserIdentity != nil || len(*r.EventID) != 32 {
					t.Errorf("record %d: %v", i, r)
				}
				ids[*r.EventID] = true
				if d.StreamViewType != streamtypes.StreamViewType(view) || len(d.Keys) != 2 || !d.ApproximateCreationDateTime.Equal(start.Truncate(time.Second)) {
					t.Errorf("record %d: view %s, %d keys, at %s", i, d.StreamViewType, len(d.Keys), d.ApproximateCreationDateTime)
				}
				const keys, image = 3 + 4, 3 + 4 + 4
				size := int64(keys)
				if d.NewImage != nil {
					size += image
				}
				if d.OldImage != nil {
					size += image
				}
				if *d.SizeBytes != size {
					t.Errorf("record %d has %d bytes, want %d", i, *d.SizeBytes, size)
				}
			}
			if len(ids) != 3 {
				t.Error("event ids repeat")
			}
		})
	}
}

func TestImagesOfEveryType(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_AND_OLD_IMAGES", "")
	f.put("Orders", everyType())
	f.remove("Orders", attrs{"pk": str("all")})
	arn := f.streamARN("Orders")
	records := f.records(arn, f.onlyShard(arn))
	want := everyType()
	for _, image := range []map[string]streamtypes.AttributeValue{records[0].Dynamodb.NewImage, records[1].Dynamodb.OldImage} {
		if len(image) != len(want) {
			t.Fatalf("%d attributes", len(image))
		}
		if image["N"].(*streamtypes.AttributeValueMemberN).Value != "-1234567890.1234567890123456789012345678" {
			t.Error("the number changed")
		}
		if got := image["M"].(*streamtypes.AttributeValueMemberM).Value[""].(*streamtypes.AttributeValueMemberS).Value; got != "x" {
			t.Error("the map changed")
		}
		if diff := cmp.Diff([][]byte{{}, {1}, {2}}, image["BS"].(*streamtypes.AttributeValueMemberBS).Value); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWriteThatChangesNothingMakesNoRecord(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_AND_OLD_IMAGES", "")
	f.put("Orders", attrs{"pk": str("a"), "n": num("10"), "s": &types.AttributeValueMemberSS{Value: []string{"x", "y"}}})
	// The same item in another notation.
	f.put("Orders", attrs{"pk": str("a"), "n": num("1e1"), "s": &types.AttributeValueMemberSS{Value: []string{"y", "x"}}})
	f.remove("Orders", attrs{"pk": str("absent")})
	_, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{TableName: ptr("Orders"), Key: attrs{"pk": str("a")}, UpdateExpression: ptr("REMOVE nothing")})
	f.noError(err)
	_, err = f.db.BatchWriteItem(f.ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		"Orders": {{DeleteRequest: &types.DeleteRequest{Key: attrs{"pk": str("absent")}}}},
	}})
	f.noError(err)
	arn := f.streamARN("Orders")
	if n := len(f.records(arn, f.onlyShard(arn))); n != 1 {
		t.Errorf("%d records, want the first put's alone", n)
	}
	f.put("Orders", attrs{"pk": str("a"), "n": str("10"), "s": &types.AttributeValueMemberSS{Value: []string{"x", "y"}}})
	if n := len(f.records(arn, f.onlyShard(arn))); n != 2 {
		t.Errorf("%d records; another type is a change", n)
	}
}

func TestSequenceNumbersRiseAndGrowADigit(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{FirstSequenceNumber: "999999999999999999990"})
	f.createTable("Orders", "KEYS_ONLY", "")
	f.putKeys("Orders", "k", 50)
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	_, err := f.server.RollShard("Orders", shard)
	f.noError(err)
	listed := f.shards(arn)[0].SequenceNumberRange
	last := number(*listed.StartingSequenceNumber)
	lengths := map[int]bool{}
	for i, r := range f.records(arn, shard) {
		n := number(*r.Dynamodb.SequenceNumber)
		if i > 0 && n.Cmp(last) <= 0 || n.Cmp(last) < 0 {
			t.Errorf("number %s after %s", n, last)
		}
		last = n
		lengths[len(*r.Dynamodb.SequenceNumber)] = true
	}
	if !lengths[21] || !lengths[22] || len(lengths) != 2 {
		t.Errorf("lengths %v", lengths)
	}
	if number(*listed.EndingSequenceNumber).Cmp(last) <= 0 {
		t.Errorf("ending number %s is not above the last, %s", *listed.EndingSequenceNumber, last)
	}
}

func number(text string) *big.Int {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic("not a decimal number: " + text)
	}
	return n
}

func TestSequenceNumbersOfChildren(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	parent := f.onlyShard(arn)
	child, err := f.server.RollShard("Orders", parent)
	f.noError(err)
	shards, err := f.server.Shards("Orders")
	f.noError(err)
	byID := map[string]dynamodbtest.Shard{shards[0].ID: shards[0], shards[1].ID: shards[1]}
	if number(byID[child].Starting).Cmp(number(byID[parent].Ending)) <= 0 {
		t.Error("the child's numbers do not continue above the parent's")
	}
	f.noError(f.server.RestartSequences("Orders", true))
	f.put("Orders", attrs{"pk": str("a")})
	grandchild, err := f.server.RollShard("Orders", child)
	f.noError(err)
	f.put("Orders", attrs{"pk": str("b")})
	before := f.records(arn, child)[0].Dynamodb.SequenceNumber
	after := f.records(arn, grandchild)[0].Dynamodb.SequenceNumber
	if number(*after).Cmp(number(*before)) >= 0 {
		t.Errorf("numbers were to restart, but %s follows %s", *after, *before)
	}
	f.noError(f.server.SetNextSequenceNumber("Orders", grandchild, strings.Repeat("9", 30)))
	f.put("Orders", attrs{"pk": str("c")})
	if got := f.records(arn, grandchild)[1].Dynamodb.SequenceNumber; len(*got) != 31 {
		t.Errorf("next number is %s", *got)
	}
	wantControlError(t, f.server.SetNextSequenceNumber("Orders", grandchild, "1"), "ValidationException")
	wantControlError(t, f.server.SetNextSequenceNumber("Orders", grandchild, "x"), "ValidationException")
}

func TestTimesGoBackASecond(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	f.put("Orders", attrs{"pk": str("a")})
	f.noError(f.server.SetRecordTimeOffset("Orders", -time.Second))
	f.put("Orders", attrs{"pk": str("b")})
	f.noError(f.server.SetRecordTimeOffset("Orders", 0))
	f.clock.Advance(400 * time.Millisecond)
	f.put("Orders", attrs{"pk": str("c")})
	f.clock.Advance(200 * time.Millisecond)
	f.put("Orders", attrs{"pk": str("d")})
	arn := f.streamARN("Orders")
	var got []int64
	for _, r := range f.records(arn, f.onlyShard(arn)) {
		got = append(got, r.Dynamodb.ApproximateCreationDateTime.Sub(start.Truncate(time.Second)).Nanoseconds()/1e9)
	}
	if diff := cmp.Diff([]int64{0, -1, 0, 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPagesOfRecords(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_IMAGE", "")
	arn := f.streamARN("Orders")
	shard := f.onlyShard(arn)
	pages := func(limit *int32) (sizes []int) {
		it, err := f.iterator(arn, shard, "TRIM_HORIZON", "")
		f.noError(err)
		for {
			out, err := f.streams.GetRecords(f.ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: &it, Limit: limit})
			f.noError(err)
			if len(out.Records) == 0 {
				return sizes
			}
			sizes = append(sizes, len(out.Records))
			it = *out.NextShardIterator
		}
	}
	f.putKeys("Orders", "k", 2500)
	if diff := cmp.Diff([]int{1000, 1000, 500}, pages(nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{900, 900, 700}, pages(ptr(int32(900)))); diff != "" {
		t.Error(diff)
	}
	f.noError(f.server.TrimTo("Orders", f.clock.Now()))
	f.clock.Advance(time.Second)
	for i := range 5 {
		f.put("Orders", attrs{"pk": str("big" + strconv.Itoa(i)), "v": str(strings.Repeat("x", 300<<10))})
	}
	if diff := cmp.Diff([]int{3, 2}, pages(nil)); diff != "" {
		t.Errorf("pages of 1 MB: %s", diff)
	}
	for _, limit := range []int32{0, 1001} {
		it, err := f.iterator(arn, shard, "TRIM_HORIZON", "")
		f.noError(err)
		_, err = f.streams.GetRecords(f.ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: &it, Limit: &limit})
		f.wantCode(err, "ValidationException")
	}
}

func (f *fixture) switchStream(table string, view types.StreamViewType) error {
	spec := &types.StreamSpecification{StreamEnabled: ptr(view != "")}
	if view != "" {
		spec.StreamViewType = view
	}
	_, err := f.db.UpdateTable(f.ctx, &dynamodb.UpdateTableInput{TableName: &table, StreamSpecification: spec})
	return err
}

func TestStreamDisabledAndEnabledAgain(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{InitialShards: 2})
	f.createTable("Orders", "", "")
	f.put("Orders", attrs{"pk": str("unseen")})
	f.wantCode(f.switchStream("Orders", ""), "ValidationException")
	f.noError(f.switchStream("Orders", "NEW_IMAGE"))
	f.wantCode(f.switchStream("Orders", "KEYS_ONLY"), "ValidationException")
	first := f.streamARN("Orders")
	f.putKeys("Orders", "k", 20)
	f.noError(f.switchStream("Orders", ""))
	if f.streamARN("Orders") != first || f.describe("Orders").StreamSpecification != nil {
		t.Error("a disabled stream stays the latest one, without a specification")
	}
	f.putKeys("Orders", "unseen", 5)
	f.noError(f.switchStream("Orders", "KEYS_ONLY"))
	second := f.streamARN("Orders")
	if second == first {
		t.Fatal("the new stream has the ARN of the old one")
	}
	f.putKeys("Orders", "l", 3)
	count := func(arn string, wantClosed bool) (n int) {
		for _, sh := range f.shards(arn) {
			if closed := sh.SequenceNumberRange.EndingSequenceNumber != nil; closed != wantClosed {
				t.Errorf("shard of %s is closed: %v", arn, closed)
			}
			n += len(f.records(arn, *sh.ShardId))
		}
		return n
	}
	if a, b := count(first, true), count(second, false); a != 20 || b != 3 {
		t.Errorf("%d and %d records", a, b)
	}
	status := func(arn string) streamtypes.StreamStatus {
		out, err := f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
		f.noError(err)
		return out.StreamDescription.StreamStatus
	}
	if status(first) != "DISABLED" || status(second) != "ENABLED" {
		t.Error("wrong status")
	}
	listed := func() int {
		out, err := f.streams.ListStreams(f.ctx, &dynamodbstreams.ListStreamsInput{TableName: ptr("Orders")})
		f.noError(err)
		return len(out.Streams)
	}
	if listed() != 2 {
		t.Error("not both streams are listed")
	}
	f.clock.Advance(24*time.Hour - time.Second)
	if status(first) != "DISABLED" {
		t.Error("gone too early")
	}
	f.clock.Advance(time.Second)
	if listed() != 1 {
		t.Error("listed after 24 hours")
	}
	_, err := f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &first})
	f.wantCode(err, "ResourceNotFoundException")
	_, err = f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &first})
	f.wantCode(err, "ResourceNotFoundException")
}

func TestListStreamsPages(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	for i := range 5 {
		f.createTable("Table"+strconv.Itoa(i), "KEYS_ONLY", "")
	}
	var tables []string
	in := &dynamodbstreams.ListStreamsInput{Limit: ptr(int32(2))}
	for {
		out, err := f.streams.ListStreams(f.ctx, in)
		f.noError(err)
		for _, s := range out.Streams {
			tables = append(tables, *s.TableName)
		}
		if out.LastEvaluatedStreamArn == nil {
			break
		}
		in.ExclusiveStartStreamArn = out.LastEvaluatedStreamArn
	}
	if got := strings.Join(tables, " "); got != "Table0 Table1 Table2 Table3 Table4" {
		t.Error(got)
	}
}
