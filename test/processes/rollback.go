package processes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
)

const (
	// signatureWindow is how long the embedded DynamoDB accepts a signature. The timings of the way
	// back are scaled to it.
	signatureWindow = 5 * time.Second
	rollbackItems   = 200
	rollbackLasts   = 60 * time.Second // of the writes after the switch
	rollbackKills   = 7 * time.Second  // between two kills of workers
	rollbackPause   = 25 * time.Millisecond
)

// accounts is the table of the application that is moved there and back.
var accounts = &table{
	name:   "Accounts",
	schema: []keyAttribute{{"id", types.ScalarAttributeTypeS}},
}

// mover is an application that writes one store at a time. Its memory is the oracle: at each switch,
// the store that it leaves for must hold exactly what it wrote.
type mover struct {
	w       *world
	address string

	mu       sync.Mutex
	frozen   bool
	onTarget bool
	rand     *rand.Rand
	items    map[string]map[string]string
	writes   int
	checked  []string // the switches at which both stores were compared
}

// openMover listens for the hooks.
func (w *world) openMover() (*mover, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mover{w: w, address: listener.Addr().String(), rand: rand.New(rand.NewPCG(w.seed, 1<<50)), items: map[string]map[string]string{}}
	serving := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = serving.Serve(listener) }() // ends with Close
	w.onClose(func() { _ = serving.Close() })
	return m, nil
}

// configuration returns the configuration of a migration with a way back.
func (m *mover) configuration() string {
	text := fmt.Sprintf("version: 1\ntarget: {project: %s, instance: %s}\nstate: {lease: %s}\ntables:\n  - from: %s\n"+
		"cutover:\n  ready_when: {lag_held_for: 0s}\n  listing_bound: 1s\n  freeze_at_most: 20s\n  keep_fallback: true\n", project, instance, lease, accounts.name)
	for _, section := range []string{"hooks", "rollback_hooks"} {
		text += "  " + section + ":\n"
		for _, name := range cutover.HookNames {
			text += fmt.Sprintf("    %s: http://%s/\n", name, m.address)
		}
	}
	return text
}

// ServeHTTP implements the hooks of both directions.
func (m *mover) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Header.Get(hook.ProbeHeader) != "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name, back := request.Header.Get(hook.HookHeader), request.Header.Get("Cutover-Direction") == cutover.Back
	m.w.note("hook %s %s, back: %t", name, request.Header.Get(hook.TokenHeader), back)
	var err error
	switch {
	case name == cutover.FreezeWrites:
		m.frozen = true
	case name == cutover.UnfreezeWrites:
		m.frozen = false
	case !m.frozen && m.onTarget == back:
		err = errors.New("the application still writes")
	case m.onTarget == back: // the first call of this switch
		if err = m.compare(request.Context()); err == nil {
			m.onTarget, m.frozen = !back, false
			m.checked = append(m.checked, request.Header.Get(hook.TokenHeader))
		}
	}
	if err != nil {
		m.w.note("hook %s: %v", name, err)
		http.Error(answer, err.Error(), http.StatusInternalServerError)
	}
}

// compare returns an error unless both stores hold what the application wrote.
func (m *mover) compare(ctx context.Context) error {
	items, err := m.source(ctx)
	if err != nil {
		return err
	}
	rows, err := m.target(ctx)
	if err != nil {
		return err
	}
	for name, found := range map[string]map[string]map[string]string{"DynamoDB": items, "Bigtable": rows} {
		for _, key := range slices.Sorted(maps.Keys(mergedKeys(found, m.items))) {
			if got, want := found[key], m.items[key]; !maps.Equal(got, want) || (got == nil) != (want == nil) {
				return fmt.Errorf("%s has %v for %s, and the application wrote %v", name, got, key, want)
			}
		}
	}
	return nil
}

func mergedKeys(a, b map[string]map[string]string) map[string]bool {
	keys := map[string]bool{}
	for _, m := range []map[string]map[string]string{a, b} {
		for key := range m {
			keys[key] = true
		}
	}
	return keys
}

