package verify

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// expirySlack allows for clocks that are ahead, in Bigtable's garbage collection and in DynamoDB's
// TTL deletions. An item that expires within expirySlack counts as expired.
const expirySlack = 5 * time.Minute

// replicationPrefix begins the names of some attributes. Global tables of the older version write
// these attributes themselves, in each region (H61).
const replicationPrefix = "aws:rep:"

// Wanted is the mutation that an item needs in a row, with the item's image.
type Wanted struct {
	transform.RowMutation
	Image attribute.Item
}

// Verdict is the result of judging a row.
type Verdict struct {
	Findings []Finding
	// InFlight reports that the row differs at a version of count 0, so its second write is still
	// due. Leaving reports that the row is extra at a version of count 0.
	InFlight, Leaving bool
	// Kept is the number of shares that stay without an item because of `expire: keep`.
	Kept int
	// Unmapped reports that one of the items cannot be mapped. Expired reports that the row is
	// missing but counts as equal, because the time to live of its item has ended.
	Unmapped, Expired bool

	pending []Finding // differences at a version of count 0
	held    []held
}

// held is an owner's share of a row at a check. It has the owner's version, live or removed, and a
// hash of the cells of the owner's item. The hash is "" if the item has no cells in the row.
type held struct {
	owner   string
	version transform.Version
	image   string
}

// heldBy returns the share of an owner, or an empty share if the row does not name the owner.
func (v Verdict) heldBy(owner string) held {
	for _, h := range v.held {
		if h.owner == owner {
			return h
		}
	}
	return held{owner: owner}
}

// Judge compares a row with the mutations of all items that may map to it. The arguments `shares`
// and `strangers` must be the results of sink.Sweeping.Shares for the row. It is a pure function.
func Judge(m *transform.Mapping, table string, row sink.Row, shares []sink.Share, strangers int, wanted []Wanted, at time.Time) Verdict {
	j := judgement{m: m, table: table, row: row, at: at}
	for _, w := range wanted {
		j.wanted(w)
	}
	for _, s := range shares {
		if !slices.ContainsFunc(wanted, func(w Wanted) bool { return w.Owner == s.Owner }) {
			j.share(s)
		}
	}
	if strangers == 0 {
		j.rest(shares, wanted)
	}
	j.hold(shares, wanted)
	return j.Verdict
}

// Equal reports whether the row has exactly what its items require.
func (v Verdict) Equal() bool { return !v.differs() && !v.Unmapped }

type judgement struct {
	Verdict
	m     *transform.Mapping
	table string
	row   sink.Row
	at    time.Time
}

// hold records the share of every owner, so that a later check can compare it.
func (j *judgement) hold(shares []sink.Share, wanted []Wanted) {
	of := func(owner, image string) {
		live, gone, _ := j.row.Versions(owner)
		j.held = append(j.held, held{owner, max(live, gone), image})
	}
	for _, w := range wanted {
		of(w.Owner, w.whole(j.m).hash())
	}
	for _, s := range shares {
		if !slices.ContainsFunc(wanted, func(w Wanted) bool { return w.Owner == s.Owner }) {
			of(s.Owner, "")
		}
	}
	if len(j.held) == 0 {
		of("", "")
	}
}

// add adds a finding, or records that the row is in flight.
func (j *judgement) add(f Finding) {
	live, gone, _ := j.row.Versions(f.Owner)
	f.Source, f.Table, f.Row = j.m.Source, j.table, j.row.Key
	f.Version, f.Live = max(live, gone), live != "" && gone <= live
	_, err := transform.ParseVersion(string(f.Version))
	if err == nil && f.Version.ByApplication() {
		f.Reason = cmp.Or(f.Reason, "the application wrote the row, and no stream record followed; it is a phantom if its number is higher than the item's")
	} else if err == nil && f.Version.Count() == transform.CountTimestamped {
		if f.Kind == Missing || f.Kind == Different {
			j.InFlight = true
		} else {
			j.Leaving = true
		}
		j.pending = append(j.pending, f)
		return
	}
	j.Findings = append(j.Findings, f)
}

