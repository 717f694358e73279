package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// If two migrations have no name and use the same state table, both use the ledger with the default
// name. Then each migration takes the records of the other for its own.

// refusedByLedger are the codes of errors that a shared ledger may cause.
var refusedByLedger = []string{diag.MappingChanged, diag.SourceMoved, diag.CutOver}

// SuggestName adds the advice to set a name to an error of the ledger, if the configuration has no
// name. It returns other errors unchanged.
func SuggestName(cfg *config.Config, e *diag.Error) *diag.Error {
	if e == nil || !cfg.Unnamed() || !slices.Contains(refusedByLedger, e.Code) {
		return e
	}
	named := *e
	named.Fix = e.Facts().Fix + fmt.Sprintf("; or, if another migration began the ledger %q in table %s: set `name` in this configuration, such as %s",
		cfg.Name, cfg.State.Table, exampleName)
	return &named
}

const exampleName = "name: orders-2"

// ExplainShared returns a warning if the ledger has tables, but none of this configuration.
// Otherwise it returns nil. The usual cause is a copied configuration with the same name.
func ExplainShared(cfg *config.Config, states []checkpoint.TableState) *diag.Error {
	if len(states) == 0 {
		return nil
	}
	var others []string
	for _, s := range states {
		if _, ours := cfg.Table(s.Source); ours {
			return nil
		}
		others = append(others, s.Source)
	}
	const shown = 3
	text := strings.Join(others[:min(shown, len(others))], ", ")
	if more := len(others) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	cause := "another configuration also has the name " + cfg.Name + "; a copied file keeps its name"
	if cfg.Unnamed() {
		cause = "neither this configuration nor the one that began the ledger has a name"
	}
	return &diag.Error{Code: diag.LedgerShared, Warning: true,
		What:  fmt.Sprintf("the ledger %q in table %s follows %s, but no table of this configuration", cfg.Name, cfg.State.Table, text),
		Cause: cause,
		Fix:   "set another `name` in this configuration, such as " + exampleName + "; if both are one migration, list all tables in one configuration"}
}
