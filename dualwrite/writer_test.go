package dualwrite_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/sink"
)

var errLost = errors.New("the answer was lost")

// TestErrorsSayWhichStoreHasWhat: Bigtable is written only after DynamoDB has the image for certain.
func TestErrorsSayWhichStoreHasWhat(t *testing.T) {
	for name, c := range map[string]struct {
		source   func(execute func()) error
		target   func(r *recorder)
		old, put string
		dynamodb dualwrite.Outcome
		bigtable dualwrite.Outcome
		repeat   bool
		is       error
		sent     int
	}{
		"refused by DynamoDB": {source: func(func()) error { return &dualwrite.NotExecuted{Err: errLost} },
			put: order1, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, repeat: true, is: errLost},
		"somebody wrote the item": {source: func(func()) error { return dualwrite.ErrConflict },
			old: order1, put: order1, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, repeat: true, is: dualwrite.ErrConflict},
		"the answer is lost, and the write was not executed": {source: func(func()) error { return errLost },
			old: order1, put: order1, dynamodb: dualwrite.Unknown, bigtable: dualwrite.NotWritten, repeat: true, is: errLost},
		"the answer is lost with the row that the item leaves": {source: func(execute func()) error { execute(); return errLost },
			old: order1, put: strings.Replace(order1, "x", "y", 1), dynamodb: dualwrite.Written, bigtable: dualwrite.NotWritten},
		"no worker has run": {target: func(r *recorder) { r.witness.Clear() },
			put: order1, dynamodb: dualwrite.Written, bigtable: dualwrite.NotWritten, is: dualwrite.ErrNotReady},
		"the fence's family is gone": {target: func(r *recorder) { r.Drop("orders", fence) },
			put: order1, dynamodb: dualwrite.Written, bigtable: dualwrite.NotWritten, sent: 2},
		"the target gives no answer": {target: func(r *recorder) {
			r.fail = &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
		},
			put: order1, dynamodb: dualwrite.Written, bigtable: dualwrite.Unknown, sent: 1},
		"the item has no row": {put: `{"pk":{"S":"1"},"sk":{"S":"a"}}`,
			dynamodb: dualwrite.Written, bigtable: dualwrite.NotWritten, is: dualwrite.ErrUnmappable},
		"the number is none": {put: strings.Replace(order1, "7", "-7", 1),
			dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, is: dualwrite.ErrNumber},
		"the number is the highest": {put: strings.Replace(order1, "7", "99999999999999999999", 1),
			dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, is: dualwrite.ErrNumber},
	} {
		m := mapping()
		target, source := newRecorder(m), &table{fail: c.source}
		if c.old != "" {
			source.item = item(t, c.old)
		}
		if c.target != nil {
			c.target(target)
		}
		_, err := dualwrite.New(m, source, target).Put(t.Context(), item(t, c.put))
		var failed *dualwrite.Error
		if !errors.As(err, &failed) || failed.DynamoDB != c.dynamodb || failed.Bigtable != c.bigtable || failed.Repeat != c.repeat ||
			c.is != nil && !errors.Is(err, c.is) || len(target.sent) != c.sent {
			t.Errorf("%s: %v, after %d requests to Bigtable", name, err, len(target.sent))
		}
	}
}

const order1 = `{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"x"},"rev":{"N":"7"}}`

// TestH35_TheRightIsProvedUnderANewFence: a writer whose fence was dropped writes under the new
// one, but only if the item is still the same, because a sweep may have compared the row in
// between.
func TestH35_TheRightIsProvedUnderANewFence(t *testing.T) {
	for _, by := range []string{"", "a later write", "a removal", "a lost witness"} {
		overtaken := by != ""
		m := mapping()
		target, source := newRecorder(m), &table{item: item(t, order1)}
		w := dualwrite.New(m, source, target)
		written, err := w.Put(t.Context(), source.item)
		if err != nil {
			t.Fatal(err)
		}
		const next = fence + "1"
		target.before = func() { // the request arrives after the fence has risen
			target.before = nil
			target.Drop("orders", fence)
			target.Raise("orders", next)
			target.announce(m, next)
			switch by {
			case "a later write":
				source.item = item(t, strings.Replace(order1, "7", "70", 1))
			case "a removal":
				source.item = attribute.Item{}
			case "a lost witness":
				target.witness.Clear()
			}
		}
		_, err = w.Put(t.Context(), written)
		if last := target.sent[len(target.sent)-1]; overtaken && !errors.Is(err, map[bool]error{true: dualwrite.ErrNotReady, false: dualwrite.ErrOvertaken}[by == "a lost witness"]) || !overtaken && (err != nil || last.Ops[0].Family != next) {
			t.Errorf("overtaken by %q: %v", by, err)
		}
		var failed *dualwrite.Error
		if overtaken && (!errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != dualwrite.NotWritten) {
			t.Errorf("overtaken by %q: %v", by, err)
		}
		if overtaken {
			continue
		}
		target.sent = nil
		target.witness.OnRead = func(context.Context, string) error { t.Error("the witness is read again"); return nil }
		if _, err = w.Put(t.Context(), source.item); err != nil || len(target.sent) != 1 || target.sent[0].Ops[0].Family != next {
			t.Errorf("the next write: %v, %+v", err, target.sent)
		}
	}
}

