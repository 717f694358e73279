package cutover

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// fence halts all tables, and ensures that no process of replicator still writes. Either every
// process says goodbye, or its requests are rejected before the switch.
func (v *drive) fence(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if stray, err := v.stragglers(ctx, c); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	if !raised(c) { // a driver of an earlier version did not raise before the freeze
		return v.raise(ctx, c)
	}
	if c.Rehearse { // in a rehearsal, tables are not halted, and writers keep the number
		v.forgetCanaries(ctx, c)
	} else if why, err := v.handOver(ctx, c); err != nil || why != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", why)
		}
		return err
	}
	if err := v.sameCluster(ctx); err != nil {
		return err
	}
	if now, known := v.now(ctx, c, false); known {
		return v.advance(ctx, c, now, func(c *checkpoint.Cutover) {
			c.GoneAt = now
			if c.FenceFirst {
				c.FencedAt = now
			}
		})
	}
	return errors.New("the source's answer has no time")
}

// handOver ensures that no process of replicator still writes, and that the sources were not
// written after the freeze. If the attempt must end, the result `why` is the reason.
func (v *drive) handOver(ctx context.Context, c checkpoint.Cutover) (why string, err error) {
	// The halt must come before the list of writers. So a process that is not in the list reads the
	// halt before it writes.
	for _, source := range c.Tables {
		if _, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.HaltFor(c.Attempt) }); err != nil {
			return "", err
		}
	}
	if c.FenceFirst {
		why, err = v.drop(ctx, c)
		if overrides(c, GateFence) {
			why = ""
		}
	} else {
		why, err = v.goodbyes(ctx, c)
	}
	if err != nil || why != "" {
		return why, err
	}
	return v.lastLook(ctx, c)
}

// goodbyes waits until every process that can still write has said goodbye. If one has not, or has
// a request that may still be executed, the result `why` names that process.
func (v *drive) goodbyes(ctx context.Context, c checkpoint.Cutover) (why string, err error) {
	for began := task.Mono(ctx); ; {
		all, err := v.Ledger.Writers(ctx)
		if err != nil {
			return "", err
		}
		silent, doubtful := judgeWriters(c, all, v.Ledger.ServiceTime(ctx))
		switch {
		case doubtful != "":
			return "a request of process " + doubtful + " was never answered, so it may still be executed", nil
		case silent == "":
			return "", nil
		case task.Mono(ctx)-began >= v.settings.Silent:
			return "process " + silent + " may still write: it does not answer", nil
		}
		if err := task.Sleep(ctx, v.settings.Ask); err != nil {
			return "", err
		}
	}
}

// forgottenAfter is the age at which a writer's record without a goodbye no longer counts, if the
// fence is withheld. With a fence, a drop removes the records of processes that ended uncleanly.
// Without a fence, there is no drop.
const forgottenAfter = 24 * time.Hour

// judgeWriters returns a process that has not said goodbye, and a process with a request of unknown
// outcome. It considers only the numbers that were raised before the freeze, and later numbers,
// because lower numbers are dropped. A process that does not answer has not said goodbye.
func judgeWriters(c checkpoint.Cutover, all []checkpoint.Writer, now time.Time) (silent, doubtful string) {
	for _, w := range all {
		for _, target := range c.Targets {
			t, known := w.Targets[target]
			n := c.Raised[target]
			fenced := n > 0 && t.Number >= n
			switch {
			case !known, !fenced && !t.Unfenced:
			case fenced && t.Doubt >= n:
				doubtful = w.Worker
			case w.Goodbye == c.Attempt:
			case !fenced && now.Sub(w.At) > forgottenAfter:
			default:
				silent = w.Worker
			}
		}
	}
	return silent, doubtful
}

// dropBehind starts a task that drops the fence's numbers after the switch, so that late writes are
// rejected. The watch for late writers does not end before the drops have taken effect.
func (v *drive) dropBehind(c checkpoint.Cutover, now time.Time) {
	if !c.FencedAt.IsZero() || !raised(c) || v.dropping.Swap(true) {
		return
	}
	v.tasks.Go("reject late writes", func(ctx context.Context) error {
		defer v.dropping.Store(false)
		withheld, err := v.drop(ctx, c)
		if err == nil {
			if at := v.Ledger.ServiceTime(ctx); !at.IsZero() {
				now = at
			}
			_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
				c.FencedAt = now
				if withheld != "" {
					c.Note(now, withheld)
				}
				return nil
			})
		}
		if ignoreMoved(err) != nil && ctx.Err() == nil {
			v.failed("reject late writes", err) // the next pass retries the drops
		}
		return nil
	})
}

// lastLook repeats checks from before the freeze, after all writes have ended. The result `late`
// describes new changes in a stream, or newly parked items.
func (v *drive) lastLook(ctx context.Context, c checkpoint.Cutover) (late string, err error) {
	if v.watching.since != c.Attempt {
		v.watching = watching{since: c.Attempt, reads: map[string]*watchedShard{}}
	}
	for _, source := range c.Tables {
		strays, err := v.look(ctx, c, source)
		if len(strays) > 0 {
			if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { noteStrays(c, strays, "writes after the freeze"); return nil }); err != nil {
				// Changes that could not be recorded are read again.
				v.reads = map[string]*watchedShard{}
				return "", err
			}
			return stillWrites(strays[0]), nil
		}
		if err != nil {
			return "", err
		}
		if late, err := v.parkedSince(ctx, c, source); err != nil || late != "" {
			return late, err
		}
	}
	return "", nil
}

func overrides(c checkpoint.Cutover, gate string) bool {
	for _, o := range c.Overrides {
		if o.Gate == gate {
			return true
		}
	}
	return false
}
