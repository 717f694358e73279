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

// workersPerWorld is the number of workers.
const workersPerWorld = 3

// world is two services, the workers between them, and the application.
type world struct {
	seed     uint64
	dir      string
	log      io.Writer
	dynamo   *service
	relayed  bool   // changes go through a topic
	queue    string // address of Pub/Sub, if used
	target   string // address of the target, if the application writes it too
	source   *dynamodb.Client
	rows     *bigtable.Client
	bigtable []option.ClientOption // options for clients of the target
	site     *site                 // the application, for a cutover
	mover    *mover                // the application, for a rollback
	writers  *workload
	oracle   *oracle
	workers  []*worker
	cleanup  []func() // in reverse order

	mu     sync.Mutex
	began  time.Time // of the round
	notes  []string  // of the round
	counts map[string]int
}

// Build builds the program into dir and returns its path. GOFLAGS applies to it, so GOFLAGS=-race
// makes the workers detect races.
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

// newWorld starts the services, creates the tables and starts the workers, whose logs go to dir.
// Always close it.
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
	if o.Rollback {
		return w.openRollback(ctx, o, target.address)
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

// startServices starts both ends: the embedded ones, or independent ones.
func (w *world) startServices(o Options) (target *service, err error) {
	r := rand.New(rand.NewPCG(w.seed, 1<<42))
	// The sequence numbers of the first shards soon grow by a digit.
	first := strings.Repeat("9", 18+r.IntN(4)) + "000"
	source := role{Service: dynamoService, Seed: w.seed, Shards: 1 + r.IntN(3), FirstSequence: first}
	rows := role{Service: bigtableService}
	if o.Rollback {
		source.Window, rows.Changes = signatureWindow, true
	}
	if o.Dynamo != nil {
		source = role{Service: otherService, Command: o.Dynamo}
	}
	if w.dynamo, err = startService(o.Services, w.dir, dynamoService, source); err != nil {
		return nil, err
	}
	w.onClose(w.dynamo.stop)
	if o.Bigtable != nil {
		rows = role{Service: otherService, Command: o.Bigtable}
	}
	if target, err = startService(o.Services, w.dir, bigtableService, rows); err != nil {
		return nil, err
	}
	w.onClose(target.stop)
	return target, nil
}

// makeLively makes the embedded source list late and in small pages, and restart the sequence
// numbers of some tables.
func (w *world) makeLively(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<44))
	for _, t := range tables {
		late := between(r, 0, 1500*time.Millisecond)
		for name, parameters := range map[string]map[string]any{
			// The delay never gets shorter: a child must not be listed before its parent.
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

// configure writes the configuration of all workers. It adds state to that section, and more at the
// end, and returns the path.
func (w *world) configure(state, more string) (string, error) {
	configuration := fmt.Sprintf("version: 1\ntarget:\n  project: %s\n  instance: %s\nstate:\n  lease: %s\n%stables:\n", project, instance, lease, state)
	for _, t := range tables {
		configuration += "  - from: " + t.name + "\n"
	}
	path := filepath.Join(w.dir, "replicator.yaml")
	if err := os.WriteFile(path, []byte(configuration+more), 0o600); err != nil {
		return "", err
	}
	// Otherwise the SDK would read the user's file.
	return path, os.WriteFile(filepath.Join(w.dir, "aws"), nil, 0o600)
}

// startWorker gives a worker its networks to the services, and starts it. Queue may be "".
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

// close ends all processes and removes their resources.
func (w *world) close() {
	for i := len(w.cleanup) - 1; i >= 0; i-- {
		w.cleanup[i]()
	}
}

// note records an event of the round for failure messages.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf("%6.2fs  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...)))
}

// count counts an injected fault.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// totals formats the counts.
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

// equalLimit is the longest time until the stores are equal, once nothing writes and all faults are
// healed. It covers a lease, a request without an answer, and the remaining work.
const equalLimit = 60 * time.Second

// settle waits until the stores are equal, the ledger shows this, and every worker reports it.
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

// sum adds up the counts of all tables.
func sum(found []*comparison) (items, cells, tombstones int) {
	for _, c := range found {
		items, cells, tombstones = items+c.items, cells+c.cells, tombstones+c.tombstones
	}
	return items, cells, tombstones
}

// identical reports whether nothing differs.
func identical(found []*comparison) bool {
	return !slices.ContainsFunc(found, func(c *comparison) bool { return len(c.differences) > 0 })
}

// compare compares every table. Differences that waiting cannot resolve are an error.
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

// healthy returns what is not yet as it must be, according to the workers' status, or "". Every
// worker must answer. Here no change is trimmed or impossible to store, so a gap or a parked item
// is an error.
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

// finish stops the workers and checks everything again.
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

// searchLogs searches the workers' logs for item data (I12). It also counts how often shards were
// acquired and released, to show that the faults had an effect.
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
