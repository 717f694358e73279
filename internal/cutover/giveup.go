package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// ending is why a try ends. Its zero value ends none.
type ending struct {
	why string
	// again reports that the next try of the request may succeed, once it is cured.
	again bool
	cure  checkpoint.Cure
}

// gives is an ending after which the request may try again.
func gives(why string, cure checkpoint.Cure) ending {
	return ending{why, why != "", cure}
}

// end ends a try: the application is let go at once. It does nothing if there is no reason.
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

// disturbed says what shows, while the application is frozen, that this try cannot succeed: a change
// that was made after the freeze, or a request that was never answered.
func (v *drive) disturbed(ctx context.Context, c checkpoint.Cutover, found []Figures) (ending, error) {
	stray, err := v.stray(ctx, c, found)
	if err != nil || stray != "" {
		return gives(stray, checkpoint.CureWait), err
	}
	if c.FenceFirst || c.FrozenAt.IsZero() || c.Step == checkpoint.CutoverFence { // which asks after its halt
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

// hopeless says why a drain cannot be proved before the freeze has lasted for as long as it may.
func hopeless(c checkpoint.Cutover, table string, p *proof, s Settings, now time.Time) ending {
	if c.FrozenAt.IsZero() { // a rehearsal
		return ending{}
	}
	limit := c.FrozenAt.Add(c.Limit())
	for _, sh := range p.open {
		at, cure := p.earliest(sh, c.ListedWithin(), s, now)
		if !at.After(limit) {
			continue
		}
		switch {
		case sh.Incomplete():
			return gives(fmt.Sprintf("table %s: shard %s ended without a canary, and its children may be listed until %s", table, sh.ID, at.UTC().Format(time.TimeOnly)), cure)
		case cure == checkpoint.CureQuiet:
			return gives(fmt.Sprintf("table %s: shard %s gave no canary, and is proved to be empty at %s at the earliest", table, sh.ID, at.UTC().Format(time.TimeOnly)), cure)
		}
	}
	return ending{}
}

// overTime says that the freeze has lasted for as long as it may, and what it waits for.
func overTime(c checkpoint.Cutover, now time.Time, waits string) ending {
	if c.FrozenAt.IsZero() || now.Sub(c.FrozenAt) <= c.Limit() {
		return ending{}
	}
	return gives(fmt.Sprintf("after %s %s", spell(c.Limit()), waits), checkpoint.CureWait)
}

// endsDisturbed ends the try if a change or a request does. Done reports that it has ended.
func (v *drive) endsDisturbed(ctx context.Context, c checkpoint.Cutover, now time.Time, found []Figures) (done bool, err error) {
	e, err := v.disturbed(ctx, c, found)
	return e.why != "", errors.Join(err, v.end(ctx, c, now, e))
}
