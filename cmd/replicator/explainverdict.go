package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// itemFindings are what was found of an item.
type itemFindings struct {
	status     *status.Table
	leases     int // that workers hold
	parked     []parked.Record
	readAt     time.Time
	present    bool
	image      attribute.Item
	unmappable string
	// expired tells that the item is one whose cells garbage collection takes by now; outlives, that what expires stays in the target (expire: keep).
	expired, outlives bool
	// ignored tells that the image's rule says not to copy it; moves, that items' rows do not follow from their keys, so that those of an item that is gone
	// are known from parked images at most.
	ignored, moves bool
	rows           []itemRow
}

// itemRow is a row as it should be, and as it was seen.
type itemRow struct {
	want transform.RowMutation
	seen sink.Row
}

// held is the highest version of the item's rows, "" if they have none.
func (f *itemFindings) held() transform.Version {
	var v transform.Version
	for _, row := range f.rows {
		v = max(v, row.seen.HeldBy(row.want.Owner))
	}
	return v
}

func (f *itemFindings) equal() bool {
	for _, row := range f.rows {
		if !sink.Holds(row.seen, row.want) {
			return false
		}
	}
	return true
}

// collected tells whether what the rows lack is what garbage collection takes of an item that expired: cells, and nothing else.
func (f *itemFindings) collected() bool {
	if !f.present || !f.expired {
		return false
	}
	for _, row := range f.rows {
		if sink.Holds(row.seen, row.want) {
			continue
		}
		live, gone, _ := row.seen.Versions(row.want.Owner)
		added := func(d sink.Difference) bool { return d.Have != nil }
		if row.want.Remove || live == "" || gone > live || slices.ContainsFunc(sink.Compare(row.seen, row.want), added) {
			return false
		}
	}
	return true
}

// kept tells whether the item's rows may live without it, because it expired.
func (f *itemFindings) kept() bool {
	if f.present || !f.outlives {
		return false
	}
	for _, row := range f.rows {
		if live, gone, _ := row.seen.Versions(row.want.Owner); !sink.Holds(row.seen, row.want) && (live == "" || gone > live) {
			return false
		}
	}
	return true
}

// itemVerdict is the answer.
type itemVerdict struct {
	State string `json:"state"` // one of the words below
	Text  string `json:"text"`  // one sentence
}

// The states of an item.
const (
	itemEqual      = "equal"
	itemRemoved    = "removed"    // absent in the source, and its row bears a tombstone
	itemAbsent     = "absent"     // on neither side
	itemUnlocated  = "unlocated"  // absent in the source, and which row it had cannot be told
	itemIgnored    = "ignored"    // its rule says not to copy it
	itemExpired    = "expired"    // garbage collection takes its cells, and the source has not removed it yet
	itemKept       = "kept"       // absent in the source, and its row lives, as it should if the item expired
	itemParked     = "parked"     // could not be stored
	itemUnmappable = "unmappable" // cannot be stored, and no change of it has come yet
	itemNotStarted = "not_started"
	itemNotCopied  = "not_copied" // the copy has not come to it
	itemNeedsLoad  = "needs_load" // differs, and changes of the table are lost
	itemBehind     = "behind"     // differs, and there are changes to come
	itemDifferent  = "different"  // differs, though nothing explains it
)

