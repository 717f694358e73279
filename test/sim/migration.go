package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Migration is one source table, its target and the workers between them, with checkers at every
// step.
type Migration struct {
	name    string // of the pipeline; "" is default
	World   *virtual.World
	Source  *model.Table
	Target  *model.Bigtable
	Mapping *transform.Mapping
	// Lease and Timing apply to workers started from now on.
	Lease  time.Duration
	Timing engine.Timing
	// TombstoneAge is the minimum time for which tombstones are kept; 0 means for ever.
	TombstoneAge time.Duration
	// MaxImageAge is the age above which images are parked instead of written; 0 means none. It
	// applies to workers started from now on.
	MaxImageAge time.Duration
	// Outlives keeps items in the target that the time to live removes from the source.
	Outlives bool
	// InFlight bounds the bytes of a worker's requests in flight, 0 for the default. It applies to
	// workers started from now on.
	InFlight int64
	// Policy decides about items that cannot be stored. It applies to workers started from now on.
	Policy policy
	// FromTopic means that appliers write the changes, so checkpoints do not prove that they are
	// applied.
	FromTopic bool
	// Late is how long after a change the application may write the target, and SettleBytes bounds
	// the changes that wait for that. They apply to appliers started from now on.
	Late        time.Duration
	SettleBytes int64
	// Gaps lists the reasons of all declared gaps.
	Gaps []string
	// Retries counts failed steps by name.
	Retries map[string]int
	// Writes are the events of the writers of workers started from now on.
	Writes sink.Events
	// Wrap, if set, wraps the target for the writer.
	Wrap func(sink.Table) sink.Table
	// Watch, if set, is called for every executed write, after the checkers.
	Watch func(table, row string, before, after *model.Row)

	// Supersedes means that the mapping is replaced, and versions of former ones are removed.
	Supersedes bool

	// Bared holds rows that the application deleted as a whole.
	Bared map[string]bool

	fences *fences
	// Entry is the table's configuration for commands, by default without rules.
	Entry config.Table

	families []string // of the target
	broken   []string
	born     map[string]int // by key: the order in which rows of shards were created
	rows     int
	led      bool // the app profile permanently routes to another cluster, and no operator has failed over yet
	starved  bool // something was not read for so long that changes may be lost
}

// Worker is one process of replicator.
type Worker struct {
	*virtual.Process
	// Err is what Run returned; valid once Over is set.
	Err  error
	Over bool
	done task.Event
	stop context.CancelCauseFunc
}

// NewMigration returns a table with a number of shards and the key pk, sk, and an empty target. The
// named attributes form row keys; without names, the primary key does.
func NewMigration(w *virtual.World, shards int, rowKey ...string) *Migration {
	mapping, err := transform.NewMapping("Orders", "orders", "d",
		[]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}}, rowKey...)
	if err != nil {
		panic(err)
	}
	return NewMigrationBy(w, shards, mapping, "d")
}

// NewMigrationBy returns the source table of a mapping and its empty target. Families are given as
// to Create.
func NewMigrationBy(w *virtual.World, shards int, mapping *transform.Mapping, families ...string) *Migration {
	var key []string
	for _, k := range mapping.PrimaryKey {
		key = append(key, k.Name)
	}
	m := &Migration{
		World: w, Source: model.NewTable(w, mapping.Source, shards, key...), Target: model.NewBigtable(w), Mapping: mapping,
		Lease: 15 * time.Second, Retries: map[string]int{}, born: map[string]int{}, families: append(slices.Clone(families), sink.LiveFamily, sink.GoneFamily),
	}
	m.emptyTarget()
	m.Target.Create(model.StateTable, model.LedgerFamily, sink.ParkedFamily)
	m.Target.Executed, m.fences = m.check, newFences(m.Target)
	return m
}

// LoseLedger empties the state table.
func (m *Migration) LoseLedger() {
	m.Target.Create(model.StateTable, model.LedgerFamily, sink.ParkedFamily)
}

// LoseTarget empties the target tables.
func (m *Migration) LoseTarget() {
	m.emptyTarget()
}

func (m *Migration) emptyTarget() {
	for _, table := range m.Mapping.Tables() {
		m.Target.Create(table, m.families...)
	}
}

// backup is the content of the target tables at one time: rows by table and key.
type backup map[string]map[string]*model.Row

func (m *Migration) backUpTarget() backup {
	b := backup{}
	for _, table := range m.Mapping.Tables() {
		b[table] = m.Target.Snapshot(table)
	}
	return b
}

// RestoreTarget sets the target tables back to a backup.
func (m *Migration) RestoreTarget(b backup) {
	for table, rows := range b {
		m.Target.Restore(table, rows)
	}
}

