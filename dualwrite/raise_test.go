package dualwrite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// numbered reports whether all requests carry the number of an image.
func numbered(requests []sink.Request, image attribute.Item) bool {
	return !slices.ContainsFunc(requests, func(r sink.Request) bool {
		return r.Refuse.AtLeast.Rank().String() != number(image)
	})
}

// counted counts the reads of a target and of a source. The source checks conditions and makes
// transactions.
type counted struct {
	*recorder
	*table
	looks, gets, transactions int
	unlooked                  error // the error of reads of rows
}

func (c *counted) Look(ctx context.Context, m *transform.RowMutation, before int64) (sink.Row, error) {
	if c.looks++; c.unlooked != nil {
		return sink.Row{}, c.unlooked
	}
	return c.recorder.Look(ctx, m, before)
}

func (c *counted) Get(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	c.gets++
	return c.table.Get(ctx, keys)
}

func (c *counted) Write(ctx context.Context, change dualwrite.Change) (attribute.Item, error) {
	if number(c.item) != change.Number {
		return attribute.Item{}, dualwrite.ErrConflict
	}
	return c.table.Write(ctx, change)
}

func (c *counted) Transact(ctx context.Context, changes []dualwrite.Change) error {
	c.transactions++
	c.item = changes[0].Image
	return nil
}

// hold makes the row of the item hold a version, as an image or as a tombstone. The argument
// `owner` is the item's name in a row that several items may share.
func (c *counted) hold(t *testing.T, owner string, version transform.Version, gone bool) {
	t.Helper()
	for _, gone := range []bool{!gone, gone} { // whatever it holds, this replaces it
		request := sink.Guard(transform.RowMutation{Table: "orders", Row: "1#a", Owner: owner, Version: version, Remove: gone, Families: []string{"d"}})
		request.Refuse.AtLeast = unheldByAny
		if _, err := c.Memory.Apply(t.Context(), &request); err != nil {
			t.Fatal(err)
		}
	}
}

// unheldByAny is above every version.
const unheldByAny = "\xff"

func newCounted(m *transform.Mapping) *counted {
	return &counted{recorder: newRecorder(m), table: &table{}}
}

const unranked = `{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"x"}}`

// A new item costs one conditional write in each store, although its row may remember a removed
// item. Only if the row remembers a higher number, the item is read and written once more.
func TestANewItemCostsOneWriteInEachStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mappingBy(t, keyed, byNumber)
		now := uint64(time.Now().UnixMilli())
		same := func(attribute.Item) (attribute.Item, error) { return item(t, unranked), nil }
		for name, create := range map[string]func(w *dualwrite.Writer) (attribute.Item, error){
			"Put": func(w *dualwrite.Writer) (attribute.Item, error) { return w.Put(t.Context(), item(t, unranked)) },
			"Update": func(w *dualwrite.Writer) (attribute.Item, error) {
				return w.Update(t.Context(), item(t, unranked), same)
			},
			"Transact": func(w *dualwrite.Writer) (attribute.Item, error) {
				written, err := w.Transact(t.Context(), []attribute.Item{item(t, unranked)}, func([]attribute.Item) ([]attribute.Item, error) {
					return []attribute.Item{item(t, unranked)}, nil
				})
				return written[0], err
			},
		} {
			for _, c := range []struct {
				removed uint64 // the number that the row remembers; 0: none
				want    uint64
				writes  int
				looks   int
			}{{0, now, 1, 0}, {now - 1, now, 1, 0}, {now + 500, now + 501, 2, 1}} {
				s := newCounted(m)
				if c.removed > 0 {
					s.hold(t, "", transform.RankOf(c.removed, true).AppliedBy(), true)
				}
				reads := map[string]int{"Put": 0, "Update": 1, "Transact": 1}[name]
				written, err := create(dualwrite.New(m, s, s))
				if err != nil || number(written) != fmt.Sprint(c.want) || !written.Equal(s.item) {
					t.Errorf("%s above %d: %s, want %d: %v", name, c.removed, number(written), c.want, err)
				}
				if writes := len(s.asked) + s.transactions; writes != c.writes || s.gets != reads || len(s.sent) != c.writes || s.looks != c.looks {
					t.Errorf("%s above %d: %d writes and %d reads of DynamoDB, %d writes and %d reads of rows", name, c.removed, writes, s.gets, len(s.sent), s.looks)
				}
				if len(s.taken) != 1 || !numbered(s.taken, written) {
					t.Errorf("%s above %d: the row takes %+v", name, c.removed, s.taken)
				}
			}
		}
	})
}

