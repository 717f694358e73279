package inspect

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// likelyReason is the likely reason for a difference between an item and its rows.
type likelyReason struct {
	// Reason is in_flight, parked, phantom_write, foreign_writer, garbage_collection or gap.
	Reason string `json:"reason"`
	Text   string `json:"text"` // one sentence
}

// The reasons for a difference.
const (
	reasonInFlight  = "in_flight"          // a change is in flight
	reasonParked    = "parked"             // the item could not be stored
	reasonPhantom   = "phantom_write"      // the target was written, but the source was not
	reasonForeign   = "foreign_writer"     // another program changed the row
	reasonCollected = "garbage_collection" // a rule of the family removed cells
	reasonGap       = "gap"                // changes were lost
)

// reasonOf returns the likely reason for a verdict; nil if nothing differs, or if no reason is
// likely. It depends only on its arguments.
func reasonOf(f itemFindings, v itemVerdict) *likelyReason {
	switch v.State {
	case itemParked, itemUnmappable:
		return &likelyReason{reasonParked, "the item, or a change of it, cannot be stored; after the first attempt, replicator parked list shows it"}
	case itemNeedsLoad:
		return &likelyReason{reasonGap, "the table lost changes, perhaps one of this item; a load repairs all of them"}
	case itemBehind, itemNotCopied, itemNotStarted:
		return &likelyReason{reasonInFlight, "the copy or the stream will still write the missing parts of the row"}
	case itemExpired:
		return &likelyReason{reasonCollected, "the item has expired, and garbage collection removes its cells"}
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

// reason returns why one row differs, if all changes are applied. The argument `ageing` holds the
// families with a garbage collection rule that removes cells by age.
func (r *itemRow) reason(present bool, ageing []string) *likelyReason {
	live, gone, _ := r.seen.Versions(r.want.Owner)
	held := max(live, gone)
	_, malformed := transform.ParseVersion(string(held))
	cells := len(sink.Owned(r.seen, r.want))
	differences := sink.Compare(r.seen, r.want)
	collected := func(d sink.Difference) bool { return d.Have == nil && slices.Contains(ageing, d.Family) }
	switch {
	case held != "" && malformed != nil:
		return &likelyReason{reasonForeign, "another program wrote the row's version, and no change can replace it"}
	case sink.IsPhantom(held, r.want):
		return &likelyReason{reasonPhantom, "the row has a higher version_attribute than the item: an application's write to the target succeeded, and its write to the source failed. replicator verify --repair lowers it"}
	case held.ByApplication():
		return &likelyReason{reasonInFlight, "the application itself wrote the row; its stream record will follow"}
	case held != "" && held.Count() == transform.CountTimestamped:
		return &likelyReason{reasonInFlight, "the row's change was applied once, and will be written a second time (dual_writes)"}
	case !present && cells > 0 && (held == "" || gone >= live):
		return &likelyReason{reasonPhantom, "the source has no such item, but another program wrote the cells: an application's write to the target succeeded, and its write to the source failed or was undone"}
	case r.want.Remove:
		return &likelyReason{reasonForeign, "the item was removed or moved, and another program restored its former row"}
	case held == "" && cells == 0:
		return &likelyReason{reasonForeign, "another program deleted the row with its version"}
	case held == "":
		return &likelyReason{reasonForeign, "the row has no version: another program wrote it, or removed the version"}
	case len(differences) > 0 && !slices.ContainsFunc(differences, func(d sink.Difference) bool { return !collected(d) }):
		return &likelyReason{reasonCollected, "the missing cells belong to a family with an age rule"}
	case gone >= live:
		return &likelyReason{reasonForeign, "the row has a tombstone, and no later change replaces it"}
	}
	return &likelyReason{reasonForeign, "another program changed cells of the item; the cells' times show when"}
}

// ageingFamilies returns the families of a table with a garbage collection rule that removes cells
// by age.
func ageingFamilies(t config.Table) []string {
	var names []string
	for _, f := range t.Families {
		if strings.Contains(f.Rule, "maxage") {
			names = append(names, f.Name)
		}
	}
	return names
}
