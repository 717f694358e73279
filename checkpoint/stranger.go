package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Stranger is another migration that writes a target table. It has another ledger, and this ledger
// does not know its source table. To this migration, the stranger's rows look like rows of removed
// items.
type Stranger struct {
	Target string // the target table that both write
	Source string // the other migration's source table
	// Pipeline is the migration's name, or the id of its ledger if no witness has the name.
	Pipeline string
}

func (s Stranger) String() string {
	return fmt.Sprintf("migration %q copies table %s into target table %s", s.Pipeline, s.Source, s.Target)
}

// Witnesses is the location of the witnesses in a target table.
type Witnesses struct {
	Target string
	Store  Store
	Prefix string                  // of the witnesses' keys
	Source func(key string) string // the source table whose witness has the key
}

// Stranger returns another migration that writes the target table; false if there is none. It skips
// witnesses of source tables that the ledger or the process knows, because Beat judges those
// witnesses. After the loss of a ledger, such witnesses belong to the lost ledger. It reads the
// ledger's tables after the witnesses, because a table's record is created before its witness. The
// argument `l` is nil if no ledger exists yet.
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
		// A witness of a newer format belongs to another migration, even if it cannot be read
		// completely.
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

// Stranger returns a migration other than this ledger's that writes a target table; false if there
// is none.
func (l *Ledger) Stranger(ctx context.Context, at Witnesses, own func(source string) bool) (Stranger, bool, error) {
	return at.Stranger(ctx, l, own)
}
