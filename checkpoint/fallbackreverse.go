package checkpoint

import (
	"context"
	"time"
)

// ReverseResult is the result of a comparison of all rows of a table with their items while DynamoDB
// follows Bigtable. The row decides: an item that differs from it is wrong.
type ReverseResult struct {
	// BeganAt and EndedAt are on the source's clock.
	BeganAt time.Time `json:"began_at,omitzero"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Frozen reports that no process wrote to either side, so each difference counted at once.
	Frozen bool  `json:"frozen,omitempty"`
	Rows   int64 `json:"rows,omitempty"`  // read from the target
	Items  int64 `json:"items,omitempty"` // read from the source, without canaries
	// Different counts items that differ from their rows, Missing rows without an item, and Extra
	// items without a row.
	Different int64 `json:"different,omitempty"`
	Missing   int64 `json:"missing,omitempty"`
	Extra     int64 `json:"extra,omitempty"`
	// Unreadable counts rows that give no item and that are not parked.
	Unreadable int64 `json:"unreadable,omitempty"`
	// Parked counts differing rows that the leader of the way back has parked. The four counts above
	// do not contain them.
	Parked int64 `json:"parked,omitempty"`
	// Unmapped counts items to which no row can belong. The way back leaves them as they are.
	Unmapped int64 `json:"unmapped,omitempty"`
	// Repaired counts differing items that the leader made equal to their rows at the request of
	// the comparison. No other count contains them.
	Repaired int64 `json:"repaired,omitempty"`
}

// Known reports whether there is a result.
func (r ReverseResult) Known() bool { return !r.EndedAt.IsZero() }

// Differing returns the number of rows and items that differ, without those that are parked.
func (r ReverseResult) Differing() int64 { return r.Different + r.Missing + r.Extra + r.Unreadable }

// Clean reports whether every item equals its row, except for those that are parked.
func (r ReverseResult) Clean() bool { return r.Known() && r.Differing() == 0 }

// KeepReverse stores the result of a comparison of all rows of a table with their items. The
// argument `seen` is the record of the way back as it was read before the comparison began. A clean
// result ends a gap that is in `seen`, unless changes were lost again meanwhile: the comparison has
// read each row after the gap, and the change stream is read from the gap on. The result `healed`
// reports that the gap has ended.
func (l *Ledger) KeepReverse(ctx context.Context, seen Fallback, r ReverseResult) (f Fallback, healed bool, err error) {
	f, err = l.UpdateFallback(ctx, seen.Source, 0, func(f *Fallback) error {
		if healed = false; f.Attempt != seen.Attempt {
			return nil // another cutover has begun
		}
		f.Reverse = r
		if r.Clean() && sameGap(*f, seen) {
			f.State, f.Reason, f.Since, healed = FallbackFollowing, "", time.Time{}, true
		}
		return nil
	})
	return f, healed, err
}

// sameGap reports whether both records show the same gap. A later loss of changes leaves the gap's
// time as it is, but moves the time from which the change stream is read.
func sameGap(a, b Fallback) bool {
	return a.State == FallbackGap && b.State == FallbackGap && a.Since.Equal(b.Since) && a.From.Equal(b.From)
}
