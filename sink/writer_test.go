package sink_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// scripted is a table whose answers a test determines. The log has all attempts, in order.
type scripted struct {
	*sinktest.Memory
	answer func(ctx context.Context, attempt int, r *sink.Request, execute func() (bool, error)) (bool, error)

	mu  sync.Mutex
	log []sink.Request
}

func (s *scripted) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	s.mu.Lock()
	s.log = append(s.log, *r)
	attempt := len(s.log)
	s.mu.Unlock()
	execute := func() (bool, error) { return s.Memory.Apply(ctx, r) }
	if s.answer == nil {
		return execute()
	}
	return s.answer(ctx, attempt, r, execute)
}

// lot is a parking lot whose records a test reads.
type lot struct {
	*sink.Parking
	fail, failCount error
}

func newLot() *lot { return &lot{Parking: sink.NewParking(&sinktest.Records{}, "default")} }

func (l *lot) Park(ctx context.Context, p transform.Parked) error {
	if l.fail != nil {
		return l.fail
	}
	return l.Parking.Park(ctx, p)
}

func (l *lot) Count(ctx context.Context, atMost int) (int, error) {
	if l.failCount != nil {
		return 0, l.failCount
	}
	return l.Parking.Count(ctx, atMost)
}

func (l *lot) list(t *testing.T) []transform.Parked {
	t.Helper()
	var all []transform.Parked
	if err := l.List(context.Background(), "", func(_ sink.Ref, p transform.Parked) error { all = append(all, p); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

var orders = func() *transform.Mapping {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	return m
}()

const firstSecond = 1_795_170_000

// page returns one insert per key. A key that begins with "bad" has an attribute name that cannot
// be mapped.
func page(keys ...string) []cdc.Change {
	var changes []cdc.Change
	for i, key := range keys {
		pk := []attribute.Attribute{{Name: "pk", Value: attribute.String(key)}}
		image := append(slices.Clone(pk), attribute.Attribute{Name: "v", Value: attribute.String("value of " + key)})
		if strings.HasPrefix(key, "bad") {
			image = append(image, attribute.Attribute{Name: strings.Repeat("n", transform.MaxQualifierBytes+1), Value: attribute.Null()})
		}
		changes = append(changes, cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(100 + i)), Time: time.Unix(firstSecond, 0),
			Keys: attribute.NewItem(pk), New: attribute.NewItem(image)})
	}
	return changes
}

func fold(keys ...string) transform.Batch {
	return transform.Fold(orders, page(keys...), transform.Stamp{Generation: 5, Hop: 500_000})
}

func unknown() error {
	return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "DeadlineExceeded"}
}

func rowsOf(t *testing.T, m *sinktest.Memory) string {
	t.Helper()
	var words []string
	for _, r := range readAll(t, m, "t") {
		if r.Version != "" {
			words = append(words, r.Key)
		} else {
			words = append(words, "-"+r.Key)
		}
	}
	return strings.Join(words, " ")
}

// S4, H04: after an unknown outcome the identical request is sent again, and only for rows that are
// not durable.
func TestH04_UnknownOutcomesAreRepeatedIdentically(t *testing.T) {
	for name, executed := range map[string]bool{"executed": true, "not executed": false} {
		t.Run(name, func(t *testing.T) {
			var stale, failed []string
			var unanswered *sink.Request // the first request for row b
			table := &scripted{Memory: memory()}
			table.answer = func(_ context.Context, _ int, r *sink.Request, execute func() (bool, error)) (bool, error) {
				if r.Row != "b" || unanswered != nil {
					return execute()
				}
				unanswered = new(*r)
				if executed {
					_, _ = execute()
				}
				return false, unknown()
			}
			w := sink.NewWriter(sink.Options{Table: table, Parking: newLot(), Events: sink.Events{
				Stale:  func(_ context.Context, source string, _ time.Duration) { stale = append(stale, source) },
				Failed: func(source, code string) { failed = append(failed, source+" "+code) },
			}, InFlight: 1})
			b := fold("a", "b", "c")
			err := w.Write(context.Background(), sink.Unfenced(), &b)
			if !sink.Repeatable(err) || !sink.Is(err, sink.Unknown) {
				t.Fatal(err)
			}
			if len(b.Rows) < 1 || b.Rows[0].Row != "b" {
				t.Fatalf("%d rows are open", len(b.Rows))
			}
			sent := len(table.log)
			if err := w.Write(context.Background(), sink.Unfenced(), &b); err != nil || len(b.Rows) != 0 {
				t.Fatal(err)
			}
			for _, r := range table.log[sent:] {
				if r.Row == "b" && !reflect.DeepEqual(*unanswered, r) {
					t.Error("the repeat is not identical")
				}
				if r.Row == "a" {
					t.Error("a durable row was sent again")
				}
			}
			if got := rowsOf(t, table.Memory); got != "a b c" {
				t.Error(got)
			}
			if want := map[bool]int{true: 1, false: 0}[executed]; len(stale) != want {
				t.Errorf("%d rows were stale", len(stale))
			}
			if len(failed) != 1 || failed[0] != "Orders DeadlineExceeded" {
				t.Error(failed)
			}
		})
	}
}

