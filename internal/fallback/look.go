package fallback

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Rows reads the target's rows.
type Rows interface {
	// Row returns the newest cells of a row in the families of the mapping. A row without such a
	// cell does not exist, and the result is empty.
	Row(ctx context.Context, table, key string) ([]transform.Cell, error)
}

// Items reads and writes the source's items.
type Items interface {
	// Item reads an item by a consistent read. It returns false if there is none.
	Item(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error)
	// Write makes one attempt of a write, without a retry. The request is signed with the given
	// time.
	Write(ctx context.Context, table string, w Write, signed time.Time) Answer
}

// Write is a write of one item, on the condition that the attributes that it changes are as they
// were read.
type Write struct {
	Key    attribute.Item
	Delete bool // removes the item; otherwise the attributes are changed
	Set    []attribute.Attribute
	Remove []string
	// Had is the item as it was read, and Existed reports whether there was one.
	Had     attribute.Item
	Existed bool
}

// Answer is what is known of a write after its only attempt.
type Answer struct {
	Outcome Outcome
	Reason  string // why the write can never succeed, without item data
}

// Outcome is the outcome of a write.
type Outcome int

// The outcomes. Only Unknown leaves a request that may still be executed.
const (
	Unknown   Outcome = iota // no answer, or one that promises nothing
	Done                     // the item is written
	Changed                  // the condition failed
	Expired                  // the signature is too old
	Refused                  // certainly not executed, such as a throttled request
	Unfitting                // never accepted, such as an item that is too large
)

// Form is the mapping of the table, both ways.
type Form interface {
	// Key returns the primary key of a row's item.
	Key(row string) (attribute.Item, error)
	// Row returns the row key of an item, given its primary key.
	Row(key attribute.Item) (string, error)
	// Invert returns the item of a row.
	Invert(row string, cells []transform.Cell) (attribute.Item, error)
	// Differences returns what must be set and removed in an item so that it equals the item of a
	// row, among the attributes that the rows hold.
	Differences(item, row attribute.Item) (set []attribute.Attribute, remove []string)
	// Expired reports whether the source may have removed an item because of its time to live.
	Expired(item attribute.Item, now time.Time) bool
}

// finding is the result of a look at one key.
type finding struct {
	kind   findingKind
	reason string    // of a parked key, without item data
	until  time.Time // end of a doubt
}

type findingKind int

const (
	settled findingKind = iota
	unequal             // to be looked at again
	refused             // to be looked at again after a rest
	doubted             // not to be looked at before the end of the doubt
	parked              // cannot be carried to the source
)

// Compared is the result of a comparison of an item with its row.
type Compared struct {
	Write  Write // makes the item equal to the row, unless Equal
	Equal  bool
	Reason string // why the row cannot be carried; "" if it can
}

// Compare decides what makes an item equal to its row. The cells must be the newest ones (Newest).
// An item that is missing because it expired is equal to its row: otherwise the source would remove
// what is written, without an end.
func Compare(form Form, row string, cells []transform.Cell, item attribute.Item, exists bool, now time.Time) Compared {
	key, err := form.Key(row)
	if err != nil && isWitness(row) {
		return Compared{Equal: true}
	}
	if err != nil {
		return Compared{Reason: noItem}
	}
	w := Write{Key: key, Had: item, Existed: exists}
	if len(cells) == 0 {
		w.Delete = exists
		return Compared{Write: w, Equal: !exists}
	}
	inverse, err := form.Invert(row, cells)
	if err != nil {
		return Compared{Reason: err.Error()}
	}
	if !exists && form.Expired(inverse, now) {
		return Compared{Write: w, Equal: true}
	}
	w.Set, w.Remove = form.Differences(item, inverse)
	return Compared{Write: w, Equal: exists && len(w.Set)+len(w.Remove) == 0}
}

// noItem is the reason why a row with another key than those of items cannot be carried.
const noItem = "the row key is not the key of an item"

// isWitness reports whether a row that is no item's is a witness, in which replicator keeps its
// heartbeat.
func isWitness(row string) bool { return strings.HasPrefix(row, transform.WitnessPrefix) }

// lookOnce reads an item and its row, and makes the item equal to the row by at most one request. The
// item is read first: a change of the row after that is found in the row, or brings another record.
// The proof must have been made before the look began. Its time signs the request, so a leader that
// sleeps between the reads and the request cannot overwrite what its successor writes (F2).
func (r *term) lookOnce(ctx context.Context, key string, p proof) (finding, error) {
	ctx, cancel := task.WithTimeout(ctx, r.times.Call)
	defer cancel()
	itemKey, err := r.Form.Key(key)
	if err != nil && isWitness(key) {
		return finding{kind: settled}, nil
	}
	if err != nil {
		return finding{kind: parked, reason: noItem}, nil
	}
	item, exists, err := r.Items.Item(ctx, r.Source, itemKey)
	if err != nil {
		return finding{}, err
	}
	cells, err := r.Rows.Row(ctx, r.Table, key)
	if err != nil {
		return finding{}, err
	}
	c := Compare(r.Form, key, cells, item, exists, r.Ledger.ServiceTime(ctx))
	switch {
	case c.Reason != "":
		return finding{kind: parked, reason: c.Reason}, nil
	case c.Equal:
		return finding{kind: settled}, nil
	}
	answer := r.Items.Write(ctx, r.Source, c.Write, p.signed)
	r.note(ctx, answer.Outcome)
	switch answer.Outcome {
	case Done:
		return finding{kind: settled}, nil
	case Changed:
		return finding{kind: unequal}, nil
	case Refused, Expired:
		return finding{kind: refused}, nil
	case Unfitting:
		return finding{kind: parked, reason: answer.Reason}, nil
	default:
		return finding{kind: doubted, until: p.signed.Add(p.wait)}, nil
	}
}

// note keeps the time of a request that may have changed an item.
func (r *term) note(ctx context.Context, o Outcome) {
	if o == Done || o == Unknown {
		r.mu.Lock()
		r.wrote = r.Ledger.ServiceTime(ctx).UTC()
		r.mu.Unlock()
	}
}

// errNoTime is the error of a leader that has heard no time from the source.
var errNoTime = errors.New("no answer of DynamoDB has shown its time yet")
