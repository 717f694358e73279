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

// OnBadItem says what becomes of an item that cannot be mapped or stored.
type OnBadItem uint8

// The policies. Nothing is ever skipped.
const (
	Park OnBadItem = iota // put it aside whole, remove what it owned, go on
	Stop                  // fail, write nothing of it
)

// Options are what a Writer needs. Table and Parking must be given.
type Options struct {
	Table   Table
	Parking ParkingLot
	// Rows shows rows before puts that keep older cells, and what refused a mutation with a rank; it may be nil if no mapping
	// asks for that.
	Rows Looker
	// InFlight and Bytes bound the requests that are under way at once, over all callers; 0 means the default. Target tables share them.
	// By default, each table has besides as many as it takes without answering later for it.
	InFlight int
	Bytes    int64
	// Timeout bounds one request; 0 means the default. It is also how long a request may still be executed after its Write
	// returned, as far as this side can tell.
	Timeout time.Duration
	// Floor is the generation of a source table as this process last read it: older mutations are fenced off. Nil: no floor.
	Floor func(source string) uint32
	// OnBadItem is the policy for items that cannot be mapped or stored.
	OnBadItem OnBadItem
	// MaxParked is how many items may be parked before Write fails with ErrParkedLimit; 0 means no limit.
	MaxParked int
	// MaxImageAge is the age above which an image is not put but parked: the tombstone that would refuse it may have been
	// collected (H81). It is the tombstones' age less a margin for clocks and collection. 0 means no limit.
	MaxImageAge time.Duration
	// Events may be left out, in part or as a whole.
	Events Events
}

// Events are what a Writer tells of itself. They are called from many tasks, must return soon, and carry no item data.
type Events struct {
	// Applied and Stale: a row is durable; the request took so long. Stale means that the row held a version as high already.
	Applied func(source string, took time.Duration)
	Stale   func(source string, took time.Duration)
	// Failed: a request failed with a gRPC code, and is repeated, parked or given up by what follows.
	Failed func(source, code string)
	// Parked: an item's change was stored in the parking lot.
	Parked func(source, reason string)
	// Overtaken: a row refused a change of the stream that was so old by then, because the
	// application has written a newer number there by itself. A change that is read again counts again.
	Overtaken func(source string, age time.Duration)
}

// Writer makes batches durable. One Writer serves the whole process: what it bounds, it bounds over all tables and shards.
type Writer struct {
	o     Options
	rows  *task.Shares // by target table, as the next: one that is slow must not hold what others need
	bytes *task.Shares
	pace  *windows // nil if the number of requests is given
}

// NewWriter returns a writer with defaults filled in.
func NewWriter(o Options) *Writer {
	var pace *windows
	if o.InFlight == 0 {
		o.InFlight, pace = DefaultInFlight, &windows{tables: map[string]*window{}}
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
	return &Writer{o: o, rows: task.NewShares(int64(o.InFlight)), bytes: task.NewShares(o.Bytes), pace: pace}
}

// Write returns nil when every row of the batch is durable, which is applied or refused as stale,
// every parked record is stored (S3), and what those make superfluous is forgotten. It waits while
// too much is under way.
//
// It does not back off, and repeats nothing itself. On an error it removes from the batch what is
// done: the caller repeats Write with the same batch, and only what is open is sent again,
// identically (S4). A batch belongs to one Write at a time.
//
// A row that the target rejects for what it contains is parked: its put becomes a remove of the
// same version, so that nothing stale stays, and the record follows once all rows are durable. A
// row that takes not even that, while others do, is parked and stays as it was. What ails the table
// as a whole is never parked (H50): it is an error of reason Permanent or Denied. When ctx ends,
// its cause is returned.
//
// The stamps come from a proof of the right to write this batch (Prove). After ErrRefenced the
// caller proves it again and repeats Write with the same batch under the new stamps, or gives the
// batch up: the right is lost.
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
		// What is left was rejected and has become a remove, or was not sent. A remove that is rejected is parked or an error, so this ends.
	}
	if err := w.park(ctx, b); err != nil {
		return err
	}
	return w.supersede(ctx, b)
}

// checkFloor fences a batch of an old generation off. That is a saving, not the safety: a late request of an old generation is
// refused by the row's version.
func (w *Writer) checkFloor(b *transform.Batch) error {
	floor := w.o.Floor(b.Source)
	for i := range b.Rows {
		if g := b.Rows[i].Version.Generation(); g < floor {
			return fmt.Errorf("%w (generation %d, table %s is at %d)", ErrFenced, g, b.Source, floor)
		}
	}
	return nil
}

// MaxImageAge is that of the options: 0 is no limit.
func (w *Writer) MaxImageAge() time.Duration { return w.o.MaxImageAge }

