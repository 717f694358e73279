package main

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// targetFinding is what the witness in a target table says against the ledger.
type targetFinding struct{ table, cause string }

// stepWitness is what fails where a target and the ledger do not belong together.
const stepWitness = "find the witness in the target"

// lookAtTargets asks the witnesses of tables that look in sync, and that nobody keeps, whether ledger and target still belong together. Where a keeper lives, it does so each
// minute. The ledger alone would go on calling a target in sync that was lost, or restored, while nobody ran. Open gives the store of a target table's witness.
func (l *ledgerInput) lookAtTargets(ctx context.Context, open func(table string) checkpoint.Store, now time.Time) {
	if l.ledger == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readTime, errReadTime)
	defer cancel()
	g := task.NewGroup(ctx, tablesAtOnce)
	for i := range l.tables {
		in := &l.inputs[i]
		if !in.found || !in.state.Loaded() || in.seat.owner != "" && now.Sub(in.seat.sign.WrittenAt) <= l.cfg.State.Lease {
			continue
		}
		source, targets := l.tables[i].From, l.tables[i].Targets()
		g.Go("look at the target of "+source, func(ctx context.Context) error {
			for j, t := range targets {
				at := checkpoint.Place{Store: open(t.Table), Key: transform.WitnessKeyOf(source)}
				if j > 0 {
					at.Further = t.Table
				}
				if cause := witnessed(l.ledger.Look(ctx, source, at)); cause != "" {
					in.findings = append(in.findings, targetFinding{t.Table, cause})
				}
			}
			return nil
		})
	}
	_ = g.Wait() // nothing there fails
}

// witnessStore is where the witness of a target table is.
func (t *target) witnessStore(table string) checkpoint.Store {
	return checkpoint.Bigtable(t.data.Open(table), sink.LiveFamily)
}

// witnessed is what is to be told of a look at a witness; "" if nothing is.
func witnessed(verdict checkpoint.Verdict, err error) string {
	switch {
	case errors.Is(err, checkpoint.ErrConflict):
		return "" // somebody keeps the table by now
	case status.Code(err) == codes.NotFound:
		return "the target table does not exist: all rows are missing"
	case err != nil:
		return "it could not be looked at (" + status.Code(err).String() + "): whether the target was lost or restored is not known"
	case verdict == checkpoint.TargetLost:
		return "the target table was created anew or restored: rows are missing, and the next worker declares a gap"
	case verdict == checkpoint.LedgerBehind:
		return "the target was written under another ledger, or a later state of this one: the next worker declares a gap"
	}
	return ""
}

// misplaced tells what the witnesses say. A table of which they say anything is not known to be in sync.
func (t *tableStatus) misplaced(in tableInput, now time.Time) {
	for _, f := range in.findings {
		since := in.seat.sign.WrittenAt // nobody has looked after it since
		if since.IsZero() {
			since = now
		}
		t.troubled(checkpoint.Trouble{Step: stepWitness + " " + f.table, Since: since, Cause: f.cause}, 0)
		if t.Phase == phaseInSync {
			t.Phase = phaseCopy
		}
	}
}
