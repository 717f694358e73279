package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Options configures a demo. Executable is required. Other zero values are used as they are; there
// are no defaults.
type Options struct {
	Items    int           // number of items in the table before the copy
	Duration time.Duration // duration of the live workload
	Rate     float64       // changes a second of the live workload
	Seed     uint64        // seed of items, workload and the embedded services
	// Outage stops all workers until the stream has lost changes, and lets them repair the gap.
	Outage bool
	// Relay makes the workers also publish changes, to an embedded Pub/Sub service.
	Relay bool
	// DualWrites runs an application in its own process that writes both databases.
	DualWrites bool
	// Cutover moves the application to Bigtable at the end, and removes replicator's metadata.
	// Cutover requires DualWrites.
	Cutover bool
	// Listen is the address at which one of the workers serves health, metrics and status; "" means
	// any free port.
	Listen string
	// Serve keeps the page, the services and a worker running after the comparison, until ctx ends.
	Serve bool
	// Verdict is called with the comparison, before Serve takes effect. It may be nil.
	Verdict func(Comparison)
	// Executable is the path of the program. Workers execute its command `run`.
	Executable string
	// Environment is the base of the workers' environment, in the form of os.Environ. Variables
	// that concern a cloud are removed from it.
	Environment []string
	// Log gets the narration.
	Log io.Writer
}

// Limits of the parts that wait. Without limits, the demo could hang. If a limit is exceeded, the
// error names the part that took too long.
const (
	copyStart  = 60 * time.Second     // includes the start of the workers
	copyItem   = 2 * time.Millisecond // several times what one item takes on an idle machine
	drainLimit = 40 * time.Second
)

// copyLimit is the maximum duration of the copy.
func (o *Options) copyLimit() time.Duration { return copyStart + time.Duration(o.Items)*copyItem }

// life is the time after which a worker ends by itself. Otherwise workers would keep running if the
// demo is killed. It is longer than the limits of all parts together. A comparison counts as a
// copy, because it reads as much.
func (o *Options) life() time.Duration {
	return o.Duration + 3*(o.copyLimit()+drainLimit) + mendLimit + 10*time.Minute
}

// demo is one run.
type demo struct {
	Options
	dir      string
	config   string
	services *services
	site     *site  // nil without a cutover
	url      string // address of the page
	began    time.Time

	mu      sync.Mutex
	workers []*worker // all workers that were started, including workers that have ended
}

// Run runs the demo and returns its comparison. Differences between the databases are in the
// comparison; the error is a failure of the demo itself. When Run returns, all processes and
// services that it started have ended. The workers' logs are kept if the demo failed or found
// differences.
func Run(ctx context.Context, o Options) (c Comparison, err error) {
	d := &demo{Options: o, began: time.Now()}
	if d.dir, err = os.MkdirTemp("", "replicator-demo-"); err != nil {
		return Comparison{}, err
	}
	defer func() { d.cleanUp(ctx.Err() == nil && (err != nil || !c.Identical())) }()
	return d.run(ctx)
}

// cleanUp removes the files of the demo. After a failure it keeps the logs, and the narration names
// them.
func (d *demo) cleanUp(failed bool) {
	if failed && len(d.all()) > 0 {
		d.say("the logs of the workers are kept: %s", filepath.Join(d.dir, logName("*")))
		return
	}
	_ = os.RemoveAll(d.dir) // the system removes what is left
}

func (d *demo) run(ctx context.Context) (_ Comparison, err error) {
	o := &d.Options
	if d.services, err = startServices(ctx, o.Seed); err != nil {
		return Comparison{}, err
	}
	defer d.services.close()
	defer d.killAll()
	if o.Relay {
		if err := d.services.startPubSub(ctx); err != nil {
			return Comparison{}, err
		}
	}
	if o.Cutover {
		closing, err := d.openSite()
		if err != nil {
			return Comparison{}, err
		}
		defer closing()
	}
	if d.config, err = d.writeConfiguration(d.dir); err != nil {
		return Comparison{}, err
	}
	closing, err := d.openPage()
	if err != nil {
		return Comparison{}, err
	}
	defer closing()
	d.say("embedded DynamoDB and Streams on %s, embedded Bigtable on %s", d.services.endpoint, d.services.bigtable.Addr())
	if o.DualWrites {
		d.say("dual_writes.settle is %s: every change is written a second time, that long after it was first applied", settleTime)
	}
	if o.Relay {
		d.say("embedded Pub/Sub on %s: the workers publish every change to topic changes, and apply it", d.services.pubsub.Addr)
	}
	if err := makeTable(ctx, d.services.writes, o.Items, o.Seed); err != nil {
		return Comparison{}, err
	}
	d.say("table %s: %s with attributes of all ten types; its stream was enabled afterwards", tableName, terminal.Plural(o.Items, "item"))
	if err := d.copy(ctx); err != nil {
		return Comparison{}, err
	}
	if o.Cutover {
		if err := d.beforeLive(ctx); err != nil {
			return Comparison{}, err
		}
	}
	app := &workload{client: d.services.writes, rate: d.Rate, seed: d.Seed, next: d.Items}
	if err := d.live(ctx, app); err != nil {
		return Comparison{}, err
	}
	if o.Outage {
		if err := d.outage(ctx, app); err != nil {
			return Comparison{}, err
		}
	}
	if !o.DualWrites { // with DualWrites the application reports the numbers
		d.say("the application has stopped writing: %s", app)
	}
	end := d.settle
	if o.Cutover {
		end = d.cutOver
	}
	c, err := end(ctx)
	if err != nil {
		return Comparison{}, err
	}
	if o.Relay && c.Identical() {
		if err := d.relayed(ctx); err != nil {
			return Comparison{}, err
		}
	}
	if o.Verdict != nil {
		o.Verdict(c)
	}
	if o.Serve {
		err = d.serve(ctx)
	}
	return c, err
}