// TestH87_ANewItemIsRaisedOnlyAboveOthers: a row refuses a new item, because something else was
// written between the two writes. The item is raised only if DynamoDB still has it, and the row
// does not have it from the stream.
func TestH87_ANewItemIsRaisedOnlyAboveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mappingBy(t, keyed, byNumber)
		now := uint64(time.Now().UnixMilli())
		streamed := transform.NewVersion(1, 7, cdc.SequenceOf(9), 0)
		for name, c := range map[string]struct {
			held   transform.Version
			gone   bool
			item   string // what DynamoDB has when the row refuses; "": the new item, "none": none
			raised uint64 // 0: the item is not raised
		}{
			"the stream was faster":                {held: transform.RankOf(now, false).At(streamed)},
			"the stream raised it":                 {held: transform.RankOf(now+9, true).At(streamed), raised: now + 10},
			"a removed item, by the stream":        {held: transform.RankOf(now+9, true).At(streamed), gone: true, raised: now + 10},
			"a removed item, by the application":   {held: transform.RankOf(now+9, true).AppliedBy(), gone: true, raised: now + 10},
			"a removed item of the same number":    {held: transform.RankOf(now, true).AppliedBy(), gone: true, raised: now + 1},
			"a former item of the same number":     {held: transform.RankOf(now, false).AppliedBy(), raised: now + 1},
			"a phantom":                            {held: transform.RankOf(now+9, false).AppliedBy(), raised: now + 10},
			"a later write of another":             {held: transform.RankOf(now+1, false).AppliedBy(), item: strings.Replace(order1, `"7"`, fmt.Sprintf("%q", fmt.Sprint(now+1)), 1)},
			"a later write whose record was first": {held: transform.RankOf(now+1, false).At(streamed), item: strings.Replace(order1, `"7"`, fmt.Sprintf("%q", fmt.Sprint(now+1)), 1)},
			"a removal by another":                 {held: transform.RankOf(now, true).AppliedBy(), gone: true, item: "none"},
			"a version of another program":         {held: "x"},
		} {
			s := newCounted(m)
			s.before = func() {
				s.before = nil
				s.hold(t, "", c.held, c.gone)
				switch c.item {
				case "":
				case "none":
					s.item = attribute.Item{}
				default:
					s.item = item(t, c.item)
				}
			}
			written, err := dualwrite.New(m, s, s).Put(t.Context(), item(t, unranked))
			want := now
			if c.raised > 0 {
				want = c.raised
			}
			if err != nil || number(written) != fmt.Sprint(want) || c.item == "" && !written.Equal(s.item) {
				t.Errorf("%s: %s, want %d: %v", name, number(written), want, err)
			}
			if c.raised == 0 && (len(s.taken) > 0 || len(s.asked) != 1) || c.raised > 0 && (len(s.taken) != 1 || !numbered(s.taken, written) || len(s.asked) != 2) {
				t.Errorf("%s: %d writes of DynamoDB, the row takes %+v", name, len(s.asked), s.taken)
			}
			if row, err := s.Memory.Look(t.Context(), &transform.RowMutation{Table: "orders", Row: "1#a"}, 0); err != nil || row.Held() < c.held {
				t.Errorf("%s: the row holds %s after %s: %v", name, row.Held(), c.held, err)
			}
		}
	})
}

