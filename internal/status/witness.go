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

// targetFinding is the result of a comparison of the witness row in a target table with the ledger.
type targetFinding struct {
	table, cause string
	unknown      bool // the witness row could not be read
	// denied reports that the witness row could not be read because this identity lacks the
	// permission.
	denied bool
}

// stepWitness is the step that is shown as failing if a target and the ledger do not belong
// together.
const stepWitness = "read the witness in the target"

// LookAtTargets reads the witness rows of tables that are in sync according to the ledger but have
// no coordinator. It checks that ledger and target still belong together. A running coordinator
// does so every minute. If a target was lost or restored while no worker ran, the ledger alone does
// not show that. The argument `open` returns the store of a target table's witness row.
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
			// A table is skipped in three cases. The source may be gone, and the target with it.
			// The configuration may name another target, which another check reports. Or finalize
			// has removed the witness row, because the target belongs to the application.
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

// witnessed returns the finding from a read of a witness row; false if there is nothing to report.
func witnessed(verdict checkpoint.Verdict, err error) (targetFinding, bool) {
	switch {
	case errors.Is(err, checkpoint.ErrConflict):
		return targetFinding{}, false // the table has a coordinator again
	case status.Code(err) == codes.NotFound:
		return targetFinding{cause: "the target table does not exist: all rows are missing"}, true
	case err != nil:
		code := status.Code(err)
		return targetFinding{cause: "its description could not be read (" + code.String() + "), so the target may have been lost or restored",
			unknown: true, denied: code == codes.PermissionDenied}, true
	case verdict == checkpoint.TargetLost:
		return targetFinding{cause: "the target table was recreated or restored, so rows are missing; the next worker declares a gap"}, true
	case verdict == checkpoint.LedgerBehind:
		return targetFinding{cause: "the target belongs to another ledger, or to a later state of this ledger; the next worker declares a gap"}, true
	}
	return targetFinding{}, false
}

// misplaced adds the findings from the witness rows to the table.
func (t *Table) misplaced(in TableInput, now time.Time) {
	for _, f := range in.findings {
		t.troubled(checkpoint.Trouble{Step: stepWitness + " " + f.table, Since: in.foundAt(f, now), Cause: f.cause}, 0)
	}
}

// foundAt returns the time since which a finding may apply. It is the last heartbeat, because no
// process has checked the target since then.
func (in *TableInput) foundAt(f targetFinding, now time.Time) time.Time {
	if since := in.Coordinator.Heartbeat.WrittenAt; !f.unknown && !since.IsZero() {
		return since
	}
	return now
}

// doubts returns the doubts about the targets that the witness rows cause. If this identity may not
// read a witness row, there is only a note, and the status relies on the ledger.
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
