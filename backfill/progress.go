package backfill

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// ErrProgress is returned for stored progress that makes no sense.
var ErrProgress = errors.New("not the progress of a load")

// Progress is how far a load came. Its size grows with the segments read at once, not with those of the table: segments are
// begun in order, so that what is neither open nor still to come is done.
//
// Its JSON form is stored in the ledger. It holds item keys, which must not reach logs or errors.
type Progress struct {
	// Generation is the generation the load belongs to.
	Generation uint32 `json:"generation,omitempty"`
	// Total is the number of segments; 0 if nothing was begun.
	Total int `json:"total"`
	// Next is the first segment that was not begun; those below it which are not Open are done.
	Next int `json:"next"`
	// Open are the segments begun and not done, in order.
	Open []Open `json:"open,omitempty"`
	// Items is how many items are durable. Items read again after a crash count again.
	Items int64 `json:"items"`
}

// Open is a segment that was begun.
type Open struct {
	Segment int
	// After is the key of the last durable item; it does not exist if there is none yet.
	After attribute.Item
	Items int64
}

type openJSON struct {
	Segment int             `json:"segment"`
	After   json.RawMessage `json:"after,omitempty"`
	Items   int64           `json:"items,omitempty"`
}

// MarshalJSON writes the key as DynamoDB JSON.
func (o Open) MarshalJSON() ([]byte, error) {
	stored := openJSON{Segment: o.Segment, Items: o.Items}
	if o.After.Exists() {
		key, err := attribute.MarshalItem(o.After)
		if err != nil {
			return nil, err
		}
		stored.After = key
	}
	return json.Marshal(stored)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (o *Open) UnmarshalJSON(b []byte) error {
	var stored openJSON
	if err := json.Unmarshal(b, &stored); err != nil {
		return err
	}
	*o = Open{Segment: stored.Segment, Items: stored.Items}
	if stored.After == nil {
		return nil
	}
	var err error
	o.After, err = attribute.UnmarshalItem(stored.After)
	return err
}

// Done tells whether everything is loaded.
func (p Progress) Done() bool { return p.Total > 0 && p.Next == p.Total && len(p.Open) == 0 }

// SegmentsDone is how many of the Total are loaded to their end.
func (p Progress) SegmentsDone() int { return p.Next - len(p.Open) }

// ReadProgress is the progress that was saved as JSON, if it is of this generation; the zero value if it is of another, or nothing was saved. What
// cannot be read is ErrProgress, without what it holds.
func ReadProgress(saved []byte, generation uint32) (Progress, error) {
	if saved == nil {
		return Progress{}, nil
	}
	var p Progress
	if json.Unmarshal(saved, &p) != nil {
		return Progress{}, fmt.Errorf("%w: the ledger holds something else", ErrProgress)
	}
	if p.Generation != generation || p.Total == 0 {
		return Progress{}, nil
	}
	return p, p.check()
}

// check refuses what no load could have left behind.
func (p Progress) check() error {
	if p.Total < 1 || p.Total > MaxSegments || p.Next < 0 || p.Next > p.Total || p.Items < 0 {
		return fmt.Errorf("%w: %d segments, %d begun", ErrProgress, p.Total, p.Next)
	}
	for i, o := range p.Open {
		if o.Segment < 0 || o.Segment >= p.Next || i > 0 && o.Segment <= p.Open[i-1].Segment {
			return fmt.Errorf("%w: segment %d cannot be open", ErrProgress, o.Segment)
		}
	}
	return nil
}

func (p Progress) clone() Progress {
	p.Open = slices.Clone(p.Open)
	return p
}

// parallel is how many segments are read at once when so many are wanted.
func (p Progress) parallel(wanted int) int {
	if wanted <= 0 {
		wanted = p.Total
	}
	return max(1, min(wanted, p.Total, maxParallel))
}

func (p *Progress) find(segment int) (int, bool) {
	return slices.BinarySearchFunc(p.Open, segment, func(o Open, segment int) int { return o.Segment - segment })
}

// open notes that a segment is begun. Segments may be started by the scheduler out of their order: those skipped are begun,
// with nothing durable.
func (p *Progress) open(o Open) {
	for ; p.Next <= o.Segment; p.Next++ {
		p.Open = append(p.Open, Open{Segment: p.Next})
	}
}

// advance notes a page of an open segment; it is done if o.After does not exist.
func (p *Progress) advance(o Open, items int) {
	at, ok := p.find(o.Segment)
	if !ok {
		panic(fmt.Sprintf("backfill: segment %d is not open", o.Segment))
	}
	p.Items += int64(items)
	if !o.After.Exists() {
		p.Open = slices.Delete(p.Open, at, at+1)
		return
	}
	p.Open[at].After = o.After
	p.Open[at].Items += int64(items)
}
