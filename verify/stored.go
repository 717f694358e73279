package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

const (
	// pieceBytes is the maximum size of a part's data in one row of the state table.
	pieceBytes = 7 << 20
	// foundBytes is the size above which findings go into another row.
	foundBytes = 1 << 20
	// The names of a verify's data in the ledger.
	sumsData    = "sums/"
	foundData   = "found/"
	waitingData = "waiting/"
	pickedData  = "picked"
	indexData   = foundData + "index"
	recheckData = foundData + "again/"
)

// Kept stores the findings, waiting rows and sums of a part in rows of the ledger (V3). The names
// of these rows include the part's epoch. So a late write of an earlier owner is never read.
type Kept struct {
	Ledger *checkpoint.Ledger
	Table  checkpoint.TableState
	Part   checkpoint.Part
}

// findings stores the number-th group of findings of the part. It returns the names of the cells
// that it wrote. Each cell has a bounded size.
func (k Kept) findings(ctx context.Context, number int, found []Finding) (names []string, err error) {
	return keep(ctx, k, foundData, number, found)
}

// keep stores a list in cells of bounded size, and returns their names.
func keep[T any](ctx context.Context, k Kept, as string, number int, list []T) (names []string, err error) {
	return keepNamed(ctx, k.Ledger, k.Table, fmt.Sprintf("%s%s-%04d/%d-%06d.", as, k.Part.Phase, k.Part.Index, k.Part.Epoch, number), list)
}

