package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// ending is the reason why a try ends. The zero value means that the try continues.
type ending struct {
	why string
	// again reports that the next try of the request may succeed, once `cure` has taken effect.
	again bool
	cure  checkpoint.Cure
}

// gives returns an ending after which the request may try again. Without a reason, the try
// continues.
func gives(why string, cure checkpoint.Cure) ending {
	return ending{why, why != "", cure}
}

// end ends a try for the given reason, so that the application can write again at once. Without a
// reason, it does nothing.
func (v *drive) end(ctx context.Context, c checkpoint.Cutover, now time.Time, e ending) error {
	if e.why == "" {
		return nil
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		if e.again {
			return c.GiveUp(e.why, e.cure, now)
		}
		return c.Cancel(e.why, now)
	})
	v.advanced = err == nil
	return err
}

// disturbed returns a reason why the current try cannot succeed while the application is frozen. A
// change was made after the freeze, or a request was never answered.
func (v *drive) disturbed(ctx context.Context, c checkpoint.Cutover, found []readiness.Figures) (ending, error) {
	stray, err := v.stray(ctx, c, found)
	if err != nil || stray != "" {
		return gives(stray, checkpoint.CureWait), err
	}
	if e, _ := v.leaks(ctx, c, false); e.why != "" {
		return e, nil
	}
	if c.FencesFirst() || c.FrozenAt.IsZero() || c.Step == checkpoint.CutoverFence { // step fence judges the writers after its halt
		return ending{}, nil
	}
	all, err := v.Ledger.Writers(ctx)
	if err != nil {
		return ending{}, err
	}
	_, doubtful := judgeWriters(c, all, v.Ledger.ServiceTime(ctx))
	return inDoubt(doubtful), nil
}

func inDoubt(process string) ending {
	if process == "" {
		return ending{}
	}
	return gives("a request of process "+process+" was never answered, so it may still be executed", checkpoint.CureRaise)
}

// hopeless returns why the drain cannot be proved so early that the switch follows within the time
// for which this try may freeze writes.
func hopeless(c checkpoint.Cutover, table string, p *drain.Proof, s Settings, now time.Time) ending {
	for _, sh := range p.Open {
		at, quiet := p.Earliest(sh, c.ListedWithin(), s.Quiet, now)
		if !tooLate(c, 0, at) {
			continue
		}
		switch {
		case sh.Incomplete():
			return gives(fmt.Sprintf("table %s: shard %s ended without a canary, and its children may not be listed before %s", table, sh.ID, at.UTC().Format(time.TimeOnly)), checkpoint.CureWait)
		case quiet:
			return gives(fmt.Sprintf("table %s: shard %s received no canary, and the earliest proof that it is empty is possible at %s", table, sh.ID, at.UTC().Format(time.TimeOnly)), checkpoint.CureWait)
		}
	}
	return ending{}
}

// overTime returns an ending if the freeze would last longer than it may. The reason includes the
// condition for which the step waits. The cause may be a process that was killed: its shards are
// not read. Its record would also end the next try, so the fence is raised first.
func overTime(c checkpoint.Cutover, rest time.Duration, now time.Time, waits string) ending {
	if !tooLate(c, rest, now) {
		return ending{}
	}
	return gives(fmt.Sprintf("the freeze would last longer than %s (%s)", timespan.Spell(c.Limit()), waits), checkpoint.CureRaise)
}

// endsDisturbed ends the try if `disturbed` returns a reason. The result `done` reports that the
// try has ended.
func (v *drive) endsDisturbed(ctx context.Context, c checkpoint.Cutover, now time.Time, found []readiness.Figures) (done bool, err error) {
	e, err := v.disturbed(ctx, c, found)
	return e.why != "", errors.Join(err, v.end(ctx, c, now, e))
}
