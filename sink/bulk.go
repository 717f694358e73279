package sink

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The bounds of one bulk request. Bigtable accepts at most 100,000 operations in a request, and
// larger requests are not faster. Source:
// https://cloud.google.com/bigtable/quotas#limits-operations
const (
	bulkRows  = 1000
	bulkOps   = 50_000
	bulkBytes = 4 << 20
)

// bulk is the state of a Writer's bulk requests.
type bulk struct {
	pace *windows

	mu     sync.Mutex
	looked map[string]time.Duration // when the marks of a source's targets were last read, by source
}

func newBulk() *bulk {
	return &bulk{pace: &windows{bounds: bulkBounds, tables: map[string]*window{}}, looked: map[string]time.Duration{}}
}

// lookEvery is the time between two reads of the fence's marks while bulk requests fail.
const lookEvery = time.Second

// due reports whether the marks must be read again.
func (b *bulk) due(source string, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, known := b.looked[source]; known && now-at < lookEvery {
		return false
	}
	b.looked[source] = now
	return true
}

// Copy makes a batch of a fast load durable, like Write, but without a condition on each row
// (Marker). The rules of Write about errors, stamps and repeated calls apply to Copy too. The caller
// must have found that a fast load of the table is allowed. Each image of the batch must be one that
// the load may write at any time before its sweep.
//
// A row that the target rejects for its content is written as Write does it, and parked.
func (w *Writer) Copy(ctx context.Context, stamps Stamps, mark Marker, b *transform.Batch) error {
	if w.o.OnBadItem == Stop && len(b.Parked) > 0 {
		return &BadItem{b.Source, b.Parked[0].Reason}
	}
	if err := w.refuseOld(ctx, b); err != nil {
		return err
	}
	if err := w.checkFloor(b); err != nil {
		return err
	}
	rejected, err := w.copyAll(ctx, stamps, mark, b)
	if err != nil || rejected {
		if risen := w.risen(ctx, stamps, b.Source, rejected, err); risen != nil {
			return risen
		}
	}
	return w.Write(ctx, stamps, b)
}

// risen returns the error of a Copy. The service does not say that it refused an entry because of
// the fence, and the code of such a refusal is unknown. So after each failure the fence's marks
// decide, whatever the code. The argument `rejected` reports that rows are about to be parked. That
// must not happen before the marks were read.
func (w *Writer) risen(ctx context.Context, stamps Stamps, source string, rejected bool, failed error) error {
	if failed != nil && errors.Is(failed, ErrFenced) || context.Cause(ctx) != nil {
		return failed
	}
	if !w.bulk.due(source, task.Mono(ctx)) && !rejected {
		return failed
	}
	return stamps.decide(ctx, failed)
}

