package processes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// workersPerWorld is how many workers share the work.
const workersPerWorld = 3

// world is two services, the workers between them, and the application.
type world struct {
	seed     uint64
	dir      string
	log      io.Writer
	dynamo   *service
	relayed  bool   // changes go through a topic
	queue    string // address of Pub/Sub, where they do
	target   string // address of the target, where the application writes it too
	source   *dynamodb.Client
	rows     *bigtable.Client
	bigtable []option.ClientOption // of clients of the target
	site     *site                 // of the application, where it is cut over
	writers  *workload
	oracle   *oracle
	workers  []*worker
	cleanup  []func() // in reverse order

	mu     sync.Mutex
	began  time.Time // of the round
	notes  []string  // of the round
	counts map[string]int
}

// Build builds the program into dir and returns its path. What GOFLAGS says holds for it too, so that GOFLAGS=-race makes the workers
// look for races.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "replicator")
	if os.PathSeparator == '\\' {
		path += ".exe"
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", path, "github.com/dynamodb-bigtable/replicator/cmd/replicator").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
}

// newWorld starts the services, makes the tables and starts the workers, whose logs go to dir. Close it in any case.
func newWorld(ctx context.Context, o Options, seed uint64, dir string) (*world, error) {
	w := &world{seed: seed, dir: dir, log: o.Log, relayed: o.Relay, counts: map[string]int{}}
	return w, w.open(ctx, o)
}

func (w *world) open(ctx context.Context, o Options) error {
	target, err := w.startServices(o)
	if err != nil {
		return err
	}
	if err := w.connect(ctx, target.address); err != nil {
		return err
	}
	endpoint := "http://" + w.dynamo.address
	w.source = dynamodb.NewFromConfig(aws.Config{
		Region: region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("processes", "processes", ""),
	})
	if o.DualWrites {
		w.target = target.address
		return w.openDualWrites(ctx, o, target.address)
	}
	w.oracle = newOracle(w.source, w.rows)
	if w.writers, err = startWorkload(ctx, w.source, w.seed); err != nil {
		return err
	}
	if o.Dynamo == nil {
		if err := w.makeLively(ctx); err != nil {
			return err
		}
	}
	life := lifeTime + o.lasts
	if o.Relay {
		return w.startRelay(o, target.address, life)
	}
	return w.startWorkers(o.Program, target.address, life)
}

// startServices starts both ends: the embedded ones, or those of other projects.
func (w *world) startServices(o Options) (target *service, err error) {
	r := rand.New(rand.NewPCG(w.seed, 1<<42))
	// The numbers of the first shards soon grow by a digit.
	first := strings.Repeat("9", 18+r.IntN(4)) + "000"
	source := role{Service: dynamoService, Seed: w.seed, Shards: 1 + r.IntN(3), FirstSequence: first}
	if o.Dynamo != nil {
		source = role{Service: otherService, Command: o.Dynamo}
	}
	if w.dynamo, err = startService(o.Services, w.dir, dynamoService, source); err != nil {
		return nil, err
	}
	w.onClose(w.dynamo.stop)
	rows := role{Service: bigtableService}
	if o.Bigtable != nil {
		rows = role{Service: otherService, Command: o.Bigtable}
	}
	if target, err = startService(o.Services, w.dir, bigtableService, rows); err != nil {
		return nil, err
	}
	w.onClose(target.stop)
	return target, nil
}

