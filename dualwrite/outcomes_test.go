package dualwrite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// With the rules keyed and doubled, the key alone determines an item's rows: one, or two.
const (
	keyed   = `{ row_key: "{pk}#{sk}", columns: { "*": d } }`
	doubled = `{ write: [{ row_key: "{pk}#{sk}", columns: { pk: "d:pk" } }, { row_key: "also#{pk}#{sk}", columns: { pk: "d:also" } }] }`
)

// mappingBy returns the mapping of Orders with a rule and one of the two modes of dual writes.
func mappingBy(t *testing.T, rule, way string) *transform.Mapping {
	t.Helper()
	text := "version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\ntables:\n  - from: Orders\n    to: orders\n" +
		"    families: { d: maxversions=1, e: maxversions=1 }\n    rules: [" + rule + "]\ndual_writes: { " + way + " }\n"
	cfg, err := config.Parse("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	byNumber = "version_attribute: rev"
	byTime   = "settle: 1s"
)

// A lost answer is resolved by a read. Only the same image, or the requested absence, shows that
// the write was executed, and only then Bigtable is written. A repeat is safe if a condition guards
// it.
func TestALostAnswerIsResolved(t *testing.T) {
	other := strings.Replace(order1, "x", "z", 1)
	for name, c := range map[string]struct {
		way     string
		remove  bool
		created bool   // there was no item before
		fate    string // what DynamoDB has afterwards; "": nothing, "written": the image
		unread  bool
		want    dualwrite.Outcome // "" if the write succeeds
		repeat  bool
		sent    int
	}{
		"put, executed":                 {way: byNumber, fate: "written", sent: 1},
		"put, not executed":             {way: byNumber, fate: order1, want: dualwrite.Unknown, repeat: true},
		"put, another is there":         {way: byNumber, fate: other, want: dualwrite.Unknown, repeat: true},
		"put, none is there":            {way: byNumber, want: dualwrite.Unknown, repeat: true},
		"put, unread":                   {way: byNumber, fate: "written", unread: true, want: dualwrite.Unknown, repeat: true},
		"put of a new item, none there": {way: byNumber, created: true, want: dualwrite.Unknown, repeat: true},
		"put of a new item, unread":     {way: byNumber, created: true, fate: "written", unread: true, want: dualwrite.Unknown, repeat: true},
		"put by time, executed":         {way: byTime, fate: "written", sent: 1},
		"put by time, not executed":     {way: byTime, fate: other, want: dualwrite.Unknown},
		"put by time, unread":           {way: byTime, fate: "written", unread: true, want: dualwrite.Unknown},
		"delete, executed":              {way: byNumber, remove: true, sent: 1},
		"delete, not executed":          {way: byNumber, remove: true, fate: order1, want: dualwrite.Unknown, repeat: true},
		"delete, created anew":          {way: byNumber, remove: true, fate: other, want: dualwrite.Unknown, repeat: true},
		"delete by time, executed":      {way: byTime, remove: true, sent: 1},
		"delete by time, not executed":  {way: byTime, remove: true, fate: order1, want: dualwrite.Unknown},
	} {
		m := mappingBy(t, keyed, c.way)
		source, target := &table{item: item(t, order1)}, newRecorder(m)
		source.fail = func(execute func()) error {
			switch execute(); c.fate {
			case "written":
			case "":
				source.item = attribute.Item{}
			default:
				source.item = item(t, c.fate)
			}
			if c.unread {
				source.unread = errors.New("unread")
			}
			return errLost
		}
		w := dualwrite.New(m, source, target)
		var err error
		if c.created {
			source.item = attribute.Item{}
			_, err = w.Put(t.Context(), item(t, unnumbered(order1)))
		} else if c.remove {
			err = w.Delete(t.Context(), source.item)
		} else {
			_, err = w.Put(t.Context(), source.item)
		}
		var failed *dualwrite.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &failed) || failed.DynamoDB != c.want || failed.Bigtable != dualwrite.NotWritten ||
			failed.Repeat != c.repeat || !errors.Is(err, errLost) || c.unread && !errors.Is(err, source.unread)) || len(target.sent) != c.sent {
			t.Errorf("%s: %v, after %d requests to Bigtable", name, err, len(target.sent))
		}
		if name == "delete, executed" && string(target.sent[0].Refuse.AtLeast)[:23] != "n00000000000000000007.1" {
			t.Errorf("%s at version %s", name, target.sent[0].Refuse.AtLeast)
		}
	}
}