// wanted checks that the row has the item's cells, and no other cells that any rule could give the
// item.
func (j *judgement) wanted(w Wanted) {
	w = w.whole(j.m)
	if sink.Holds(j.row, w.RowMutation) {
		return
	}
	live, gone, _ := j.row.Versions(w.Owner)
	alive := live != "" && gone <= live
	f := Finding{Owner: w.Owner, Keys: j.m.Keys(w.Image), Kind: Different, image: w.hash()}
	expired := j.expired(w.Image)
	collected := j.m.Collected(w.Image, j.at.Add(expirySlack))
	for _, d := range sink.Compare(j.row, w.RowMutation) {
		noise := strings.HasPrefix(d.Qualifier, replicationPrefix) || collected && d.Have == nil
		if !noise {
			f.Columns = append(f.Columns, columnOf(d))
		}
	}
	nothing := len(sink.Owned(j.row, w.RowMutation)) == 0
	switch {
	case !alive && nothing:
		f.Kind = Missing
		if expired {
			j.Expired = true
			return // an expired item counts as absent on both sides, and the row is absent already
		}
	case alive && len(f.Columns) == 0:
		return
	case !alive && gone != "":
		f.Reason = "the row has a tombstone, although the item exists"
	case !alive:
		f.Reason = "the row has no version"
	}
	j.add(f)
}

// expired reports whether the time to live of an item has ended or almost ended, so one side may
// already have removed it.
func (j *judgement) expired(image attribute.Item) bool {
	_, n := j.m.Unexpired([]attribute.Item{image}, j.at.Add(expirySlack))
	return n > 0
}

// share judges the share of an item that does not map to the row.
func (j *judgement) share(s sink.Share) {
	left := sink.Owned(j.row, s.Claim)
	if !s.Alive() && len(left) == 0 {
		return // the share is only a tombstone, or empty
	}
	if j.m.Outlives() && (s.Alive() || s.Gone == "") { // the item may have been deleted or have expired
		j.Kept++
		return
	}
	f := Finding{Owner: s.Owner, Kind: Extra}
	switch {
	case len(s.Items) == 0:
		f.Reason = "the row's item is unknown"
	case s.Gone != "" && !s.Alive():
		f.Reason = "cells were written after the item was removed"
	case s.Live == "":
		f.Reason = "the row has no version"
	}
	if len(s.Items) > 0 {
		f.Keys = s.Items[0]
	}
	j.add(f.of(j.row, s.Claim))
}

// of adds to the finding the row's cells that the claim would remove.
func (f Finding) of(row sink.Row, claim transform.RowMutation) Finding {
	claim.Remove, claim.Cells = true, nil
	for _, d := range sink.Compare(row, claim) {
		f.Columns = append(f.Columns, columnOf(d))
	}
	return f
}

// rest finds cells of managed families that belong to no item.
func (j *judgement) rest(shares []sink.Share, wanted []Wanted) {
	managed := j.m.Managed(j.table)
	whole := make([]Wanted, len(wanted))
	for i, w := range wanted {
		whole[i] = w.whole(j.m)
	}
	foreign := transform.RowMutation{Remove: true}
	for i := range j.row.Cells {
		at := transform.Column{Family: j.row.Cells[i].Family, Qualifier: j.row.Cells[i].Qualifier}
		again := i > 0 && j.row.Cells[i-1].Family == at.Family && j.row.Cells[i-1].Qualifier == at.Qualifier
		ours := func() bool {
			return slices.ContainsFunc(whole, func(w Wanted) bool { return w.owns(at) }) ||
				slices.ContainsFunc(shares, func(s sink.Share) bool {
					return len(s.Items) == 0 && s.Alive() || Wanted{RowMutation: s.Claim}.owns(at)
				})
		}
		if !again && slices.Contains(managed, at.Family) && !ours() {
			foreign.Columns = append(foreign.Columns, at)
		}
	}
	if len(foreign.Columns) > 0 {
		j.add(Finding{Kind: Foreign, Reason: "replicator did not write these cells"}.of(j.row, foreign))
	}
}

// hash returns a hash of the item's cells, to detect changes of them.
func (w Wanted) hash() string {
	h := sha256.New()
	var b []byte
	for _, c := range w.Cells {
		b = appendText(appendText(appendText(b[:0], c.Family), c.Qualifier), string(c.Value))
		h.Write(b)
	}
	return string(h.Sum(b[:0]))
}

// whole returns the mutation, extended by deletions of everything else that its item may have in
// the row under any rule.
func (w Wanted) whole(m *transform.Mapping) Wanted {
	if claim, ok := m.Claim(w.Table, w.Row, m.Keys(w.Image), w.Owner != ""); ok {
		w.RowMutation = w.With(claim)
	}
	return w
}

func (w Wanted) owns(at transform.Column) bool {
	return slices.Contains(w.Families, at.Family) || slices.Contains(w.Columns, at)
}