// targetLost returns when a target table was last emptied or set back.
func (m *Migration) targetLost() (at time.Time) {
	for _, table := range m.Mapping.Tables() {
		at = later(at, m.Target.Replaced[table])
	}
	return at
}

// isSetBack reports whether the ledger or a target table was ever emptied or set back.
func (m *Migration) isSetBack() bool {
	return !m.targetLost().IsZero() || !m.Target.Replaced[model.StateTable].IsZero()
}

// Start starts a worker. Adjust may change its options.
func (m *Migration) Start(name string, adjust ...func(*engine.Options)) *Worker {
	return startProcess(m.World, name, func(stop, ctx context.Context) error { return m.run(stop, ctx, name, adjust) })
}

// Stop asks for a clean stop and waits for it.
func (w *Worker) Stop(ctx context.Context) error {
	w.World().Inject("clean stop")
	w.stop(context.Canceled)
	if err := w.done.Wait(ctx); err != nil {
		return err
	}
	return w.Err
}

// Wait waits until the worker has ended by itself, and returns its result.
func (w *Worker) Wait(ctx context.Context) error {
	if err := w.done.Wait(ctx); err != nil {
		return err
	}
	return w.Err
}

func (m *Migration) run(stop, ctx context.Context, name string, adjust []func(*engine.Options)) error {
	var ledger *checkpoint.Ledger
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		var err error
		id := fmt.Sprintf("ledger-%d", m.World.Steps())
		ledger, err = checkpoint.Open(stop, m.Store(), cmp.Or(m.name, "default"), checkpoint.Options{Worker: name, ID: id, Lease: m.Lease})
		if err == nil {
			break
		}
		if err := task.Sleep(stop, wait); stop.Err() != nil {
			return ctx.Err() // nil if it was asked to stop, and nothing was begun
		} else if err != nil {
			return err
		}
	}
	floors := &engine.Floors{}
	target := model.Target{Bigtable: m.Target}
	parking := sink.NewParking(target, cmp.Or(m.name, "default"))
	table := sink.Table(target)
	if m.Wrap != nil {
		table = m.Wrap(target)
	}
	o := engine.Options{
		Ledger: ledger, Floors: floors, Database: database{m.Source}, Target: target,
		Writer: sink.NewWriter(sink.Options{
			Table: table, Rows: target, Parking: parking, Floor: floors.Floor, InFlight: 16, Bytes: m.InFlight, Events: m.Writes, MaxImageAge: m.MaxImageAge,
			OnBadItem: m.Policy.onBadItem, MaxParked: m.Policy.maxParked,
		}),
		Open: m.open, Families: target,
		Witness: func(table string) checkpoint.Store {
			return model.Store{Bigtable: m.Target, Table: table, Family: sink.LiveFamily}
		},
		Tables: []engine.Spec{{Mapping: m.Mapping, MappingHash: "h1", Copy: true, Segments: 2}},
		Timing: m.Timing,
		Events: engine.Events{
			Gap: func(table, shard, reason string) {
				if table != m.Source.Name {
					return
				}
				m.Gaps = append(m.Gaps, strings.TrimSpace(shard+" "+reason))
			},
			Retry: func(_, step string, _ time.Duration, err error) {
				m.Retries[step]++
				m.World.Tracef("%s: %v", step, err)
			},
			Raised: func(_ string, g uint32, reason string) { m.World.Tracef("generation %d: %s", g, reason) },
		},
	}
	for _, f := range adjust {
		f(&o)
	}
	survey := task.NewGroup(stop, 0)
	survey.Go("survey", func(ctx context.Context) error { return m.survey(ctx, parking, o.Tables) })
	err := pipeline.Run(stop, o)
	survey.Fail(context.Canceled)
	_ = survey.Wait()
	return err
}

// survey sometimes forgets resolved parked items, as the command does beside the pipeline.
func (m *Migration) survey(ctx context.Context, parking *sink.Parking, tables []engine.Spec) error {
	if len(tables) == 0 { // the worker finds tables by itself
		tables = []engine.Spec{{Mapping: m.Mapping}}
	}
	for {
		if err := task.Sleep(ctx, max(m.Timing.List, time.Minute)); err != nil {
			return err
		}
		if parked, err := m.anyParked(ctx); err != nil || !parked {
			continue
		}
		for _, t := range tables {
			if n, _, err := parking.Resolve(ctx, t.Mapping, model.Target{Bigtable: m.Target}); err != nil {
				m.World.Tracef("parked items: %v", err)
			} else if n > 0 {
				m.World.Tracef("%d parked items are resolved", n)
			}
		}
	}
}

func (m *Migration) open(arn string) cdc.Source {
	for _, s := range m.Source.Streams {
		if s.ARN == arn {
			return s
		}
	}
	return gone{}
}

// gone is a stream that does not exist.
type gone struct{}

