package sink

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Defaults of Options.
const (
	DefaultInFlight = 1024
	DefaultBytes    = 32 << 20
	DefaultTimeout  = 20 * time.Second
)

// OnBadItem is the policy for an item that cannot be mapped or stored.
type OnBadItem uint8

// The policies. Nothing is ever skipped.
const (
	Park OnBadItem = iota // store the whole change in the parking lot, remove the item's rows, and continue
	Stop                  // fail, and write no row of the item
)

// Options configure a Writer. Table and Parking are required.
type Options struct {
	Table   Table
	Parking ParkingLot
	// Rows reads rows before puts that keep older cells, and after a row has refused a mutation
	// with a rank. It may be nil if no mapping needs it.
	Rows Looker
	// InFlight and Bytes bound the requests in flight, over all callers and target tables; 0 means
	// the default. With the default, a window also bounds the requests to each table, so that the
	// table's latency does not grow.
	InFlight int
	Bytes    int64
	// Timeout bounds one request; 0 means the default. It is also the time for which, by
	// assumption, a request may still be executed after its Write returned.
	Timeout time.Duration
	// Floor returns the generation of a source table as this process last read it. Mutations of
	// older generations fail with ErrFenced. Nil means no floor.
	Floor func(source string) uint32
	// OnBadItem is the policy for items that cannot be mapped or stored.
	OnBadItem OnBadItem
	// MaxParked is how many items may be parked before Write fails with ErrParkedLimit. 0 means no
	// limit.
	MaxParked int
	// MaxImageAge is the age above which an image is parked instead of put, because the tombstone
	// that would refuse it may have been collected (H81). It is the retention of tombstones less a
	// margin for clocks and collection. 0 means no limit.
	MaxImageAge time.Duration
	// Events are the writer's callbacks. Any of them may be nil.
	Events Events
}

// Events are the callbacks of a Writer. They are called from many tasks, must return quickly, and
// receive no item data.
type Events struct {
	// Applied and Stale report that a row is durable, and how long its request took. Stale means
	// that the row already held the same or a higher version. The context has the values of the
	// context of the Write.
	Applied func(ctx context.Context, source string, took time.Duration)
	Stale   func(ctx context.Context, source string, took time.Duration)
	// Failed reports that a request failed with a gRPC code. The request will be repeated, parked
	// or abandoned.
	Failed func(source, code string)
	// Parked reports that an item's change was stored in the parking lot.
	Parked func(source, reason string)
	// Overtaken reports that a row refused a change of the stream of the given age, because the
	// application has already written a newer number there. A change that is read again from the
	// stream is reported again.
	Overtaken func(source string, age time.Duration)
}

// Writer makes batches durable. One Writer serves the whole process, so its bounds apply to all
// tables and shards together.
type Writer struct {
	o     Options
	rows  *task.Shares // by target table, like bytes: a slow table must not block others
	bytes *task.Shares
	pace  *windows // nil if Options.InFlight is set
	bulk  *bulk
	// limits are the deadlines of all Writes of a Within; nil if each Write has its own.
	limits *deadlines
}