// makeLively lets the embedded source list late and in small pages, and restart the sequence numbers of some tables.
func (w *world) makeLively(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<44))
	for _, t := range tables {
		late := between(r, 0, 1500*time.Millisecond)
		for name, parameters := range map[string]map[string]any{
			// Never shorter later on: a child must not be listed before its parent.
			"delay-listing":     {"table": t.name, "children": late.String(), "closings": late.String()},
			"listing-page":      {"table": t.name, "count": 1 + r.IntN(4)},
			"restart-sequences": {"table": t.name, "restart": r.IntN(2) == 0},
		} {
			if err := w.dynamo.control(ctx, name, parameters, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) onClose(f func()) { w.cleanup = append(w.cleanup, f) }

// connect opens the oracle's own connection to the target.
func (w *world) connect(ctx context.Context, address string) error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	w.onClose(func() { _ = conn.Close() })
	w.bigtable = []option.ClientOption{option.WithGRPCConn(conn)}
	config := bigtable.ClientConfig{DisableSession: true, MetricsProvider: bigtable.NoopMetricsProvider{}}
	w.rows, err = bigtable.NewClientWithConfig(ctx, project, instance, config, w.bigtable...)
	return err
}

func (w *world) startWorkers(program, target string, life time.Duration) error {
	config, err := w.configure("", "")
	if err != nil {
		return err
	}
	for i := range workersPerWorld {
		n := &worker{name: name(i), command: []string{"run"}, program: program, dir: w.dir, config: config, life: life}
		if err := w.startWorker(n, target, ""); err != nil {
			return err
		}
	}
	return nil
}

// configure writes what all workers are configured with: state is added to that section, and more
// to the end. It returns the path.
func (w *world) configure(state, more string) (string, error) {
	configuration := fmt.Sprintf("version: 1\ntarget:\n  project: %s\n  instance: %s\nstate:\n  lease: %s\n%stables:\n", project, instance, lease, state)
	for _, t := range tables {
		configuration += "  - from: " + t.name + "\n"
	}
	path := filepath.Join(w.dir, "replicator.yaml")
	if err := os.WriteFile(path, []byte(configuration+more), 0o600); err != nil {
		return "", err
	}
	return path, os.WriteFile(filepath.Join(w.dir, "aws"), nil, 0o600) // else the SDK would read the user's
}

// startWorker gives a worker its ways to the services, and starts it. Queue may be "".
func (w *world) startWorker(n *worker, target, queue string) (err error) {
	for _, way := range []struct {
		to  string
		way **Proxy
	}{{w.dynamo.address, &n.source}, {target, &n.target}, {queue, &n.queue}} {
		if way.to == "" {
			continue
		}
		if *way.way, err = NewProxy(way.to); err != nil {
			return err
		}
		w.onClose((*way.way).Close)
	}
	if err := n.start(); err != nil {
		return err
	}
	w.onClose(n.kill)
	w.workers = append(w.workers, n)
	return nil
}

// close ends everything.
func (w *world) close() {
	for i := len(w.cleanup) - 1; i >= 0; i-- {
		w.cleanup[i]()
	}
}

// note keeps what happened in the round, in case it is of interest.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf("%6.2fs  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...)))
}

// count notes that something was injected.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// totals tells what was counted.
func (w *world) totals() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return listed(w.counts)
}

// begin starts the notes of a round.
func (w *world) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.notes = time.Now(), nil
}

// equalLimit is how long the workers may take until the stores are equal once nothing writes and everything is healed: a lease, a
// request that is waited for in vain, and the work that was left undone.
const equalLimit = 60 * time.Second