// copyAll sends all rows of a batch once that a bulk request can write. It removes the durable ones
// from the batch. The result `rejected` reports that the target rejected rows for their content.
func (w *Writer) copyAll(ctx context.Context, stamps Stamps, mark Marker, b *transform.Batch) (rejected bool, failed error) {
	requests := bulkOf(b.Rows, stamps, mark)
	outcomes := make([]outcome, len(b.Rows))
	g := task.NewCrew(ctx)
	for i := range requests {
		r := &requests[i]
		if err := w.acquireBulk(ctx, r); err != nil {
			break
		}
		g.Go("copy", func(ctx context.Context) error {
			defer w.releaseBulk(r)
			for i, err := range w.copyOnce(ctx, stamps, b.Source, r) {
				outcomes[r.rows[i]] = outcome{sent: true, err: err}
			}
			return nil // the other requests continue
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	open := b.Rows[:0]
	for i := range b.Rows {
		o := outcomes[i]
		switch {
		case o.sent && o.err == nil:
			continue
		case Is(o.err, Rejected):
			rejected = true
		case o.err != nil && (failed == nil || Repeatable(failed) && !Repeatable(o.err)):
			failed = o.err
		}
		open = append(open, b.Rows[i])
	}
	clear(b.Rows[len(open):]) // release the cells
	b.Rows = open
	if cause := context.Cause(ctx); cause != nil && len(b.Rows) > 0 {
		return rejected, cause
	}
	return rejected, failed
}

// bulkRequest is one bulk request.
type bulkRequest struct {
	table   string
	rows    []int // indexes of the rows in the batch, in the order of entries
	entries []Entry
	size    int64
}

// bulkable reports whether a bulk request can write a row.
func bulkable(row *transform.RowMutation) bool {
	return !row.Remove && !row.Keep && row.Owner == "" && !slices.ContainsFunc(row.Cells, func(c transform.Cell) bool { return c.Add })
}

// bulkOf divides rows into bulk requests.
func bulkOf(rows []transform.RowMutation, stamps Stamps, mark Marker) []bulkRequest {
	total := 0
	for i := range rows {
		total += stampOps + len(rows[i].Cells) + 2
	}
	ops, value := make([]Op, 0, total), mark.value()
	var requests []bulkRequest
	last := map[string]int{} // index of the request to fill, by table
	opsOf := map[string]int{}
	for i := range rows {
		row := &rows[i]
		if !bulkable(row) {
			continue
		}
		begin := len(ops)
		ops, _ = stamps.fence(row.Table, ops) // an unproved table fails in applyAll
		ops = appendCopy(ops, row, mark, value)
		entry := Entry{Row: row.Row, Ops: ops[begin:len(ops):len(ops)]}
		size := entry.size()
		at, known := last[row.Table]
		if !known || len(requests[at].entries) >= bulkRows || requests[at].size+size > bulkBytes || opsOf[row.Table]+len(entry.Ops) > bulkOps {
			at = len(requests)
			room := min(bulkRows, len(rows)-i)
			requests = append(requests, bulkRequest{table: row.Table, rows: make([]int, 0, room), entries: make([]Entry, 0, room)})
			last[row.Table], opsOf[row.Table] = at, 0
		}
		r := &requests[at]
		r.rows, r.entries, r.size = append(r.rows, i), append(r.entries, entry), r.size+size
		opsOf[row.Table] += len(entry.Ops)
	}
	return requests
}

// size returns approximately how many bytes the entry takes in memory and on the wire.
func (e *Entry) size() int64 {
	r := Request{Row: e.Row, Ops: e.Ops}
	return r.Size()
}

func (w *Writer) acquireBulk(ctx context.Context, r *bulkRequest) error {
	if err := w.bulk.pace.of(r.table).acquire(ctx); err != nil {
		return err
	}
	err := w.bytes.Acquire(ctx, r.table, r.size)
	if err != nil {
		w.bulk.pace.of(r.table).release()
	}
	return err
}

func (w *Writer) releaseBulk(r *bulkRequest) {
	w.bytes.Release(r.table, r.size)
	w.bulk.pace.of(r.table).release()
}

// copyOnce sends a bulk request once, and reports its outcome.
func (w *Writer) copyOnce(ctx context.Context, stamps Stamps, source string, r *bulkRequest) []error {
	start := task.Mono(ctx)
	limited, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	errs := stamps.applyAll(limited, w.o.Table, r.table, r.entries)
	took := task.Mono(ctx) - start
	var worst error
	for i, err := range errs {
		if err == nil {
			if w.o.Events.Applied != nil {
				w.o.Events.Applied(ctx, source, took)
			}
			continue
		}
		if errors.Is(err, ErrUnproved) || errors.Is(err, ErrFenced) {
			return errs // nothing was sent
		}
		failure := asError(err)
		errs[i] = failure
		if worst == nil || Is(worst, Rejected) {
			worst = failure
		}
	}
	w.bulk.pace.of(r.table).note(took, worst)
	if worst != nil && w.o.Events.Failed != nil {
		w.o.Events.Failed(source, asError(worst).Code)
	}
	return errs
}

// applyAll sends the entries of one table, which the caller has stamped. Only the caller of a proof
// has the marks for that.
func (s Stamps) applyAll(ctx context.Context, to Table, table string, entries []Entry) []error {
	all := func(err error) []error { return slices.Repeat([]error{err}, len(entries)) }
	if _, err := s.fence(table, nil); err != nil {
		return all(err)
	}
	target, ok := to.(bulkTable)
	if !ok {
		return all(errNoBulk(table))
	}
	if err := ctx.Err(); err != nil { // nothing is sent, so nothing is in doubt
		return all(classify("MutateRows", err))
	}
	if err := s.gate.enter(table); err != nil {
		return all(err)
	}
	errs := target.ApplyAll(ctx, table, entries)
	var doubt error
	for _, err := range errs {
		if !definite(err) {
			doubt = err
			break
		}
	}
	s.gate.leave(table, s.marks[table], doubt)
	return errs
}

// Clean executes entries of a sweep (Ghosts), stamped by the given stamps. It returns nil when all
// of them are durable. It may be repeated after any error.
func (w *Writer) Clean(ctx context.Context, stamps Stamps, source, table string, entries []Entry) error {
	stamped := make([]Entry, len(entries))
	for i, e := range entries {
		ops, err := stamps.fence(table, make([]Op, 0, stampOps+len(e.Ops)))
		if err != nil {
			return err
		}
		stamped[i] = Entry{e.Row, append(ops, e.Ops...)}
	}
	for part := range slices.Chunk(stamped, bulkRows) {
		r := &bulkRequest{table: table, entries: part}
		for i := range part {
			r.size += part[i].size()
		}
		if err := w.acquireBulk(ctx, r); err != nil {
			return err
		}
		errs := w.copyOnce(ctx, stamps, source, r)
		w.releaseBulk(r)
		for _, err := range errs {
			if err == nil {
				continue
			}
			return w.risen(ctx, stamps, source, true, permanentOf(err))
		}
	}
	return nil
}

// permanentOf converts the rejection of a row to an error of the table, because a sweep writes no
// content of items.
func permanentOf(err error) error {
	if Is(err, Rejected) {
		return permanent(err)
	}
	return err
}

// Probe reports how many of the given rows of a table still accept a request with an older number
// of the fence. The number must not be published any more. The request changes nothing in a row that
// accepts it.
func (w *Writer) Probe(ctx context.Context, table string, old Mark, rows []string) (accepted int, err error) {
	target, ok := w.o.Table.(bulkTable)
	if !ok {
		return 0, errNoBulk(table)
	}
	entries := make([]Entry, len(rows))
	for i, row := range rows {
		entries[i] = Entry{row, []Op{{Kind: SetCell, Family: old.Family, Qualifier: fenceColumn}, {Kind: DeleteFamily, Family: old.Family}}}
	}
	limited, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	for _, err := range target.ApplyAll(limited, table, entries) {
		if err == nil {
			accepted++
		}
	}
	return accepted, context.Cause(ctx)
}
