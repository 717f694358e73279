package dualwrite_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Several items are changed atomically in DynamoDB, or none, and their rows follow immediately.
func TestItemsAreChangedTogether(t *testing.T) {
	s := start(t, ranked)
	s.replicate(t)
	w := s.open(t)
	order := func(key, note string) attribute.Item {
		return item(t, `{"pk":{"S":"c1"},"sk":{"S":"`+key+`"},"note":{"S":"`+note+`"}}`)
	}
	keys := []attribute.Item{order("made", ""), order("changed", ""), order("removed", ""), order("never", "")}
	var before []attribute.Item
	for _, key := range []string{"changed", "removed"} {
		written, err := w.Put(t.Context(), order(key, "first"))
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, written)
	}
	calls := 0
	written, err := w.Transact(t.Context(), keys, func(read []attribute.Item) ([]attribute.Item, error) {
		if calls++; calls == 1 { // another writer is faster
			if _, err := w.Put(t.Context(), withText(before[0], "second")); err != nil {
				t.Error(err)
			}
		}
		if read[0].Exists() || text(read[1], "note") != map[int]string{1: "first", 2: "second"}[calls] || !read[2].Equal(before[1]) || read[3].Exists() {
			t.Errorf("it reads %v", read)
		}
		return []attribute.Item{order("made", "third"), withText(read[1], "third"), {}, {}}, nil
	})
	if err != nil || calls != 2 || len(written) != 4 || number(written[0]) == "" || number(written[1]) <= number(before[0]) || written[2].Exists() || written[3].Exists() {
		t.Fatalf("%v after %d calls: %v", written, calls, err)
	}
	for _, by := range []string{"the application", "the stream"} {
		found := s.rows(t)
		if found["c1#made d:note"] != "third" || found["c1#changed d:note"] != "third" || found["c1#removed gone"] == "" || found["c1#never gone"] != "" {
			t.Errorf("as %s wrote them: %s", by, found)
		}
		s.replicate(t)
	}
	nothing := func(read []attribute.Item) ([]attribute.Item, error) { return make([]attribute.Item, len(read)), nil }
	if written, err := w.Transact(t.Context(), []attribute.Item{order("never", "")}, nothing); err != nil || len(written) != 1 || written[0].Exists() {
		t.Errorf("what was not there is not made: %v, %v", written, err)
	}
}

// together is a source of two items in memory, which are changed atomically.
type together struct {
	items map[string]attribute.Item
	fail  func(execute func()) error
	asked int
}

func (s *together) Get(_ context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	found := s.items[text(keys, "sk")]
	return found, found.Exists(), nil
}

func (s *together) Write(context.Context, dualwrite.Change) (attribute.Item, error) { panic("alone") }

func (s *together) Transact(_ context.Context, changes []dualwrite.Change) error {
	s.asked++
	execute := func() {
		for _, c := range changes {
			s.items[text(c.Keys, "sk")] = c.Image
		}
	}
	if s.fail != nil {
		return s.fail(execute)
	}
	execute()
	return nil
}