// NewWriter returns a writer with defaults filled in.
func NewWriter(o Options) *Writer {
	var pace *windows
	if o.InFlight == 0 {
		o.InFlight, pace = DefaultInFlight, &windows{bounds: rowBounds, tables: map[string]*window{}}
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Floor == nil {
		o.Floor = func(string) uint32 { return 0 }
	}
	return &Writer{o: o, rows: task.NewShares(int64(o.InFlight)), bytes: task.NewShares(o.Bytes), pace: pace, bulk: newBulk()}
}

// Within returns the writer for many small Writes that all have the context ctx. They share
// deadlines, and a Write of one row makes its request itself, without a task. The caller must call
// `end` after all of them have returned.
func (w *Writer) Within(ctx context.Context) (within *Writer, end func()) {
	shared := *w
	shared.limits = &deadlines{ctx: ctx, timeout: w.o.Timeout}
	return &shared, shared.limits.end
}

// Write returns nil when every row of the batch is durable, every parked record is stored (S3), and
// superseded parked records are deleted. A row is durable if it was applied, or was refused as
// stale. It waits while too many requests are in flight.
//
// It neither backs off nor retries. On an error it removes completed rows and records from the
// batch. The caller must repeat Write with the same batch. Only the rest of the batch is then sent
// again, identically (S4). A batch belongs to one Write at a time.
//
// A row that the target rejects for its content is parked. Its put becomes a remove of the same
// version, so that no stale cells stay. The record is stored once all rows are durable. A row whose
// remove is refused too, while the table takes other rows, is parked and stays unchanged. A failure
// of the table as a whole never parks an item (H50). It is an error of reason Permanent or Denied.
// When ctx ends, Write returns its cause.
//
// The stamps come from a proof of the right to write this batch (Prove). After ErrRefenced the
// caller proves the right again and repeats Write with the same batch and the new stamps. If the
// right is lost, the caller abandons the batch.
func (w *Writer) Write(ctx context.Context, stamps Stamps, b *transform.Batch) error {
	if w.o.OnBadItem == Stop && len(b.Parked) > 0 {
		return &BadItem{b.Source, b.Parked[0].Reason}
	}
	if err := w.refuseOld(ctx, b); err != nil {
		return err
	}
	refused := &refusals{Writer: w, stamps: stamps}
	for len(b.Rows) > 0 {
		if err := w.checkFloor(b); err != nil {
			return err
		}
		if err := w.send(ctx, stamps, b, refused); err != nil {
			return stamps.refenced(ctx, err)
		}
		// The remaining rows were rejected and became removes, were raised (judge), or were not
		// sent. This loop ends: a rejected remove is parked or is an error, and only a later change
		// of the row makes it necessary to raise a mutation again.
	}
	if err := w.park(ctx, b); err != nil {
		return err
	}
	return w.supersede(ctx, b)
}

// checkFloor returns ErrFenced for a batch of an old generation. This only saves requests. It is
// not needed for safety: the row's version refuses a late request of an old generation.
func (w *Writer) checkFloor(b *transform.Batch) error {
	floor := w.o.Floor(b.Source)
	for i := range b.Rows {
		if g := b.Rows[i].Version.Generation(); g < floor {
			return fmt.Errorf("%w (generation %d, table %s is at %d)", ErrFenced, g, b.Source, floor)
		}
	}
	return nil
}

// MaxImageAge returns Options.MaxImageAge; 0 is no limit.
func (w *Writer) MaxImageAge() time.Duration { return w.o.MaxImageAge }

// refuseOld parks images that are too old to be put. It also stores the record before the remove is
// sent. Otherwise this worker might end between the remove and the record, and the next worker's
// clock might show the image as young enough. The next worker's put would be refused because of the
// remove's version, and the item would never be parked.
func (w *Writer) refuseOld(ctx context.Context, b *transform.Batch) error {
	if w.o.MaxImageAge <= 0 {
		return nil
	}
	oldest := w.now(ctx, b).Add(-w.o.MaxImageAge)
	for i := range b.Rows {
		if b.Rows[i].Remove || !b.Rows[i].At.Before(oldest) {
			continue // a remove is harmless at any age, because a newer live version refuses it
		}
		const reason = "the image is older than tombstones are kept"
		if w.o.OnBadItem != Stop {
			record := b.Park(b.Rows[i], reason)
			if err := w.bounded(ctx, func(ctx context.Context) error { return w.o.Parking.Park(ctx, record) }); err != nil {
				return err
			}
		}
		if err := w.putAside(b, i, reason); err != nil {
			return err
		}
	}
	return nil
}

// now returns the time on the source's clock, which dates images, if known. A worker's own clock
// may be days off.
func (w *Writer) now(ctx context.Context, b *transform.Batch) time.Time {
	if b.Read.At.IsZero() {
		return task.Now(ctx)
	}
	return b.Read.At.Add(task.Mono(ctx) - b.Read.Mono)
}

// putAside turns a put into a parked record and a remove at the same version. The put was not
// applied: otherwise the guard would have refused it as stale instead of the target rejecting it.
// So the remove is newer than the row.
func (w *Writer) putAside(b *transform.Batch, i int, reason string) error {
	if w.o.OnBadItem == Stop {
		return &BadItem{b.Source, reason}
	}
	row := &b.Rows[i]
	b.Parked = append(b.Parked, b.Park(*row, reason))
	row.Remove, row.Cells = true, nil
	return nil
}

// send sends all rows once, and leaves in the batch the rows that are not durable. It returns nil
// if no row is left because of a failure. Then the rows left are rejected puts, which are removes
// now, raised rows (judge), or rows that were not sent because of these.
func (w *Writer) send(ctx context.Context, stamps Stamps, b *transform.Batch, refused *refusals) error {
	outcomes := make([]outcome, len(b.Rows))
	var failed atomic.Bool // after a failure of the target, no further row is sent
	limits := w.limits
	start, wait := func(_ string, f func(context.Context) error) { _ = f(ctx) }, func() error { return nil }
	if limits == nil || len(b.Rows) > 1 {
		g := task.NewCrew(ctx)
		start, wait = g.Go, g.Wait
	}
	if limits == nil {
		limits = &deadlines{ctx: ctx, timeout: w.o.Timeout}
		defer limits.end()
	}
	stamped, stampSize := "", int64(0)
	for i := range b.Rows {
		row := &b.Rows[i]
		request := Guard(*row)
		if row.Table != stamped {
			stamped, stampSize = row.Table, stamps.size(row.Table)
		}
		size := request.Size() + stampSize
		if row.Keep {
			size = 3*size + pastSize(row) // up to two cells of each column are read
		}
		if failed.Load() || w.acquire(ctx, row.Table, size) != nil {
			break
		}
		start("write", func(ctx context.Context) error {
			defer w.release(row.Table, size)
			held, err := w.apply(ctx, limits, stamps, b.Source, row, request)
			outcomes[i] = outcome{sent: true, err: err, held: held}
			if w.o.Events.Overtaken != nil && overtaken(row.Version, held) {
				w.o.Events.Overtaken(b.Source, max(0, w.now(ctx, b).Sub(row.At)))
			}
			if err != nil && !Is(err, Rejected) {
				failed.Store(true)
			}
			return nil // the others continue, because finishing a sent request is cheaper than repeating it
		})
	}
	if err := wait(); err != nil {
		return err
	}
	err := settle(ctx, b, outcomes, refused)
	if cause := context.Cause(ctx); cause != nil && len(b.Rows) > 0 {
		return cause
	}
	return err
}

// outcome is the outcome of a row's request.
type outcome struct {
	sent bool
	err  error
	held transform.Version // the row's version if it refused a mutation with a rank
}

// settle removes durable rows from the batch, decides what happens to refused rows, and returns the
// worst error. An error that no retry fixes comes before an error that a retry may fix. Among equal
// errors, the first row's error is returned.
func settle(ctx context.Context, b *transform.Batch, outcomes []outcome, refused *refusals) error {
	var worst error
	open := b.Rows[:0]
	for i, o := range outcomes {
		if o.sent && o.err == nil {
			again, err := refused.judge(b, &b.Rows[i], o.held)
			if err == nil && !again {
				continue
			}
			o.err = err
		}
		done, err := refused.settle(ctx, b, i, o.err)
		if err != nil && (worst == nil || Repeatable(worst) && !Repeatable(err)) {
			worst = err
		}
		if !done || err != nil {
			open = append(open, b.Rows[i])
		}
	}
	clear(b.Rows[len(open):]) // release the cells
	b.Rows = open
	return worst
}

// permanent converts the error of a single row to an error of the table.
func permanent(err error) error {
	e := *err.(*Error)
	e.Reason = Permanent
	return &e
}

func (w *Writer) acquire(ctx context.Context, table string, size int64) error {
	if w.pace != nil {
		if err := w.pace.of(table).acquire(ctx); err != nil {
			return err
		}
	}
	err := w.rows.Acquire(ctx, table, 1)
	if err == nil {
		if err = w.bytes.Acquire(ctx, table, size); err == nil {
			return nil
		}
		w.rows.Release(table, 1)
	}
	if w.pace != nil {
		w.pace.of(table).release()
	}
	return err
}

func (w *Writer) release(table string, size int64) {
	w.bytes.Release(table, size)
	w.rows.Release(table, 1)
	if w.pace != nil {
		w.pace.of(table).release()
	}
}

// apply makes one attempt to write a mutation, with the given guard. The result `held` is the row's
// version if the row refused the mutation (outranked).
func (w *Writer) apply(ctx context.Context, limits *deadlines, stamps Stamps, source string, m *transform.RowMutation, guard Request) (held transform.Version, err error) {
	whole := ctx
	start := task.Mono(ctx)
	ctx = limits.at(start)
	var applied bool
	if m.Keep {
		applied, err = Execute(ctx, stamps, w.o.Table, w.o.Rows, m)
	} else {
		applied, err = stamps.apply(ctx, w.o.Table, guard)
	}
	took := task.Mono(ctx) - start
	if w.pace != nil {
		w.pace.of(m.Table).note(took, err)
	}
	switch e := w.o.Events; {
	case errors.Is(err, ErrUnproved), errors.Is(err, ErrFenced): // nothing was sent
		return "", err
	case err != nil:
		failure := asError(err)
		if e.Failed != nil {
			e.Failed(source, failure.Code)
		}
		return "", failure
	case applied && e.Applied != nil:
		e.Applied(whole, source, took)
	case !applied && e.Stale != nil:
		e.Stale(whole, source, took)
	}
	if !applied {
		return w.outranked(whole, m)
	}
	return "", nil
}

// asError ensures that every failure has a reason. An error that is not an *Error may contain
// anything, and does not show whether the request was executed.
func asError(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Op: "CheckAndMutateRow", Reason: Unknown, Code: "Unknown"}
}

