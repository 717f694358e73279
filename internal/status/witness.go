package status

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// targetFinding is what the witness in a target table says against the ledger.
type targetFinding struct {
	table, cause string
	unknown      bool // it could not be looked at
	denied       bool // because this identity may not
}

// stepWitness is what fails where a target and the ledger do not belong together.
const stepWitness = "read the witness in the target"

// LookAtTargets asks the witnesses of tables that look in sync, and that nobody keeps, whether
// ledger and target still belong together. Where a coordinator lives, it does so each minute. The ledger
// alone would go on calling a target in sync that was lost, or restored, while nobody ran. Open
// gives the store of a target table's witness.
func (l *Input) LookAtTargets(ctx context.Context, open func(table string) checkpoint.Store, now time.Time) {
	if l.Ledger == nil {
		return
	}
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	g := task.NewGroup(ctx, tablesAtOnce)
	for i := range l.Tables {
		in := &l.Inputs[i]
		if !in.Found || !in.State.Loaded() || in.Coordinator.Owner != "" && standing.Answers(in.Coordinator.Heartbeat, now, l.Cfg.State.Lease) {
			continue
		}
		if in.State.Suspended.Reason != "" || l.MappingDiffers(i) || l.left(i) {
			// The source may be gone, and the target with it; or the configuration names another
			// target, which is told; or the target is the application's, and finalize has removed
			// the witness.
			continue
		}
		source, targets := l.Tables[i].From, l.Tables[i].Targets()
		g.Go("describe the target of "+source, func(ctx context.Context) error {
			for j, t := range targets {
				at := checkpoint.Place{Store: open(t.Table), Key: transform.WitnessKeyOf(source)}
				if j > 0 {
					at.Further = t.Table
				}
				if found, yes := witnessed(l.Ledger.Look(ctx, source, at)); yes {
					found.table = t.Table
					in.findings = append(in.findings, found)
				}
			}
			return nil
		})
	}
	_ = g.Wait() // nothing there fails
}

// witnessed is what is to be told of a look at a witness, if anything is.
func witnessed(verdict checkpoint.Verdict, err error) (targetFinding, bool) {
	switch {
	case errors.Is(err, checkpoint.ErrConflict):
		return targetFinding{}, false // somebody keeps the table by now
	case status.Code(err) == codes.NotFound:
		return targetFinding{cause: "the target table does not exist: all rows are missing"}, true
	case err != nil:
		code := status.Code(err)
		return targetFinding{cause: "its description could not be read (" + code.String() + "); replicator does not know whether the target was lost or restored",
			unknown: true, denied: code == codes.PermissionDenied}, true
	case verdict == checkpoint.TargetLost:
		return targetFinding{cause: "the target table was recreated or restored, so rows are missing; the next worker declares a gap"}, true
	case verdict == checkpoint.LedgerBehind:
		return targetFinding{cause: "the target belongs to another ledger, or to a later state of this one; the next worker declares a gap"}, true
	}
	return targetFinding{}, false
}

// misplaced tells what the witnesses say.
func (t *Table) misplaced(in TableInput, now time.Time) {
	for _, f := range in.findings {
		t.troubled(checkpoint.Trouble{Step: stepWitness + " " + f.table, Since: in.foundAt(f, now), Cause: f.cause}, 0)
	}
}

// foundAt is since when a finding holds: nobody has looked after the target since the last beat.
func (in *TableInput) foundAt(f targetFinding, now time.Time) time.Time {
	if since := in.Coordinator.Heartbeat.WrittenAt; !f.unknown && !since.IsZero() {
		return since
	}
	return now
}

// doubts are what the witnesses leave open of the targets. Who may not ask them is told so, and has
// the word of the ledger.
func (in *TableInput) doubts(now time.Time) (out []standing.Doubt) {
	for _, f := range in.findings {
		reason := standing.TargetLost
		if f.unknown {
			reason = standing.TargetUnreadable
		}
		if !f.denied {
			out = append(out, standing.Doubt{Reason: reason, Cause: f.cause, Since: in.foundAt(f, now)})
		}
	}
	return out
}
