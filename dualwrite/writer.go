package dualwrite

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Source is the DynamoDB table.
type Source interface {
	// Get reads an item by its primary key with strong consistency; false if there is none.
	Get(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error)
	// Write puts or deletes an item if its condition holds, and returns the item's previous image.
	// That image does not exist if there was no item. Errors are ErrConflict and *NotExecuted.
	// After any other error the request may have been executed.
	Write(ctx context.Context, c Change) (old attribute.Item, err error)
}

// Change is a conditional write of one item.
type Change struct {
	Keys attribute.Item
	// Image is the item to put. An image that does not exist deletes the item.
	Image attribute.Item
	// Attribute is the version attribute. In the stored item it must have the value Number. If
	// Number is "", the item must not exist or must not have the attribute. If Attribute is "",
	// there is no condition.
	Attribute, Number string
}

// updateTries bounds how often Update starts again because another writer was faster.
const updateTries = 10

// Writer writes items of one source table to both stores. It is safe for concurrent use.
type Writer struct {
	mapping *transform.Mapping
	source  Source
	target  *target
	close   func() error // closes what Open connected
}

// New returns a Writer made of the given parts. Open makes a Writer from a replicator.yaml.
func New(m *transform.Mapping, source Source, t Target) *Writer {
	return &Writer{mapping: m, source: source, target: &target{mapping: m, store: t, source: source}}
}

// Mapping returns the mapping of the table. It shows readers where to find an item in Bigtable.
func (w *Writer) Mapping() *transform.Mapping { return w.mapping }

// Put writes an item. With a version attribute, the item must carry the number that it had when the
// caller read it, or none if the item is new. Put returns the item as it was written, with its new
// number. If another writer changed the item in between, Put fails with ErrConflict. Errors are
// *Error.
func (w *Writer) Put(ctx context.Context, item attribute.Item) (attribute.Item, error) {
	return w.write(ctx, call{op: "Put", keys: w.mapping.Keys(item), read: item, image: item})
}

// Update reads an item, and puts the item that the function `change` returns for it. If another
// writer was faster, Update waits and starts again. The argument `keys` may be the whole item. The
// function must keep the primary key and may ignore the version attribute. If there is no item, the
// function gets an item that does not exist. Errors are *Error, or the errors of `change`.
func (w *Writer) Update(ctx context.Context, keys attribute.Item, change func(attribute.Item) (attribute.Item, error)) (attribute.Item, error) {
	keys = w.mapping.Keys(keys)
	waits := newWaits(ctx)
	for try := 1; ; try++ {
		read, _, err := w.source.Get(ctx, keys)
		if err != nil {
			return attribute.Item{}, &Error{"Update", NotWritten, NotWritten, true, err}
		}
		image, err := change(read)
		if err != nil {
			return attribute.Item{}, err
		}
		if image.Exists() && !w.mapping.Keys(image).Equal(keys) {
			return attribute.Item{}, &Error{"Update", NotWritten, NotWritten, false, ErrKey}
		}
		written, err := w.write(ctx, call{op: "Update", keys: keys, read: read, image: image, old: read})
		if try == updateTries || !errors.Is(err, ErrConflict) || waits.rest(ctx) != nil {
			return written, err
		}
	}
}

// Delete removes an item. The argument is the item as the caller read it. It must have the primary
// key and, with a version attribute, the number. Errors are *Error.
func (w *Writer) Delete(ctx context.Context, item attribute.Item) error {
	_, err := w.write(ctx, call{op: "Delete", keys: w.mapping.Keys(item), read: item, old: item})
	return err
}

// call is one change of an item.
type call struct {
	op    string         // as in Error.Op
	keys  attribute.Item // the primary key
	read  attribute.Item // has the number with which the item was read
	image attribute.Item // the new image; if it does not exist, the item is removed
	old   attribute.Item // the item as read, if the caller gave it
}