// say writes a line of the narration.
func (d *demo) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = fmt.Fprintf(d.Log, "%5.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// listen returns the address for the next worker. One running worker gets the requested address.
func (d *demo) listen() string {
	if d.Listen == "" || slices.ContainsFunc(d.all(), func(w *worker) bool { return w.listen == d.Listen && !w.gone() }) {
		return anyPort
	}
	return d.Listen
}

// start adds a worker that lives long enough for all parts of the demo.
func (d *demo) start(name string) (*worker, error) { return d.startFor(name, d.life()) }

// startFor adds a worker that ends by itself after life.
func (d *demo) startFor(name string, life time.Duration) (*worker, error) {
	command := []string{"run"}
	if d.Relay {
		command = []string{"relay", "--apply"}
	}
	w, err := startWorker(command, name, d.listen(), d.Executable, d.dir, d.config, childEnvironment(d.Environment, d.dir, d.services), life)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.workers = append(d.workers, w)
	d.mu.Unlock()
	d.say("worker %s started: process %d", name, w.cmd.Process.Pid)
	return w, nil
}

func (d *demo) all() []*worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.workers[:len(d.workers):len(d.workers)]
}

func (d *demo) killAll() {
	for _, w := range d.all() {
		w.kill()
	}
}

// healthy returns an error if a worker has ended by itself.
func (d *demo) healthy() error {
	for _, w := range d.all() {
		if err := w.unexpected(); err != nil {
			return err
		}
	}
	return nil
}

// observe returns the sum of the workers' metrics. It includes the last metrics of killed workers,
// because their changes are applied.
func (d *demo) observe(ctx context.Context) sample {
	var sum sample
	for _, w := range d.all() {
		s := w.observe(ctx)
		sum.copied += s.copied
		sum.applied += s.applied
		sum.leases += s.leases
	}
	return sum
}

// progress returns the state of the table, from the first worker that answers.
func (d *demo) progress(ctx context.Context) progress {
	for _, w := range d.all() {
		if p, ok := w.status(ctx); ok {
			return p
		}
	}
	return progress{}
}

// until calls `done` repeatedly, and returns when `done` returns true. If `each` is not nil, it
// also calls `each` once a second.
func (d *demo) until(ctx context.Context, limit time.Duration, what string, each func(), done func() bool) error {
	const look = 200 * time.Millisecond
	deadline, told := time.Now().Add(limit), time.Now()
	for !done() {
		if err := d.healthy(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			last := d.all()[len(d.all())-1]
			return fmt.Errorf("%s took more than %s; the end of worker %s's log:\n%s", what, limit, last.name, tail(last.log, 15))
		}
		if each != nil && time.Since(told) >= time.Second {
			told = time.Now()
			each()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(look):
		}
	}
	return nil
}

// copy starts two workers and follows the copy of the existing items.
func (d *demo) copy(ctx context.Context) error {
	for _, name := range []string{"a", "b"} {
		if _, err := d.start(name); err != nil {
			return err
		}
	}
	began := time.Now()
	err := d.until(ctx, d.copyLimit(), "the copy", func() {
		if s := d.observe(ctx); s.copied > 0 {
			d.say("copied %.0f of %s", s.copied, terminal.Plural(d.Items, "item"))
		}
	}, func() bool { return d.progress(ctx).Copy.State == "done" })
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	d.say("finished copy: %s in %.1f s (%.0f items/s, workers' start included); both workers follow the stream now", terminal.Plural(d.Items, "item"), took, float64(d.Items)/took)
	return nil
}

