package hook

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// A switch that ends with status 1 may have switched: `kubectl set env` acts, and `kubectl rollout
// status` behind it gives up. Its outcome is unknown.
func TestASwitchThatFailsMayHaveSwitched(t *testing.T) {
	h := script(t, t.TempDir(), "echo 'timed out waiting for the condition' >&2\nexit 1\n")
	_, outcome := h.Call(t.Context(), cutover.Call{Hook: cutover.Switch, Token: "1.7.2", Step: "switching", Tables: []string{"Orders"}})
	known.Defect(t, 46, "exit status 1: refused", known.Expect(outcome == cutover.HookUnknown, "exit status 1: %s", outcome))
}