// Update starts again while others write, keeps the key, and returns the error of the change.
func TestUpdate(t *testing.T) { synctest.Test(t, testUpdate) }

func testUpdate(t *testing.T) {
	m := mapping()
	source := &table{item: item(t, order1)}
	w := dualwrite.New(m, source, newRecorder(m))
	conflicts := 2
	source.fail = func(execute func()) error {
		if conflicts--; conflicts < 0 {
			source.fail = nil
			execute()
			return errLost // and is read back
		}
		return dualwrite.ErrConflict
	}
	same := func(old attribute.Item) (attribute.Item, error) { return old, nil }
	began := time.Now()
	if _, err := w.Update(t.Context(), source.item, same); err != nil || number(source.item) != "8" {
		t.Errorf("%v, number %s", err, number(source.item))
	}
	if took := time.Since(began); took < 25*time.Millisecond || took > 75*time.Millisecond {
		t.Errorf("it begins anew after %s", took)
	}
	if _, err := w.Update(t.Context(), source.item, func(attribute.Item) (attribute.Item, error) { return attribute.Item{}, errLost }); !errors.Is(err, errLost) {
		t.Error(err)
	}
	other := func(attribute.Item) (attribute.Item, error) {
		return item(t, strings.Replace(order1, `"a"`, `"b"`, 1)), nil
	}
	if _, err := w.Update(t.Context(), source.item, other); !errors.Is(err, dualwrite.ErrKey) {
		t.Error(err)
	}
	source.fail, source.asked = nil, nil
	gone := func(attribute.Item) (attribute.Item, error) { return attribute.Item{}, nil }
	was := source.item
	if _, err := w.Update(t.Context(), was, gone); err != nil || source.item.Exists() || source.asked[0].Number != number(was) {
		t.Errorf("a change to nothing, which removes: %v", err)
	}
	source.item = was
	source.fail, source.asked = func(func()) error { return dualwrite.ErrConflict }, nil
	began = time.Now()
	if _, err := w.Update(t.Context(), source.item, same); !errors.Is(err, dualwrite.ErrConflict) || len(source.asked) != 10 {
		t.Errorf("%v after %d tries", err, len(source.asked))
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("it gives up after %s", took)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	source.asked = nil
	if _, err := w.Update(hurried, source.item, same); !errors.Is(err, dualwrite.ErrConflict) || len(source.asked) != 1 {
		t.Errorf("%v after %d tries, when the caller's time is over", err, len(source.asked))
	}
	var failed *dualwrite.Error
	source.unread, source.asked = errLost, nil
	if _, err := w.Update(t.Context(), source.item, same); !errors.As(err, &failed) || failed.DynamoDB != dualwrite.NotWritten || !failed.Repeat || source.asked != nil {
		t.Errorf("an item that cannot be read: %v", err)
	}
}

// A write expects the number with which the item was read, whatever the new image carries. The
// image gets the next number, once.
func TestAWriteExpectsTheNumberThatWasRead(t *testing.T) {
	m := mapping()
	for text, want := range map[string]string{order1: "8", strings.Replace(order1, "7", "3", 1): "8", strings.Replace(order1, `,"rev":{"N":"7"}`, "", 1): "8"} {
		source := &table{item: item(t, order1)}
		w := dualwrite.New(m, source, newRecorder(m))
		written, err := w.Update(t.Context(), source.item, func(attribute.Item) (attribute.Item, error) { return item(t, text), nil })
		if c := source.asked[0]; err != nil || c.Attribute != "rev" || c.Number != "7" || number(written) != want || !written.Equal(source.item) || len(written.Attributes()) != 4 {
			t.Errorf("%s: expects %q, writes %s: %v", text, c.Number, number(written), err)
		}
	}
}
