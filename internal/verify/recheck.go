package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Rechecker makes the rechecks of a table's shards.
type Rechecker struct {
	*engine.Common
	mapping *transform.Mapping
	look    func(ctx context.Context, life engine.Lifecycle, places []verify.Place) ([]verify.Look, error)
}

// NewRechecker returns a Rechecker that reads source and target in the same way as the table's
// verifier.
func NewRechecker(v *Verifier) *Rechecker {
	return &Rechecker{Common: v.Common, mapping: v.mapping, look: func(ctx context.Context, life engine.Lifecycle, places []verify.Place) ([]verify.Look, error) {
		c := v.comparison(life, checkpoint.TableState{}, verify.Scope{})
		// The comparison does not retry its reads, because the whole comparison is retried. It has
		// no limits, because they apply only to jobs.
		c.Retry, c.Pace = nil, nil
		return c.Look(ctx, places...)
	}}
}

const (
	// recheckAfter is the time between the application of a change and the comparison of its row. A
	// row that differs is compared again after the same time. A later change of the row restarts
	// this time.
	recheckAfter = 2 * time.Second
	// recheckRows is the number of rows that are compared together.
	recheckRows = 128
	// mostRechecks is the maximum number of rows of one shard that wait for a comparison.
	mostRechecks = 200_000
)

// Recheck compares the rows of one shard's changes again, until each is equal to its items.
//
//   - It compares every row that a change names, by its old and its new image: an item that moved may
//     have left a row behind.
//   - A later change of a row replaces the earlier one, because the whole row is compared.
//   - A page of changes is rechecked when all its rows were equal after it. The position moves over
//     rechecked pages only, so that a worker that acquires the shard loses no row.
type Recheck struct {
	of *Rechecker

	mu     sync.Mutex
	state  checkpoint.Rechecked
	pages  []*recheckedPage // pages of changes; the first page is not rechecked yet
	queue  []*recheckedRow  // rows that wait, ordered by due
	rows   map[[2]string]*recheckedRow
	last   cdc.SequenceNumber // position of the last change that was added
	fresh  bool               // the state has changed since it was last read
	ended  bool
	notify func() // called when the last waiting row is equal; may be nil
	wake   task.Wakeup
}

// recheckedPage is a page of changes, with rows that wait for a comparison.
type recheckedPage struct {
	to     cdc.SequenceNumber
	strict int // number of rows that wait
	open   int // number of rows that wait and are not excused
}

// recheckedRow is a row that waits for a comparison.
type recheckedRow struct {
	verify.Place
	page    *recheckedPage
	due     time.Duration
	gone    bool   // a later change of the row has replaced this entry
	differs string // how the row differed in the last comparison
	listed  bool   // the row differed in the same way in the last two comparisons
	excused bool   // the row's item has expired
}

// Begin returns the recheck of a shard. The recheck does nothing before a call of Turn or Resume.
func (r *Rechecker) Begin() *Recheck {
	return &Recheck{of: r, rows: map[[2]string]*recheckedRow{}}
}

// Notify sets a function that is called when the last waiting row is equal.
func (r *Recheck) Notify(f func()) { r.notify = f }

// Turn begins a recheck with the given number. With number 0, it ends the recheck. All changes up
// to position `at` must be applied. The argument `since` is when the recheck begins; zero if `at`
// is before the shard's first change.
func (r *Recheck) Turn(number uint32, at cdc.SequenceNumber, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear(checkpoint.Rechecked{Verify: number, Since: since, To: at, Through: at})
	if number == 0 {
		r.state = checkpoint.Rechecked{}
	}
	r.last = at
}

// Resume continues the recheck of another worker. Changes after that recheck's position, up to
// `at`, are applied but may not be rechecked. The caller must read these changes, add them with
// Again, and then call the returned function.
func (r *Recheck) Resume(state checkpoint.Rechecked, at cdc.SequenceNumber) (complete func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear(state)
	page := &recheckedPage{to: at, strict: 1, open: 1}
	r.pages, r.last = []*recheckedPage{page}, at
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.pages) > 0 && r.pages[0] == page {
			page.strict, page.open = page.strict-1, page.open-1
			r.pop()
		}
	}
}

