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

// String is the name DynamoDB gives the event.
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
	// Time is when the change was made, floored to the second by DynamoDB; it may run backwards. It orders nothing.
	Time time.Time
	// Keys hold the primary key alone.
	Keys attribute.Item
	// Old is the image before the change, none for an insert or when the stream does not carry it.
	Old attribute.Item
	// New is the image after the change, none for a remove.
	New attribute.Item
	// Expired tells that DynamoDB's time-to-live removed the item (userIdentity of the service).
	Expired bool
}

// check refuses a record that contradicts itself or lacks what its view promises: an absent new image would read as a
// removed item, an absent old one would leave rows behind.
func (c *Change) check(view View) error {
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
	case c.Event != Insert && !c.Old.Exists() && view == ViewNewAndOldImages:
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

// complete adds the key to an image without it, as some services in DynamoDB's place send them, and
// refuses an image with another key: it is of another item.
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

// View is what a stream carries of each change.
type View string

// The views, named as DynamoDB names them.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_StreamSpecification.html
const (
	ViewKeysOnly        View = "KEYS_ONLY"
	ViewNewImage        View = "NEW_IMAGE"
	ViewOldImage        View = "OLD_IMAGE"
	ViewNewAndOldImages View = "NEW_AND_OLD_IMAGES"
)

// Position is a place in a shard: after a sequence number or, if it is zero, at the horizon, which is the oldest change
// that the stream still keeps.
type Position struct{ After SequenceNumber }

// AtHorizon reports whether nothing of the shard has been read yet.
func (p Position) AtHorizon() bool { return p.After.IsZero() }

// Iterator is the service's opaque token for where the next page begins. It expires after 15 minutes.
type Iterator string

// Page is the outcome of one read: at most 1,000 changes or 1 MB, in order.
type Page struct {
	Changes []Change
	// Next is where the following page begins; empty if End.
	Next Iterator
	// End tells that the shard is closed and this page is its last. It may carry changes.
	End bool
	// At is the service's own clock when it answered, zero if it did not say.
	At time.Time
	// Canaries are changes that a cutover made, which are not among Changes: nothing of them is
	// applied. Whoever stands between a Reader and the service has taken them out.
	Canaries []Change
}