// write makes a change in both stores.
func (w *Writer) write(ctx context.Context, c call) (attribute.Item, error) {
	change := Change{Keys: c.keys, Image: c.image}
	if err := w.rank(ctx, &change, c.read); err != nil {
		return attribute.Item{}, &Error{c.op, NotWritten, NotWritten, false, err}
	}
	old, err := w.source.Write(ctx, change)
	known := true
	if err != nil {
		if err = w.resolve(ctx, c.op, err, change); err != nil {
			return attribute.Item{}, err
		}
		old, known = w.before(change, c.old)
	}
	if !known && !change.isStreams() {
		err = errors.New("DynamoDB's answer was lost, and with it the old image, which names the former row")
		return change.Image, &Error{c.op, Written, NotWritten, false, err}
	}
	image, bigtable, err := w.follow(ctx, change, old)
	if err != nil {
		return image, &Error{c.op, Written, bigtable, false, err}
	}
	return image, nil
}

// isStreams reports whether only the stream can order a change: the removal of an item without a
// number.
func (c Change) isStreams() bool {
	return c.Attribute != "" && c.Number == "" && !c.Image.Exists()
}

// isNew reports whether a change gives an item its first number.
func (c Change) isNew() bool { return c.Attribute != "" && c.Number == "" && c.Image.Exists() }

// follow writes the rows of a change that DynamoDB has. It returns the image that DynamoDB has
// then, because a new item may get a higher number.
func (w *Writer) follow(ctx context.Context, c Change, old attribute.Item) (attribute.Item, Outcome, error) {
	if c.isStreams() {
		return c.Image, NotWritten, nil
	}
	refused, outcome, err := w.target.write(ctx, w.record(ctx, c, old))
	switch {
	case err != nil:
		return c.Image, outcome, err
	case len(refused) > 0 && c.isNew():
		return w.raise(ctx, c, refused, outcome)
	}
	return c.Image, Written, nil
}

// raise gives a new item a higher number, because rows refused it. Such a row may remember the
// number of a removed item. Then the row would refuse every write of the application until the
// item's number is higher. If raise fails, the stream orders the item (sink.Fell). The argument
// `others` is the outcome without the rows that refused.
func (w *Writer) raise(ctx context.Context, c Change, refused []transform.RowMutation, others Outcome) (attribute.Item, Outcome, error) {
	held, err := w.target.highest(ctx, refused)
	if err != nil {
		return c.Image, others, fmt.Errorf("the row cannot be read and may hold a higher number, so only replicator writes it: %w", err)
	}
	own, _ := w.mapping.RankOf(c.Image, false)
	switch {
	case !held.Ordered() || held.Rank().Below(own): // the row has changed since it refused
		return c.Image, Written, nil
	case held.Rank() == own && !held.ByApplication(): // the stream was faster
		return c.Image, Written, nil
	}
	number, _ := c.Image.Get(c.Attribute)
	next := Change{Keys: c.Keys, Attribute: c.Attribute, Number: number.Text()}
	if next.Image, err = w.numbered(c.Image, held.Rank().String()); err != nil {
		return c.Image, others, fmt.Errorf("the row holds the highest number, so only replicator writes it: %w", err)
	}
	record := w.record(ctx, next, c.Image)
	if _, err = w.source.Write(ctx, next); errors.Is(err, ErrConflict) {
		return c.Image, Written, nil // a later write has changed the item, and its own rows follow
	}
	if err != nil && w.target.current(ctx, record) != nil {
		return c.Image, others, err
	}
	_, outcome, err := w.target.write(ctx, record)
	switch {
	case err == nil:
		outcome = Written
	case others == PartlyWritten:
		outcome = others
	}
	return next.Image, outcome, err
}