// live runs the workload together with the faults.
func (d *demo) live(ctx context.Context, w *workload) error {
	d.say("live workload: %.0f changes/s for %s, a third of them on %d hot items", d.Rate, d.liveTime(), hotItems)
	g, gctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	before := d.observe(ctx).applied
	g.Go(func() error {
		defer close(ended)
		if d.DualWrites {
			return d.apply(gctx)
		}
		return w.run(gctx, d.liveTime())
	})
	g.Go(func() error { return d.trouble(gctx) })
	g.Go(func() error { return d.narrate(gctx, ended, before, w) })
	return g.Wait()
}

// narrate regularly writes throughput and lag until ended.
func (d *demo) narrate(ctx context.Context, ended <-chan struct{}, before float64, w *workload) error {
	const every = 2 * time.Second
	last, lastAt := before, time.Now()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return nil // the caller that ended the context reports the reason
		case <-time.After(every):
		}
		if err := d.healthy(); err != nil {
			return err
		}
		s := d.observe(ctx)
		lag := "unknown"
		if seconds := d.progress(ctx).Lag; seconds != nil {
			lag = fmt.Sprintf("%.1f s", *seconds)
		}
		made := ""
		if !d.DualWrites { // with DualWrites, another process counts the changes
			made = terminal.Plural(int(w.total()), "change") + " made, "
		}
		d.say("%s%.0f applied (%.0f/s), lag %s, %s", made, s.applied-before,
			(s.applied-last)/time.Since(lastAt).Seconds(), lag, terminal.Plural(int(s.leases), "lease"))
		last, lastAt = s.applied, time.Now()
	}
}

// settle waits until every change is applied, stops the workers and compares the databases.
func (d *demo) settle(ctx context.Context) (Comparison, error) {
	// No request shows whether the stream is drained. So the demo compares the databases until they
	// are equal, or until the time limit.
	deadline := time.Now().Add(drainLimit)
	for {
		applied := d.observe(ctx).applied
		err := d.until(ctx, drainLimit, "the drain", nil, func() bool {
			s := d.observe(ctx)
			quiet := s.applied == applied
			applied = s.applied
			return quiet
		})
		if err != nil {
			return Comparison{}, err
		}
		c, err := d.compare(ctx)
		if err != nil {
			return c, err
		}
		if c.Identical() {
			d.say("drained")
			break
		}
		if time.Now().After(deadline) {
			d.say("not drained after %s", drainLimit)
			break
		}
		d.say("%s", terminal.RowsDiffer(len(c.Differences), tableName))
		select {
		case <-ctx.Done():
			return Comparison{}, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	if err := d.stopAll(); err != nil {
		return Comparison{}, err
	}
	d.say("workers stopped; comparing both stores cell by cell")
	c, err := d.compare(ctx)
	if err != nil {
		return c, err
	}
	d.say("%s in the source, each in its row; %s of removed items, with only a tombstone", terminal.Plural(c.Items, "item"), terminal.Plural(c.Tombstones, "row"))
	return c, nil
}

func (d *demo) compare(ctx context.Context) (Comparison, error) {
	return compare(ctx, d.services.reads, d.services.rows, tableName)
}

// stopAll asks all running workers to end, and waits for them.
func (d *demo) stopAll() error {
	var g errgroup.Group
	for _, w := range d.running() {
		g.Go(w.stop)
	}
	return g.Wait()
}

// running returns the workers that have not ended.
func (d *demo) running() []*worker {
	return slices.DeleteFunc(slices.Clone(d.all()), func(w *worker) bool {
		select {
		case <-w.exited:
			return true
		default:
			return false
		}
	})
}

// serveLife is how long one worker of a served demo lives. After that time another worker replaces
// it.
const serveLife = 24 * time.Hour

// serve keeps the services and a worker that follows the stream running for the user, until ctx
// ends.
func (d *demo) serve(ctx context.Context) error {
	d.services.dynamo.ClearFaults() // users of the served services want no faults
	for said := false; ; said = true {
		w, err := d.follower(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if !said {
			d.mu.Lock()
			_, _ = fmt.Fprintln(d.Log, quickStart(d.Executable, d.url, minimal+d.additions(), d.services))
			d.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-w.exited:
		}
		switch {
		case ctx.Err() != nil:
			if err := d.stopAll(); err != nil {
				d.say("%v", err)
			}
			d.say("the page and the services stop; their data is lost")
			return nil
		case w.cmd.ProcessState.ExitCode() != diag.ExitTimeout:
			return w.unexpected()
		}
		w.ending() // its life has ended
	}
}

// follower starts a worker. It returns when the worker replicates the stream, or when ctx has
// ended.
func (d *demo) follower(ctx context.Context) (*worker, error) {
	w, err := d.startFor(string(rune('a'+len(d.all()))), serveLife)
	if err != nil {
		return nil, err
	}
	err = d.until(ctx, copyStart, "the start of worker "+w.name, nil, func() bool { return w.observe(ctx).leases > 0 })
	if ctx.Err() != nil {
		return nil, nil // ctx ended after the comparison, so the demo is complete
	}
	return w, err
}
