package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Source is what is read of DynamoDB; *backfill.Tables is one. Reads are strongly consistent.
type Source interface {
	backfill.ScanSource
	backfill.ItemSource
}

// Target is what is read of Bigtable; *sink.Bigtable is one.
type Target interface {
	sink.Reader
	sink.SetReader
	sink.MarkReader
}

// Kind is how a row is not as it should be.
type Kind string

// The kinds.
const (
	Missing   Kind = "missing"   // an item has no live row where the mapping puts it
	Different Kind = "different" // the row lives, and cells that the item owns differ
	Extra     Kind = "extra"     // the row holds an item that the source does not have, or has elsewhere
	Foreign   Kind = "foreign"   // cells of managed families that nobody of ours wrote
	// InFlight is a row that differs, and whose change was not applied at any look. It is not counted
	// as differing, but a comparison that leaves one is not clean.
	InFlight Kind = "in_flight"
)

// Finding is one row, or one item's share of a row, that is not as it should be. It holds keys:
// only what Document makes of it may be shown.
type Finding struct {
	// Source is the source table; Table and Row are the target's.
	Source string
	Table  string
	Row    string
	// Owner is empty if the row is one item's; else the item's share in it (transform.RowMutation).
	Owner string
	// Keys is the primary key of the item; it does not exist (Item.Exists) for foreign cells, and
	// for rows of ours of which nothing says whose they are.
	Keys attribute.Item
	Kind Kind
	// Columns are those that differ, by family and qualifier; of a missing row, those that lack. More is
	// how many do besides them: of a finding that was kept, Columns are bounded.
	Columns []Column
	More    int
	// Version is what the row held of the item at the last look, live or gone; "" if nothing. Live
	// is true if it was a live one.
	Version transform.Version
	Live    bool
	// Reason is why it may have come to this, without item data; "" if nothing suggests one.
	Reason string

	image string // a hash of what the item puts into the row; "" if it does not
}

// Column is one column of a finding. Its values never leave it but by Values.
type Column struct {
	Family, Qualifier string
	// Want and Have are short hashes of the values, "" if there is no such cell.
	Want, Have string

	want, have []byte
}

// Values returns the cells' values, nil if there is no such cell, and false if they are not known: those
// of a finding that was stored are not, and Comparison.Look reads them again.
func (c Column) Values() (want, have []byte, known bool) {
	return c.want, c.have, c.want != nil || c.have != nil
}

func columnOf(d sink.Difference) Column {
	return Column{d.Family, d.Qualifier, hashOf(d.Want), hashOf(d.Have), d.Want, d.Have}
}

func hashOf(value []byte) string {
	if value == nil {
		return ""
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:8])
}

// columnsBytes bounds the columns that a finding is kept with: an item may have 100,000.
const columnsBytes = 4 << 10

// brief returns the finding as it is kept: without values, which may be as long as the item, and with as
// many columns as there is room for.
func (f Finding) brief() Finding {
	columns := f.Columns
	f.Columns = nil
	room := columnsBytes
	for i, c := range columns {
		if room -= len(c.Family) + len(c.Qualifier) + len(c.Want) + len(c.Have); room < 0 {
			f.More += len(columns) - i
			break
		}
		// The qualifier may be a part of a long text.
		f.Columns = append(f.Columns, Column{Family: c.Family, Qualifier: strings.Clone(c.Qualifier), Want: c.Want, Have: c.Have})
	}
	return f
}

// ID names the finding among those of its run: the row and the item's share of it.
func (f Finding) ID() string {
	return f.Table + "\x00" + f.Row + "\x00" + f.Owner + "\x00" + string(f.Kind)
}

