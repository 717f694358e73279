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

// Source reads DynamoDB; *backfill.Tables implements it. Reads are strongly consistent.
type Source interface {
	backfill.ScanSource
	backfill.ItemSource
}

// Target reads Bigtable; *sink.Bigtable implements it.
type Target interface {
	sink.Reader
	sink.SetReader
	sink.MarkReader
}

// Kind is the kind of a finding.
type Kind string

// The kinds.
const (
	Missing   Kind = "missing"   // an item has no live row at its address
	Different Kind = "different" // the row is live, but cells that the item owns differ
	Extra     Kind = "extra"     // the row holds an item that the source does not have, or that maps elsewhere
	Foreign   Kind = "foreign"   // cells of managed families that replicator did not write
	// InFlight is a row that differs and has a change that was not applied at any check. It does
	// not count as differing. However, a comparison with a row in flight is not clean.
	InFlight Kind = "in_flight"
)

// Finding is an incorrect row, or one item's incorrect share of a row. A Finding contains keys, so
// only its Document form may be shown.
type Finding struct {
	// Source is the source table. Table and Row are the target's table and row.
	Source string
	Table  string
	Row    string
	// Owner is empty if the row belongs to one item. Otherwise it names the item's share of the row
	// (transform.RowMutation).
	Owner string
	// Keys is the item's primary key. It is empty (Item.Exists reports false) for foreign cells,
	// and for rows that replicator wrote for an unknown item.
	Keys attribute.Item
	Kind Kind
	// Columns are the columns that differ, by family and qualifier. For a missing row, they are the
	// missing columns. A stored finding has a bounded number of Columns. More counts the omitted
	// columns.
	Columns []Column
	More    int
	// Version is the item's version in the row at the last check, live or removed; "" if the row
	// has none of this item. Live reports whether this version was live.
	Version transform.Version
	Live    bool
	// Reason is a possible cause, without item data; "" if none is known.
	Reason string

	image string // a hash of the item's cells for the row; "" if the item has none
}

// Column is one column of a finding. Only Values returns its values.
type Column struct {
	Family, Qualifier string
	// Want and Have are short hashes of the expected and the actual value; "" if there is no such
	// cell.
	Want, Have string

	want, have []byte
}

// Values returns the expected and the actual value; nil if there is no such cell. The result
// `known` is false for a stored finding, which has no values. Comparison.Look reads the values
// again.
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

// columnsBytes bounds the columns of a stored finding, because an item may have 100,000 columns.
const columnsBytes = 4 << 10

// brief returns the finding in the form in which it is kept: without values, and with a bounded
// number of columns. The values may be as long as the item.
func (f Finding) brief() Finding {
	columns := f.Columns
	f.Columns = nil
	room := columnsBytes
	for i, c := range columns {
		if room -= len(c.Family) + len(c.Qualifier) + len(c.Want) + len(c.Have); room < 0 {
			f.More += len(columns) - i
			break
		}
		// The qualifier is copied, because it may share the memory of a long text.
		f.Columns = append(f.Columns, Column{Family: c.Family, Qualifier: strings.Clone(c.Qualifier), Want: c.Want, Have: c.Have})
	}
	return f
}

// ID identifies the finding within its run, by row, share and kind.
func (f Finding) ID() string {
	return f.Table + "\x00" + f.Row + "\x00" + f.Owner + "\x00" + string(f.Kind)
}

// stored is the form of a finding in the ledger: without values.
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

// MarshalJSON returns the form in the ledger.
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

// UnmarshalJSON reads the form that MarshalJSON writes.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var s stored
	if json.Unmarshal(data, &s) != nil {
		return errors.New("not a finding of a verify") // without the data, which holds keys
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

// Way is the method with which a table is compared.
type Way string

// The ways.
const (
	Quiet Way = "quiet" // compare sums of the two sides
	Live  Way = "live"  // compare page by page, and read the rows of each page
)

// Scope is the part of a table that is compared: everything, a share of its items, or rows that
// changed since a time.
type Scope struct {
	// Sample is the share of the items to compare, chosen by a hash of their keys. It is between 0
	// and 1; 0 means all items.
	Sample float64 `json:"sample,omitempty"`
	// Since limits the comparison to rows that changed at or after this time; zero means no limit.
	Since time.Time `json:"since,omitzero"`
}

// Full reports whether everything is compared.
func (s Scope) Full() bool { return s.Sample == 0 && s.Since.IsZero() }

// Counts are the totals of a comparison.
type Counts = checkpoint.VerifyCounts

// Count adds one finding of a kind to the counts.
func Count(c *Counts, k Kind) {
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

// StaleAfter is the age from which a result no longer describes the current state.
const StaleAfter = checkpoint.VerifyStaleAfter

// Result is the outcome of a comparison of one table.
type Result struct {
	Source string    `json:"table"`
	Scope  Scope     `json:"scope"`
	Way    Way       `json:"way"`
	Why    string    `json:"why,omitempty"` // the reason for choosing Way
	Began  time.Time `json:"began_at"`
	Ended  time.Time `json:"ended_at,omitzero"`
	Counts
	// Unread names the parts that were not read to their end (V2). It is empty for a complete
	// result.
	Unread []string `json:"unread,omitempty"`
	// Blind describes differences that a comparison of this scope cannot find.
	Blind []string `json:"blind,omitempty"`
	// Findings are the kept findings, sorted by target table, row and share.
	Findings []Finding `json:"-"`
}

// Clean reports whether everything in scope was read and is correct. A result with a row in flight
// is not clean, because that row may be incorrect.
func (r Result) Clean() bool {
	return !r.Ended.IsZero() && len(r.Unread) == 0 && r.Differing() == 0 && r.InFlight == 0
}

// Stale reports whether the result is too old to describe the current state.
func (r Result) Stale(now time.Time) bool { return now.Sub(r.Ended) > StaleAfter }

// Applied reports whether every change that was committed up to a time is applied.
type Applied func(ctx context.Context, to time.Time) (bool, error)
