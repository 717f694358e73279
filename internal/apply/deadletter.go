package apply

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// deadLetterEach is the time between two checks of the dead-letter subscription. deadLetterPull is
// the number of messages that one check pulls.
const (
	deadLetterEach = 30 * time.Second
	deadLetterPull = 100
)

// watchDeadLetter reports dead-letter messages until ctx ends. It leaves them in the subscription.
// The operator must find the cause, and then publish the messages again, or load the table and
// purge them.
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

// errPoison is reported for a message that cannot be parsed, or that has a change unknown to the
// ledger.
var errPoison = errors.New("this process cannot apply the message, so it is nacked")

// refuse nacks a message. After enough nacks, the subscription's policy moves the message to the
// dead letter.
func (a *appliers) refuse(ctx context.Context, id, table string, err error) {
	a.Retrier.Events.Retry(table, "read a message", 0, errors.Join(errPoison, err))
	a.held.forget(id)
	// If this fails, the message is delivered again after its deadline.
	_ = a.Subscription.Extend(ctx, []string{id}, 0)
	a.room.Release(1)
}

// refusal is a message that the relay cannot have published, according to the ledger.
type refusal struct {
	*message
	why string
}

// rejectTime is how long the publication of refused messages may take.
const rejectTime = time.Minute

// reject publishes messages with their reasons to the dead-letter topic, and then has them
// acknowledged. It nacks the messages that it cannot publish. After enough nacks, the
// subscription's policy moves them to the dead letter.
func (a *appliers) reject(life engine.Lifecycle, all []refusal) {
	if len(all) == 0 {
		return
	}
	failed := make([]error, len(all))
	if a.DeadTopic != nil {
		messages := make([]relay.Message, len(all))
		for i, r := range all {
			messages[i] = relay.DeadLetter(r.data, r.change, r.why)
		}
		limited, cancel := task.WithTimeout(life.Work, rejectTime)
		failed, _ = a.DeadTopic.Publish(limited, messages)
		cancel()
	}
	published, first := map[string]int{}, map[string]string{}
	for i, r := range all {
		table := r.change.Table
		if a.DeadTopic != nil && failed[i] == nil {
			published[table]++
			first[table] = cmp.Or(first[table], r.why)
			a.over(r.message, false)
			continue
		}
		a.free(r.message)
		a.refuse(life.Work, r.id, table, errors.Join(errors.New(r.why), failed[i]))
	}
	for _, table := range slices.Sorted(maps.Keys(published)) {
		a.Retrier.Events.Refused(table, first[table], published[table])
	}
}

func idsOf(got []relay.Delivery) []string {
	ids := make([]string, len(got))
	for i, d := range got {
		ids[i] = d.ID
	}
	return ids
}
