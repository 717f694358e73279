package cdc

import (
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Event is what happened to an item.
type Event uint8

// The three events of a stream record.
const (
	Insert Event = iota + 1
	Modify
	Remove
)

// String returns the name DynamoDB gives the event.
func (e Event) String() string { return [...]string{"", "INSERT", "MODIFY", "REMOVE"}[e] }

// parseEvent is the inverse of String.
func parseEvent(name string) (Event, bool) {
	for e := Insert; e <= Remove; e++ {
		if e.String() == name {
			return e, true
		}
	}
	return 0, false
}

// Change is one record of a stream.
type Change struct {
	Event    Event
	Sequence SequenceNumber
	// Time is when the change was made, floored to the second by DynamoDB. It may run backwards, so
	// replicator does not order changes by it.
	Time time.Time
	// Keys holds only the primary key.
	Keys attribute.Item
	// Old is the image before the change. It does not exist for an insert, or if the stream does
	// not carry old images.
	Old attribute.Item
	// New is the image after the change. It does not exist for a remove.
	New attribute.Item
	// Expired reports that the change is a TTL deletion (the record's userIdentity is the service).
	Expired bool
}

// check rejects a record that contradicts itself, or that lacks an image of the stream's view.
// Without its new image, the item would seem to be removed. Without its old image, the item's old
// rows would stay. The argument `old` reports whether the record has an old image, which need not
// have been decoded.
func (c *Change) check(view View, old bool) error {
	switch {
	case c.Sequence.IsZero():
		return errors.New("no sequence number")
	case !c.Keys.Exists():
		return errors.New("no keys")
	case c.Time.IsZero():
		return errors.New("no time")
	case c.Event == Remove && c.New.Exists():
		return fmt.Errorf("%s with a new image", c.Event)
	case c.Event != Remove && !c.New.Exists() && view != ViewKeysOnly && view != ViewOldImage:
		return fmt.Errorf("%s without a new image, view %q", c.Event, view)
	case c.Event != Insert && !old && view == ViewNewAndOldImages:
		return fmt.Errorf("%s without an old image, view %q", c.Event, view)
	}
	if err := complete(&c.Old, c.Keys); err != nil {
		return fmt.Errorf("OldImage: %w", err)
	}
	if err := complete(&c.New, c.Keys); err != nil {
		return fmt.Errorf("NewImage: %w", err)
	}
	return nil
}

// complete adds the key to an image that lacks the key, as in records of some services compatible
// with DynamoDB. It rejects an image with another key, because such an image belongs to another
// item.
func complete(image *attribute.Item, keys attribute.Item) error {
	if !image.Exists() {
		return nil
	}
	var missing []attribute.Attribute
	for _, key := range keys.Attributes() {
		switch value, found := image.Get(key.Name); {
		case !found:
			missing = append(missing, key)
		case !value.Equal(key.Value):
			return fmt.Errorf("key attribute %q differs from Keys", key.Name)
		}
	}
	if missing != nil {
		*image = attribute.NewItem(append(missing, image.Attributes()...))
	}
	return nil
}

// View determines which images a stream carries for each change.
type View string

// The views, named as DynamoDB names them.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_StreamSpecification.html
const (
	ViewKeysOnly        View = "KEYS_ONLY"
	ViewNewImage        View = "NEW_IMAGE"
	ViewOldImage        View = "OLD_IMAGE"
	ViewNewAndOldImages View = "NEW_AND_OLD_IMAGES"
)

// Position is a place in a shard: after a sequence number, or at the horizon if that number is
// zero. The horizon is before the oldest change that the stream still keeps.
type Position struct{ After SequenceNumber }

// AtHorizon reports whether the position is the horizon.
func (p Position) AtHorizon() bool { return p.After.IsZero() }

// Iterator is the service's opaque token for the start of the next page. It expires after 15
// minutes.
type Iterator string

// Page is the outcome of one read: at most 1,000 changes or 1 MB, in order.
type Page struct {
	Changes []Change
	// Next is where the following page begins; empty if End is set.
	Next Iterator
	// End reports that the shard is closed and this page is its last. The page may contain changes.
	End bool
	// At is the service's own clock when it answered; zero if the answer had no time.
	At time.Time
	// Canaries are the test changes that a cutover has written to the source. Canaries are not in
	// Changes, because they are not applied. The Source that a Reader uses separates them from the
	// other changes.
	Canaries []Change
}