// park stores the parked records of the batch and checks their number.
func (w *Writer) park(ctx context.Context, b *transform.Batch) error {
	for len(b.Parked) > 0 {
		p := b.Parked[0]
		err := w.bounded(ctx, func(ctx context.Context) error { return w.o.Parking.Park(ctx, p) })
		if err != nil {
			return err
		}
		if len(b.Parked) == 1 { // this must come before the record leaves the batch, so that a retry checks again
			if err := w.checkParked(ctx); err != nil {
				return err
			}
		}
		b.Parked = b.Parked[1:]
		if w.o.Events.Parked != nil {
			w.o.Events.Parked(p.Source, p.Reason)
		}
	}
	return nil
}

// supersede deletes parked records of items that had no address before. The next change of each
// such item is durable or parked now. Resolve cannot delete these records, because it finds newer
// versions only in rows at a record's address.
func (w *Writer) supersede(ctx context.Context, b *transform.Batch) error {
	for len(b.Unaddressed) > 0 {
		a := b.Unaddressed[0]
		err := w.bounded(ctx, func(ctx context.Context) error { return w.o.Parking.Supersede(ctx, b.Source, a.Item, a.Version) })
		if err != nil {
			return err
		}
		b.Unaddressed = b.Unaddressed[1:]
	}
	return nil
}

// checkParked fails if too many items are parked. It is called after the record is stored, so the
// record that stopped the migration can be listed.
func (w *Writer) checkParked(ctx context.Context) error {
	if w.o.MaxParked == 0 {
		return nil
	}
	return w.bounded(ctx, func(ctx context.Context) error {
		n, err := w.o.Parking.Count(ctx, w.o.MaxParked+1)
		if err == nil && n > w.o.MaxParked {
			err = fmt.Errorf("%w: more than %d", ErrParkedLimit, w.o.MaxParked)
		}
		return err
	})
}

// bounded makes one call to the parking lot. If ctx ends meanwhile, it returns the cause.
func (w *Writer) bounded(ctx context.Context, call func(context.Context) error) error {
	timed, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	err := call(timed)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
