package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Stranger is another migration that writes a target table: its ledger is not ours, and its source
// table is one that ours does not know. Its rows look like ours whose items are gone.
type Stranger struct {
	Target string // the table that both write
	Source string // the table that is copied there
	// Pipeline is the migration's name, or the id of its ledger if no witness has the name.
	Pipeline string
}

func (s Stranger) String() string {
	return fmt.Sprintf("migration %q copies table %s into target table %s", s.Pipeline, s.Source, s.Target)
}

// Witnesses is where the witnesses in a target table are.
type Witnesses struct {
	Target string
	Store  Store
	Prefix string                  // of their keys
	Source func(key string) string // whose witness has a key
}

// Stranger is a migration besides that of the ledger which writes the target table; false if there
// is none. Witnesses of source tables that the ledger or the process has are judged one by one
// (Beat): after the loss of a ledger they are of the lost one. The ledger's tables are read after the
// witnesses: a table's record is there before its witness. Ledger is nil if there is none yet.
func (at Witnesses) Stranger(ctx context.Context, l *Ledger, own func(source string) bool) (Stranger, bool, error) {
	rows, err := at.Store.Read(ctx, at.Prefix)
	if err != nil || len(rows) == 0 {
		return Stranger{}, false, err
	}
	var tables []TableState
	ledger := ""
	if l != nil {
		ledger = l.id
		if tables, err = l.Tables(ctx); err != nil {
			return Stranger{}, false, err
		}
	}
	for _, row := range rows {
		// One of a newer format is another migration's, whatever of it can be read.
		var w Witness
		_ = json.Unmarshal(row.Data, &w)
		source := at.Source(row.Key)
		if w.Ledger == ledger && ledger != "" || own(source) || slices.ContainsFunc(tables, func(t TableState) bool { return t.Source == source }) {
			continue
		}
		return Stranger{Target: at.Target, Source: source, Pipeline: cmp.Or(w.Pipeline, w.Ledger)}, true, nil
	}
	return Stranger{}, false, nil
}

// Stranger is a migration besides this ledger's which writes a target table; false if there is none.
func (l *Ledger) Stranger(ctx context.Context, at Witnesses, own func(source string) bool) (Stranger, bool, error) {
	return at.Stranger(ctx, l, own)
}