// H87: the number of a created item is above any number that its rows hold of a removed item, and
// otherwise comes from the clock. A removal without a number is left to the stream.
func TestH87_ACreatedItemIsRankedAboveARemovedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UnixMilli()
		for name, c := range map[string]struct {
			first, second, want int64
			sent                int
		}{
			"no row":                       {0, 0, now, 2},
			"both below the clock":         {7, 8, now, 2},
			"at the clock":                 {now, 7, now + 1, 4},
			"the first above the clock":    {now + 500, 7, now + 501, 4},
			"the second above the clock":   {7, now + 500, now + 501, 4},
			"both above the clock":         {now + 500, now + 600, now + 601, 4},
			"the first without a row, too": {0, now + 9, now + 10, 4},
		} {
			m := mappingBy(t, doubled, byNumber)
			target, source := newRecorder(m), &table{}
			old := item(t, `{"pk":{"S":"1"},"sk":{"S":"a"}}`)
			for i, n := range []int64{c.first, c.second} {
				if n == 0 {
					continue
				}
				removed := item(t, fmt.Sprintf(`{"pk":{"S":"1"},"sk":{"S":"a"},"rev":{"N":"%d"}}`, n))
				requests, err := dualwrite.Rows(m, cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Time: time.Now(), Keys: old, Old: removed})
				if err != nil || len(requests) != 2 {
					t.Fatal(len(requests), err)
				}
				if _, err := target.Memory.Apply(t.Context(), &requests[i]); err != nil {
					t.Fatal(err)
				}
			}
			w := dualwrite.New(m, source, target)
			written, err := w.Put(t.Context(), old)
			if err != nil || number(written) != fmt.Sprint(c.want) || !written.Equal(source.item) || len(target.sent) != c.sent || !numbered(target.taken[len(target.taken)-2:], written) {
				t.Errorf("%s: %s, want %d; %d requests, %v", name, number(written), c.want, len(target.sent), err)
			}
			target.sent, source.item = nil, old
			if err := w.Delete(t.Context(), old); err != nil || len(target.sent) != 0 || source.item.Exists() {
				t.Errorf("%s: removed without a number by %d requests, %v", name, len(target.sent), err)
			}
		}
	})
}

// The witness is read once for many writes, and again while it has no number, because a worker
// announces one later. If the fence is withheld, writes carry no stamp.
func TestTheWitnessIsReadUntilItNamesAFence(t *testing.T) {
	m := mappingBy(t, keyed, byNumber)
	for announced, family := range map[string]string{fence: fence, checkpoint.NoFence: ""} {
		target, source := newRecorder(m), &table{item: item(t, order1)}
		reads := 0
		target.witness.OnRead = func(context.Context, string) error { reads++; return nil }
		w := dualwrite.New(m, source, target)
		put := func() error { _, err := w.Put(t.Context(), source.item); return err }
		target.announce(m, "")
		for range 2 {
			if err := put(); !errors.Is(err, dualwrite.ErrNotReady) || len(target.sent) != 0 {
				t.Errorf("before a number is announced: %v", err)
			}
		}
		target.announce(m, announced)
		reads = 0
		for range 3 {
			if err := put(); err != nil || target.sent[0].Ops[0].Family == fence != (family != "") {
				t.Errorf("%q: %v, %+v", announced, err, target.sent)
			}
		}
		if reads != 1 {
			t.Errorf("%q: the witness is read %d times", announced, reads)
		}
	}
}

