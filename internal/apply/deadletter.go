package apply

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// deadLetterEach is the time between two looks into the dead letter, and deadLetterPull how many
// messages one asks for.
const (
	deadLetterEach = 30 * time.Second
	deadLetterPull = 100
)

// watchDeadLetter notes what stands in the dead letter until ctx ends, and leaves it there: whoever
// finds out why it came there publishes it again, or loads the table, and purges it.
func (a *appliers) watchDeadLetter(ctx context.Context) error {
	if a.DeadLetter == nil {
		return nil
	}
	for {
		if err := a.lookIntoDeadLetter(ctx); err != nil && ctx.Err() == nil {
			a.Retrier.Events.Retry("", "read the dead-letter subscription", deadLetterEach, err)
		}
		if err := task.Sleep(ctx, deadLetterEach); err != nil {
			return nil
		}
	}
}

func (a *appliers) lookIntoDeadLetter(ctx context.Context) error {
	got, err := a.DeadLetter.Pull(ctx, deadLetterPull)
	if err != nil {
		return err
	}
	err = a.Ledger.NoteDeadLetter(ctx, task.Now(ctx), len(got))
	if len(got) == 0 {
		return err
	}
	if back := a.DeadLetter.Extend(ctx, idsOf(got), 0); err == nil {
		err = back
	}
	return err
}

func idsOf(got []relay.Delivery) []string {
	ids := make([]string, len(got))
	for i, d := range got {
		ids[i] = d.ID
	}
	return ids
}
