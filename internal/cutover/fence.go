package cutover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// fence halts all tables, and ensures that no process of replicator still writes. Either every
// process says goodbye, or its requests are rejected before the switch.
func (v *drive) fence(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if done, err := v.stillDisturbed(ctx, c, now); err != nil || done {
		return err
	}
	if !raised(c) { // an earlier version began this freeze without a raise
		return v.raise(ctx, c)
	}
	limited, cancel := task.WithTimeout(ctx, v.mayTake(c, now))
	defer cancel()
	if c.Rehearse { // a rehearsal halts no table, and writers keep their number
		v.forgetCanaries(ctx, c)
	} else if e, err := v.handOver(limited, c); err != nil || e.why != "" {
		return errors.Join(err, v.end(ctx, c, now, e))
	}
	if err := v.sameCluster(ctx); err != nil {
		return err
	}
	if denied, err := v.staysDenied(ctx, c, now); err != nil || !denied {
		return err
	}
	if now, known := v.now(ctx, c, false); known {
		return v.advance(ctx, c, now, func(c *checkpoint.Cutover) {
			c.GoneAt = now
			if c.FencesFirst() {
				c.FencedAt = now
			}
		})
	}
	return errors.New("the source's answer has no Date header")
}

// handOver ensures that no process writes any more, and that nothing was written to the sources. If
// the try must end, the result is the reason.
func (v *drive) handOver(ctx context.Context, c checkpoint.Cutover) (e ending, err error) {
	// The halt must come before the list of writers. A process that is not in the list reads the
	// halt before it writes.
	if err := v.updateTables(ctx, c, func(s *checkpoint.TableState) error { return s.HaltFor(c.Attempt) }); err != nil {
		return e, err
	}
	// A process may have found a table of a pattern before the cutover began. The cutover does not
	// know that table.
	if err := v.updateTargets(ctx, c, func(t *checkpoint.Target) error { return t.HaltFor(c.Attempt) }); err != nil {
		return e, err
	}
	if c.FencesFirst() {
		e.why, err = v.drop(ctx, c)
		if overrides(c, readiness.GateFence) {
			e.why = ""
		}
	} else {
		e, err = v.goodbyes(ctx, c)
	}
	if err != nil || e.why != "" {
		return e, err
	}
	return v.lastLook(ctx, c)
}

// goodbyes waits until every process that can still write has said goodbye. If a process does not,
// or has a request that may still be executed, the result ends the try.
func (v *drive) goodbyes(ctx context.Context, c checkpoint.Cutover) (e ending, err error) {
	for began := task.Mono(ctx); ; {
		all, err := v.Ledger.Writers(ctx)
		if err != nil {
			return e, err
		}
		silent, doubtful := judgeWriters(c, all, v.Ledger.ServiceTime(ctx))
		switch {
		case doubtful != "":
			return inDoubt(doubtful), nil
		case silent == "":
			return e, nil
		case task.Mono(ctx)-began >= v.settings.Silent:
			return gives("process "+silent+" may still write: it does not answer", checkpoint.CureRaise), nil
		}
		if err := task.Sleep(ctx, v.settings.Ask); err != nil {
			return e, err
		}
	}
}

// forgottenAfter applies if the fence is withheld. A writer's record without a goodbye no longer
// counts if it is older than forgottenAfter. With a fence, a drop removes the records of processes
// that ended uncleanly. Without a fence, there is no drop.
const forgottenAfter = 24 * time.Hour

// judgeWriters returns two processes, or "" in their place: `silent` has not said goodbye, and
// `doubtful` has a request with an unknown outcome. It considers only numbers of the fence since
// the raise before the freeze, because lower numbers are dropped.
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
			case w.SaidGoodbye(c):
			case !fenced && now.Sub(w.At) > forgottenAfter:
			default:
				silent = w.Worker
			}
		}
	}
	return silent, doubtful
}

// dropBehind starts a task that drops the fence's numbers after the switch, so that late writes are
// rejected. The watch for late writers lasts at least until the drops are in force.
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

// lastLook repeats two checks from before the freeze, now that no process writes. If the streams
// have new changes, or more items are parked, the result ends the try.
func (v *drive) lastLook(ctx context.Context, c checkpoint.Cutover) (e ending, err error) {
	if v.watching.since != c.Attempt {
		v.watching = watching{since: c.Attempt, reads: map[string]*watchedShard{}}
	}
	strays, late := make([][]checkpoint.CutoverStraggler, len(c.Tables)), make([]string, len(c.Tables))
	err = eachTable(ctx, c, "look for late changes of", func(ctx context.Context, i int, source string) (err error) {
		if strays[i], err = v.look(ctx, c, source, v.readToTip); err == nil {
			late[i], err = v.parkedSince(ctx, c, source)
		}
		return err
	})
	if all := slices.Concat(strays...); len(all) > 0 {
		if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { noteStrays(c, all, "after the freeze"); return nil }); err != nil {
			v.reads = map[string]*watchedShard{} // changes that could not be recorded are read again
			return e, err
		}
		return gives(missed(all[0]), checkpoint.CureWait), nil
	}
	i := slices.IndexFunc(late, func(why string) bool { return why != "" })
	if err != nil || i < 0 {
		return e, err
	}
	return ending{why: late[i]}, nil
}

func overrides(c checkpoint.Cutover, gate string) bool {
	for _, o := range c.Overrides {
		if o.Gate == gate {
			return true
		}
	}
	return false
}
