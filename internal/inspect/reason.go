package inspect

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// likelyReason is why an item's rows are not as they should be, as far as they show.
type likelyReason struct {
	Reason string `json:"reason"` // one of the words below
	Text   string `json:"text"`   // one sentence
}

// The reasons for a difference.
const (
	reasonInFlight  = "in_flight"          // a change is under way
	reasonParked    = "parked"             // the item could not be stored
	reasonPhantom   = "phantom_write"      // the target was written, and the source was not
	reasonForeign   = "foreign_writer"     // somebody else changed the row
	reasonCollected = "garbage_collection" // a rule of the family took cells
	reasonGap       = "gap"                // changes were lost
)

// reasonOf is the likely reason of what a verdict says; nil if nothing differs, or nothing suggests
// one. It is pure.
func reasonOf(f itemFindings, v itemVerdict) *likelyReason {
	switch v.State {
	case itemParked, itemUnmappable:
		return &likelyReason{reasonParked, "the item, or a change of it, cannot be stored; replicator parked list shows it once it was tried"}
	case itemNeedsLoad:
		return &likelyReason{reasonGap, "changes of the table were lost, this one's perhaps: a load mends all of them"}
	case itemBehind, itemNotCopied, itemNotStarted:
		return &likelyReason{reasonInFlight, "what the row lacks is still to come: by the copy, or by the stream"}
	case itemExpired:
		return &likelyReason{reasonCollected, "the item is past its time to live, and garbage collection takes its cells"}
	case itemDifferent:
	default:
		return nil
	}
	for i := range f.rows {
		if row := &f.rows[i]; !sink.Holds(row.seen, row.want) {
			return row.reason(f.present, f.ageing)
		}
	}
	return nil
}

// reason is why one row differs, though every change is applied. Ageing are the families whose rule
// takes cells by their age.
func (r *itemRow) reason(present bool, ageing []string) *likelyReason {
	live, gone, _ := r.seen.Versions(r.want.Owner)
	held := max(live, gone)
	_, malformed := transform.ParseVersion(string(held))
	cells := len(sink.Owned(r.seen, r.want))
	differences := sink.Compare(r.seen, r.want)
	collected := func(d sink.Difference) bool { return d.Have == nil && slices.Contains(ageing, d.Family) }
	switch {
	case held != "" && malformed != nil:
		return &likelyReason{reasonForeign, "the row's version is not one of this program: somebody else wrote it, and no change can replace it"}
	case sink.IsPhantom(held, r.want):
		return &likelyReason{reasonPhantom, "the row holds a higher number of the version attribute than the item: an application wrote the target, and its write to the source failed; replicator verify --repair lowers it"}
	case held.ByApplication():
		return &likelyReason{reasonInFlight, "the application itself wrote the row; the stream's record of that is to follow"}
	case held != "" && held.Count() == transform.CountTimestamped:
		return &likelyReason{reasonInFlight, "the row's change was sent first, and is still to be asserted exactly"}
	case !present && cells > 0 && (held == "" || gone >= live):
		return &likelyReason{reasonPhantom, "the source does not hold the item, and the cells are not of this program: an application wrote the target, and its write to the source failed or was undone"}
	case r.want.Remove:
		return &likelyReason{reasonForeign, "the item is gone, or elsewhere, and somebody put its former row back"}
	case held == "" && cells == 0:
		return &likelyReason{reasonForeign, "somebody deleted the row, with its version"}
	case held == "":
		return &likelyReason{reasonForeign, "the row has no version: somebody else wrote it, or took the version away"}
	case len(differences) > 0 && !slices.ContainsFunc(differences, func(d sink.Difference) bool { return !collected(d) }):
		return &likelyReason{reasonCollected, "the cells that miss are in a family whose rule takes cells by their age"}
	case gone >= live:
		return &likelyReason{reasonForeign, "the row says that the item was removed, which no change after it takes back"}
	}
	return &likelyReason{reasonForeign, "somebody else changed cells that the item owns; a newer time in the row than that of its change shows when"}
}

// ageingFamilies are the families of a table whose cells a rule takes by their age.
func ageingFamilies(t config.Table) []string {
	var names []string
	for _, f := range t.Families {
		if strings.Contains(f.Rule, "maxage") {
			names = append(names, f.Name)
		}
	}
	return names
}
