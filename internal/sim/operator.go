package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// operator is somebody who decides about parked items while the workers run: they are read from the source again, as by `parked retry`, or given up,
// as by `parked drop`.
type operator struct {
	s         *simulation
	lot       *sink.Parking
	drops     float64                  // which part of the decisions is to give up
	given     map[string][]reading     // what was read of each item, by its id
	decidedOn map[string]time.Duration // when a row of a parked change was last to go, by its key
	gaveUp    map[parkedRow]bool       // changes that the target does without
}

// reading is what an item was when so many writes of the table had been made.
type reading struct {
	item   attribute.Item
	number int
}

// repair is a write of a register by a repair.
type repair struct {
	at      time.Duration
	version transform.Version
}

// newOperator makes one who does nothing yet.
func newOperator(s *simulation) *operator {
	return &operator{s: s, lot: sink.NewParking(Target{s.Target}, "default"), given: map[string][]reading{}, decidedOn: map[string]time.Duration{}, gaveUp: map[parkedRow]bool{}}
}

// begin lets the operator work, beside the workers and on a machine of his own.
func (o *operator) begin() {
	o.drops = o.s.drops / 2
	p := o.s.World.NewProcess("operator")
	p.Go("parked items", func() { o.work(p.Context(), o.s.limit(time.Duration(o.s.retries*float64(6*time.Hour))+20*time.Minute)) })
}

// work decides about some of what is parked, now and then, until there is peace.
func (o *operator) work(ctx context.Context, every time.Duration) {
	for task.Sleep(ctx, o.s.World.UpTo(2*every)) == nil && !o.s.peaceful {
		if err := o.decide(ctx); err != nil {
			o.s.World.Tracef("the operator gives up for now: %v", err)
		}
	}
}

// remove lets a parked change go.
func (o *operator) remove(ctx context.Context, ref sink.Ref) error {
	o.decidedOn["default/parked/"+string(ref)] = o.s.World.Elapsed()
	return o.lot.Remove(ctx, ref)
}

// lets tells whether a row of a parked change that goes now may go by a request of the operator's.
func (o *operator) lets(key string) bool {
	at, decided := o.decidedOn[key]
	return decided && o.s.World.Elapsed()-at <= o.s.Target.LateBy+time.Minute
}

// parkedItem is what one item has parked.
type parkedItem struct {
	refs    []sink.Ref
	records []transform.Parked
}

// decisionTime is how long the operator is at it.
const decisionTime = 30 * time.Minute

func (o *operator) decide(ctx context.Context) error {
	ctx, cancel := task.WithTimeout(ctx, decisionTime)
	defer cancel()
	items, err := o.parked(ctx)
	for _, item := range items {
		switch {
		case err != nil || o.s.peaceful:
			return err
		case o.s.World.Chance(o.drops):
			err = o.drop(ctx, item)
		default:
			err = o.retry(ctx, item)
		}
	}
	return err
}

// parked lists what is parked, by item.
func (o *operator) parked(ctx context.Context) (items []*parkedItem, err error) {
	err = o.lot.List(ctx, o.s.Mapping.Source, func(ref sink.Ref, p transform.Parked) error {
		if n := len(items); n == 0 || items[n-1].records[0].Key != p.Key {
			items = append(items, &parkedItem{})
		}
		last := items[len(items)-1]
		last.refs, last.records = append(last.refs, ref), append(last.records, p)
		return nil
	})
	return items, err
}

