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

// Sighting is one item's part of a row of a target table, as a comparison read it.
type Sighting struct {
	Table, Row string
	// Owner names the item if several share the row (transform.RowMutation.Owner); "" if the row
	// has only one.
	Owner string
	// Held is the version with which the guard would compare (Row.HeldBy), including its count; ""
	// if there was none.
	Held transform.Version
}

func (s Sighting) address() address { return address{s.Table, s.Row, s.Owner} }

// Outcome is the result of repairing a sighting, or the reason why the row was left alone.
type Outcome string

// The outcomes. Only rows with outcome Mended were written.
const (
	Mended     Outcome = "repaired"
	Equal      Outcome = "equal"      // the row is correct now
	MovedOn    Outcome = "moved_on"   // the row has another version than the sighting; a new comparison is needed
	InFlight   Outcome = "in_flight"  // the row is at count 0: its change is not settled yet
	Expired    Outcome = "expired"    // the item is past its time to live, and the row may lack cells for that reason
	KeptAlive  Outcome = "kept"       // the item does not exist, but the mapping keeps expired items (expire: keep)
	Foreign    Outcome = "foreign"    // no rule maps the item to this row, or nothing shows that replicator wrote the row
	Unmappable Outcome = "unmappable" // the item cannot be stored
	Exhausted  Outcome = "exhausted"  // the count of the row's version is used up; the item's next change gives it another version
	Unreadable Outcome = "unreadable" // replicator did not write the row's version
)

// RepairSeen repairs rows of one item after a comparison. It reads each row again. It repairs the
// row only if the row is still incorrect, and still has the version and count of its sighting, or
// still no version. Other rows are left alone. The outcomes say why, in the order of the sightings.
// So a repair may run concurrently with the stream, loads, sweeps and other repairs.
//
// A repair deletes every cell that any rule gives the item in the row, except the cells of its
// current image. A row of an item that the source does not hold becomes a tombstone. If the tables
// are Owned, a row without a version becomes a tombstone too.
//
// An error ends the repair. Rows repaired before the error stay repaired. A repeated call reports
// them as MovedOn or Equal. Errors of the target are *Error.
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

// attemptSeen repairs the rows that have no outcome yet. It returns ErrOvertaken if a row changed
// after it was read, or if the right to write must be proved again.
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

// itemState is the state of the item whose rows are repaired, as read from the source.
type itemState struct {
	image                        attribute.Item
	present, expired, unmappable bool
}

// isExpired reports whether DynamoDB may remove the item at any time and the target follows such
// TTL deletions.
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

// leaves returns why a row is left alone; "" if the row must be repaired. The argument `want` is
// nil if no rule maps the item to the row. It is pure.
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
		return KeptAlive // nothing shows whether the item was deleted or has expired
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

// onlyLacks reports whether a row lacks cells and has no wrong cells, so that garbage collection
// may be the cause.
func onlyLacks(row Row, want transform.RowMutation) bool {
	return !slices.ContainsFunc(Compare(row, want), func(d Difference) bool { return d.Have != nil })
}