// The witness of a withheld fence is read again after a while, because no write without a stamp
// would ever fail.
func TestAWithheldFenceIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mappingBy(t, keyed, byNumber)
		target, source := newRecorder(m), &table{item: item(t, order1)}
		reads := 0
		target.witness.OnRead = func(context.Context, string) error { reads++; return nil }
		w := dualwrite.New(m, source, target)
		target.announce(m, checkpoint.NoFence)
		for _, c := range []struct {
			announced string
			after     time.Duration
			stamped   bool
			reads     int
		}{{checkpoint.NoFence, 0, false, 1}, {fence, 30 * time.Second, false, 1}, {fence, 31 * time.Second, true, 2}, {fence, time.Hour, true, 2}} {
			target.announce(m, c.announced)
			time.Sleep(c.after)
			target.sent = nil
			if _, err := w.Put(t.Context(), source.item); err != nil || reads != c.reads || (target.sent[0].Ops[0].Family == fence) != c.stamped {
				t.Errorf("%+v: %v, %d reads, %+v", c, err, reads, target.sent)
			}
		}
	})
}

// unnumbered is an item as it was before the application ranked its writes.
func unnumbered(order string) string { return strings.Replace(order, `"rev"`, `"was"`, 1) }

// A delete whose answer was lost removes the row of the item as it was read, and so does a change
// that read the item itself. If the row is unknown, the error says so.
func TestALostAnswerRemovesTheFormerRow(t *testing.T) {
	moved := strings.Replace(order1, `"x"`, `"y"`, 1)
	for name, c := range map[string]struct {
		write func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error
		rows  []string // rows that are sent, in order
		want  dualwrite.Outcome
	}{
		"a delete": {func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error { return w.Delete(ctx, read) }, []string{"x#1#a"}, ""},
		"a delete by the key": {func(ctx context.Context, w *dualwrite.Writer, _ attribute.Item) error {
			return w.Delete(ctx, item(t, `{"pk":{"S":"1"},"sk":{"S":"a"},"rev":{"N":"7"}}`))
		}, nil, dualwrite.NotWritten},
		"an update that moves it": {func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error {
			_, err := w.Update(ctx, read, func(attribute.Item) (attribute.Item, error) { return item(t, moved), nil })
			return err
		}, []string{"y#1#a", "x#1#a"}, ""},
		"an update of an item without a number": {func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error {
			_, err := w.Update(ctx, read, func(attribute.Item) (attribute.Item, error) { return item(t, unnumbered(moved)), nil })
			return err
		}, nil, dualwrite.NotWritten},
		"a put that moves it": {func(ctx context.Context, w *dualwrite.Writer, _ attribute.Item) error {
			_, err := w.Put(ctx, item(t, moved))
			return err
		}, nil, dualwrite.NotWritten},
	} {
		m := mapping()
		source, target := &table{item: item(t, order1)}, newRecorder(m)
		if strings.Contains(name, "without a number") { // many images have none, so the one before is unknown
			source.item = item(t, unnumbered(order1))
		}
		source.fail = func(execute func()) error { execute(); return errLost }
		err := c.write(t.Context(), dualwrite.New(m, source, target), source.item)
		var failed *dualwrite.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != c.want) {
			t.Errorf("%s: %v", name, err)
		}
		var rows []string
		for _, r := range target.sent {
			rows = append(rows, r.Row)
		}
		if !slices.Equal(rows, c.rows) {
			t.Errorf("%s: rows %q are written, want %q", name, rows, c.rows)
		}
	}
}

