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

// targetFinding is the result of comparing the witness in a target table with the ledger.
type targetFinding struct {
	table, cause string
	unknown      bool // it could not be read
	denied       bool // because this identity lacks the permission
}

// stepWitness is the failing step if a target and the ledger do not belong together.
const stepWitness = "read the witness in the target"

// LookAtTargets reads the witnesses of tables that look in sync and have no coordinator. It checks
// that ledger and target still belong together. A running coordinator does so every minute. If a
// target was lost or restored while no worker ran, the ledger alone would still look in sync. Open
// returns the store of a target table's witness.
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
			// The source may be gone, and the target with it. Or the configuration names another
			// target, which is reported elsewhere. Or the target belongs to the application, and
			// finalize has removed the witness.
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
	_ = g.Wait() // the tasks return no errors
}

// witnessed returns the finding to report from a read of a witness, if there is one.
func witnessed(verdict checkpoint.Verdict, err error) (targetFinding, bool) {
	switch {
	case errors.Is(err, checkpoint.ErrConflict):
		return targetFinding{}, false // the table has a coordinator again
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

// misplaced adds the findings from the witnesses.
func (t *Table) misplaced(in TableInput, now time.Time) {
	for _, f := range in.findings {
		t.troubled(checkpoint.Trouble{Step: stepWitness + " " + f.table, Since: in.foundAt(f, now), Cause: f.cause}, 0)
	}
}

// foundAt returns since when a finding applies. It is the last heartbeat, because nothing has
// checked the target since.
func (in *TableInput) foundAt(f targetFinding, now time.Time) time.Time {
	if since := in.Coordinator.Heartbeat.WrittenAt; !f.unknown && !since.IsZero() {
		return since
	}
	return now
}

// doubts returns what the witnesses leave uncertain about the targets. If this identity may not
// read them, the result is a note, and the status relies on the ledger.
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