// before returns the previous image of a change whose answer was lost. It returns false if the rows
// of that image are unknown. A number belongs to only one image of an item, so the expected number
// identifies the image. If the item no longer exists, every row of it is removed, regardless of its
// last images.
func (w *Writer) before(c Change, read attribute.Item) (old attribute.Item, known bool) {
	if w.mapping.DependsOnKeyOnly() {
		return attribute.Item{}, true
	}
	if !read.Exists() || c.Number == "" && c.Image.Exists() {
		return attribute.Item{}, false
	}
	rows := sink.Removals(w.mapping, c.Keys, []attribute.Item{read})
	return read, len(rows) > 0
}

// record returns the change as a stream would show it.
func (w *Writer) record(ctx context.Context, c Change, old attribute.Item) cdc.Change {
	record := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Time: task.Now(ctx), Keys: c.Keys, Old: old, New: c.Image}
	switch {
	case !c.Image.Exists():
		record.Event = cdc.Remove
		if !old.Exists() { // the row must not keep the number of a removed item
			record.Old = c.removed()
		}
	case !old.Exists():
		record.Event = cdc.Insert
	}
	return record
}

// removed returns the known attributes of a removed item: its keys and its number.
func (c Change) removed() attribute.Item {
	if c.Number == "" {
		return c.Keys
	}
	number, _ := attribute.Number(c.Number)
	return with(c.Keys, c.Attribute, number)
}

// rank sets the condition of a change, and the next number of its image. A new item gets the
// milliseconds since 1970. Its rows are not read first, because a row that remembers a higher
// number refuses the item (raise). The only error is ErrNumber.
func (w *Writer) rank(ctx context.Context, c *Change, read attribute.Item) error {
	c.Attribute = w.mapping.VersionAttribute()
	if c.Attribute == "" {
		return nil
	}
	if _, err := w.mapping.RankOf(read, false); err != nil {
		return ErrNumber
	}
	if value, ok := read.Get(c.Attribute); ok {
		c.Number = value.Text()
	}
	if !c.Image.Exists() {
		return nil
	}
	above := c.Number
	if above == "" { // the item is new, or was written before items had numbers
		above = strconv.FormatInt(task.Now(ctx).UnixMilli()-1, 10)
	}
	var err error
	c.Image, err = w.numbered(c.Image, above)
	return err
}

// numbered returns the image with the number after `above`. The only error is ErrNumber: the number
// would exceed the highest that a version can hold.
func (w *Writer) numbered(image attribute.Item, above string) (attribute.Item, error) {
	next, _ := new(big.Int).SetString(above, 10)
	number, err := attribute.Number(next.Add(next, big.NewInt(1)).String())
	if err != nil {
		return image, ErrNumber
	}
	image = with(image, w.mapping.VersionAttribute(), number)
	if _, err := w.mapping.RankOf(image, false); err != nil {
		return image, ErrNumber
	}
	return image, nil
}

// with returns a copy of the item with one attribute set.
func with(item attribute.Item, name string, value attribute.Value) attribute.Item {
	list := []attribute.Attribute{{Name: name, Value: value}}
	for _, a := range item.Attributes() {
		if a.Name != name {
			list = append(list, a)
		}
	}
	return attribute.NewItem(list)
}

// resolve decides the outcome of a failed write of DynamoDB. If the outcome is unknown, it reads
// the items. If it returns no error, the write was executed, and the previous images are unknown.
func (w *Writer) resolve(ctx context.Context, op string, failed error, changes ...Change) error {
	var not *NotExecuted
	if errors.Is(failed, ErrConflict) || errors.As(failed, &not) {
		return &Error{op, NotWritten, NotWritten, true, failed}
	}
	for _, c := range changes {
		found, exists, err := w.source.Get(ctx, c.Keys)
		if err != nil {
			return &Error{op, Unknown, NotWritten, c.Attribute != "", fmt.Errorf("%w; and reading it back: %w", failed, err)}
		}
		if exists != c.Image.Exists() || exists && !found.Equal(c.Image) {
			return &Error{op, Unknown, NotWritten, c.Attribute != "", failed}
		}
	}
	return nil
}