// Without numbers, the item that a caller read may not be the one before its write. A delete whose
// answer was lost removes its row all the same, because the item no longer exists. The row before a put
// stays unknown.
func TestALostAnswerOfATimedWrite(t *testing.T) {
	moved := strings.Replace(order1, `"x"`, `"y"`, 1)
	for name, c := range map[string]struct {
		write func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error
		rows  []string
		want  dualwrite.Outcome
	}{
		"a delete": {func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error { return w.Delete(ctx, read) }, []string{"x#1#a"}, ""},
		"a delete by the key": {func(ctx context.Context, w *dualwrite.Writer, _ attribute.Item) error {
			return w.Delete(ctx, item(t, `{"pk":{"S":"1"},"sk":{"S":"a"}}`))
		}, nil, dualwrite.NotWritten},
		"an update that removes it": {func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error {
			_, err := w.Update(ctx, read, func(attribute.Item) (attribute.Item, error) { return attribute.Item{}, nil })
			return err
		}, []string{"x#1#a"}, ""},
		"an update that moves it": {func(ctx context.Context, w *dualwrite.Writer, read attribute.Item) error {
			_, err := w.Update(ctx, read, func(attribute.Item) (attribute.Item, error) { return item(t, moved), nil })
			return err
		}, nil, dualwrite.NotWritten},
	} {
		m := mappingBy(t, `{ row_key: "{customer}#{pk}#{sk}", columns: { "*": d } }`, byTime)
		source, target := &table{item: item(t, order1)}, newRecorder(m)
		source.fail = func(execute func()) error { execute(); return errLost }
		err := c.write(t.Context(), dualwrite.New(m, source, target), source.item)
		var failed *dualwrite.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != c.want) {
			t.Errorf("%s: %v", name, err)
		}
		var rows []string
		for _, r := range target.sent {
			rows = append(rows, r.Row)
		}
		if !slices.Equal(rows, c.rows) {
			t.Errorf("%s: rows %q are written, want %q", name, rows, c.rows)
		}
	}
}

// The outcome in Bigtable follows from its answer, in both modes.
func TestOutcomesInBigtable(t *testing.T) {
	for reason, want := range map[sink.Reason]dualwrite.Outcome{sink.Unknown: dualwrite.Unknown, sink.Permanent: dualwrite.NotWritten, sink.Rejected: dualwrite.NotWritten} {
		for _, way := range []string{byNumber, byTime} {
			m := mappingBy(t, keyed, way)
			target, source := newRecorder(m), &table{item: item(t, order1)}
			target.fail = &sink.Error{Op: "CheckAndMutateRow", Reason: reason, Code: "Code"}
			_, err := dualwrite.New(m, source, target).Put(t.Context(), source.item)
			var failed *dualwrite.Error
			if !errors.As(err, &failed) || failed.DynamoDB != dualwrite.Written || failed.Bigtable != want || failed.Repeat {
				t.Errorf("%s, %s: %v", reason, way, err)
			}
		}
	}
}

// H39: without numbers an application writes only cells, whatever version the row has.
func TestH39_TimedWritesCarryNoVersion(t *testing.T) {
	m := mappingBy(t, keyed, byTime)
	at := time.UnixMicro(1_795_170_000_123_000)
	image := item(t, order1)
	requests, err := dualwrite.Rows(m, cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Time: at, Keys: m.Keys(image), Old: item(t, strings.Replace(order1, "rev", "gone", 1)), New: image})
	if err != nil || len(requests) != 1 || requests[0].Refuse.AtLeast <= "n" {
		t.Fatalf("%+v, %v", requests, err)
	}
	set := 0
	for _, op := range requests[0].Ops {
		if sink.IsOwn(op.Family) || op.Kind == sink.DeleteFamily || op.Kind == sink.DeleteColumn || op.Kind == sink.DeleteBefore && op.Timestamp > at.UnixMicro()+1000 {
			// A younger cell belongs to a later write.
			t.Errorf("it writes %s:%s", op.Family, op.Qualifier)
		}
		if op.Kind == sink.SetCell {
			if set++; op.Timestamp != at.UnixMicro() {
				t.Errorf("%s is dated %d", op.Qualifier, op.Timestamp)
			}
		}
	}
	if set != 4 {
		t.Errorf("%d cells are set", set)
	}
}

