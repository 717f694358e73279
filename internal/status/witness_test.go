package status

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestATargetThatIsLostWhileNobodyRuns: a target that was lost or restored after the last worker
// ended is not in sync, although the ledger says so. If a coordinator is running, status leaves the
// check to it.
func TestATargetThatIsLostWhileNobodyRuns(t *testing.T) {
	ctx := context.Background()
	beaten := func(ledger *checkpoint.Ledger, store checkpoint.Store) {
		at := checkpoint.Place{Store: store, Key: transform.WitnessKeyOf("Orders")}
		if verdict, _, err := ledger.Beat(ctx, "Orders", at); verdict != checkpoint.Fine || err != nil {
			t.Fatal(verdict, err)
		}
	}
	missing := status.Error(codes.NotFound, "no table")
	gone := func(*checkpointtest.Memory) checkpoint.Store { return failing{missing} }
	for _, c := range []struct {
		name        string
		now         func(kept *checkpointtest.Memory) checkpoint.Store
		coordinator string
		want        string
		trouble     int
		change      func(in *TableInput)
	}{
		{"as it was", func(kept *checkpointtest.Memory) checkpoint.Store { return kept }, "", PhaseInSync, 0, nil},
		{"created anew", func(*checkpointtest.Memory) checkpoint.Store { return &checkpointtest.Memory{} }, "", PhaseCopy, 1, nil},
		{"missing", gone, "", PhaseCopy, 1, nil},
		{"silent", func(*checkpointtest.Memory) checkpoint.Store { return failing{errors.New("no answer")} }, "", PhaseCopy, 1, nil},
		{"denied", func(*checkpointtest.Memory) checkpoint.Store {
			return failing{status.Error(codes.PermissionDenied, "no")}
		}, "", PhaseInSync, 1, nil},
		{"of a table that was dropped, too", gone, "", PhaseCopy, 0, func(in *TableInput) {
			in.State.Suspended = checkpoint.Suspension{Reason: engine.GoneReason, Since: ago(48 * time.Hour)}
		}},
		{"of another mapping", gone, "", PhaseInSync, 0, func(in *TableInput) { in.State.MappingHash = "former" }},
		{"kept", gone, "w", PhaseInSync, 0, nil},
		{"cut over, and finalized", gone, "", phaseDone, 0, func(in *TableInput) {}},
	} {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "test", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			beat := *s
			*s = loadedTable()
			s.WitnessBeat = beat.WitnessBeat
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		kept := &checkpointtest.Memory{}
		beaten(ledger, kept)
		beaten(ledger, kept)
		in := TableInput{Found: true, State: loadedTable(), Coordinator: CoordinatorInput{Owner: c.coordinator, Heartbeat: checkpoint.Heartbeat{WrittenAt: noon}}}
		l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "orders"}}, Inputs: []TableInput{in}, Ledger: ledger, Begun: true}
		l.Inputs[0].State.MappingHash = l.Cfg.Hash(l.Tables[0])
		if c.change != nil {
			c.change(&l.Inputs[0])
		}
		if c.want == phaseDone {
			l.Cutovers = checkpoint.Cutovers{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDone, SwitchedAt: ago(time.Hour), FinalizedAt: ago(time.Minute)}}
		}
		l.LookAtTargets(ctx, func(string) checkpoint.Store { return c.now(kept) }, noon.Add(time.Second))
		if m := l.Judge(nothingSet, "", noon); m.Phase != c.want || len(m.Tables[0].Troubles) != c.trouble {
			t.Errorf("%s: %s, %+v", c.name, m.Phase, m.Tables[0].Troubles)
		}
		beaten(ledger, kept) // the reading changed nothing
	}
}

// failing is a store that cannot be read.
type failing struct{ err error }

func (f failing) Read(context.Context, string) ([]checkpoint.Row, error) { return nil, f.err }
func (f failing) Swap(context.Context, string, uint64, uint64, []byte) (bool, error) {
	return false, f.err
}