// H38: an item that cannot be mapped, or whose content the target rejects, is parked; the others
// are durable.
func TestH38_RejectedRowsAreParkedAndRemoved(t *testing.T) {
	table := &scripted{Memory: memory()}
	before := fold("rejected")
	if err := sink.NewWriter(sink.Options{Table: table.Memory, Parking: newLot()}).Write(context.Background(), sink.Unfenced(), &before); err != nil {
		t.Fatal(err)
	}
	parking, parkedBeforeRows := newLot(), false
	table.answer = func(_ context.Context, _ int, r *sink.Request, execute func() (bool, error)) (bool, error) {
		parkedBeforeRows = parkedBeforeRows || len(parking.list(t)) > 0
		if r.Row == "rejected" && r.Ops[len(r.Ops)-1].Family == sink.LiveFamily {
			return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
		}
		return execute()
	}
	var events []string
	w := sink.NewWriter(sink.Options{Table: table, Parking: parking, InFlight: 1, Events: sink.Events{Parked: func(s, r string) { events = append(events, s+": "+r) }}})
	changes := page("a", "rejected", "bad", "b")
	b := transform.Fold(orders, changes, transform.Stamp{Generation: 6, Hop: 500_000})
	if err := w.Write(context.Background(), sink.Unfenced(), &b); err != nil || len(b.Rows)+len(b.Parked) != 0 {
		t.Fatal(err)
	}
	if got := rowsOf(t, table.Memory); got != "a b -bad -rejected" {
		t.Error("nothing stale may stay: ", got)
	}
	if parkedBeforeRows {
		t.Error("a record was parked before the rows were durable")
	}
	parked := parking.list(t)
	if len(parked) != 2 {
		t.Fatal(parked)
	}
	for _, p := range parked {
		change := changes[1]
		if strings.Contains(p.Reason, "attribute name") {
			change = changes[2]
		} else if p.Reason != "Bigtable rejects the row: CheckAndMutateRow: row rejected (InvalidArgument)" {
			t.Error(p.Reason)
		}
		if !p.Change.New.Equal(change.New) || p.Change.Event != change.Event || p.Source != "Orders" || p.Version.Generation() != 6 {
			t.Errorf("the record is not whole: %+v", p)
		}
	}
	if len(events) != 2 {
		t.Error(events)
	}
}

func TestH38_StopOnBadItem(t *testing.T) {
	reject := func(context.Context, int, *sink.Request, func() (bool, error)) (bool, error) {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	}
	for name, c := range map[string]struct {
		keys   []string
		answer func(context.Context, int, *sink.Request, func() (bool, error)) (bool, error)
	}{"unmappable": {[]string{"a", "bad"}, nil}, "rejected": {[]string{"a"}, reject}} {
		table := &scripted{Memory: memory(), answer: c.answer}
		parking := newLot()
		b := fold(c.keys...)
		err := sink.NewWriter(sink.Options{Table: table, Parking: parking, OnBadItem: sink.Stop}).Write(context.Background(), sink.Unfenced(), &b)
		var bad *sink.BadItem
		if !errors.As(err, &bad) || sink.Repeatable(err) || bad.Source != "Orders" || len(parking.list(t)) != 0 || rowsOf(t, table.Memory) != "" {
			t.Errorf("%s: %v, rows %s", name, err, rowsOf(t, table.Memory))
		}
	}
}