// judge says in one sentence how the item stands, and after how long a second look could tell more (0: it could not). It is pure.
func judge(f itemFindings) (itemVerdict, time.Duration) {
	say := func(state, format string, args ...any) itemVerdict {
		return itemVerdict{state, fmt.Sprintf(format, args...)}
	}
	if f.unmappable == "" && f.equal() {
		return f.judgeEqual(), 0
	}
	if n := len(f.parked); n > 0 && f.parked[n-1].Version >= f.held().WithoutCount() {
		reason := f.parked[n-1].Reason
		switch {
		case f.unmappable != "":
			return say(itemParked, "parked: %s", f.unmappable), 0
		case f.present:
			return say(itemParked, "parked: %s; as it is now it could be stored: replicator parked retry %s/%s", reason, f.status.Source, sink.HashOf(f.parked[n-1].Key)), 0
		}
		return say(itemParked, "parked: %s; the source no longer holds it: replicator parked retry resolves it", reason), 0
	}
	switch {
	case f.status.Generation == nil:
		return say(itemNotStarted, "nothing was started yet: replicator run"), 0
	case f.unmappable != "":
		return say(itemUnmappable, "cannot be stored: %s; the copy or its next change parks it", f.unmappable), 0
	case f.present && f.held() == "" && f.status.Copy.State != "done":
		return say(itemNotCopied, "not copied yet: the copy is %s", strings.ReplaceAll(f.status.Copy.State, "_", " ")), 0
	case f.collected():
		return say(itemExpired, "expired: its time to live is over, and garbage collection takes its cells; the source still holds the item"), 0
	case f.status.NeedsLoad:
		return say(itemNeedsLoad, "different, and the table needs a load: %s", status.OrDash(f.status.NeedsLoadReason)), 0
	case f.kept():
		return f.judgeKept()
	case f.leases == 0:
		return say(itemBehind, "target is behind: no worker reads the stream"), 0
	case f.status.LagSeconds == nil:
		return say(itemBehind, "target is behind: the stream has not been read so far that its lag is known"), 0
	}
	lag := time.Duration(*f.status.LagSeconds * float64(time.Second))
	again := lag + secondLook
	if f.status.LagEstimated {
		return say(itemDifferent, "different, though the stream was empty %s ago; if it stays so, this is a defect or something else wrote the row",
			backfill.FormatDuration(lag)), again
	}
	return say(itemBehind, "target is behind: lag %s", backfill.FormatDuration(lag)), again
}

// secondLook is how much later than the lag a second look is worth it: a worker asks an empty shard every second.
const secondLook = 2 * time.Second

// judgeKept is the verdict on an item whose rows live without it. Whether it expired is told by the stream alone: where all of that is applied, a removal
// of another kind would have taken the rows.
func (f *itemFindings) judgeKept() (itemVerdict, time.Duration) {
	const unsure = "kept, if the item expired: expire: keep leaves its row; a removal of another kind has not come through"
	if f.leases == 0 || f.status.LagSeconds == nil {
		return itemVerdict{itemKept, unsure}, 0
	}
	again := status.AsDuration(*f.status.LagSeconds) + secondLook
	if f.status.LagEstimated {
		return itemVerdict{itemKept, "kept: the source no longer holds the item, and expire: keep leaves the row of one that expired"}, again
	}
	return itemVerdict{itemKept, unsure}, again
}

// judgeEqual is the verdict when every row is as it should be.
func (f *itemFindings) judgeEqual() itemVerdict {
	switch {
	case f.present && f.ignored && f.moves:
		return itemVerdict{itemIgnored, "ignored: the rule says not to copy the item; whether a row is left of when another rule matched does not follow from its key"}
	case f.present && f.ignored:
		return itemVerdict{itemIgnored, "ignored: the rule says not to copy the item"}
	case f.present:
		return itemVerdict{itemEqual, "equal"}
	case f.moves: // the rows that are known are not all that it may have had
		return itemVerdict{itemUnlocated, "absent from the source; which row it had does not follow from its key, so the target may still hold one"}
	}
	for _, row := range f.rows {
		if _, gone, at := row.seen.Versions(row.want.Owner); gone != "" {
			return itemVerdict{itemRemoved, "removed: the tombstone was written at " + time.UnixMicro(at).UTC().Format(time.RFC3339)}
		}
	}
	return itemVerdict{itemAbsent, "absent: neither side holds the item, nor a tombstone of it"}
}

// explain takes a row apart for the document.
func (r *itemRow) explain(values bool) explainedRow {
	live, gone, goneAt := r.seen.Versions(r.want.Owner)
	e := explainedRow{Table: r.want.Table, Row: octets(r.want.Row), Wanted: !r.want.Remove, Cells: len(sink.Owned(r.seen, r.want)), Differs: []differingAt{},
		Equal: sink.Holds(r.seen, r.want), Live: decoded(live), Tombstone: decoded(gone)}
	if e.Tombstone != nil {
		at := time.UnixMicro(goneAt).UTC()
		e.Tombstone.WrittenAt = &at
	}
	for _, d := range sink.Compare(r.seen, r.want) {
		at := differingAt{Column: octets(d.Family + ":" + d.Qualifier), WantBytes: size(d.Want), HaveBytes: size(d.Have)}
		if values {
			at.Want, at.Have = octets(d.Want), octets(d.Have)
		}
		e.Differs = append(e.Differs, at)
	}
	return e
}

func size(value []byte) *int {
	if value == nil {
		return nil
	}
	n := len(value)
	return &n
}