func (o *operator) drop(ctx context.Context, item *parkedItem) error {
	for i, ref := range item.refs {
		o.s.World.Inject("parked item given up")
		o.gaveUp[parkedRow{item.records[i].Key, string(item.records[i].Version)}] = true
		if err := o.remove(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// retry repairs one item. What is parked meanwhile stays.
func (o *operator) retry(ctx context.Context, item *parkedItem) error {
	ledger, err := o.s.Ledger(ctx)
	if err != nil {
		return err
	}
	target := &hasty{Target: Target{o.s.Target}, s: o.s, took: map[register]transform.Version{}}
	r := &sink.Repairer{
		Mapping: o.s.Mapping, Rows: target, Table: target, Item: o.item,
		Current: func(ctx context.Context) (uint32, error) {
			state, _, err := ledger.Table(ctx, o.s.Mapping.Source)
			return state.Generation, err
		},
		Generation: func(ctx context.Context, at time.Time) (uint32, error) {
			state, _, err := ledger.Table(ctx, o.s.Mapping.Source)
			if err != nil {
				return 0, err
			}
			shards, err := ledger.Shards(ctx, o.s.Mapping.Source)
			if err != nil {
				return 0, err
			}
			return state.Generation, checkpoint.Admissible(state, shards, at)
		},
	}
	began, whole := o.s.World.Elapsed(), o.whole(item.records)
	done, err := r.RepairParked(ctx, item.records...)
	var bad *sink.BadItem
	switch {
	case errors.As(err, &bad), errors.Is(err, sink.ErrOvertaken), errors.Is(err, sink.ErrRepairs):
		return nil // it stays parked
	case err != nil:
		return err
	}
	o.checkRetried(began, item.records, target.took)
	o.checkKept(began, item.records[0], whole, target.took)
	o.s.World.Inject("parked item retried")
	o.s.World.Tracef("the operator has retried item %s: it is there %v, %d rows are written", o.s.Source.name(item.records[0].Change.Keys), done.Present, done.Written)
	for _, ref := range item.refs {
		if err := o.remove(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// hasty is the target of a retry that may be cut short between two rows of an item.
type hasty struct {
	Target
	s    *simulation
	rows int                            // written before
	took map[register]transform.Version // what took place and was answered, by the column of the version for an owner
}

func (h *hasty) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if h.rows++; h.rows > 1 && !h.s.peaceful && h.s.World.Rand().IntN(2) == 0 {
		h.s.World.Inject("retry cut short")
		return false, Fail("CheckAndMutateRow", cdc.Unavailable)
	}
	took, err := h.Target.Apply(ctx, r)
	if took {
		h.took[register{rowID{r.Table, r.Row}, r.Refuse.Qualifier}] = r.Refuse.AtLeast
	}
	return took, err
}

// item reads an item consistently, and notes what was given. Now and then the answer takes minutes, in which the item may change, and the row.
func (o *operator) item(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	item, id, number, err := o.s.Source.get(ctx, keys)
	if err == nil {
		o.given[id] = append(o.given[id], reading{item, number})
		if !o.s.peaceful && o.s.World.Rand().IntN(2) == 0 {
			o.s.World.Inject("item read slowly")
			err = task.Sleep(ctx, o.s.World.UpTo(6*time.Minute))
		}
	}
	return item, item.Exists(), err
}

// countsOn tells whether a repair's version is the one that a row held, with one repair more.
func countsOn(held string, v transform.Version) bool {
	u, err := transform.ParseVersion(held)
	return err == nil && u.Count()+1 == v.Count() && u.WithoutCount() == v.WithoutCount()
}

// checkRepaired: a repair brings an image that the source gave it, at the version that the row held, with one repair more. What changed since
// outranks it, for a version stands for all changes up to it, and the item was read after the row (I9). The tombstone that it read may be
// collected before it writes, and a load may have written the row since, or a remove have come again.
func (t *truth) checkRepaired(w rowWrite, was string) {
	v, held := w.version, heldIn(w.before, w.column())
	before, was := held, max(was, t.found[w.register])
	if load, err := transform.ParseVersion(before); before < was && (!hasLive(w.before, w.register) || err == nil && load.Hop() == transform.LoadHop) {
		before = was
	}
	late := t.forgotten && t.m.World.Elapsed()-t.lostAt <= decisionTime+t.m.Target.LateBy+time.Minute
	if seen := transform.NewVersion(v.Generation(), v.Hop(), v.Sequence(), v.Count()-1); late && before < string(seen) {
		return // it came late, to a target that was restored to before the change, or to before another repair, which is declared
	}
	if !countsOn(before, v) && !countsOn(held, v) { // the operator read the row before that, or after
		t.m.violate("I9: row %q is repaired at %s over %q", w.row, v, before)
		return
	}
	t.m.World.Inject("row repaired")
	for _, im := range t.rows[w.register] {
		if t.operator != nil && slices.ContainsFunc(t.operator.given[im.id], func(read reading) bool {
			if read.number < t.number[w.register] {
				return false // it was read before the change was made that the row holds
			}
			var s *spot
			if read.item.Exists() {
				s = t.layout.place(read.item).at(w.register)
			}
			here := s != nil && s.held
			return here == !w.gone && (!here || t.matches(w, s))
		}) {
			return
		}
	}
	t.m.violate("I9: row %q is repaired at %s with what no operator has read", w.row, v)
}

// checkRetried: after a repair each place where the item was, or is, holds what it was when it was read last or became since, and nothing older
// (I9). Of a place that anybody else has written meanwhile nothing is said: in a generation that is read anew, what is older comes first; and where this repair had
// nothing to write, a request of one before it may come, with what the item was then, for as long as the changes since are not applied. Where expired items
// stay, one that is gone may have expired, and a place that is not older than what was parked stays as it is.
func (o *operator) checkRetried(began time.Duration, records []transform.Parked, took map[register]transform.Version) {
	t, newest := o.s.truth, transform.Version("")
	p := records[0]
	_, id := o.s.Source.keyOf(p.Change.Keys)
	read := o.given[id][len(o.given[id])-1]
	images := []attribute.Item{read.item}
	for _, record := range records {
		newest, images = max(newest, record.Version), append(images, record.Change.Old, record.Change.New)
	}
	for _, r := range t.places[p.Key] {
		if t.m.Outlives && !read.item.Exists() && heldIn(t.m.Target.Row(r.table, r.row), r.column()) >= string(newest) {
			continue
		}
		concerned := slices.ContainsFunc(images, func(im attribute.Item) bool {
			return im.Exists() && t.layout.place(im).at(r) != nil
		})
		last := t.repaired[r]
		another := last.at >= began && last.version != took[register{r.rowID, r.column()}]
		if concerned && !another && t.lostAt < began && t.wroteAt[r] < began && !t.holdsSince(r, read.number) {
			t.m.violate("I9: item %s was repaired, and row %q holds neither what it was at write %d nor what it became", o.s.Source.name(p.Change.Keys), r.row, read.number)
		}
	}
}

// whole are the places of an item that hold all of what is parked of it, with the versions of these.
func (o *operator) whole(records []transform.Parked) map[register]transform.Version {
	held, t := map[register]transform.Version{}, o.s.truth
	for _, r := range t.places[records[0].Key] {
		live, _ := t.m.Target.Row(r.table, r.row).Value(sink.LiveFamily, r.column())
		if v := transform.Version(live); !slices.ContainsFunc(records, func(p transform.Parked) bool { return v < p.Version }) {
			held[r] = v
		}
	}
	return held
}

// checkKept: where expired items stay, a retry of an item that is gone removes no place that holds all of what is parked (I9). A remove that comes
// meanwhile has a version of its own, and a repair before this one may have been of more that was parked.
func (o *operator) checkKept(began time.Duration, p transform.Parked, whole, took map[register]transform.Version) {
	t := o.s.truth
	_, id := o.s.Source.keyOf(p.Change.Keys)
	if read := o.given[id][len(o.given[id])-1]; !t.m.Outlives || read.item.Exists() || t.lostAt >= began {
		return
	}
	for r, was := range whole {
		gone, _ := t.m.Target.Row(r.table, r.row).Value(sink.GoneFamily, r.column())
		if v := transform.Version(gone); v != "" && v.Count() > transform.CountExact && v.WithoutCount() == was.WithoutCount() && v == took[register{r.rowID, r.column()}] {
			t.m.violate("I9: row %q, which may be of an expired item, is removed by a retry", r.row)
		}
	}
}

// holdsSince tells whether a register holds what it should have held when so many writes had been made, or at any time since. When its cells are to expire
// is not asked: a repair compares values, and what it writes is looked at by checkRepaired.
func (t *truth) holdsSince(r register, number int) bool {
	row := t.m.Target.Row(r.table, r.row)
	w := rowWrite{register: r, content: t.contents(r.rowID, row)[r.owner], before: row, after: row}
	live, mayBeGone := hasLive(row, r), true
	for _, im := range t.rows[r] {
		switch {
		case im.outlived || !im.spot.held:
			return true // nobody can tell
		case im.ended > 0 && im.ended <= number:
			continue
		case im.number <= number:
			mayBeGone = false
		}
		values := *im.spot
		values.stamps = nil
		if live && t.matches(w, &values) {
			return true
		}
		mayBeGone = mayBeGone || im.ended > 0
	}
	// Cells of a rule that no image told of which the operator knew go with the next change.
	return mayBeGone && !live
}

// last retries everything that is parked, when nothing changes and nothing fails any more: what can be stored is stored, and what the source does
// not hold is forgotten.
func (o *operator) last(ctx context.Context) error {
	items, err := o.parked(ctx)
	for _, item := range items {
		if err == nil {
			err = o.retry(ctx, item)
		}
		var hole *checkpoint.NotAdmissible
		if errors.As(err, &hole) {
			err = nil // a row without a version waits until the next load is admissible
			continue
		}
		if now := o.s.Source.now(item.records[0].Change.Keys); err == nil && (!now.Exists() || o.s.truth.layout.place(now).held()) {
			left := 0
			err = o.lot.OfItem(ctx, o.s.Mapping.Source, item.records[0].Key, func(sink.Ref, transform.Parked) error { left++; return nil })
			if err == nil && left > 0 {
				err = fmt.Errorf("%d changes of %s stay parked", left, o.s.Source.name(item.records[0].Change.Keys))
			}
		}
	}
	return err
}

// retryAll is a last look at what is parked.
func (s *simulation) retryAll() {
	if s.truth.operator == nil {
		s.truth.operator = newOperator(s)
	}
	p, done := s.World.NewProcess("operator in peace"), s.World.NewEvent()
	var err error
	p.Go("parked items", func() { err = s.truth.operator.last(p.Context()); done.Set() })
	if done.Wait(s.ctx) == nil && err != nil {
		s.fail("I9", "what is parked cannot be retried: %v", err)
	}
	for _, d := range s.truth.unequal(s.since(s.State())) {
		s.fail("I9", "%s, after what is parked was retried", d)
	}
}