// H50: an error of the whole table parks nothing, and the number of attempts is bounded.
func TestH50_TableWideErrorsAreNeverParked(t *testing.T) {
	for _, reason := range []sink.Reason{sink.Permanent, sink.Denied, sink.Throttled} {
		table := &scripted{Memory: memory()}
		table.answer = func(context.Context, int, *sink.Request, func() (bool, error)) (bool, error) {
			return false, &sink.Error{Op: "CheckAndMutateRow", Reason: reason, Code: "X"}
		}
		parking := newLot()
		b := fold("a", "b", "c", "d", "e", "f", "g", "h")
		err := sink.NewWriter(sink.Options{Table: table, Parking: parking, InFlight: 2}).Write(context.Background(), sink.Unfenced(), &b)
		if !sink.Is(err, reason) || len(b.Rows) != 8 || len(parking.list(t)) != 0 {
			t.Errorf("%s: %v, %d rows open", reason, err, len(b.Rows))
		}
		if len(table.log) > 4 {
			t.Errorf("%s: sent %d requests into a target that refuses", reason, len(table.log))
		}
	}
	// A target that rejects even a remove does not reject an item.
	table := &scripted{Memory: memory()}
	table.answer = func(context.Context, int, *sink.Request, func() (bool, error)) (bool, error) {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	}
	parking := newLot()
	b := fold("a")
	if err := sink.NewWriter(sink.Options{Table: table, Parking: parking}).Write(context.Background(), sink.Unfenced(), &b); !sink.Is(err, sink.Permanent) || len(parking.list(t)) != 0 || len(table.log) != 3 {
		t.Errorf("%v after %d requests", err, len(table.log))
	}
	table.answer = nil // an operator has fixed it
	if err := sink.NewWriter(sink.Options{Table: table, Parking: parking}).Write(context.Background(), sink.Unfenced(), &b); err != nil || len(parking.list(t)) != 0 || rowsOf(t, table.Memory) != "a" {
		t.Errorf("%v, parked %d, rows %q", err, len(parking.list(t)), rowsOf(t, table.Memory))
	}
}

// Write reports the error that no retry fixes, even if an earlier row failed otherwise.
func TestWorstErrorWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &scripted{Memory: memory()}
		table.answer = func(ctx context.Context, _ int, r *sink.Request, _ func() (bool, error)) (bool, error) {
			_ = task.Sleep(ctx, time.Second)
			if r.Row == "b" {
				return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound"}
			}
			return false, unknown()
		}
		b := fold("a", "b", "c")
		if err := sink.NewWriter(sink.Options{Table: table, Parking: newLot()}).Write(context.Background(), sink.Unfenced(), &b); !sink.Is(err, sink.Permanent) {
			t.Error(err)
		}
	})
}

// H70: a batch below the table's generation is not written.
func TestH70_OldGenerationsAreFencedOff(t *testing.T) {
	table := &scripted{Memory: memory()}
	w := sink.NewWriter(sink.Options{Table: table, Parking: newLot(), Floor: func(source string) uint32 {
		return map[string]uint32{"Orders": 6}[source]
	}})
	b := fold("a")
	if err := w.Write(context.Background(), sink.Unfenced(), &b); !errors.Is(err, sink.ErrFenced) || sink.Repeatable(err) || len(table.log) != 0 {
		t.Error(err)
	}
	b = transform.Fold(orders, page("a"), transform.Stamp{Generation: 6, Hop: 500_000})
	if err := w.Write(context.Background(), sink.Unfenced(), &b); err != nil {
		t.Error(err)
	}
}

// H81: an image older than the retention of tombstones is not put, because the tombstone that would
// refuse it may be gone.
func TestH81_OldImagesAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock of a bubble starts in the year 2000
		old, fresh := fold("a"), fold("b")
		old.Rows[0].At, fresh.Rows[0].At = time.Now().Add(-13*24*time.Hour), time.Now().Add(-11*24*time.Hour)
		removal := transform.Fold(orders, []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(9), Time: time.Now().Add(-20 * 24 * time.Hour), Keys: page("c")[0].Keys}}, transform.Stamp{Generation: 5})
		mixed := fold("d", "e")
		mixed.Rows[0].At, mixed.Rows[1].At = fresh.Rows[0].At, old.Rows[0].At
		table, parking := memory(), newLot()
		w := sink.NewWriter(sink.Options{Table: table, Parking: parking, MaxImageAge: 12 * 24 * time.Hour})
		for _, b := range []*transform.Batch{&old, &fresh, &removal, &mixed} {
			if err := w.Write(context.Background(), sink.Unfenced(), b); err != nil {
				t.Fatal(err)
			}
		}
		if got := rowsOf(t, table); got != "-a b -c d -e" {
			t.Error(got)
		}
		var parked []string
		for _, p := range parking.list(t) {
			parked = append(parked, p.Change.Keys.Attributes()[0].Value.Text())
		}
		if slices.Sort(parked); !slices.Equal(parked, []string{"a", "e"}) {
			t.Error(parked)
		}
	})
}