// settle waits until the stores are equal, the ledger says so too, and every worker can tell it.
func (w *world) settle(ctx context.Context) ([]*comparison, error) {
	deadline := time.Now().Add(equalLimit)
	for {
		if err := w.failed(); err != nil {
			return nil, err
		}
		found, err := w.compare(ctx)
		if err != nil {
			return nil, err
		}
		missing := ""
		if !identical(found) {
			missing = "the stores are not equal: " + describe(found)
		} else if missing, err = w.healthy(ctx); err != nil || missing == "" {
			return found, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s after the application stopped, %s", equalLimit, missing)
		}
		if err := wait(ctx, 250*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// sum is how much there is in all tables.
func sum(found []*comparison) (items, cells, tombstones int) {
	for _, c := range found {
		items, cells, tombstones = items+c.items, cells+c.cells, tombstones+c.tombstones
	}
	return items, cells, tombstones
}

// identical tells whether nothing differs.
func identical(found []*comparison) bool {
	return !slices.ContainsFunc(found, func(c *comparison) bool { return len(c.differences) > 0 })
}

// compare compares every table. What no time mends is an error.
func (w *world) compare(ctx context.Context) ([]*comparison, error) {
	var found []*comparison
	for _, t := range tables {
		c, err := w.oracle.compare(ctx, t, w.writers.live(t))
		if err != nil {
			return nil, err
		}
		if len(c.broken) > 0 {
			c.differences = c.broken
			return nil, fmt.Errorf("an invariant is broken: %s", describe([]*comparison{c}))
		}
		found = append(found, c)
	}
	return found, nil
}

// describe lists the first differences, with hashed keys.
func describe(found []*comparison) string {
	const most = 20
	var lines []string
	total := 0
	for _, c := range found {
		total += len(c.differences)
		for _, d := range c.differences[:min(most, len(c.differences))] {
			lines = append(lines, fmt.Sprintf("\n  %s row %s: %s", d.table, d.key, d.what))
		}
	}
	return fmt.Sprintf("%d differences%s", total, strings.Join(lines, ""))
}

// healthy says what is not yet as it must be by the word of the workers, each of whom must be able to tell; "" if all is. Nothing
// here is ever trimmed or impossible to store: a gap or a parked item is an error.
func (w *world) healthy(ctx context.Context) (missing string, err error) {
	for _, n := range w.workers {
		status, err := n.status(ctx)
		if err != nil {
			return err.Error(), w.failed()
		}
		if len(status) != len(tables) {
			return "", fmt.Errorf("the status has %d tables, not %d", len(status), len(tables))
		}
		for _, t := range status {
			if t.NeedsLoad || t.Gaps > 0 || t.Parked > 0 {
				reason := ""
				if t.Reason != nil {
					reason = *t.Reason
				}
				return "", fmt.Errorf("table %s lost its promise without need: needs load: %t (%s), %d gaps, %d parked", t.Source, t.NeedsLoad, reason, t.Gaps, t.Parked)
			}
			if t.Copy.State != "done" {
				missing = fmt.Sprintf("the copy of table %s is %s", t.Source, t.Copy.State)
			}
			if w.relayed && (t.Behind == nil || *t.Behind > 0 || t.Phase != inSync) {
				missing = fmt.Sprintf("table %s is %s, and not all that is published is known to be applied", t.Source, t.Phase)
			}
		}
	}
	return missing, nil
}

// finish stops the workers and looks at everything once more.
func (w *world) finish(ctx context.Context) error {
	var g errgroup.Group
	for _, n := range w.workers {
		g.Go(func() error {
			if !signals {
				n.kill()
				return nil
			}
			return n.stop(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	found, err := w.compare(ctx)
	if err != nil {
		return err
	}
	if !identical(found) {
		return fmt.Errorf("the stores were equal, and are not after the workers stopped: %s", describe(found))
	}
	if w.relayed {
		if err := w.noDeadLetter(ctx); err != nil {
			return err
		}
	}
	return w.searchLogs()
}

// searchLogs looks for item data in what the workers wrote (I12), and counts how often shards were taken and given up, which
// shows that the trouble was some.
func (w *world) searchLogs() error {
	paths, err := filepath.Glob(filepath.Join(w.dir, "worker-*.log"))
	if err != nil {
		return err
	}
	var found []error
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for what, message := range map[string]string{
			"shards taken": `"severity":"INFO","message":"acquired shard"`, "leases lost": `"severity":"WARNING","message":"released shard"`,
		} {
			w.counts[what] += bytes.Count(text, []byte(message))
		}
		if n := bytes.Count(text, []byte(mark)); n > 0 {
			found = append(found, fmt.Errorf("%s contains item data in %d places", path, n))
		}
	}
	return errors.Join(found...)
}
