package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// mendLimit is how long a repair may take in addition to its load. Workers must first notice the
// gap. After the load, the sweep waits until no write from before the gap can still arrive.
const mendLimit = 2 * time.Minute

// liveTime and outageTime return parts of the workload's duration. With an outage, half of the
// duration is before the outage. A quarter is during the outage, when no worker runs, and a quarter
// is during the repair.
func (o *Options) liveTime() time.Duration {
	if o.Outage {
		return o.Duration / 2
	}
	return o.Duration
}

func (o *Options) outageTime() time.Duration { return o.Duration / 4 }

// outage makes the stream lose unread changes and starts workers again. It waits until they have
// repaired the gap automatically. Meanwhile the application keeps writing.
func (d *demo) outage(ctx context.Context, app *workload) error {
	if err := d.stopAll(); err != nil {
		return err
	}
	held, err := d.records()
	if err != nil {
		return err
	}
	d.say("outage: all workers are stopped, while the application still writes and deletes")
	if err := app.run(ctx, d.outageTime()/2); err != nil {
		return err
	}
	if err := d.split(ctx); err != nil {
		return err
	}
	if err := app.run(ctx, d.outageTime()/2); err != nil {
		return err
	}
	if err := d.forget(ctx, held); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return app.run(gctx, d.outageTime()) })
	g.Go(func() error { return d.mend(gctx) })
	return g.Wait()
}

// records returns the number of all records that the stream has ever held.
func (d *demo) records() (n int64, err error) {
	shards, err := d.services.dynamo.Shards(tableName)
	for _, s := range shards {
		n += int64(s.Records) + s.Trimmed
	}
	return n, err
}

// forget makes all records of the stream a day old, so that the stream drops them, and narrates the
// damage. The argument `held` is the number of records at the time when the workers stopped.
func (d *demo) forget(ctx context.Context, held int64) error {
	now, err := d.records()
	if err != nil {
		return err
	}
	if err := d.services.dynamo.TrimTo(tableName, d.services.dynamo.Now()); err != nil {
		return err
	}
	d.say("the stream drops its changes, as after 24 hours: %d unread changes are lost", now-held)
	c, err := d.compare(ctx)
	if err != nil {
		return err
	}
	d.say("%s; the stream no longer has their changes", c.damage())
	return nil
}

// damage counts the rows that differ, by kind.
func (c *Comparison) damage() string {
	var missing, surplus, old int
	for _, difference := range c.Differences {
		switch difference.Kind {
		case verify.Missing:
			missing++
		case verify.Extra:
			surplus++
		default:
			old++
		}
	}
	return fmt.Sprintf("%s wrong: %d missing, %d of removed items, %d old", terminal.Are(len(c.Differences), "row"), missing, surplus, old)
}

// mend restarts the workers, and narrates the repair of the gap until it is complete.
func (d *demo) mend(ctx context.Context) error {
	for _, name := range []string{"d", "e"} {
		if _, err := d.start(name); err != nil {
			return err
		}
	}
	began := time.Now()
	var m mending
	if err := d.until(ctx, mendLimit+d.copyLimit(), "repairing the gap", nil, func() bool {
		t, ok := d.load(ctx)
		return ok && m.step(t, d.say)
	}); err != nil {
		return err
	}
	d.say("repaired in %.0f s without a command, because on_gap is load", time.Since(began).Seconds())
	return nil
}

// loadState is the table's entry in the document of `backfill status`.
type loadState struct {
	State      string     `json:"state"`
	LoadNeeded bool       `json:"needs_load"`
	LostFrom   *time.Time `json:"lost_from"`
	Load       *struct {
		Number int   `json:"number"`
		Items  int64 `json:"items"`
		Parts  struct {
			Total int `json:"total"`
			Done  int `json:"done"`
		} `json:"parts"`
		Sweep struct {
			Put     int64 `json:"rows_put"`
			Removed int64 `json:"rows_removed"`
		} `json:"sweep"`
	} `json:"load"`
}

// load runs `backfill status`, as an operator would; false if it fails.
func (d *demo) load(ctx context.Context) (loadState, bool) {
	c := exec.CommandContext(ctx, d.Executable, "backfill", "status", "--config", d.config, "--output", "json")
	c.Env, c.Dir = childEnvironment(d.Environment, d.dir, d.services), d.dir
	body, err := c.Output()
	var document struct {
		Tables []loadState `json:"tables"`
	}
	if err != nil || json.Unmarshal(body, &document) != nil || len(document.Tables) != 1 {
		return loadState{}, false
	}
	return document.Tables[0], true
}

// mending records which steps of the repair were already narrated.
type mending struct{ declared, loading, sweeping bool }

// step narrates each new step once, and reports whether the table is in sync again.
func (m *mending) step(t loadState, say func(format string, args ...any)) (over bool) {
	if t.LoadNeeded && !m.declared {
		m.declared = true
		from := ""
		if t.LostFrom != nil { // the time has a margin for differences between clocks
			from = ": changes since " + t.LostFrom.Local().Format(time.TimeOnly) + " may be lost"
		}
		say("the workers declare a gap%s", from)
	}
	if !m.declared || t.Load == nil {
		return false
	}
	if t.State == "copying" && !m.loading {
		m.loading = true
		say("load %d started automatically: %s, shared by both workers", t.Load.Number, terminal.Plural(t.Load.Parts.Total, "part"))
	}
	if !m.sweeping && (t.State == "sweeping" || t.State == "done") {
		m.sweeping = true
		say("loaded: %s; a sweep removes orphan rows, once no write from before the gap can still arrive", terminal.Plural(int(t.Load.Items), "item"))
	}
	if t.LoadNeeded || t.State != "done" {
		return false
	}
	say("swept: removed %s, wrote %s again", terminal.Plural(int(t.Load.Sweep.Removed), "orphan row"), terminal.Plural(int(t.Load.Sweep.Put), "row"))
	return true
}
