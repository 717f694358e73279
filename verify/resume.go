package verify

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Saves stores the progress of a part, so that another worker can resume the part (V3). The part's
// record names all data of the part. Other data of the part in the ledger comes from a save that
// did not complete.
type Saves struct {
	Kept
	held, next saved // named by the part's record, and by the save that is to be committed
	number     int   // the number of the next save
}

// saved lists the stored data that a part's record names.
type saved struct {
	found, waiting, sums []string
	whole                bool // the sums include all pages
}

// resumption is the form in which a part's record says where the part resumes, if a position alone
// is not enough. It is stored in an array, so that versions that do not know this form refuse the
// part. Otherwise they would skip the waiting rows.
type resumption struct {
	Position json.RawMessage `json:"position,omitempty"`
	Read     bool            `json:"read,omitempty"`
	Waiting  []string        `json:"waiting,omitempty"` // names of their cells
}

// Resume reads the data that earlier owners of the part have saved. If `sums` is not nil, Resume
// adds the saved sums to it. Resume may be repeated after an error.
func (s *Saves) Resume(ctx context.Context, sums *Sums) (Progress, error) {
	from, held := Progress{Position: s.Part.Position, Counts: s.Part.Compared}, saved{}
	var at []resumption
	if json.Unmarshal(s.Part.Position, &at) == nil && len(at) > 0 {
		from.Position, from.Read, held.waiting = at[0].Position, at[0].Read, at[0].Waiting
	}
	held.whole = from.Read
	var pieces [][]byte
	for _, name := range s.Part.Kept {
		if !strings.HasPrefix(name, sumsData) {
			held.found = append(held.found, name)
			continue
		}
		held.sums = append(held.sums, name)
		if sums == nil {
			continue
		}
		piece, err := s.read(ctx, name)
		if err != nil {
			return from, err
		}
		pieces = append(pieces, piece)
	}
	for _, name := range held.waiting {
		data, err := s.read(ctx, name)
		if err != nil {
			return from, err
		}
		var rows []Candidate
		if json.Unmarshal(data, &rows) != nil {
			return from, backfill.ErrProgress // without the data, which holds keys
		}
		from.Waiting = append(from.Waiting, rows...)
	}
	for _, piece := range pieces {
		if err := sums.AddPiece(piece, false); err != nil {
			return from, err
		}
	}
	s.held = held
	return from, nil
}

// Store stores the news since the previous save. It returns the progress that the caller must then
// write into the part's record. Store may be repeated until the record is written.
func (s *Saves) Store(ctx context.Context, p Progress, since News) (to checkpoint.PartProgress, err error) {
	next := s.held
	next.whole = next.whole || p.Read
	if since.Instead {
		next.waiting = nil
	}
	if since.Sums != nil && !s.held.whole {
		if next.sums, err = s.Kept.sums(ctx, s.number, since.Sums); err != nil {
			return to, err
		}
	}
	found, err := s.findings(ctx, s.number, since.Found)
	if err != nil {
		return to, err
	}
	waiting, err := keep(ctx, s.Kept, waitingData, s.number, since.Waiting)
	if err != nil {
		return to, err
	}
	next.found, next.waiting = slices.Concat(next.found, found), slices.Concat(next.waiting, waiting)
	to = checkpoint.PartProgress{Position: p.Position, Items: p.Items + p.Rows, Compared: p.Counts, Kept: slices.Concat(next.found, next.sums)}
	if p.Read || len(next.waiting) > 0 {
		to.Position, err = json.Marshal([]resumption{{p.Position, p.Read, next.waiting}})
	}
	s.next = next
	return to, err
}

// Committed must be called when the record holds the progress of the last Store. It removes data
// that the record no longer names. Data that it cannot remove is removed when the verify ends.
func (s *Saves) Committed(ctx context.Context) {
	still := slices.Concat(s.next.waiting, s.next.sums)
	for _, name := range slices.Concat(s.held.waiting, s.held.sums) {
		if !slices.Contains(still, name) {
			_ = s.Ledger.DropVerifyData(ctx, s.Table, name)
		}
	}
	s.held = s.next
	s.number++
}

// storedCandidate is the form of a candidate in the ledger. It has the data that the candidate's
// next check needs.
type storedCandidate struct {
	Table   string            `json:"table"`
	Row     []byte            `json:"row"`
	Keys    []json.RawMessage `json:"keys,omitempty"` // DynamoDB JSON
	At      time.Time         `json:"at"`
	Wants   direction         `json:"wants,omitempty"`
	Checked int               `json:"checked,omitempty"`
	Found   []Finding         `json:"found,omitempty"`
	Images  [][]byte          `json:"images,omitempty"` // the images of Found
	Pending []Finding         `json:"pending,omitempty"`
}

// MarshalJSON returns the form in the ledger.
func (c Candidate) MarshalJSON() ([]byte, error) {
	s := storedCandidate{Table: c.Table, Row: []byte(c.Row), At: c.At, Wants: c.wants, Checked: c.checked, Found: c.Findings, Pending: c.pending}
	for _, keys := range c.Keys {
		text, err := attribute.MarshalItem(keys)
		if err != nil {
			return nil, err
		}
		s.Keys = append(s.Keys, text)
	}
	for _, f := range c.Findings {
		s.Images = append(s.Images, []byte(f.image))
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (c *Candidate) UnmarshalJSON(data []byte) error {
	var s storedCandidate
	if json.Unmarshal(data, &s) != nil || len(s.Images) != len(s.Found) {
		return backfill.ErrProgress // without the data, which holds keys
	}
	*c = Candidate{Look: Look{Place: Place{Table: s.Table, Row: string(s.Row)}, At: s.At}, wants: s.Wants, checked: s.Checked}
	c.Findings, c.pending = s.Found, s.Pending
	for i, image := range s.Images {
		c.Findings[i].image = string(image)
	}
	for _, text := range s.Keys {
		keys, err := attribute.UnmarshalItem(text)
		if err != nil {
			return backfill.ErrProgress
		}
		c.Keys = append(c.Keys, keys)
	}
	return nil
}