// If the answer of a transaction was lost, its outcome is read back from all of its items. A row
// that fails does not stop the others from being written.
func TestOutcomesOfATransaction(t *testing.T) {
	second := strings.Replace(order1, `"a"`, `"b"`, 1)
	same := func(read []attribute.Item) ([]attribute.Item, error) { return read, nil }
	lost := func(execute func()) error { execute(); return errLost }
	for name, c := range map[string]struct {
		way      string
		first    string // the first item, if it is another one
		alone    bool   // the first item only, which has two rows
		fail     func(s *together) func(execute func()) error
		change   func([]attribute.Item) ([]attribute.Item, error)
		rejected int // number of the request to Bigtable that is rejected
		dynamodb dualwrite.Outcome
		bigtable dualwrite.Outcome
		repeat   bool
		is       error
		sent     int
		asked    int
	}{
		"both are written":             {sent: 2, asked: 1},
		"the answer is lost":           {fail: func(*together) func(func()) error { return lost }, sent: 2, asked: 1},
		"the answer is lost, not done": {fail: func(*together) func(func()) error { return func(func()) error { return errLost } }, dynamodb: dualwrite.Unknown, bigtable: dualwrite.NotWritten, repeat: true, is: errLost, asked: 1},
		"the answer is lost, overtaken": {fail: func(s *together) func(func()) error {
			return func(execute func()) error { execute(); s.items["b"] = item(t, second); return errLost }
		}, dynamodb: dualwrite.Unknown, bigtable: dualwrite.NotWritten, repeat: true, is: errLost, asked: 1},
		"refused": {fail: func(*together) func(func()) error {
			return func(func()) error { return &dualwrite.NotExecuted{Err: errLost} }
		}, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, repeat: true, is: errLost, asked: 1},
		"another is faster, always":      {fail: func(*together) func(func()) error { return func(func()) error { return dualwrite.ErrConflict } }, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, repeat: true, is: dualwrite.ErrConflict, asked: 10},
		"the first row is not written":   {rejected: 1, dynamodb: dualwrite.Written, bigtable: dualwrite.PartlyWritten, sent: 2, asked: 1},
		"the second row is not written":  {rejected: 2, dynamodb: dualwrite.Written, bigtable: dualwrite.PartlyWritten, sent: 2, asked: 1},
		"an item is missing":             {change: func(read []attribute.Item) ([]attribute.Item, error) { return read[:1], nil }, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, is: dualwrite.ErrKey},
		"items are exchanged":            {change: func(read []attribute.Item) ([]attribute.Item, error) { return []attribute.Item{read[1], read[0]}, nil }, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, is: dualwrite.ErrKey},
		"the number of one is none":      {first: strings.Replace(order1, `"N":"7"`, `"S":"7"`, 1), dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, is: dualwrite.ErrNumber},
		"one of two rows of an item":     {alone: true, rejected: 2, dynamodb: dualwrite.Written, bigtable: dualwrite.PartlyWritten, sent: 2, asked: 1},
		"without numbers there are none": {way: byTime, dynamodb: dualwrite.NotWritten, bigtable: dualwrite.NotWritten, is: dualwrite.ErrTransact},
	} {
		synctest.Test(t, func(t *testing.T) {
			if c.way == "" {
				c.way = byNumber
			}
			if c.change == nil {
				c.change = same
			}
			rule, first := keyed, order1
			if c.first != "" {
				first = c.first
			}
			if c.alone {
				rule = doubled
			}
			m := mappingBy(t, rule, c.way)
			source, target := &together{items: map[string]attribute.Item{"a": item(t, first), "b": item(t, second)}}, newRecorder(m)
			if c.fail != nil {
				source.fail = c.fail(source)
			}
			keys := []attribute.Item{source.items["a"], source.items["b"]}
			if c.alone {
				keys = keys[:1]
			}
			_, err := dualwrite.New(m, source, &rejects{target, c.rejected, 0}).Transact(t.Context(), keys, c.change)
			var failed *dualwrite.Error
			switch {
			case source.asked != c.asked || len(target.sent) != c.sent:
				t.Errorf("%s: %d transactions, %d rows: %v", name, source.asked, len(target.sent), err)
			case c.dynamodb == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.dynamodb != "" && (!errors.As(err, &failed) || failed.DynamoDB != c.dynamodb || failed.Bigtable != c.bigtable || failed.Repeat != c.repeat || c.is != nil && !errors.Is(err, c.is)):
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// rejects rejects the nth request after recording it.
type rejects struct {
	*recorder
	nth, requests int
}

func (r *rejects) Apply(ctx context.Context, request *sink.Request) (bool, error) {
	if r.requests++; r.requests == r.nth {
		r.sent = append(r.sent, *request)
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	}
	return r.recorder.Apply(ctx, request)
}

// A transaction that was cancelled because another writer was faster starts again. Cancelled for
// other reasons, it was not executed either.
func TestWhyATransactionWasCancelled(t *testing.T) {
	for codes, conflict := range map[string]bool{"None,ConditionalCheckFailed": true, "TransactionConflict,None": true, "None,ThrottlingError": false, "ValidationError,None": false} {
		var reasons []string
		for code := range strings.SplitSeq(codes, ",") {
			reasons = append(reasons, `{"Code":"`+code+`","Message":"secret"}`)
		}
		a := &answering{status: 400, body: `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"secret","CancellationReasons":[` + strings.Join(reasons, ",") + `]}`}
		changes := []dualwrite.Change{{Keys: item(t, order1), Image: item(t, order1), Attribute: "rev", Number: "7"}, {Keys: item(t, `{"pk":{"S":"2"},"sk":{"S":"b"}}`), Attribute: "rev", Number: "8"}}
		err := a.source(t).(dualwrite.Transactor).Transact(t.Context(), changes)
		var not *dualwrite.NotExecuted
		if err == nil || errors.Is(err, dualwrite.ErrConflict) != conflict || errors.As(err, &not) == conflict || strings.Contains(err.Error(), "secret") || a.asked != 1 {
			t.Errorf("%s: %v, asked %d times", codes, err, a.asked)
		}
		items, _ := a.request["TransactItems"].([]any)
		var ops []string
		for _, i := range items {
			for op, body := range i.(map[string]any) {
				ops = append(ops, op+" "+body.(map[string]any)["ConditionExpression"].(string))
			}
		}
		if !slices.Equal(ops, []string{"Put #v = :v", "Delete #v = :v"}) {
			t.Errorf("it asks for %q", ops)
		}
	}
}
