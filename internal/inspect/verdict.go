package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// itemFindings holds the data that was read about an item.
type itemFindings struct {
	status     *status.Table
	leases     int // number of leases that workers hold
	shards     []status.Shard
	parked     []parked.Record
	readAt     time.Time
	present    bool
	image      attribute.Item
	unmappable string
	placed     transform.Placement
	// expired reports that garbage collection already removes the item's cells. outlives reports
	// that expired items stay in the target (expire: keep).
	expired, outlives bool
	// ignored reports that a rule excludes the item from the copy. moves reports that an item's key
	// does not determine its rows. Then the rows of a removed item are known only if a parked image
	// of the item exists.
	ignored, moves bool
	rows           []itemRow
	ageing         []string // families with a rule that removes cells by age
}

// itemRow is one row of an item: the expected row, and the row that was read.
type itemRow struct {
	want transform.RowMutation
	seen sink.Row
}

// held returns the highest version in the item's rows; "" if they have no version.
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

// collected reports whether the rows lack only cells that garbage collection removes from an
// expired item.
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

// kept reports whether the item's rows may stay although the item is absent, because it expired.
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

// itemVerdict is the verdict of explain on an item.
type itemVerdict struct {
	// State is equal, removed, absent, unlocated, ignored, expired, kept, parked, unmappable,
	// not_started, not_copied, needs_load, behind or different.
	State string `json:"state"`
	Text  string `json:"text"` // one sentence
}

// The states of an item.
const (
	itemEqual     = "equal"
	itemRemoved   = "removed"   // absent from the source; its row has a tombstone
	itemAbsent    = "absent"    // absent from both databases
	itemUnlocated = "unlocated" // absent from the source; its former row is unknown
	itemIgnored   = "ignored"   // excluded from the copy by its rule
	// The item has expired: garbage collection removes its cells, but the source has not removed it
	// yet.
	itemExpired    = "expired"
	itemKept       = "kept"       // absent from the source; its row exists, which is correct if the item expired
	itemParked     = "parked"     // could not be stored
	itemUnmappable = "unmappable" // cannot be stored; no change of it has been read yet
	itemNotStarted = "not_started"
	itemNotCopied  = "not_copied" // not copied yet
	itemNeedsLoad  = "needs_load" // differs; changes of the table are lost
	itemBehind     = "behind"     // differs; not all changes are applied yet
	itemDifferent  = "different"  // differs for an unknown reason
)

// judge returns the item's state and a sentence about it. The duration is the time after which a
// second read may have another result; 0 if it cannot. The result depends only on f.
func judge(f itemFindings) (itemVerdict, time.Duration) {
	say := func(state, format string, args ...any) itemVerdict {
		return itemVerdict{state, fmt.Sprintf(format, args...)}
	}
	if f.unmappable == "" && f.equal() {
		return f.judgeEqual(), 0
	}
	if n := len(f.parked); n > 0 && f.parked[n-1].Version.Position() >= f.held().WithoutCount().Position() {
		reason := f.parked[n-1].Reason
		switch {
		case f.unmappable != "":
			return say(itemParked, "parked: %s", f.unmappable), 0
		case f.present:
			return say(itemParked, "parked: %s; it can be stored now: replicator parked retry %s/%s", reason, f.status.Source, sink.HashOf(f.parked[n-1].Key)), 0
		}
		return say(itemParked, "parked: %s; the source no longer has it; replicator parked retry resolves it", reason), 0
	}
	switch {
	case f.status.Generation == nil:
		return say(itemNotStarted, "%s: replicator run", terminal.NotStarted), 0
	case f.unmappable != "":
		return say(itemUnmappable, "cannot be stored: %s; the copy or its next change will park it", f.unmappable), 0
	case f.present && f.held() == "" && f.status.Copy.State != "done":
		return say(itemNotCopied, "not copied yet: the copy is %s", strings.ReplaceAll(f.status.Copy.State, "_", " ")), 0
	case f.collected():
		return say(itemExpired, "expired: its time to live has passed, and garbage collection removes its cells; the source still has the item"), 0
	case f.status.LoadNeeded:
		return say(itemNeedsLoad, "different, and the table needs a load: %s", status.OrDash(f.status.NeedsLoadReason)), 0
	case f.kept():
		return f.judgeKept()
	case f.status.Copying:
		return say(itemBehind, "different, because a fast load is not over; its sweep corrects the row"), 0
	case f.leases == 0:
		return say(itemBehind, "target is behind: no worker reads the stream"), 0
	case f.status.LagSeconds == nil:
		return say(itemBehind, "target is behind: the lag is unknown, because the stream has not been read far enough"), 0
	}
	lag := time.Duration(*f.status.LagSeconds * float64(time.Second))
	again := lag + secondLook
	if f.status.LagEstimated {
		return say(itemDifferent, "different, although the stream was empty %s ago; if it stays different, this is a defect or another program wrote the row",
			backfill.FormatDuration(lag)), again
	}
	return say(itemBehind, "target is behind: lag %s", backfill.FormatDuration(lag)), again
}

// secondLook is how much longer than the lag a second read waits. It is needed because a worker
// reads an empty shard only once a second.
const secondLook = 2 * time.Second

// judgeKept returns the verdict on rows that exist although the item is absent. Only the stream
// shows whether the item expired. If all changes are applied, the item must have expired, because
// any other delete would have removed the rows.
func (f *itemFindings) judgeKept() (itemVerdict, time.Duration) {
	const unsure = "kept, if the item expired, because of expire: keep. If it was deleted, the delete is not applied yet"
	if f.leases == 0 || f.status.LagSeconds == nil {
		return itemVerdict{itemKept, unsure}, 0
	}
	again := status.AsDuration(*f.status.LagSeconds) + secondLook
	if f.status.LagEstimated {
		return itemVerdict{itemKept, "kept: the item is no longer in the source, but expire: keep retains rows of expired items"}, again
	}
	return itemVerdict{itemKept, unsure}, again
}

// judgeEqual returns the verdict on an item if all its rows are as expected.
func (f *itemFindings) judgeEqual() itemVerdict {
	switch {
	case f.present && f.ignored && f.moves:
		return itemVerdict{itemIgnored, "ignored: the rule does not copy the item. If another rule matched earlier, a former row may remain; the key does not show where"}
	case f.present && f.ignored:
		return itemVerdict{itemIgnored, "ignored: the rule does not copy the item"}
	case f.present:
		return itemVerdict{itemEqual, "equal"}
	case f.moves: // it may have had other rows, which are unknown
		return itemVerdict{itemUnlocated, "absent from the source; its key does not show its former row, so the target may still hold one"}
	}
	for _, row := range f.rows {
		if _, gone, at := row.seen.Versions(row.want.Owner); gone != "" {
			return itemVerdict{itemRemoved, "removed: the tombstone was written at " + time.UnixMicro(at).UTC().Format(time.RFC3339)}
		}
	}
	return itemVerdict{itemAbsent, "absent: neither DynamoDB nor Bigtable has the item, and it has no tombstone"}
}
