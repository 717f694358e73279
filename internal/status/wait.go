package status

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Reached returns nil if the migration has reached a goal. Otherwise it returns an error with the
// reason.
func (m *Document) Reached(g standing.Goal) error {
	if g.Reached(stand(m.Tables)) {
		return nil
	}
	e := &diag.Error{Code: diag.GoalMissed, What: fmt.Sprintf("the migration is not %s; it is %s", goalText(g), m.State.Text()), Fix: "see the next steps of replicator status" + m.with}
	if t := overall(m.Tables); t != nil {
		e.Cause = "table " + t.Source + ": " + t.stands.Conditions[0].Text()
	}
	return e
}

// stuck returns an error if the goal cannot be reached before an operator acts; otherwise nil.
func (m *Document) stuck(g standing.Goal) error {
	i := g.Stuck(stand(m.Tables))
	if i < 0 {
		return nil
	}
	t := &m.Tables[i]
	e := &diag.Error{Code: diag.GoalMissed, What: fmt.Sprintf("table %s is %s, and cannot become %s without an operator", t.Source, t.State.Text(), goalText(g)),
		Cause: t.stands.Conditions[0].Text()}
	if step, leads := t.stands.Conditions[0].NextStep(t.Source, m.with); leads {
		e.Fix = step.Command
	}
	return e
}

// goalText describes a goal in words.
func goalText(g standing.Goal) string {
	if g == standing.GoalInSync {
		return standing.InSync.Text()
	}
	return string(g)
}

// Wait reads the status at every interval until the migration has reached a goal. If the migration
// cannot reach the goal without an operator, Wait returns an error. It also returns the last status
// that could be read. If the first reading fails, Wait returns the error. Later readings may fail
// temporarily.
func (r *Reader) Wait(ctx context.Context, g standing.Goal, interval time.Duration) (*Document, error) {
	return await(ctx, r.Read, g, interval)
}

func await(ctx context.Context, read func(context.Context) (*Document, error), g standing.Goal, interval time.Duration) (last *Document, err error) {
	for {
		m, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return last, terminal.Ended(ctx)
		case err != nil && last == nil:
			return nil, err
		case err == nil:
			last = m
			if m.Reached(g) == nil {
				return m, nil
			}
			if err := m.stuck(g); err != nil {
				return m, err
			}
		}
		if task.Sleep(ctx, interval) != nil {
			return last, terminal.Ended(ctx)
		}
	}
}
