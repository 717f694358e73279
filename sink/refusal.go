package sink

import (
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// This file handles requests that the target refuses permanently.
//
// A permanent refusal may concern one row, because of its content or because its size exceeds
// Bigtable's limit. Such a row is parked. A refusal may also concern the table. Then no row is
// parked, and the batch waits until an operator fixes the table. The error's code does not
// distinguish these two cases. So after a rejected put the Writer sends a remove, which contains no
// data of the item. If the remove is refused too, or if a request is refused for the state of the
// row, the Writer probes the table with a request for another row.

// lasting reports whether the same request will be refused again, because of the row or because of
// the table. It returns false for a missing table or family, because then the target takes no other
// row either.
func lasting(err error) bool {
	return Is(err, Rejected) || Is(err, Permanent) && asError(err).Code == "FailedPrecondition"
}

// refusals records what one Write has learned about refusals of the target.
type refusals struct {
	*Writer
	stamps  Stamps
	before  []transform.RowMutation // the original puts that became removes
	healthy map[string]bool         // whether the table took another row, by table and families
}

// settle decides what happens to a row of the batch that is not durable. The argument `failed` is
// the row's error, or nil if the row was not sent. The result `done` reports that the row needs no
// further request. The returned error is nil if `failed` is handled.
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

// restore turns a remove back into the original put. The target refuses every request, so the item
// is not the cause.
func (r *refusals) restore(b *transform.Batch, i int) {
	row := &b.Rows[i]
	n := slices.IndexFunc(r.before, func(m transform.RowMutation) bool {
		return m.Item == row.Item && m.Table == row.Table && m.Row == row.Row && m.Version.Position() == row.Version.Position()
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

// leave parks an item whose row cannot even be emptied. The row stays unchanged.
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

// parkedOf returns the index in b.Parked of the record of a row's change; negative if there is
// none. The number of the row's version may have been raised since then.
func parkedOf(b *transform.Batch, row *transform.RowMutation) int {
	return slices.IndexFunc(b.Parked, func(p transform.Parked) bool {
		return p.Key == row.Item && p.Version.Position() == row.Version.Position()
	})
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

// probeRow is a row key beside the witness keys. No mapping uses it.
const probeRow = transform.WitnessPrefix + "probe"

// probeOf returns a request that changes nothing. In a row that does not exist, it deletes a column
// that no process writes, in each family that the mutation touches. The name identifies the table
// and the families.
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