// stored is how the ledger keeps a finding: without values.
type stored struct {
	Source  string            `json:"source"`
	Table   string            `json:"table"`
	Row     []byte            `json:"row"`
	Owner   string            `json:"owner,omitempty"`
	Keys    json.RawMessage   `json:"keys,omitempty"` // DynamoDB JSON
	Kind    Kind              `json:"kind"`
	Columns []storedColumn    `json:"columns,omitempty"`
	More    int               `json:"more,omitempty"`
	Version transform.Version `json:"version,omitempty"`
	Live    bool              `json:"live,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

type storedColumn struct {
	Family    string `json:"family"`
	Qualifier []byte `json:"qualifier,omitempty"`
	Want      string `json:"want,omitempty"`
	Have      string `json:"have,omitempty"`
}

// MarshalJSON is how the ledger keeps it.
func (f Finding) MarshalJSON() ([]byte, error) {
	s := stored{Source: f.Source, Table: f.Table, Row: []byte(f.Row), Owner: f.Owner, Kind: f.Kind, Version: f.Version, Live: f.Live, Reason: f.Reason, More: f.More}
	if f.Keys.Exists() {
		var err error
		if s.Keys, err = attribute.MarshalItem(f.Keys); err != nil {
			return nil, err
		}
	}
	for _, c := range f.Columns {
		s.Columns = append(s.Columns, storedColumn{c.Family, []byte(c.Qualifier), c.Want, c.Have})
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var s stored
	if json.Unmarshal(data, &s) != nil {
		return errors.New("not a finding of a verify") // without what it holds
	}
	*f = Finding{Source: s.Source, Table: s.Table, Row: string(s.Row), Owner: s.Owner, Kind: s.Kind, Version: s.Version, Live: s.Live, Reason: s.Reason, More: s.More}
	if s.Keys != nil {
		var err error
		if f.Keys, err = attribute.UnmarshalItem(s.Keys); err != nil {
			return errors.New("a finding of a verify without a key")
		}
	}
	for _, c := range s.Columns {
		f.Columns = append(f.Columns, Column{Family: c.Family, Qualifier: string(c.Qualifier), Want: c.Want, Have: c.Have})
	}
	return nil
}

// Way is how a table is compared.
type Way string

// The ways.
const (
	Quiet Way = "quiet" // by sums of both sides
	Live  Way = "live"  // page by page, with look-ups
)

// Scope is what of a table is compared: everything, a share of its items, or what was changed since.
type Scope struct {
	// Sample is the share of the items, by a hash of their keys: above 0 and below 1; 0 is all.
	Sample float64 `json:"sample,omitempty"`
	// Since is the time from which rows were changed; zero is always.
	Since time.Time `json:"since,omitzero"`
}

// Full reports whether everything is compared.
func (s Scope) Full() bool { return s.Sample == 0 && s.Since.IsZero() }

// Counts are what a comparison came to.
type Counts = checkpoint.VerifyCounts

func count(c *Counts, k Kind) {
	switch k {
	case Missing:
		c.Missing++
	case Different:
		c.Different++
	case Extra:
		c.Extra++
	case Foreign:
		c.Foreign++
	case InFlight:
		c.InFlight++
	}
}

// StaleAfter is how old a result may be: an older one says nothing of now.
const StaleAfter = checkpoint.VerifyStaleAfter

// Result is the outcome of a comparison of one table.
type Result struct {
	Source string    `json:"table"`
	Scope  Scope     `json:"scope"`
	Way    Way       `json:"way"`
	Why    string    `json:"why,omitempty"` // the way was chosen
	Began  time.Time `json:"began_at"`
	Ended  time.Time `json:"ended_at,omitzero"`
	Counts
	// Unread names the parts that were not read to their end (V2); none of a result that is whole.
	Unread []string `json:"unread,omitempty"`
	// Blind says differences that a comparison of this scope cannot find.
	Blind []string `json:"blind,omitempty"`
	// Findings are those that were kept, by target table, row and share.
	Findings []Finding `json:"-"`
}

// Clean reports whether everything in scope was read and is as it should be. What stayed in flight
// is not known to be.
func (r Result) Clean() bool {
	return !r.Ended.IsZero() && len(r.Unread) == 0 && r.Differing() == 0 && r.InFlight == 0
}

// Stale reports whether the result is too old to say anything of now.
func (r Result) Stale(now time.Time) bool { return now.Sub(r.Ended) > StaleAfter }

// Applied says whether every change that was committed up to a time has been applied by now.
type Applied func(ctx context.Context, to time.Time) (bool, error)