// source returns all items, without their keys. Canaries of a cutover are no items.
func (m *mover) source(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	pages := dynamodb.NewScanPaginator(m.w.source, &dynamodb.ScanInput{TableName: &accounts.name, ConsistentRead: new(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			key := it["id"].(*types.AttributeValueMemberS).Value
			if !strings.HasPrefix(key, "account") {
				continue
			}
			all[key] = map[string]string{}
			for name, v := range it {
				if name != "id" {
					all[key][name] = v.(*types.AttributeValueMemberS).Value
				}
			}
		}
	}
	return all, nil
}

// family is the family of the application's columns.
const family = "d"

// target returns all rows, without replicator's own families.
func (m *mover) target(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	err := m.w.rows.Open(accounts.name).ReadRows(ctx, bigtable.PrefixRange("account"), func(row bigtable.Row) bool {
		cells := map[string]string{}
		for _, c := range row[family] {
			cells[strings.TrimPrefix(c.Column, family+":")] = string(c.Value)
		}
		if delete(cells, "id"); len(row[family]) > 0 {
			all[row.Key()] = cells
		}
		return true
	}, bigtable.RowFilter(bigtable.LatestNFilter(1)))
	return all, err
}

// run writes until ctx ends.
func (m *mover) run(ctx context.Context) error {
	for wait(ctx, rollbackPause) == nil {
		if err := m.write(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// write changes or removes one item, in the store that the application uses.
func (m *mover) write(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a write that has begun is known to the memory
	key := fmt.Sprintf("account%d", m.rand.IntN(rollbackItems))
	var attributes map[string]string
	if m.rand.IntN(6) > 0 {
		attributes = map[string]string{"state": fmt.Sprint(m.rand.IntN(1000))}
		if m.rand.IntN(2) == 0 {
			attributes["note"] = fmt.Sprintf("note %d", m.writes)
		}
	}
	m.writes++
	if err := m.put(ctx, key, attributes); err != nil {
		return err
	}
	if m.items[key] = attributes; attributes == nil {
		delete(m.items, key)
	}
	return nil
}

func (m *mover) put(ctx context.Context, key string, attributes map[string]string) error {
	id := item{"id": &types.AttributeValueMemberS{Value: key}}
	switch {
	case m.onTarget:
		mutation := bigtable.NewMutation()
		if attributes == nil {
			mutation.DeleteRow()
		} else {
			mutation.DeleteCellsInFamily(family)
			for name, value := range attributes {
				mutation.Set(family, name, bigtable.ServerTime, []byte(value))
			}
		}
		return m.w.rows.Open(accounts.name).Apply(ctx, key, mutation)
	case attributes == nil:
		_, err := m.w.source.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &accounts.name, Key: id})
		return err
	}
	for name, value := range attributes {
		id[name] = &types.AttributeValueMemberS{Value: value}
	}
	_, err := m.w.source.PutItem(ctx, &dynamodb.PutItemInput{TableName: &accounts.name, Item: id})
	return err
}

// Rollback moves an application to the target and back, and forward again. While it writes the
// target for a minute, the workers are killed in turn, so that the leaders of the way back change.
func Rollback(ctx context.Context, o Options) error {
	o.Rollback = true
	return inWorld(ctx, o, o.Seed, func(w *world) error { return w.thereAndBack(ctx) })
}

// openRollback creates the table and starts the workers.
func (w *world) openRollback(ctx context.Context, o Options, target string) (err error) {
	if w.mover, err = w.openMover(); err != nil {
		return err
	}
	var items []item
	for i := range rollbackItems / 2 {
		key := fmt.Sprintf("account%d", i)
		w.mover.items[key] = map[string]string{"state": "0", "note": "first"}
		items = append(items, item{"id": &types.AttributeValueMemberS{Value: key}, "state": &types.AttributeValueMemberS{Value: "0"}, "note": &types.AttributeValueMemberS{Value: "first"}})
	}
	if err := accounts.create(ctx, w.source, items); err != nil {
		return err
	}
	config := filepath.Join(w.dir, "replicator.yaml")
	if err := errors.Join(os.WriteFile(config, []byte(w.mover.configuration()), 0o600), os.WriteFile(filepath.Join(w.dir, "aws"), nil, 0o600)); err != nil {
		return err
	}
	for i := range workersPerWorld {
		n := &worker{name: name(i), command: []string{"run"}, program: o.Program, dir: w.dir, config: config, life: lifeTime, window: signatureWindow}
		if err := w.startWorker(n, target, ""); err != nil {
			return err
		}
	}
	return nil
}

// thereAndBack runs such a world.
func (w *world) thereAndBack(ctx context.Context) error {
	w.begin()
	for _, n := range w.workers {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	if err := w.approach(ctx, "verify"); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	writing, stop := context.WithCancel(gctx)
	g.Go(func() error { return w.mover.run(writing) })
	g.Go(func() error { return w.watch(writing) })
	g.Go(func() error {
		defer stop()
		return w.move(gctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w.log, "seed %d: there, back and forward again in %.0f s, %d writes, both stores equal at the switches %s\n", w.seed, time.Since(w.began).Seconds(), w.mover.writes, strings.Join(w.mover.checked, ", "))
	return nil
}

func (w *world) move(ctx context.Context) error {
	if err := w.moveTo(ctx, "cutover", "start", "--keep-fallback", "yes", "--yes"); err != nil {
		return err
	}
	w.note("the application writes the target")
	for began := time.Now(); time.Since(began) < rollbackLasts; {
		n := w.workers[w.mover.draw(len(w.workers))]
		if err := wait(ctx, rollbackKills); err != nil {
			return err
		}
		n.kill()
		w.note("%s is killed", n.name)
		if err := errors.Join(wait(ctx, time.Second), n.start()); err != nil {
			return err
		}
	}
	if err := w.approach(ctx, "verify", "--reverse"); err != nil {
		return err
	}
	if err := w.moveTo(ctx, "cutover", "rollback", "--yes"); err != nil {
		return err
	}
	w.note("the application writes the source again")
	// The tables are loaded again, beside the application's writes.
	if err := w.approach(ctx, "status", "--wait", "copied"); err != nil {
		return err
	}
	if err := w.approach(ctx, "verify", "--full"); err != nil {
		return err
	}
	return w.moveTo(ctx, "cutover", "start", "--keep-fallback", "no", "--yes")
}

// draw draws a number below n.
func (m *mover) draw(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rand.IntN(n)
}

// moveTo repeats a command that moves the application until the application was moved.
func (w *world) moveTo(ctx context.Context, args ...string) error {
	before := w.mover.switches()
	for began := time.Now(); ; {
		out, status, err := w.operate(ctx, args...)
		switch {
		case err != nil:
			return err
		case status == 0 && w.mover.switches() == before+1:
			w.note("%s: done", strings.Join(args, " "))
			return nil
		case status == 0 || time.Since(began) > 2*cutoverLimit:
			return fmt.Errorf("%s: exit status %d\n%s", strings.Join(args, " "), status, out)
		}
		w.note("%s: exit status %d", strings.Join(args, " "), status)
		if err := wait(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// switches returns how often the application was moved.
func (m *mover) switches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.checked)
}
