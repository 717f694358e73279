package sink

import (
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// What the target will refuse for ever.
//
// An answer that does not pass may be about one row: what it contains, or that it has grown beyond what Bigtable allows. Such a row is parked. Or it is
// about the table: then nothing is parked, and the batch waits for somebody to mend it. The code does not tell them apart. So a put that is rejected is
// followed by a remove, which contains nothing of the item; and who is refused that, or anything for the state of the row, asks the table for another row.

// lasting tells whether the same request will be refused again, be it for the row or for the table. A target that lacks something is not among that: no
// other row is taken then.
func lasting(err error) bool {
	return Is(err, Rejected) || Is(err, Permanent) && asError(err).Code == "FailedPrecondition"
}

// refusals is what one Write knows of what the target refuses.
type refusals struct {
	*Writer
	stamps  Stamps
	before  []transform.RowMutation // puts that were put aside, as they were
	healthy map[string]bool         // whether another row was taken, by table and families
}

// settle decides about a row of the batch that was not made durable, for the given error; nil if it was not sent. Done tells that nothing of it is left to
// send. The error is what is left of the given one.
func (r *refusals) settle(ctx context.Context, b *transform.Batch, i int, failed error) (done bool, err error) {
	row := &b.Rows[i]
	switch {
	case !lasting(failed):
		return false, failed
	case Is(failed, Rejected) && !row.Remove:
		return false, r.putAside(b, i, failed)
	case !r.alone(ctx, row):
		r.restore(b, i)
		return false, permanent(failed)
	case !row.Remove:
		return false, r.putAside(b, i, failed)
	}
	return true, r.leave(b, row, failed)
}

func (r *refusals) putAside(b *transform.Batch, i int, failed error) error {
	before := b.Rows[i]
	err := r.Writer.putAside(b, i, "Bigtable rejects the row: "+failed.Error())
	if err == nil {
		r.before = append(r.before, before)
	}
	return err
}

// restore makes a remove the put again that it was: the target refuses everything, which says nothing of the item.
func (r *refusals) restore(b *transform.Batch, i int) {
	row := &b.Rows[i]
	n := slices.IndexFunc(r.before, func(m transform.RowMutation) bool {
		return m.Item == row.Item && m.Table == row.Table && m.Row == row.Row && m.Version == row.Version
	})
	if n < 0 {
		return
	}
	*row = r.before[n]
	if at := parkedOf(b, row); at >= 0 {
		b.Parked = slices.Delete(b.Parked, at, at+1)
	}
	r.before = slices.Delete(r.before, n, n+1)
}

// leave parks an item whose row cannot even be emptied: it goes on holding what it held.
func (r *refusals) leave(b *transform.Batch, row *transform.RowMutation, failed error) error {
	reason := "Bigtable rejects the write, and the row is unchanged: " + failed.Error()
	if r.o.OnBadItem == Stop {
		return &BadItem{b.Source, reason}
	}
	if at := parkedOf(b, row); at >= 0 {
		b.Parked[at].Reason = reason
	} else {
		b.Parked = append(b.Parked, b.Park(*row, reason))
	}
	return nil
}

// parkedOf is the place of the record of a row's change among those to park, negative if there is none.
func parkedOf(b *transform.Batch, row *transform.RowMutation) int {
	return slices.IndexFunc(b.Parked, func(p transform.Parked) bool { return p.Key == row.Item && p.Version == row.Version })
}

// alone reports whether the table takes a request for another row, in the same families.
func (r *refusals) alone(ctx context.Context, row *transform.RowMutation) bool {
	probe, name := probeOf(row)
	healthy, known := r.healthy[name]
	if !known {
		ctx, cancel := task.WithTimeout(ctx, r.o.Timeout)
		defer cancel()
		_, err := r.stamps.apply(ctx, r.o.Table, probe)
		healthy = err == nil
		if r.healthy == nil {
			r.healthy = map[string]bool{}
		}
		r.healthy[name] = healthy
	}
	return healthy
}

// probeRow is beside the witnesses, where no mapping puts a row.
const probeRow = transform.WitnessPrefix + "probe"

// probeOf is a request that changes nothing: it deletes a column that nobody writes, in each family that the mutation touches, of a row that does not
// exist. The name stands for all requests of its kind.
func probeOf(row *transform.RowMutation) (probe Request, name string) {
	guard := Guard(*row)
	probe = Request{Table: row.Table, Row: probeRow, Refuse: guard.Refuse}
	name = row.Table
	for _, op := range guard.Ops {
		if slices.ContainsFunc(probe.Ops, func(o Op) bool { return o.Family == op.Family }) {
			continue
		}
		probe.Ops = append(probe.Ops, Op{Kind: DeleteColumn, Family: op.Family, Qualifier: "probe"})
		name += "/" + op.Family
	}
	return probe, name
}