// If raising an item fails, DynamoDB has it all the same, and the error says so. A lost answer is
// resolved by a read.
func TestRaisingANewItemFails(t *testing.T) {
	unknown := &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	refused := &dualwrite.NotExecuted{Err: errLost}
	synctest.Test(t, func(t *testing.T) {
		now := uint64(time.Now().UnixMilli())
		for name, c := range map[string]struct {
			rule     string
			unlooked error                      // of the read of the row
			second   func(execute func()) error // the second write of DynamoDB
			unread   bool                       // DynamoDB cannot be read after it
			fail     error                      // of the row's second write
			want     dualwrite.Outcome          // in Bigtable; "": no error
			is       error
			raised   bool // the image that is returned
		}{
			"the row cannot be read":                     {unlooked: unknown, want: dualwrite.NotWritten, is: unknown},
			"the first of two rows cannot be read":       {rule: doubled, unlooked: unknown, want: dualwrite.PartlyWritten, is: unknown},
			"not executed":                               {second: func(func()) error { return refused }, want: dualwrite.NotWritten, is: refused},
			"the answer is lost, executed":               {second: func(execute func()) error { execute(); return errLost }, raised: true},
			"the answer is lost, not executed":           {second: func(func()) error { return errLost }, want: dualwrite.NotWritten, is: errLost},
			"the answer is lost, and unread":             {second: func(execute func()) error { execute(); return errLost }, unread: true, want: dualwrite.NotWritten, is: errLost},
			"another is faster":                          {second: func(func()) error { return dualwrite.ErrConflict }},
			"the row is not written":                     {fail: unknown, want: dualwrite.Unknown, is: unknown, raised: true},
			"the first of two rows is not written again": {rule: doubled, fail: unknown, want: dualwrite.PartlyWritten, is: unknown, raised: true},
		} {
			owner := "S:MQ/S:YQ"
			if c.rule == "" {
				c.rule, owner = keyed, ""
			}
			m := mappingBy(t, c.rule, byNumber)
			s := newCounted(m)
			s.hold(t, owner, transform.RankOf(now+9, true).AppliedBy(), true)
			s.unlooked = c.unlooked
			s.table.fail = func(execute func()) error {
				s.table.fail = func(execute func()) error {
					if s.recorder.fail = c.fail; c.unread {
						s.unread = errLost
					}
					if c.second != nil {
						return c.second(execute)
					}
					execute()
					return errLost // and is read back
				}
				execute()
				return errLost // and is read back
			}
			written, err := dualwrite.New(m, s, s).Put(t.Context(), item(t, unranked))
			var failed *dualwrite.Error
			if errors.As(err, &failed) != (c.want != "") || failed != nil && (failed.DynamoDB != dualwrite.Written || failed.Bigtable != c.want || failed.Repeat || !errors.Is(err, c.is)) {
				t.Errorf("%s: %v", name, err)
			}
			if raised := number(written) != fmt.Sprint(now); raised != c.raised {
				t.Errorf("%s: it returns the number %s", name, number(written))
			}
		}
	})
}

// If a row holds the highest number there is, the item cannot be raised. DynamoDB has it, and
// replicator writes the row.
func TestNoNumberIsAboveTheHighest(t *testing.T) {
	m := mappingBy(t, keyed, byNumber)
	s := newCounted(m)
	s.hold(t, "", transform.Rank{Number: strings.Repeat("9", 20), Removed: true}.AppliedBy(), true)
	written, err := dualwrite.New(m, s, s).Put(t.Context(), item(t, unranked))
	var failed *dualwrite.Error
	if !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != dualwrite.NotWritten || !errors.Is(err, dualwrite.ErrNumber) || !written.Equal(s.item) || len(s.asked) != 1 {
		t.Errorf("%v, written %v", err, written)
	}
}