// keepNamed stores a list in cells whose names begin with `prefix`.
func keepNamed[T any](ctx context.Context, l *checkpoint.Ledger, table checkpoint.TableState, prefix string, list []T) (names []string, err error) {
	var cell []json.RawMessage
	bytes := 0
	put := func() error {
		data, err := json.Marshal(cell)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s%03d", prefix, len(names))
		names, cell, bytes = append(names, name), nil, 0
		return l.PutVerifyData(ctx, table, name, data)
	}
	for i, one := range list {
		text, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		cell, bytes = append(cell, text), bytes+len(text)
		if bytes >= foundBytes || i == len(list)-1 {
			if err := put(); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// sums stores the sums of a part and returns the names of their pieces. The argument `number`
// counts such stores.
func (k Kept) sums(ctx context.Context, number int, sums *Sums) (names []string, err error) {
	for i, piece := range sums.Pieces(pieceBytes) {
		name := fmt.Sprintf("%s%04d/%d-%06d.%03d", sumsData, k.Part.Index, k.Part.Epoch, number, i)
		if err := k.Ledger.PutVerifyData(ctx, k.Table, name, piece); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// read returns the data that is stored under a name in the part's record. Missing data is an error.
// Otherwise rows that were not compared would count as compared.
func (k Kept) read(ctx context.Context, name string) ([]byte, error) {
	data, err := k.Ledger.VerifyData(ctx, k.Table.Source, k.Table.Verify.Number, name)
	if err != nil {
		return nil, err
	}
	if len(data) != 1 {
		return nil, fmt.Errorf("%w: %d rows for data of part %d of a verify", checkpoint.ErrConflict, len(data), k.Part.Index)
	}
	return data[0].Data, nil
}

// Combine adds up the sums of the parts of a finished phase. It stores and returns the buckets that
// differ.
func Combine(ctx context.Context, l *checkpoint.Ledger, table checkpoint.TableState, p Plan, parts []checkpoint.Part) (*Picked, error) {
	sums := NewSums(p.Key)
	for _, part := range parts {
		for _, name := range part.Kept {
			if !strings.HasPrefix(name, sumsData) {
				continue
			}
			piece, err := Kept{l, table, part}.read(ctx, name)
			if err == nil {
				err = sums.AddPiece(piece, p.subtracts(part.Index))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	picked := sums.Differing(p.Way == Live)
	if picked.Len() == 0 {
		return picked, nil
	}
	data, err := picked.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return picked, l.PutVerifyData(ctx, table, pickedData, data)
}

// LoadPicked reads the buckets that Combine stored.
func LoadPicked(ctx context.Context, l *checkpoint.Ledger, table checkpoint.TableState) (*Picked, error) {
	data, err := l.VerifyData(ctx, table.Source, table.Verify.Number, pickedData)
	if err != nil {
		return nil, err
	}
	if len(data) != 1 {
		return nil, fmt.Errorf("%w: the buckets of the verify are missing", checkpoint.ErrConflict)
	}
	picked := &Picked{}
	return picked, picked.UnmarshalBinary(data[0].Data)
}

// Index stores which of the written findings belong to the verify.
func Index(ctx context.Context, l *checkpoint.Ledger, table checkpoint.TableState, parts []checkpoint.Part) error {
	var names []string
	for _, part := range parts {
		for _, name := range part.Kept {
			if strings.HasPrefix(name, foundData) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	data, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return l.PutVerifyData(ctx, table, indexData, data)
}

// UnreadableError is the error for findings that were stored in a form that this version cannot
// read.
type UnreadableError struct{ Findings int }

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("a newer version of replicator recorded rows that differ, and this version cannot read them: %d", e.Findings)
}

// KeepRecheck stores the findings of the last completed verify anew, after a second comparison of its
// rows in flight. The name must be unique to this comparison.
func KeepRecheck(ctx context.Context, l *checkpoint.Ledger, table checkpoint.TableState, name string, found []Finding) error {
	of := table
	of.Verify.Number = table.Verify.Result.Number // a later verify may have been cancelled
	names, err := keepNamed(ctx, l, of, recheckData+name+"-", found)
	if err != nil {
		return err
	}
	data, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return l.PutVerifyData(ctx, of, recheckData+name, data)
}

// Findings reads the findings of a table's last completed verify, sorted by target table, row and
// share. They have no values (Column.Values). If some findings cannot be read, it returns the
// others and *UnreadableError.
func Findings(ctx context.Context, l *checkpoint.Ledger, source string, result checkpoint.VerifyResult) ([]Finding, error) {
	name := indexData
	if result.Recheck != "" {
		name = recheckData + result.Recheck
	}
	index, err := l.VerifyData(ctx, source, result.Number, name)
	if err != nil {
		return nil, err
	}
	r, unread := Result{}, 0
	for _, d := range index {
		if d.Name != name {
			continue // a cell of findings, whose name begins with the index's
		}
		var names []string
		if json.Unmarshal(d.Data, &names) != nil {
			return nil, fmt.Errorf("%w: the index of the findings of a verify", checkpoint.ErrConflict)
		}
		for _, name := range names {
			data, err := l.VerifyData(ctx, source, result.Number, name)
			if err != nil {
				return nil, err
			}
			for _, d := range data {
				if d.Name == name {
					found, odd := readFindings(d.Data)
					r.Findings, unread = append(r.Findings, found...), unread+odd
				}
			}
		}
	}
	r.sort()
	if unread > 0 {
		return r.Findings, &UnreadableError{unread}
	}
	return r.Findings, nil
}

// readFindings reads one cell of findings, and returns how many of them cannot be read.
func readFindings(cell []byte) (found []Finding, unread int) {
	var all []json.RawMessage
	if json.Unmarshal(cell, &all) != nil {
		return nil, 1
	}
	for _, text := range all {
		var f Finding
		if json.Unmarshal(text, &f) != nil {
			unread++
			continue
		}
		found = append(found, f)
	}
	return found, unread
}

// ResultOf converts a result from its form in the ledger.
func ResultOf(source string, r checkpoint.VerifyResult) Result {
	scope := Scope{Sample: r.Sample, Since: r.Since}
	return Result{Source: source, Scope: scope, Way: Way(r.Way), Why: r.Why, Began: r.BegunAt, Ended: r.EndedAt, Counts: r.VerifyCounts, Blind: scope.Blind()}
}

// Stored is the inverse of ResultOf.
func (r Result) Stored() checkpoint.VerifyResult {
	return checkpoint.VerifyResult{
		Way: string(r.Way), Why: r.Why, Sample: r.Scope.Sample, Since: r.Scope.Since, BegunAt: r.Began, EndedAt: r.Ended, VerifyCounts: r.Counts,
	}
}