func (gone) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, model.Fail("DescribeStream", cdc.NotFound)
}
func (gone) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) {
	return "", model.Fail("GetShardIterator", cdc.NotFound)
}
func (gone) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{}, model.Fail("GetRecords", cdc.NotFound)
}

// Ledger opens the ledger beside the workers, for tests that act as another worker or an operator.
func (m *Migration) Ledger(ctx context.Context) (*checkpoint.Ledger, error) {
	return checkpoint.Open(ctx, m.Store(), cmp.Or(m.name, "default"), checkpoint.Options{Worker: "operator", Lease: m.Lease, ReadOnly: true})
}

// Store returns the ledger's store, for tests that read or write it directly.
func (m *Migration) Store() model.Store {
	return model.Store{Bigtable: m.Target, Table: model.StateTable, Family: model.LedgerFamily}
}

// State returns the ledger's record of the table, without taking time.
func (m *Migration) State() checkpoint.TableState {
	if s, ok := decoded[checkpoint.TableState](m.Target.Row(model.StateTable, cmp.Or(m.name, "default")+"/table/"+m.Source.Name)); ok {
		return *s
	}
	return checkpoint.TableState{}
}

// Shards returns the ledger's rows of the table's shards, without taking time.
func (m *Migration) Shards() []checkpoint.Shard {
	keys := m.Target.RowsUnder(model.StateTable, "default/shard/"+m.Source.Name+"/")
	shards := make([]checkpoint.Shard, 0, len(keys))
	for _, key := range keys {
		if s, ok := decoded[shardRecord](m.Target.Row(model.StateTable, key)); ok {
			shards = append(shards, s.Shard)
		}
	}
	return shards
}

// held counts the shards of the stream that are being read, by worker.
func (m *Migration) held() map[string]int {
	counts, label := map[string]int{}, m.State().Label
	for _, s := range m.Shards() {
		if s.Label == label && s.State == checkpoint.Reading && s.Owner != "" {
			counts[s.Owner]++
		}
	}
	return counts
}

// Parked returns the number of parked records.
func (m *Migration) Parked() int {
	return len(m.Target.RowsUnder(model.StateTable, "default/parked/"))
}

// ParkedItems returns the hashes of the parked items.
func (m *Migration) ParkedItems() (items []string) {
	for _, row := range m.Target.RowsUnder(model.StateTable, "default/parked/") {
		_, hash, _ := sink.Ref(strings.TrimPrefix(row, "default/parked/")).Parts()
		items = append(items, hash)
	}
	return items
}

// shardRecord is a shard's row as stored in the ledger.
type shardRecord struct {
	checkpoint.Shard
	By string `json:"by"` // the writer
}

// decoded returns the record of a ledger row, decoded once, or false if there is none. Callers must
// always use the same type for a row.
func decoded[T any](r *model.Row) (*T, bool) {
	text, ok := r.Value(model.LedgerFamily, model.RecordColumn)
	if !ok {
		return nil, false
	}
	if r.Record == nil {
		record := new(T)
		if err := json.Unmarshal([]byte(text), record); err != nil {
			panic(err)
		}
		r.Record = record
	}
	return r.Record.(*T), true
}

// Unequal returns the current differences between source and target.
func (m *Migration) Unequal() []string { return Unequal(m.Source, m.Target, m.Mapping) }

// Equal waits until source and target are equal, and fails with the difference after the given
// time.
func (m *Migration) Equal(ctx context.Context, within time.Duration) error {
	return m.Until(ctx, within, func() error {
		if diff := m.Unequal(); len(diff) > 0 {
			return errors.New(strings.Join(diff, "\n"))
		}
		return nil
	})
}

// Until waits until ok returns nil, and fails with its error after the given time.
func (m *Migration) Until(ctx context.Context, within time.Duration, ok func() error) error {
	deadline := m.World.Elapsed() + within
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if m.World.Elapsed() >= deadline {
			return fmt.Errorf("after %s: %w", within, err)
		}
		if err := task.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Broken returns the invariants that were found broken at any step.
func (m *Migration) Broken() []string { return m.broken }

// report runs play to its end and reports the result. Failures are those that play records.
func (m *Migration) report(seed uint64, play func(ctx context.Context), failures *[]string) (r Report) {
	defer func() {
		r = Report{Seed: seed, Failures: slices.Concat(m.Broken(), *failures), Injected: m.World.Injected(), Elapsed: m.World.Elapsed(), Steps: m.World.Steps(), Gap: len(m.Gaps) > 0, Trace: m.World.Trace()}
		if p := recover(); p != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("panic: %v", p))
		}
	}()
	if err := m.World.Run(100*time.Hour, play); err != nil {
		*failures = append(*failures, "I10: "+err.Error())
	}
	return r
}
