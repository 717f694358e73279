package dualwrite

import (
	"context"
	"errors"
	"fmt"
	"math/big"

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
	unseen, err := w.rank(ctx, &change, c.read)
	if err != nil {
		return attribute.Item{}, &Error{c.op, NotWritten, NotWritten, !errors.Is(err, ErrNumber), err}
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
	if bigtable, err := w.follow(ctx, change, old, unseen); err != nil {
		return change.Image, &Error{c.op, Written, bigtable, false, err}
	}
	return change.Image, nil
}

// isStreams reports whether only the stream can order a change: the removal of an item without a
// number.
func (c Change) isStreams() bool {
	return c.Attribute != "" && c.Number == "" && !c.Image.Exists()
}

// follow writes the rows of a change that DynamoDB has. The argument `unseen` is a result of rank.
func (w *Writer) follow(ctx context.Context, c Change, old attribute.Item, unseen error) (Outcome, error) {
	switch {
	case unseen != nil:
		return NotWritten, unseen
	case c.isStreams():
		return NotWritten, nil
	}
	return w.target.write(ctx, w.record(ctx, c, old))
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

// rank sets the condition of a change, and the next number of its image. The result `unseen`
// explains why the rows of a new item could not be read. Then the item's number may be lower than
// the number of a removed item, and the stream decides (sink.Fell).
func (w *Writer) rank(ctx context.Context, c *Change, read attribute.Item) (unseen, err error) {
	c.Attribute = w.mapping.VersionAttribute()
	if c.Attribute == "" {
		return nil, nil
	}
	if _, err := w.mapping.RankOf(read, false); err != nil {
		return nil, ErrNumber
	}
	if value, ok := read.Get(c.Attribute); ok {
		c.Number = value.Text()
	}
	if !c.Image.Exists() {
		return nil, nil
	}
	next, _ := new(big.Int).SetString("0"+c.Number, 10)
	if c.Number == "" { // the item is new, or was written before items had numbers
		if next, unseen = w.first(ctx, c.Image); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	next.Add(next, big.NewInt(1))
	number, err := attribute.Number(next.String())
	if err != nil {
		return nil, ErrNumber
	}
	c.Image = with(c.Image, c.Attribute, number)
	if _, err := w.mapping.RankOf(c.Image, false); err != nil {
		return nil, ErrNumber // the number is above the highest that a version can hold
	}
	return unseen, nil
}

// first returns what the number of a new item must exceed. That is the clock's number, or a higher
// number that the item's rows remember of a removed item.
func (w *Writer) first(ctx context.Context, image attribute.Item) (above *big.Int, unseen error) {
	held, err := w.target.highest(ctx, image)
	if err != nil {
		unseen = fmt.Errorf("the row cannot be read and may hold a higher number, so only replicator writes it: %w", err)
	}
	above, _ = new(big.Int).SetString("0"+held, 10)
	if now := big.NewInt(task.Now(ctx).UnixMilli() - 1); now.Cmp(above) > 0 {
		above = now
	}
	return above, unseen
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
