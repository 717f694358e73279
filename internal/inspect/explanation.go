package inspect

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Explanation is everything known about an item: the document of `explain -o json`. Unknown values
// are null.
type Explanation struct {
	Schema       string         `json:"schema"` // replicator.explain/v1
	At           time.Time      `json:"at"`     // when the item was read
	Table        string         `json:"table"`
	KeyHash      string         `json:"key_hash"`
	Source       sourceItem     `json:"source"`
	Rule         rule           `json:"rule"`
	Rows         []explainedRow `json:"rows"`
	Parked       []parked.Entry `json:"parked"`
	Shard        explainedShard `json:"shard"`
	Lag          *float64       `json:"lag_seconds"`
	LagEstimated bool           `json:"lag_estimated"`
	Verdict      itemVerdict    `json:"verdict"`
	Likely       *likelyReason  `json:"likely"` // null if nothing differs
}

// sourceItem is the item as the source holds it.
type sourceItem struct {
	Present    bool    `json:"present"`
	Attributes int     `json:"attributes"`
	Unmappable *string `json:"unmappable"` // why the item has no row; null if it has one or is absent
}

// explainedRow is a row that belongs, or belonged, to the item.
type explainedRow struct {
	Table     string        `json:"table"`
	Row       Octets        `json:"row"`
	Wanted    bool          `json:"wanted"` // the item now maps to this row
	Live      *heldVersion  `json:"live"`
	Tombstone *heldVersion  `json:"tombstone"`
	Cells     int           `json:"cells"` // number of the item's cells in the target
	Differs   []differingAt `json:"differences"`
	// Equal reports whether the row equals the item: it has exactly the item's cells, or none if
	// the item has none.
	Equal bool `json:"equal"`
}

// heldVersion is a version, split into its parts.
type heldVersion struct {
	Version    string `json:"version"`
	Generation uint32 `json:"generation"`
	Hop        uint32 `json:"hop"`
	Sequence   string `json:"sequence"`
	Count      uint16 `json:"count"`
	// LoadedAt is when a load read the item; null for a change from the stream.
	LoadedAt *time.Time `json:"loaded_at"`
	// Copied is the fast load that copied the row, as generation.number; null for other rows. Such
	// a row has no version of its own, and the version above only ranks it.
	Copied    *string    `json:"copied_by"`
	WrittenAt *time.Time `json:"written_at"` // when a tombstone was written, by the server's clock
}

// differingAt is a column that differs. Sizes are in bytes; null means that there is no such cell.
type differingAt struct {
	Column    Octets `json:"column"`
	WantBytes *int   `json:"want_bytes"`
	HaveBytes *int   `json:"have_bytes"`
	Want      Octets `json:"want,omitempty"` // the value in the item; only with --show-values
	Have      Octets `json:"have,omitempty"`
}

// explainedShard names two shards, if they are known: the shard that the row's version came from,
// and the shard that the item's next change will come from.
type explainedShard struct {
	Carried *string `json:"carried"` // the shard that the row's version or tombstone came from
	// AtHop is the number of the ledger's shards that the version may have come from.
	AtHop int `json:"at_hop"`
	// Next is the shard that the next change will come from; null unless exactly one shard is open.
	Next *string `json:"next"`
	Open int     `json:"open"` // number of open shards
}

// explain returns a row in the form of the document.
func (r *itemRow) explain(values bool) explainedRow {
	live, gone, goneAt := r.seen.Versions(r.want.Owner)
	e := explainedRow{Table: r.want.Table, Row: Octets(r.want.Row), Wanted: !r.want.Remove, Cells: len(sink.Owned(r.seen, r.want)), Differs: []differingAt{},
		Equal: sink.Holds(r.seen, r.want), Live: decoded(live), Tombstone: decoded(gone)}
	if r.seen.CopiedOnly() && e.Live != nil {
		load := fmt.Sprintf("%d.%d", r.seen.Marker.Generation, r.seen.Marker.Load)
		e.Live.Copied, e.Live.LoadedAt = &load, nil
	}
	if e.Tombstone != nil {
		at := time.UnixMicro(goneAt).UTC()
		e.Tombstone.WrittenAt = &at
	}
	for _, d := range sink.Compare(r.seen, r.want) {
		at := differingAt{Column: Octets(d.Family + ":" + d.Qualifier), WantBytes: size(d.Want), HaveBytes: size(d.Have)}
		if values {
			at.Want, at.Have = Octets(d.Want), Octets(d.Have)
		}
		e.Differs = append(e.Differs, at)
	}
	return e
}

func size(value []byte) *int {
	if value == nil {
		return nil
	}
	n := len(value)
	return &n
}

func decoded(v transform.Version) *heldVersion {
	if _, err := transform.ParseVersion(string(v)); err != nil {
		return nil
	}
	h := &heldVersion{Version: string(v), Generation: v.Generation(), Hop: v.Hop(), Sequence: v.Sequence().String(), Count: v.Count()}
	if h.Hop == transform.LoadHop {
		if second, err := strconv.ParseInt(h.Sequence, 10, 64); err == nil {
			at := time.Unix(second, 0).UTC()
			h.LoadedAt = &at
		}
	}
	return h
}

// shardOf returns the shard that a version came from, if only one shard in the ledger has the
// version's hop. It also returns the shard that the next change will come from, if only one shard
// is open. DynamoDB does not show in which shard an item's changes are.
func shardOf(held transform.Version, shards []status.Shard) explainedShard {
	var e explainedShard
	for i := range shards {
		s := &shards[i]
		if held != "" && held.Hop() == s.Hop && held.Hop() != transform.LoadHop {
			e.AtHop++
			e.Carried = &s.ID
		}
		if s.State == string(checkpoint.Waiting) || s.State == string(checkpoint.Reading) {
			e.Open++
			e.Next = &s.ID
		}
	}
	if e.AtHop != 1 {
		e.Carried = nil
	}
	if e.Open != 1 {
		e.Next = nil
	}
	return e
}