// H81: of two workers with different clocks, one turns an old image into a remove and ends before
// it has stored the record. The other's put is refused for the remove's version, and the image is
// still parked.
func TestH81_PutAsideByWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func() *transform.Batch {
			b := fold("a")
			b.Rows[0].At = time.Now().Add(-12 * 24 * time.Hour)
			return &b
		}
		table, parking := memory(), newLot()
		writer := func(age time.Duration) *sink.Writer {
			return sink.NewWriter(sink.Options{Table: table, Parking: parking, MaxImageAge: age})
		}
		ahead, behind := writer(11*24*time.Hour), writer(13*24*time.Hour)
		parking.fail = &sink.Error{Op: "MutateRow", Reason: sink.Unknown, Code: "Unavailable"}
		if err := ahead.Write(context.Background(), sink.Unfenced(), page()); !sink.Repeatable(err) {
			t.Fatal(err)
		}
		parking.fail = nil
		if err := behind.Write(context.Background(), sink.Unfenced(), page()); err != nil {
			t.Fatal(err)
		}
		if got := rowsOf(t, table); got != "a" && len(parking.list(t)) == 0 {
			t.Errorf("%q is there, and nothing is parked", got)
		}
	})
}

// H38: a put that keeps older cells is rejected, and the worker ends before it has stored the
// record. The next one reads the same change, finds the first one's tombstone in the row, and sends
// nothing that could be rejected. The change is still parked.
func TestH38_RejectedKeptPutOfWhoIsGone(t *testing.T) {
	table := &scripted{Memory: memory()}
	table.answer = func(_ context.Context, _ int, r *sink.Request, execute func() (bool, error)) (bool, error) {
		if r.Ops[len(r.Ops)-1].Family == sink.LiveFamily {
			return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
		}
		return execute()
	}
	page := func() *transform.Batch {
		b := fold("a")
		b.Rows[0].Keep = true
		return &b
	}
	parking := newLot()
	w := sink.NewWriter(sink.Options{Table: table, Rows: table.Memory, Parking: parking})
	parking.fail = &sink.Error{Op: "MutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	if err := w.Write(context.Background(), sink.Unfenced(), page()); !sink.Repeatable(err) {
		t.Fatal(err)
	}
	parking.fail = nil
	for range 2 { // however often the page is read again
		if err := w.Write(context.Background(), sink.Unfenced(), page()); err != nil || len(parking.list(t)) != 1 {
			t.Errorf("%d records are parked, rows %q, %v", len(parking.list(t)), rowsOf(t, table.Memory), err)
		}
	}
}

func TestParkedLimit(t *testing.T) {
	parking := newLot()
	w := sink.NewWriter(sink.Options{Table: memory(), Parking: parking, MaxParked: 2})
	b := fold("bad1", "bad2")
	if err := w.Write(context.Background(), sink.Unfenced(), &b); err != nil {
		t.Fatal(err)
	}
	again := fold("bad1", "bad2") // a replay parks under the same keys
	if err := w.Write(context.Background(), sink.Unfenced(), &again); err != nil || len(parking.list(t)) != 2 {
		t.Fatal(err)
	}
	more := fold("x", "y", "bad3") // sequence numbers follow the index: a third item
	parking.failCount = &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}
	if err := w.Write(context.Background(), sink.Unfenced(), &more); !sink.Repeatable(err) || len(parking.list(t)) != 3 {
		t.Fatal("it was not counted: ", err)
	}
	parking.failCount = nil
	if err := w.Write(context.Background(), sink.Unfenced(), &more); !errors.Is(err, sink.ErrParkedLimit) || sink.Repeatable(err) {
		t.Fatal(err)
	}
	if len(parking.list(t)) != 3 {
		t.Error("what stops the migration must be listed")
	}
}

// S3: Write returns nil only after the parked records are stored.
func TestFailedParkingFailsTheWrite(t *testing.T) {
	table, parking := &scripted{Memory: memory()}, newLot()
	parking.fail = &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	w := sink.NewWriter(sink.Options{Table: table, Parking: parking})
	b := fold("a", "bad")
	if err := w.Write(context.Background(), sink.Unfenced(), &b); !sink.Repeatable(err) || len(b.Parked) != 1 || len(b.Rows) != 0 {
		t.Fatal(err)
	}
	sent := len(table.log)
	parking.fail = nil
	if err := w.Write(context.Background(), sink.Unfenced(), &b); err != nil || len(parking.list(t)) != 1 || len(table.log) != sent {
		t.Fatal(err)
	}
}

func TestEmptyBatch(t *testing.T) {
	b := fold()
	if err := sink.NewWriter(sink.Options{Table: memory(), Parking: newLot()}).Write(context.Background(), sink.Unfenced(), &b); err != nil {
		t.Error(err)
	}
}
