package sink

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Sighting is one item's part of a row of a target table, as a comparison saw it.
type Sighting struct {
	Table, Row string
	// Owner names the item where several share the row (transform.RowMutation.Owner); "" if the row has one.
	Owner string
	// Held is the version that the guard would compare with (Row.HeldBy), count included; "" if there was none.
	Held transform.Version
}

func (s Sighting) address() address { return address{s.Table, s.Row, s.Owner} }

// Outcome is what a repair of a sighting did, or why it left the row alone.
type Outcome string

// The outcomes. Only Mended ones were written.
const (
	Mended     Outcome = "repaired"
	Equal      Outcome = "equal"      // the row holds what it should by now
	MovedOn    Outcome = "moved_on"   // the row has another version than was seen: a fresh comparison judges it
	InFlight   Outcome = "in_flight"  // the row is at count 0: its change is still to be settled
	Expired    Outcome = "expired"    // the item is past its time to live, and what the row lacks may be gone for that
	KeptAlive  Outcome = "kept"       // the item is gone, and what the time to live removes stays (expire: keep)
	Foreign    Outcome = "foreign"    // nobody's: no rule gives the item this row, or nothing says that the row is ours
	Unmappable Outcome = "unmappable" // the item cannot be stored
	Exhausted  Outcome = "exhausted"  // no count is left at the row's version; the item's next change gives it another
	Unreadable Outcome = "unreadable" // the row's version is not one of ours
)

// RepairSeen repairs rows of one item exactly as they were seen: each that still holds the version and the count of its sighting, or
// still none, and is still not as it should be, which is the second look. Others are left alone, whatever they hold: the outcomes say
// why, in the order of the sightings. So a repair may run beside the stream, loads, sweeps, and other repairs.
//
// In a row that is repaired nothing is left, of all that some rule gives the item there, that its image does not make. A row of an item that the source does not
// hold becomes a tombstone; without a version that is done only where the tables are Owned.
//
// Errors end it; what was mended before stays, and a repeat finds those rows moved on. Errors of the target are *Error.
func (r *Repairer) RepairSeen(ctx context.Context, keys attribute.Item, seen []Sighting) ([]Outcome, error) {
	outcomes := make([]Outcome, len(seen))
	keys = r.Mapping.Keys(keys)
	for range repairTries {
		err := r.attemptSeen(ctx, keys, seen, outcomes)
		if !errors.Is(err, ErrOvertaken) {
			return outcomes, err
		}
	}
	for i, o := range outcomes {
		if o == "" {
			outcomes[i] = MovedOn
		}
	}
	return outcomes, nil
}

// attemptSeen repairs what has no outcome yet. ErrOvertaken: a row changed after the look, or the right to write must be proved again.
func (r *Repairer) attemptSeen(ctx context.Context, keys attribute.Item, seen []Sighting, outcomes []Outcome) error {
	right, err := r.prove(ctx)
	if err != nil {
		return err
	}
	rows := make([]Row, len(seen))
	var claims []transform.RowMutation
	for i, s := range seen {
		if outcomes[i] != "" {
			continue
		}
		if rows[i], err = r.look(ctx, s.address()); err != nil {
			return err
		}
		if claim, ours := r.Mapping.Claim(s.Table, s.Row, keys, s.Owner != ""); ours && claim.Owner == s.Owner && !strings.HasPrefix(s.Row, transform.WitnessPrefix) {
			claims = append(claims, claim)
		}
	}
	readAt := r.now(ctx)
	image, present, err := r.read(ctx, keys)
	if err != nil {
		return err
	}
	state := itemState{image: image, present: present, expired: r.isExpired(image, readAt)}
	rowsWanted, err := wanted(r.Mapping, keys, image, claims, readAt)
	var bad *BadItem
	if state.unmappable = errors.As(err, &bad); err != nil && !state.unmappable {
		return err
	}
	for i := range seen {
		if outcomes[i] != "" {
			continue
		}
		if outcomes[i], err = r.mendSeen(ctx, right, rows[i], seen[i], rowsWanted, state, readAt); err != nil {
			return err
		}
	}
	return nil
}

// itemState is what a read found of the item whose rows are repaired.
type itemState struct {
	image                        attribute.Item
	present, expired, unmappable bool
}

// isExpired reports whether DynamoDB is about to remove the item, and the target is to follow.
func (r *Repairer) isExpired(image attribute.Item, at time.Time) bool {
	if !image.Exists() || r.Mapping.Outlives() {
		return false
	}
	_, expired := r.Mapping.Unexpired([]attribute.Item{image}, at)
	return expired > 0
}

func (r *Repairer) mendSeen(ctx context.Context, right proof, row Row, s Sighting, wanted []transform.RowMutation, item itemState, readAt time.Time) (Outcome, error) {
	var want *transform.RowMutation
	for i := range wanted {
		if s.address().holds(wanted[i]) {
			want = &wanted[i]
		}
	}
	if left := r.leaves(row, s, want, item); left != "" {
		return left, nil
	}
	_, err := r.mend(ctx, right, row, *want, readAt)
	var bad *BadItem
	switch {
	case errors.Is(err, ErrRepairs):
		return Exhausted, nil
	case errors.As(err, &bad):
		return Unmappable, nil
	case err != nil:
		return "", err
	}
	return Mended, nil
}

// leaves says why a row is left alone; "" if it is to be repaired. Want is nil if no rule gives the item the row. It is pure.
func (r *Repairer) leaves(row Row, s Sighting, want *transform.RowMutation, item itemState) Outcome {
	held := row.HeldBy(s.Owner)
	_, malformed := transform.ParseVersion(string(held))
	switch live, gone, _ := row.Versions(s.Owner); {
	case item.unmappable:
		return Unmappable
	case want == nil:
		return Foreign
	case Holds(row, *want):
		return Equal
	case held != s.Held:
		return MovedOn
	case held == "" && want.Remove && r.Mapping.Outlives():
		return KeptAlive // nothing says whether the item was deleted or has expired
	case held == "" && want.Remove && !r.Owned:
		return Foreign
	case held != "" && malformed == nil && want.Remove && r.Had != nil && !r.Had(held.Generation()):
		return Foreign // another migration wrote it
	case item.expired && (live == "" || gone > live || onlyLacks(row, *want)):
		return Expired
	case held == "":
		return ""
	case malformed != nil:
		return Unreadable
	case held.Count() == transform.CountTimestamped && !IsPhantom(held, *want):
		return InFlight
	case !item.present && r.Mapping.Outlives() && live > gone:
		return KeptAlive
	}
	return ""
}

// onlyLacks reports whether a row has no cell that it should not have, so that garbage collection may have made it what it is.
func onlyLacks(row Row, want transform.RowMutation) bool {
	return !slices.ContainsFunc(Compare(row, want), func(d Difference) bool { return d.Have != nil })
}