func (r *Recheck) clear(state checkpoint.Rechecked) {
	state.Differing, state.Lost = 0, ""
	r.state, r.fresh = state, true
	r.pages, r.queue, r.rows = nil, nil, map[[2]string]*recheckedRow{}
}

// Number returns the number of the verify that began the rechecks; 0 if changes are not rechecked.
func (r *Recheck) Number() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Verify
}

// Lose records that the recheck has failed, because rows were not compared.
func (r *Recheck) Lose(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose(why)
}

func (r *Recheck) lose(why string) {
	if r.state.Verify == 0 {
		return
	}
	r.clear(checkpoint.Rechecked{})
	r.state.Lost = why
}

// Take copies the rows that a batch names. It must be called before the write, which empties the
// batch. The caller must call the returned function when all changes up to a position are applied.
func (r *Recheck) Take(b *transform.Batch) (asserted func(ctx context.Context, to cdc.SequenceNumber)) {
	if r.Number() == 0 {
		return func(context.Context, cdc.SequenceNumber) {}
	}
	places := r.places(b)
	return func(ctx context.Context, to cdc.SequenceNumber) { r.asserted(ctx, places, to) }
}

func (r *Recheck) places(b *transform.Batch) []verify.Place {
	places := make([]verify.Place, 0, len(b.Rows))
	for i := range b.Rows {
		row := &b.Rows[i]
		place := verify.Place{Table: row.Table, Row: row.Row}
		if keys, ok := r.of.mapping.ParseItemKey(row.Item); ok {
			place.Keys = []attribute.Item{keys}
		}
		places = append(places, place)
	}
	return places
}

// asserted adds the rows of changes that have just been applied, up to a position.
func (r *Recheck) asserted(ctx context.Context, places []verify.Place, to cdc.SequenceNumber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Verify == 0 || to.Compare(r.last) <= 0 {
		return
	}
	r.last = to
	page := &recheckedPage{to: to}
	r.pages = append(r.pages, page)
	r.add(ctx, page, places)
	r.pop()
}

// Again adds the rows of changes that were applied earlier and are now read again.
func (r *Recheck) Again(ctx context.Context, b *transform.Batch) {
	places := r.places(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Verify > 0 && len(r.pages) > 0 {
		r.add(ctx, r.pages[0], places)
	}
}

func (r *Recheck) add(ctx context.Context, page *recheckedPage, places []verify.Place) {
	due := task.Mono(ctx) + recheckAfter
	for _, p := range places {
		at := [2]string{p.Table, p.Row}
		row := &recheckedRow{Place: p, page: page, due: due}
		if before := r.rows[at]; before != nil {
			row.Keys = r.union(before.Keys, p.Keys)
			r.drop(before)
		}
		page.strict, page.open = page.strict+1, page.open+1
		r.rows[at] = row
		r.queue = append(r.queue, row)
	}
	if len(r.rows) > mostRechecks {
		r.lose(fmt.Sprintf("more than %d rows wait to be compared again", mostRechecks))
	}
	r.wake.Signal()
}

func (r *Recheck) union(a, b []attribute.Item) []attribute.Item {
	all := slices.Clip(a)
	for _, keys := range b {
		if !slices.ContainsFunc(a, func(k attribute.Item) bool { return r.of.mapping.ItemKey(k) == r.of.mapping.ItemKey(keys) }) {
			all = append(all, keys)
		}
	}
	return all
}

// drop removes a row from its page.
func (r *Recheck) drop(row *recheckedRow) {
	row.gone = true
	delete(r.rows, [2]string{row.Table, row.Row})
	row.page.strict--
	if !row.excused {
		row.page.open--
	}
	r.list(row, false)
}

// list records whether the row counts as differing.
func (r *Recheck) list(row *recheckedRow, listed bool) {
	if listed != row.listed {
		r.state.Differing += map[bool]int{true: 1, false: -1}[listed]
		row.listed = listed
	}
}

// pop moves the position past all rechecked pages at the front.
func (r *Recheck) pop() {
	for len(r.pages) > 0 && r.pages[0].strict == 0 {
		r.state.To, r.fresh = r.pages[0].to, true
		r.pages = r.pages[1:]
	}
	through := r.state.To
	for _, p := range r.pages {
		if p.open > 0 {
			break
		}
		through = p.to
	}
	if through.Compare(r.state.Through) != 0 {
		r.state.Through, r.fresh = through, true
	}
}

// State returns the state of the recheck, with the position up to which the shard is rechecked.
func (r *Recheck) State() checkpoint.Rechecked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// News reports whether the state must be committed: since the last call, the last change was
// rechecked, or the recheck began or failed. It reports each such event once.
func (r *Recheck) News() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.fresh && r.whole()
	if news {
		r.fresh = false
	}
	return news
}