// refuseOld parks what is too old to be put. The record is stored before the remove, too: if this worker goes between the two, the clock of the next one may
// say that the image is young enough, its put is refused for the remove's version, and nobody would park it.
func (w *Writer) refuseOld(ctx context.Context, b *transform.Batch) error {
	if w.o.MaxImageAge <= 0 {
		return nil
	}
	oldest := w.now(ctx, b).Add(-w.o.MaxImageAge)
	for i := range b.Rows {
		if b.Rows[i].Remove || !b.Rows[i].At.Before(oldest) {
			continue // a remove is harmless at any age: it is refused if the item lives at a newer version
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

// now is the time on the clock by which images are dated, if the source told it: that of a worker may be days off.
func (w *Writer) now(ctx context.Context, b *transform.Batch) time.Time {
	if b.Read.At.IsZero() {
		return task.Now(ctx)
	}
	return b.Read.At.Add(task.Mono(ctx) - b.Read.Mono)
}

// putAside turns a put into a parked record and a remove at the same version. The put was not applied: if it had been, the
// guard would have answered "stale", not rejected it; so the remove is newer than what the row holds.
func (w *Writer) putAside(b *transform.Batch, i int, reason string) error {
	if w.o.OnBadItem == Stop {
		return &BadItem{b.Source, reason}
	}
	row := &b.Rows[i]
	b.Parked = append(b.Parked, b.Park(*row, reason))
	row.Remove, row.Cells = true, nil
	return nil
}

// send sends all rows once, and leaves in the batch those that are not durable. It returns nil if all of those were
// rejected puts, which are removes now, or were not sent because of them.
func (w *Writer) send(ctx context.Context, stamps Stamps, b *transform.Batch, refused *refusals) error {
	outcomes := make([]outcome, len(b.Rows))
	var failed atomic.Bool // what ails the target ails the next row as well: do not send it
	g := task.NewCrew(ctx)
	for i := range b.Rows {
		row := &b.Rows[i]
		request := Guard(*row)
		size := request.Size() + stamps.size(row.Table)
		if row.Keep {
			size = 3*size + pastSize(row) // of each column that is looked at two cells come back
		}
		if failed.Load() || w.acquire(ctx, row.Table, size) != nil {
			break
		}
		g.Go("write", func(ctx context.Context) error {
			defer w.release(row.Table, size)
			held, err := w.apply(ctx, stamps, b.Source, row, request)
			outcomes[i] = outcome{sent: true, err: err, held: held}
			if w.o.Events.Overtaken != nil && overtaken(row.Version, held) {
				w.o.Events.Overtaken(b.Source, max(0, w.now(ctx, b).Sub(row.At)))
			}
			if err != nil && !Is(err, Rejected) {
				failed.Store(true)
			}
			return nil // the others go on: a request that was sent is cheaper to finish than to repeat
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	err := settle(ctx, b, outcomes, refused)
	if cause := context.Cause(ctx); cause != nil && len(b.Rows) > 0 {
		return cause
	}
	return err
}

// outcome is what became of a row's request.
type outcome struct {
	sent bool
	err  error
	held transform.Version // what the row held if it refused a mutation with a rank
}

// settle removes durable rows from the batch, decides about refused ones, and returns the worst error: one that no retry fixes
// before one that a repeat does, the first row's before others'.
func settle(ctx context.Context, b *transform.Batch, outcomes []outcome, refused *refusals) error {
	var worst error
	open := b.Rows[:0]
	for i, o := range outcomes {
		if o.sent && o.err == nil {
			if o.err = refused.fell(b, &b.Rows[i], o.held); o.err == nil {
				continue
			}
		}
		done, err := refused.settle(ctx, b, i, o.err)
		if err != nil && (worst == nil || Repeatable(worst) && !Repeatable(err)) {
			worst = err
		}
		if !done || err != nil {
			open = append(open, b.Rows[i])
		}
	}
	clear(b.Rows[len(open):]) // let go of the cells
	b.Rows = open
	return worst
}

// permanent is the error of a single row taken for one of the table.
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

// apply makes one attempt to write a mutation, whose guard is given. Held is what the row holds if it refused it (outranked).
func (w *Writer) apply(ctx context.Context, stamps Stamps, source string, m *transform.RowMutation, guard Request) (held transform.Version, err error) {
	whole := ctx
	ctx, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	start := task.Mono(ctx)
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
	case errors.Is(err, ErrUnproved): // nothing was sent
		return "", err
	case err != nil:
		failure := asError(err)
		if e.Failed != nil {
			e.Failed(source, failure.Code)
		}
		return "", failure
	case applied && e.Applied != nil:
		e.Applied(source, took)
	case !applied && e.Stale != nil:
		e.Stale(source, took)
	}
	if !applied {
		return w.outranked(whole, m)
	}
	return "", nil
}

// asError makes sure that every failure has a reason. What a table says that is not an Error tells nothing of what was
// executed, and may contain anything.
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
		if len(b.Parked) == 1 { // before it is struck off: a repeat after a failure counts too
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

// supersede forgets what is parked of items that had no address, now that their next change is durable or parked. No row tells of it: where
// such a record has an address, Resolve finds the newer version there.
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

// checkParked fails if too much is parked. It is asked after storing, so that whatever it is that stopped the migration can be listed.
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

// bounded runs one call to the parking lot. When ctx ends meanwhile, its cause is returned.
func (w *Writer) bounded(ctx context.Context, call func(context.Context) error) error {
	timed, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	err := call(timed)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
