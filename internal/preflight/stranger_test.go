package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// A first generation is refused if another migration writes the target. The error has both fixes,
// even for a migration of which only the witness is left. No question is asked about its rows. A
// table that is already followed continues.
func TestAnotherMigrationIsRefusedBeforeAnythingBegins(t *testing.T) {
	of := func(table string, begun bool) Taken {
		return Taken{&engine.StrangerError{Table: table, Other: checkpoint.Stranger{Target: "shop", Source: "Returns", Pipeline: "two"}}, begun}
	}
	taken := []Taken{of("Orders", false), of("Carts", true)}
	held := []*engine.RowsError{{Table: "Orders", Target: "shop"}, {Table: "Users", Target: "users"}}
	refused := refusals(taken, held)
	if len(refused) != 2 || refused[0].Code != diag.TargetTaken || refused[1].Code != diag.TargetHoldsRows {
		t.Fatalf("%v", refused)
	}
	for _, text := range []string{"target.shared: true", `cbt deleterow shop $'\xff_cdc~witness~Returns'`} {
		if !strings.Contains(refused[0].Fix, text) {
			t.Errorf("no %q in %s", text, refused[0].Fix)
		}
	}
	if !strings.Contains(refused[0].Cause, `migration "two" copies table Returns into target table shop`) || !errors.As(refused[0], new(*engine.StrangerError)) {
		t.Errorf("%+v", refused[0])
	}
	if len(refusals(taken[1:], nil)) > 0 || !IsTaken(taken, "Carts") || IsTaken(taken, "Users") {
		t.Error("a table that is followed is refused, or another taken for it")
	}
}
