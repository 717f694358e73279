package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// A cutover with a way back prepares it before the freeze, and lets the leaders follow from the
// switch on. The records of the tables (checkpoint.Fallback) hold its state. The leaders are the only
// writers of items.

// WayBack is what the checks found out about the way back of a table.
type WayBack struct {
	// Window is how long the source accepts a signed request, and Wait is how long a request whose
	// outcome is unknown may still change an item.
	Window, Wait time.Duration
	// From is a time from which the target's change stream can be read.
	From time.Time
	// Problem is why there is no way back now, and Cure is what helps; "" if it is possible.
	Problem, Cure string
}

// wantsWayBack reports whether the attempt prepares a way back.
func wantsWayBack(p checkpoint.CutoverPlan) bool { return p.KeepFallback && !p.Rehearse }

// fallbackGates judges whether the way back of each table is possible.
func (d *Driver) fallbackGates(ctx context.Context, plan checkpoint.CutoverPlan) ([]checkpoint.CutoverGate, error) {
	if !plan.KeepFallback {
		return nil, nil
	}
	gates := make([]checkpoint.CutoverGate, len(plan.Tables))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, source := range plan.Tables {
		g.Go("check the way back of "+source, func(ctx context.Context) error {
			found, err := d.checkWayBack(ctx, source)
			if err != nil {
				return err
			}
			if found.Problem == "" {
				found.Problem, found.Cure, err = d.missingRows(ctx, source)
			}
			gates[i] = checkpoint.CutoverGate{Name: readiness.GateFallback, Table: source, Ready: found.Problem == "",
				Figure: "signatures are accepted for " + timespan.Spell(found.Window), Cure: found.Cure, Binding: found.Problem != ""}
			if found.Problem != "" {
				gates[i].Figure = found.Problem
			}
			return err
		})
	}
	return gates, g.Wait()
}

// missingRows returns why items without a row prevent a way back; "" if there are none. The first look
// at such an item would remove it.
func (d *Driver) missingRows(ctx context.Context, source string) (problem, cure string, err error) {
	f, err := d.figures(ctx, source)
	if n := f.Left(); err == nil && n > 0 {
		problem, cure = fmt.Sprintf("%d items have no row, and the way back would remove them", n), "replicator parked list --table "+source
	}
	return problem, cure, err
}

func (d *Driver) checkWayBack(ctx context.Context, source string) (WayBack, error) {
	if d.WayBack == nil {
		return WayBack{Problem: "this process cannot check the way back", Cure: "run a worker that reaches both sides"}, nil
	}
	return d.WayBack(ctx, source)
}

// standBy makes the records of the ways back, before the application is frozen. From then on, the
// leaders read the change streams, and write nothing.
//
// The result is the longest time after its signature at which a request may still be executed, as
// far as it was measured; else 0.
func (v *drive) standBy(ctx context.Context, c checkpoint.Cutover) (longest time.Duration, err error) {
	if !wantsWayBack(c.CutoverPlan) {
		return 0, nil
	}
	waits := make([]time.Duration, len(c.Tables)+1)
	err = eachTable(ctx, c, "prepare the way back of", func(ctx context.Context, i int, source string) error {
		found, err := v.checkWayBack(ctx, source)
		if err == nil && found.Problem != "" {
			err = errors.New(found.Problem)
		}
		if err != nil {
			return err
		}
		waits[i] = found.Wait
		_, err = v.Ledger.UpdateFallback(ctx, source, 0, func(f *checkpoint.Fallback) error {
			if f.Attempt >= c.Attempt {
				return nil
			}
			f.Attempt, f.State, f.Window, f.Wait, f.From = c.Attempt, checkpoint.FallbackStandby, found.Window, found.Wait, found.From.UTC()
			f.Reason, f.Since = "", time.Time{}
			return nil
		})
		return err
	})
	return slices.Max(waits), err
}

// standDown ends the ways back of a cancelled attempt.
func (v *drive) standDown(ctx context.Context, c checkpoint.Cutover) error {
	if !c.WayBack {
		return nil
	}
	return v.setFallbacks(ctx, c.Tables, c.Attempt, checkpoint.FallbackStopping, checkpoint.FallbackStandby, checkpoint.FallbackGap)
}

// setFallbacks gives the records of the tables a state, if they belong to the attempt and have one
// of the states in `from`.
func (d *Driver) setFallbacks(ctx context.Context, tables []string, attempt uint32, to checkpoint.FallbackState, from ...checkpoint.FallbackState) error {
	return d.updateFallbacks(ctx, tables, func(f *checkpoint.Fallback) {
		if f.Attempt == attempt && slices.Contains(from, f.State) {
			f.State = to
		}
	})
}

// updateFallbacks makes the same change to the records of the ways back of tables.
func (d *Driver) updateFallbacks(ctx context.Context, tables []string, change func(f *checkpoint.Fallback)) error {
	g := task.NewGroup(ctx, tablesAtOnce)
	for _, source := range tables {
		g.Go("set the way back of "+source, func(ctx context.Context) error {
			_, err := d.Ledger.UpdateFallback(ctx, source, 0, func(f *checkpoint.Fallback) error { change(f); return nil })
			return err
		})
	}
	return g.Wait()
}

// follow lets the leaders follow after the switch. They read the source's streams on, so this driver
// does not look for stragglers, until the way back ends.
func (v *drive) follow(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if v.follows != c.Attempt {
		if err := v.setFallbacks(ctx, c.Tables, c.Attempt, checkpoint.FallbackFollowing, checkpoint.FallbackStandby); err != nil {
			return err
		}
		v.follows = c.Attempt
	}
	if v.watching.looked > 0 && task.Mono(ctx)-v.watching.looked < v.settings.Look {
		return nil
	}
	v.watching.looked = task.Mono(ctx)
	if err := v.removeCanaries(ctx, c); err != nil {
		return err
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.WatchedTo = now.UTC(); return nil })
	return err
}

// EndFallback stops the leaders of a group's way back, and waits until no request is in flight or in
// doubt. Then it records the end. The argument `tell` gets the condition for which it waits.
func (d *Driver) EndFallback(ctx context.Context, row string, tell func(waits string)) error {
	for {
		c, err := d.Ledger.Cutover(ctx, row)
		if err == nil { // a rollback may have begun meanwhile
			probe := c
			err = (&probe).EndFallback(d.Ledger.Now(ctx))
		}
		if err != nil || !c.FallbackEndedAt.IsZero() {
			return err
		}
		if err := d.stopFallbacks(ctx, c.Tables, c.Attempt); err != nil {
			return err
		}
		found, err := d.Ledger.Fallbacks(ctx, c.Tables)
		if err != nil {
			return err
		}
		waits := readiness.StoppedAll(found, d.Ledger.ServiceTime(ctx))
		if waits == "" {
			break
		}
		tell(waits)
		if err := task.Sleep(ctx, d.Settings.orDefault().Pass); err != nil {
			return err
		}
	}
	_, err := d.Ledger.UpdateCutover(ctx, row, func(c *checkpoint.Cutover) error { return c.EndFallback(d.Ledger.Now(ctx)) })
	return err
}

func (d *Driver) stopFallbacks(ctx context.Context, tables []string, attempt uint32) error {
	return d.setFallbacks(ctx, tables, attempt, checkpoint.FallbackStopping, checkpoint.FallbackStandby, checkpoint.FallbackFollowing, checkpoint.FallbackGap)
}