// whole reports whether no row waits, apart from rows of expired items.
func (r *Recheck) whole() bool { return r.state.Through.Compare(r.last) == 0 || r.state.Verify == 0 }

// Finish waits for a limited time until all rows of a shard that was read to its end are equal.
func (r *Recheck) Finish(life engine.Lifecycle) {
	for until := task.Mono(life.Work) + 5*recheckAfter; task.Mono(life.Work) < until; {
		r.mu.Lock()
		whole := r.whole()
		r.mu.Unlock()
		if whole || life.Rest(recheckAfter/10) != nil {
			return
		}
	}
	r.Lose("rows of a shard that ended still differed")
}

// End makes Run return.
func (r *Recheck) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wake.Signal()
}

// Run compares rows when they are due, until End or a drain.
func (r *Recheck) Run(life engine.Lifecycle) error {
	for !life.Draining() && life.Work.Err() == nil {
		due, wait, ended := r.due(task.Mono(life.Work))
		if ended {
			return nil
		}
		if len(due) == 0 {
			_ = r.wake.Wait(life.Drain, wait)
			continue
		}
		places := make([]verify.Place, len(due))
		for i, row := range due {
			places[i] = row.Place
		}
		var looks []verify.Look
		err := r.of.Retry(life, "compare changed rows again", func(ctx context.Context) (err error) {
			looks, err = r.of.look(ctx, life, places)
			return err
		})
		if err != nil {
			if life.Draining() || life.Work.Err() != nil {
				return nil
			}
			return err
		}
		r.judge(task.Mono(life.Work), due, looks)
	}
	return nil
}

// due removes the rows that are due from the queue, and returns them. If none is due, it returns
// how long to wait.
func (r *Recheck) due(now time.Duration) (due []*recheckedRow, wait time.Duration, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && len(due) < recheckRows {
		switch row := r.queue[0]; {
		case row.gone:
		case row.due > now:
			return due, row.due - now, r.ended
		default:
			due = append(due, row)
		}
		r.queue = r.queue[1:]
	}
	return due, time.Minute, r.ended
}

// judge removes equal rows from their pages, and puts the other rows back into the queue.
func (r *Recheck) judge(now time.Duration, due []*recheckedRow, looks []verify.Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.whole()
	for i, row := range due {
		look := &looks[i]
		if row.gone {
			continue
		}
		if look.Equal() && !look.Expired {
			r.drop(row)
			continue
		}
		if excused := look.Equal(); excused != row.excused {
			row.page.open += map[bool]int{true: -1, false: 1}[excused]
			row.excused = excused
		}
		how := howItDiffers(look)
		r.list(row, how != "" && how == row.differs)
		row.differs, row.due = how, now+recheckAfter
		r.queue = append(r.queue, row)
	}
	r.pop()
	if !before && r.whole() && r.notify != nil {
		r.notify()
	}
}

// howItDiffers describes a difference as text, so that the results of two comparisons of a row can
// be compared. The text includes the row's version, so it changes if the row was written. It is ""
// for a row that is equal or in flight.
func howItDiffers(look *verify.Look) string {
	var all []string
	for _, f := range look.Findings {
		all = append(all, fmt.Sprint(f.Owner, " ", f.Kind, " ", f.Version))
	}
	if look.Unmapped {
		all = append(all, "unmapped")
	}
	return strings.Join(all, "\n")
}
