package reverse

import (
	"cmp"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Result is the result of a comparison.
type Result struct {
	checkpoint.ReverseResult
	// Findings are the worst differences, at most 50.
	Findings []Finding
}

// mostFindings is the maximum number of findings in a result.
const mostFindings = 50

// Kind is a kind of difference between an item and its row.
type Kind string

// The kinds, from the worst. A rollback loses a missing item for the application, and an item with
// other attributes in part.
const (
	Missing    Kind = "missing_item"
	Different  Kind = "different_item"
	Unreadable Kind = "unreadable_row" // no item follows from the row
	Extra      Kind = "extra_item"     // there is no row
	Parked     Kind = "parked_row"     // differs, and the leader has parked it
)

var worst = []Kind{Missing, Different, Unreadable, Extra, Parked}

// Finding is a row that differs from its item. It contains no item data.
type Finding struct {
	Kind Kind `json:"kind"`
	// Hash is sink.HashOf of the row key.
	Hash   string `json:"hash"`
	Reason string `json:"reason"` // of an unreadable row; may name a column
}

// difference is a finding with its row.
type difference struct {
	row    string
	kind   Kind
	reason string
}

// add counts a difference. It keeps the findings in order, from the worst.
func (r *Result) add(d difference) {
	count := map[Kind]*int64{Missing: &r.Missing, Different: &r.Different, Unreadable: &r.Unreadable, Extra: &r.Extra, Parked: &r.Parked}
	*count[d.kind]++
	f := Finding{Kind: d.kind, Hash: sink.HashOf(d.row), Reason: d.reason}
	at, _ := slices.BinarySearchFunc(r.Findings, f, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(worst, a.Kind), slices.Index(worst, b.Kind)), cmp.Compare(a.Hash, b.Hash))
	})
	if r.Findings = slices.Insert(r.Findings, at, f); len(r.Findings) > mostFindings {
		r.Findings = r.Findings[:mostFindings]
	}
}
