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

// An error names what each store has, DynamoDB first.
func TestAnErrorNamesBothStores(t *testing.T) {
	e := &dualwrite.Error{Op: "Put", DynamoDB: dualwrite.Written, Bigtable: dualwrite.Unknown, Err: errLost}
	text := e.Error()
	if !strings.HasPrefix(text, "Put: ") || !strings.Contains(text, "DynamoDB: "+string(dualwrite.Written)) || !strings.Contains(text, "Bigtable: "+string(dualwrite.Unknown)) || !errors.Is(e, errLost) {
		t.Error(text)
	}
}

// An update that fails before its write has written nothing. It may be repeated if the read failed,
// and not if the key was changed.
func TestAnUpdateThatWritesNothing(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		unread error
		key    string // of the image
		repeat bool
		is     error
	}{"the item cannot be read": {away, "a", true, away}, "the key is changed": {nil, "b", false, dualwrite.ErrKey}} {
		m := mapping()
		source, target := &table{item: item(t, order1), unread: c.unread}, newRecorder(m)
		_, err := dualwrite.New(m, source, target).Update(t.Context(), source.item, func(read attribute.Item) (attribute.Item, error) {
			return item(t, strings.Replace(order1, `"a"`, `"`+c.key+`"`, 1)), nil
		})
		var failed *dualwrite.Error
		if !errors.As(err, &failed) || failed.Op != "Update" || failed.DynamoDB != dualwrite.NotWritten || failed.Bigtable != dualwrite.NotWritten || failed.Repeat != c.repeat || !errors.Is(err, c.is) || len(source.asked)+len(target.sent) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// byKey is a source that reads only by a whole primary key.
type byKey struct{ *table }

func (s byKey) Get(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	if !keys.Exists() {
		return attribute.Item{}, false, errors.New("a read needs a key")
	}
	return s.table.Get(ctx, keys)
}

// If the answer to a removal is lost, the item is read by its key. The stream orders the removal of
// an item without a number, so nothing is missing then.
func TestALostAnswerToARemoval(t *testing.T) {
	for name, c := range map[string]struct {
		item string
		done bool
		want dualwrite.Outcome // in DynamoDB, if there is an error
		rows int
	}{
		"executed":                   {order1, true, "", 1},
		"not executed":               {order1, false, dualwrite.Unknown, 0},
		"without a number, executed": {unnumbered(order1), true, "", 0},
		"without one, not executed":  {unnumbered(order1), false, dualwrite.Unknown, 0},
	} {
		m := mapping()
		source, target := &table{item: item(t, c.item)}, newRecorder(m)
		source.fail = func(execute func()) error {
			if c.done {
				execute()
			}
			return errLost
		}
		err := dualwrite.New(m, byKey{source}, target).Delete(t.Context(), item(t, c.item))
		var failed *dualwrite.Error
		if errors.As(err, &failed) != (c.want != "") || failed != nil && (failed.DynamoDB != c.want || !errors.Is(err, errLost)) || len(target.sent) != c.rows {
			t.Errorf("%s: %v, %d rows", name, err, len(target.sent))
		}
	}
}

// Every row of a timed change is written: the row that it leaves, too.
func TestATimedChangeWritesAllOfItsRows(t *testing.T) {
	m := mappingBy(t, `{ row_key: "{customer}#{pk}#{sk}", columns: { "*": d } }`, byTime)
	source, target := &table{item: item(t, order1)}, newRecorder(m)
	if _, err := dualwrite.New(m, source, target).Put(t.Context(), item(t, strings.Replace(order1, `"x"`, `"y"`, 1))); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range target.sent {
		rows = append(rows, r.Row)
	}
	if slices.Sort(rows); !slices.Equal(rows, []string{"x#1#a", "y#1#a"}) {
		t.Errorf("%q", rows)
	}
}

// alone is a source without transactions.
type alone struct{ *table }

// A transaction needs a source that has them.
func TestATransactionNeedsItsSource(t *testing.T) {
	m := mapping()
	_, err := dualwrite.New(m, alone{&table{}}, newRecorder(m)).Transact(t.Context(), []attribute.Item{item(t, order1)}, func(read []attribute.Item) ([]attribute.Item, error) { return read, nil })
	var failed *dualwrite.Error
	if !errors.As(err, &failed) || failed.Op != "Transact" || failed.DynamoDB != dualwrite.NotWritten || !errors.Is(err, dualwrite.ErrTransact) {
		t.Error(err)
	}
}

// answers gives the nth request the nth answer.
type answers struct {
	*recorder
	list []error
}

func (a *answers) Apply(ctx context.Context, request *sink.Request) (bool, error) {
	n := len(a.sent)
	applied, err := a.recorder.Apply(ctx, request)
	if n < len(a.list) && a.list[n] != nil {
		return false, a.list[n]
	}
	return applied, err
}

// The outcome of a transaction in Bigtable follows from all of its rows, and its error names each
// failure.
func TestTheOutcomeOfRowsWrittenTogether(t *testing.T) {
	unknown := &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "DeadlineExceeded"}
	rejected := &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	second := strings.Replace(order1, `"a"`, `"b"`, 1)
	for name, c := range map[string]struct {
		list []error
		want dualwrite.Outcome
	}{
		"written":              {nil, ""},
		"unknown, written":     {[]error{unknown, nil}, dualwrite.PartlyWritten},
		"written, unknown":     {[]error{nil, unknown}, dualwrite.PartlyWritten},
		"unknown, unknown":     {[]error{unknown, unknown}, dualwrite.Unknown},
		"unknown, rejected":    {[]error{unknown, rejected}, dualwrite.Unknown},
		"rejected, unknown":    {[]error{rejected, unknown}, dualwrite.Unknown},
		"rejected, and so too": {[]error{rejected, rejected}, dualwrite.NotWritten},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := mappingBy(t, keyed, byNumber)
			source := &together{items: map[string]attribute.Item{"a": item(t, order1), "b": item(t, second)}}
			keys := []attribute.Item{source.items["a"], source.items["b"]}
			written, err := dualwrite.New(m, source, &answers{newRecorder(m), c.list}).Transact(t.Context(), keys, func(read []attribute.Item) ([]attribute.Item, error) { return read, nil })
			var failed *dualwrite.Error
			if errors.As(err, &failed) != (c.want != "") || failed != nil && (failed.DynamoDB != dualwrite.Written || failed.Bigtable != c.want || failed.Repeat) {
				t.Errorf("%s: %v", name, err)
			}
			for _, of := range c.list {
				if of != nil && !errors.Is(err, of) {
					t.Errorf("%s: %v hides %v", name, err, of)
				}
			}
			if len(written) != 2 || number(written[0]) != "8" || number(written[1]) != "8" {
				t.Errorf("%s: %v", name, written)
			}
		})
	}
}