func decoded(v transform.Version) *heldVersion {
	if _, err := transform.ParseVersion(string(v)); err != nil {
		return nil
	}
	h := &heldVersion{Version: string(v), Generation: v.Generation(), Hop: v.Hop(), Sequence: v.Sequence().String(), Count: v.Count()}
	if h.Hop == transform.LoadHop {
		if second, err := strconv.ParseInt(h.Sequence, 10, 64); err == nil {
			at := time.Unix(second, 0).UTC()
			h.LoadedAt = &at
		}
	}
	return h
}

// shardOf tells the shard that a version came from, if only one of the ledger's shards has its hop, and the one that would bring the
// next change, if only one is open. DynamoDB does not tell which shard an item's changes go to.
func shardOf(held transform.Version, shards []status.Shard) explainedShard {
	var e explainedShard
	for i := range shards {
		s := &shards[i]
		if held != "" && held.Hop() == s.Hop && held.Hop() != transform.LoadHop {
			e.AtHop++
			e.Carried = &s.ID
		}
		if s.State == string(checkpoint.Waiting) || s.State == string(checkpoint.Reading) {
			e.Open++
			e.Next = &s.ID
		}
	}
	if e.AtHop != 1 {
		e.Carried = nil
	}
	if e.Open != 1 {
		e.Next = nil
	}
	return e
}

// write tells the explanation to people.
func (e *explanation) write(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) { _, _ = fmt.Fprintf(tab, label+"\t"+format+"\n", args...) }
	if e.Source.Present {
		line("source", "present in %s with %s", e.Table, terminal.Plural(e.Source.Attributes, "attribute"))
	} else {
		line("source", "absent from %s", e.Table)
	}
	line("mapping", "%s", e.Rule)
	if e.Source.Unmappable != nil {
		line("", "cannot be mapped: %s", *e.Source.Unmappable)
	}
	for _, row := range e.Rows {
		line("row", "%s  %s", row.Table, row.Row)
		line("target", "%s", row.held())
		for _, d := range row.Differs {
			line("differs", "%s", d)
		}
	}
	for _, record := range e.Parked {
		line("parked", "%s: %s", record.Ref, record.Reason)
	}
	if text := e.Shard.String(); text != "" {
		line("shard", "%s", text)
	}
	line("verdict", "%s", e.Verdict.Text)
	return tab.Flush()
}

func (r *explainedRow) held() string {
	var parts []string
	if r.Live != nil {
		parts = append(parts, fmt.Sprintf("alive with %s, %s", terminal.Plural(r.Cells, "cell"), r.Live))
	}
	if r.Tombstone != nil {
		parts = append(parts, fmt.Sprintf("removed, %s, tombstone written at %s", r.Tombstone, r.Tombstone.WrittenAt.Format(time.RFC3339)))
	}
	if len(parts) == 0 && r.Cells > 0 {
		parts = append(parts, fmt.Sprintf("%s without a version of ours", terminal.Plural(r.Cells, "cell")))
	}
	if len(parts) == 0 {
		return "no such row"
	}
	return strings.Join(parts, "; ")
}

func (v *heldVersion) String() string {
	if v.LoadedAt != nil {
		return fmt.Sprintf("generation %d, loaded %s, count %d", v.Generation, v.LoadedAt.Format(time.RFC3339), v.Count)
	}
	return fmt.Sprintf("generation %d, hop %d, sequence %s, count %d", v.Generation, v.Hop, v.Sequence, v.Count)
}

func (d differingAt) String() string {
	side := func(n *int, value octets) string {
		switch {
		case n == nil:
			return "nothing"
		case value != nil:
			return value.String()
		}
		return terminal.Plural(*n, "byte")
	}
	return fmt.Sprintf("%s: should be %s, is %s", d.Column, side(d.WantBytes, d.Want), side(d.HaveBytes, d.Have))
}

func (s explainedShard) String() string {
	var parts []string
	switch {
	case s.Carried != nil:
		parts = append(parts, "the version came by "+*s.Carried)
	case s.AtHop > 1:
		parts = append(parts, fmt.Sprintf("the version came by one of %d shards", s.AtHop))
	}
	switch {
	case s.Next != nil:
		parts = append(parts, "the next change comes by "+*s.Next)
	case s.Open > 1:
		parts = append(parts, fmt.Sprintf("the next change comes by one of %d open shards; DynamoDB does not say which", s.Open))
	}
	return strings.Join(parts, "; ")
}
