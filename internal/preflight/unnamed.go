package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Configurations without a name share the ledger of the default name, in the state table that they
// have in common. Two migrations then meet in it, where each looks like a change of the other.

// refusedByLedger are the codes of what looks like that.
var refusedByLedger = []string{diag.MappingChanged, diag.SourceMoved, diag.CutOver}

// SuggestName adds to an error of the ledger that the configuration may need a name of its own, if
// it has none. Other errors stay as they are.
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

// ExplainShared warns of a ledger that follows other tables, and none of this configuration; nil if
// the ledger follows one of its tables, or none at all. A copied configuration brings its name
// along.
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
	cause := "another configuration has the name " + cfg.Name + " too; a copied file keeps its name"
	if cfg.Unnamed() {
		cause = "neither this configuration nor the one that began the ledger has a name"
	}
	return &diag.Error{Code: diag.LedgerShared, Warning: true,
		What:  fmt.Sprintf("the ledger %q in table %s follows %s, but no table of this configuration", cfg.Name, cfg.State.Table, text),
		Cause: cause,
		Fix:   "set another `name` in this configuration, such as " + exampleName + "; if both are one migration, list all tables in one configuration"}
}
