package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// strike does something to drivers as the cutover enters a step.
func (d *cutoverRun) strike(step checkpoint.CutoverStep) {
	how, by := "", d.World.Rand().IntN(3)
	if d.peaceful {
		return
	}
	if step == checkpoint.CutoverFreeze && d.parks && !d.app.frozen {
		d.parks = false
		d.World.After(d.World.UpTo(time.Second), d.poison)
	}
	if last := d.tables[len(d.tables)-1]; step == checkpoint.CutoverWatching && d.pattern && !last.there() {
		d.World.Inject("table created after the switch")
		last.comes = d.World.Elapsed() + d.World.UpTo(d.watchFor/2)
	}
	switch {
	case d.dayAt == step:
		d.dayAt = ""
		d.World.After(d.World.UpTo(time.Minute), d.sleepForADay)
		return
	case d.o.Step == "" && step == checkpoint.CutoverFreeze && by == 0 && d.strikes > 0:
		d.World.Inject("all workers stand still while the application is frozen")
		for _, w := range slices.Concat(d.workers.all, d.appliers.all) {
			w.Pause(d.World.UpTo(5 * time.Minute))
		}
		return
	case d.o.Step == "" && step == checkpoint.CutoverFreeze && by == 1 && d.strikes > 0:
		d.World.Inject("a worker sleeps until the application has switched")
		d.workers.pause(d.workers.one(), time.Hour+d.World.UpTo(4*time.Hour))
	case d.o.Step == step && d.o.Strike != "hook" && d.o.Strike != "" && d.struck < 2:
		d.struck++
		how = d.o.Strike
	case d.o.Step == "" && d.World.Chance(d.strikes):
		how = []string{"crash", "pause", "sleep"}[by]
	}
	if how == "" {
		return
	}
	for i, p := range slices.Clone(d.drivers.all) {
		if i > 0 && d.World.Rand().IntN(4) == 0 {
			continue // one goes on, perhaps
		}
		d.World.After(d.World.UpTo(2*time.Second), func() {
			d.World.Inject("driver: " + how + " at " + string(step))
			switch how {
			case "crash":
				p.Kill()
			case "pause":
				d.drivers.pause(p, d.World.UpTo(5*time.Minute))
			case "sleep":
				d.drivers.pause(p, 30*time.Minute+d.World.UpTo(2*time.Hour))
			}
		})
	}
}

// sleepForADay suspends every process, perhaps for longer than a stream keeps what was written.
func (d *cutoverRun) sleepForADay() { d.sleep(20*time.Hour, 12*time.Hour) }

// sleep suspends every process for at least so long, and for up to so much more.
func (d *cutoverRun) sleep(least, more time.Duration) {
	d.World.Inject("everybody sleeps for a day at " + string(d.record().Step))
	for _, c := range []*crew{d.workers, d.drivers, d.appliers} {
		for _, w := range c.all {
			c.pause(w, least+d.World.UpTo(more))
		}
	}
}

// forget drops from the streams what is older than a day.
func (d *cutoverRun) forget(ctx context.Context) {
	for task.Sleep(ctx, 30*time.Minute) == nil {
		for _, t := range d.all() {
			t.Source.Stream().Trim(d.World.Now().Add(-24 * time.Hour))
		}
	}
}

// trouble does to processes and shards what happens to them.
func (d *cutoverRun) trouble(ctx context.Context) {
	rng := d.World.Rand()
	for !d.peaceful && task.Sleep(ctx, d.World.UpTo(15*time.Minute)) == nil && !d.peaceful {
		all := d.all()
		stream := all[rng.IntN(len(all))].Source.Stream()
		open := stream.Open()
		if d.undisturbed {
			continue
		}
		switch rng.IntN(8) {
		case 0, 1, 2:
			d.workers.disturb(90*time.Minute, 2)
		case 3:
			d.World.Inject("shard rolled")
			stream.Roll(open[rng.IntN(len(open))])
		case 4:
			if len(open) < 4 {
				d.World.Inject("shard split")
				stream.Split(open[rng.IntN(len(open))])
			}
		case 5:
			d.drivers.pause(d.drivers.one(), d.World.UpTo(2*time.Hour))
		case 6:
			d.drivers.kill(d.drivers.one())
		case 7:
			if d.topic != nil {
				d.appliers.disturb(30*time.Minute, 2)
			}
		}
	}
}

// lose has nobody read for a while, and then a stream lose what it holds.
func (d *cutoverRun) lose(ctx context.Context) {
	long := 2*time.Minute + d.World.UpTo(10*time.Minute)
	for _, w := range d.workers.all {
		d.workers.pause(w, long)
	}
	_ = task.Sleep(ctx, long-d.World.UpTo(time.Minute))
	t, step := d.tables[0], d.record().Step
	early := step.Over() || slices.Index(CutoverSteps, step) <= slices.Index(CutoverSteps, checkpoint.CutoverDrain)
	if !t.placed() || !early { // a watch of less than a day trusts that nothing is lost meanwhile
		return
	}
	d.World.Inject("stream trimmed unread")
	t.Source.Stream().Trim(d.World.Now())
}

// placed reports whether each shard of the stream that is not read to its end has a position. Of
// one that has none a trim before its time is known to nobody: the horizon gives the rest without
// an error.
func (m *Migration) placed() bool {
	known := map[string]bool{}
	for _, s := range m.Shards() {
		known[s.ID] = s.Finished() || !s.Position.IsZero()
	}
	return !slices.ContainsFunc(m.Source.Stream().Shards, func(sh *model.Shard) bool { return !known[sh.ID] && !sh.Gone && len(sh.Records) > sh.Trimmed })
}

// forgotten writes to a source although everybody else has stopped.
func (d *cutoverRun) forgotten(ctx context.Context) {
	for !d.peaceful && task.Sleep(ctx, d.World.UpTo(3*time.Minute)) == nil {
		c := d.record()
		if !d.app.frozen && !d.app.switched || d.World.Rand().IntN(3) > 0 || c.Step == checkpoint.CutoverDone {
			continue
		}
		tables := d.checks.tablesOf(c)
		d.World.Inject("write after the freeze, at " + string(c.Step))
		d.written++
		d.checks.stray(tables[d.World.Rand().IntN(len(tables))], fmt.Sprintf("forgotten%d", d.World.Rand().IntN(3)), c.Attempt)
	}
}