// H39, H79: the removal of an absent item leaves the row's tombstone. The stream has no record of it,
// so nothing would write the tombstone again, and an older change could bring the item back.
func TestH39_H79_ATimedRemovalLeavesTheTombstone(t *testing.T) {
	m := mappingBy(t, keyed, byTime)
	order := item(t, order1)
	for name, old := range map[string]attribute.Item{"present": order, "absent": m.Keys(order)} {
		requests, err := dualwrite.Rows(m, cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Time: time.Now(), Keys: m.Keys(order), Old: old})
		if err != nil || len(requests) != 1 {
			t.Fatalf("%s: %+v, %v", name, requests, err)
		}
		for _, op := range requests[0].Ops {
			if sink.IsOwn(op.Family) || op.Kind == sink.DeleteFamily || op.Kind == sink.SetCell {
				t.Errorf("%s: the removal changes %s:%s", name, op.Family, op.Qualifier)
			}
		}
	}
}

// Operators act on the advice, so it recommends a repeat only if that is safe.
func TestAdvice(t *testing.T) {
	why := errors.New("why")
	for want, e := range map[string]*dualwrite.Error{
		"read the item again":                                   {DynamoDB: dualwrite.NotWritten, Repeat: true, Err: dualwrite.ErrConflict},
		"repeating the call is safe:":                           {DynamoDB: dualwrite.NotWritten, Repeat: true, Err: why},
		"repeating the call is safe: it fails with ErrConflict": {DynamoDB: dualwrite.Unknown, Repeat: true, Err: why},
		"nothing was written; the call must be":                 {DynamoDB: dualwrite.NotWritten, Err: why},
		"read the item before you repeat it":                    {DynamoDB: dualwrite.Unknown, Err: why},
		"replicator will write it to Bigtable":                  {DynamoDB: dualwrite.Written, Bigtable: dualwrite.Unknown, Err: why},
	} {
		if got := e.Error(); !strings.Contains(got, "; "+want) || strings.Contains(got, "ErrConflict") != strings.Contains(want, "ErrConflict") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A cell has the time at which DynamoDB accepted the write, not that of the call, because
// replicator removes cells older than the stream's record.
func TestCellsAreDatedAfterTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mappingBy(t, keyed, byTime)
		target, source := newRecorder(m), &table{}
		source.fail = func(execute func()) error {
			time.Sleep(time.Minute)
			execute()
			return errLost // and is read back
		}
		if _, err := dualwrite.New(m, source, target).Put(t.Context(), item(t, order1)); err != nil || len(target.sent) != 1 {
			t.Fatalf("%v, %+v", err, target.sent)
		}
		for _, op := range target.sent[0].Ops {
			if op.Kind == sink.SetCell && op.Timestamp != time.Now().UnixMicro() {
				t.Errorf("%s is dated %s ago", op.Qualifier, time.Since(time.UnixMicro(op.Timestamp)))
			}
		}
	})
}

// A removal leaves nothing in the row that another rule may have written for the item. If no rule
// has anything there, nothing is sent, because Bigtable refuses an empty change.
func TestARemoveLeavesNothing(t *testing.T) {
	const rules = `{ when: "customer = 'x'", row_key: "{pk}#{sk}", columns: { "*": d } }, { row_key: "{pk}#{sk}", columns: { "*": e } }`
	m := mappingBy(t, rules, byNumber)
	old := item(t, order1)
	requests, err := dualwrite.Rows(m, cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Time: time.Now(), Keys: m.Keys(old), Old: old})
	if err != nil || len(requests) != 1 {
		t.Fatalf("%+v, %v", requests, err)
	}
	removed := map[string]bool{}
	for _, op := range requests[0].Ops {
		if op.Kind == sink.DeleteFamily {
			removed[op.Family] = true
		}
	}
	if !removed["d"] || !removed["e"] {
		t.Errorf("%+v", requests[0].Ops)
	}
	m = mappingBy(t, `{ row_key: "{pk}#{sk}", columns: { customer: "d:customer" } }`, byTime)
	target, source := newRecorder(m), &table{item: item(t, order1)}
	// Its previous image is lost.
	source.fail = func(func()) error { source.item = attribute.Item{}; return errLost }
	if err := dualwrite.New(m, source, target).Delete(t.Context(), source.item); err != nil || len(target.sent) != 0 {
		t.Errorf("%v, %+v", err, target.sent)
	}
}
