package dualwrite_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// away is a target that fails, immediately or by never answering.
type away struct {
	*recorder
	silent bool
}

func (a *away) answer(ctx context.Context) error {
	if a.silent {
		<-ctx.Done()
	}
	return &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}
}

func (a *away) Look(ctx context.Context, _ *transform.RowMutation, _ int64) (sink.Row, error) {
	return sink.Row{}, a.answer(ctx)
}

func (a *away) Apply(ctx context.Context, _ *sink.Request) (bool, error) {
	return false, a.answer(ctx)
}

// DynamoDB is the primary store: while Bigtable does not answer, items are created there, just as
// they are changed there, with the clock's number.
func TestItemsAreCreatedWhileBigtableDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mapping()
		for _, silent := range []bool{false, true} {
			source, target := &table{}, &away{newRecorder(m), silent}
			now, w := time.Now(), dualwrite.New(m, source, target)
			image := item(t, `{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"x"}}`)
			written, err := w.Put(t.Context(), image)
			took := time.Since(now)
			var failed *dualwrite.Error
			if !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != dualwrite.Unknown || failed.Repeat || took > 10*time.Second {
				t.Errorf("created in %s: %v", took, err)
			}
			if n, err := fmt.Sscan(number(written), new(int64)); n != 1 || err != nil || !written.Equal(source.item) || number(written) < fmt.Sprint(now.UnixMilli()) {
				t.Errorf("it is created at %q", number(written))
			}
			ended, cancel := context.WithTimeout(t.Context(), time.Second)
			source.item, source.asked, now = attribute.Item{}, nil, time.Now()
			_, err = w.Put(ended, image)
			if asked, took := len(source.asked), time.Since(now); asked != 1 || took > time.Second || !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != dualwrite.Unknown {
				t.Errorf("when the caller's time is over: %v, after %d writes in %s", err, asked, took)
			}
			cancel()
		}
	})
}

// severed is the target of a configuration, and may stop answering.
type severed struct {
	*sink.Bigtable
	target *preflight.Target
	away   bool
}

func (s *severed) WitnessStore(table string) checkpoint.Store { return s.target.WitnessStore(table) }

func (s *severed) Look(ctx context.Context, at *transform.RowMutation, limit int64) (sink.Row, error) {
	if s.away {
		return sink.Row{}, &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}
	}
	return s.Bigtable.Look(ctx, at, limit)
}

func (s *severed) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if s.away {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	}
	return s.Bigtable.Apply(ctx, r)
}

// TestH87_WhatWasCreatedBlindlyFollowsTheStream: an item is created while Bigtable is unavailable,
// and its row remembers a higher number of a removed item, from another clock or another numbering.
// Whatever is written next, and whenever Bigtable returns, the row equals the item once the stream
// is applied. An item that is created while Bigtable answers is written immediately.
func TestH87_WhatWasCreatedBlindlyFollowsTheStream(t *testing.T) {
	s := start(t, ranked)
	s.replicate(t)
	opened := s.open(t)
	target := &severed{s.target.Data, s.target, false}
	w := dualwrite.New(opened.Mapping(), dualwrite.DynamoDB(s.dynamo, "Orders"), target)
	text := func(key, note string) attribute.Item {
		return item(t, `{"pk":{"S":"c1"},"sk":{"S":"`+key+`"},"note":{"S":"`+note+`"}}`)
	}
	keys := []string{"ahead", "counting", "removed", "moments"}
	above := map[string]string{"ahead": fmt.Sprint(time.Now().Add(10 * time.Minute).UnixMilli()), "counting": "99999999999999999000",
		"removed": fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), "moments": fmt.Sprint(time.Now().UnixNano())}
	put := func(key, note, number string) {
		if _, err := s.dynamo.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: "c1"}, "sk": &types.AttributeValueMemberS{Value: key},
			"note": &types.AttributeValueMemberS{Value: note}, "rev": &types.AttributeValueMemberN{Value: number}}}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(key string) { // by another process, which knows no number
		if _, err := s.dynamo.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("Orders"), Key: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: "c1"}, "sk": &types.AttributeValueMemberS{Value: key}}}); err != nil {
			t.Fatal(err)
		}
	}
	equal := func(when string, want map[string]string) {
		t.Helper()
		s.replicate(t)
		found := s.rows(t)
		for _, key := range keys {
			row := "c1#" + key
			if found[row+" d:note"] != want[key] || (found[row+" gone"] == "") != (want[key] != "") {
				t.Errorf("%s, %s: the row has %q, the item %q: %s", when, key, found[row+" d:note"], want[key], found[row+" version"]+found[row+" gone"])
			}
		}
	}
	for _, key := range keys {
		put(key, "first", above[key])
	}
	equal("at first", map[string]string{"ahead": "first", "counting": "first", "removed": "first", "moments": "first"})
	for _, key := range keys {
		remove(key)
	}
	equal("removed", nil)

	target.away = true
	created := map[string]attribute.Item{}
	for _, key := range keys {
		var failed *dualwrite.Error
		written, err := w.Put(t.Context(), text(key, "anew"))
		if !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != dualwrite.Unknown || !lower(number(written), above[key]) {
			t.Fatalf("%s: created at %s below %s: %v", key, number(written), above[key], err)
		}
		created[key] = written
	}
	target.away = false // before the stream has brought anything
	if _, err := w.Put(t.Context(), withText(created["ahead"], "changed")); err != nil {
		t.Error(err)
	}
	remove("removed")
	if err := w.Delete(t.Context(), created["moments"]); err != nil {
		t.Error(err)
	}
	if _, err := w.Put(t.Context(), text("moments", "again")); err != nil { // at a number above the row's
		t.Error(err)
	}
	if found := s.rows(t); found["c1#moments d:note"] != "again" {
		t.Errorf("an item that is created while Bigtable answers is not written: %q", found["c1#moments d:note"])
	}
	equal("created anew", map[string]string{"ahead": "changed", "counting": "anew", "moments": "again"})
	if _, err := w.Put(t.Context(), withText(created["counting"], "changed")); err != nil {
		t.Error(err)
	}
	if _, err := w.Update(t.Context(), text("ahead", ""), func(attribute.Item) (attribute.Item, error) { return attribute.Item{}, nil }); err != nil {
		t.Error(err)
	}
	equal("later", map[string]string{"counting": "changed", "moments": "again"})
}

func lower(a, b string) bool {
	x, _ := new(big.Int).SetString(a, 10)
	y, _ := new(big.Int).SetString(b, 10)
	return x.Cmp(y) < 0
}

// withText returns an item with another note and the same number.
func withText(i attribute.Item, note string) attribute.Item {
	list := []attribute.Attribute{{Name: "note", Value: attribute.String(note)}}
	for _, a := range i.Attributes() {
		if a.Name != "note" {
			list = append(list, a)
		}
	}
	return attribute.NewItem(list)
}
