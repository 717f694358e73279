package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	verifies "github.com/dynamodb-bigtable/replicator/internal/verify"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// cutTable is a table of a run with cutovers.
type cutTable struct {
	*Migration
	comes time.Duration   // when it is created
	told  map[string]told // by partition key, what the application knows to be durable
}

// there reports whether the table was created.
func (t *cutTable) there() bool { return t.World.Elapsed() >= t.comes }

// holds reports whether the source has an item.
func (t *cutTable) holds(pk string) bool {
	_, id := t.Source.KeyOf(keysOf(pk))
	return t.Source.ByID[id].Exists()
}

// sources are the source tables of a run, as its processes read and write them.
type sources []*cutTable

// named is the table of a name; nil if there is none.
func (s sources) named(name string) *cutTable {
	if i := slices.IndexFunc(s, func(t *cutTable) bool { return t.Source.Name == name && t.there() }); i >= 0 {
		return s[i]
	}
	return nil
}

// Describe implements engine.Database and cutover.Source.
func (s sources) Describe(ctx context.Context, table string) (backfill.Description, error) {
	t := s.named(table)
	if t == nil {
		return backfill.Description{}, model.Fail("DescribeTable", cdc.NotFound)
	}
	d, err := t.Source.Describe(ctx, table)
	d.PrimaryKey = t.Mapping.PrimaryKey
	return d, err
}

// Scan implements backfill.ScanSource.
func (s sources) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	t := s.named(table)
	if t == nil {
		return backfill.ScanPage{}, model.Fail("Scan", cdc.NotFound)
	}
	return t.Source.Scan(ctx, table, segment, total, after, limit)
}

// Get implements backfill.ItemSource.
func (s sources) Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error) {
	t := s.named(table)
	if t == nil {
		return attribute.Item{}, false, model.Fail("GetItem", cdc.NotFound)
	}
	return database{t.Source}.Get(ctx, table, keys)
}

// Put implements cutover.Source.
func (s sources) Put(_ context.Context, table string, item attribute.Item) error {
	s.named(table).Source.Put(item)
	return nil
}

// Delete implements cutover.Source.
func (s sources) Delete(_ context.Context, table string, key attribute.Item) error {
	s.named(table).Source.Delete(key)
	return nil
}

// open gives a stream of any of them.
func (s sources) open(arn string) cdc.Source {
	for _, t := range s {
		if stream := t.open(arn); stream != (gone{}) {
			return stream
		}
	}
	return gone{}
}

// specs are the tables that are there, as processes work on them.
func (d *cutoverRun) specs() (specs []engine.Spec) {
	for _, t := range d.all() {
		if t.there() {
			specs = append(specs, engine.Spec{
				Pattern: d.groupOf(t).patternOf(), Mapping: t.Mapping, MappingHash: "h1", Copy: true, LoadAgain: true, AdoptRows: true, Owned: true, Segments: 1, LagBound: lagBound, Late: d.Late, Settle: d.Late, Joined: d.pattern,
			})
		}
	}
	return specs
}

// work starts a worker.
func (d *cutoverRun) work(name string) *Worker {
	return d.Start(name, func(o *engine.Options) {
		o.Rows, o.Database, o.Open, o.Tables = model.Target{Bigtable: d.Target}, d.all(), d.all().open, d.specs()
		o.Events.Gap = func(table, shard, reason string) {
			d.World.Inject("gap declared")
			d.Gaps = append(d.Gaps, table+shard+reason)
		}
		if d.topic != nil {
			o.Mode, o.Topic, o.Kept = checkpoint.Topic, d.topic, d.subscription.Kept
		}
		if !d.pattern {
			return
		}
		o.Tables, o.DiscoverEvery = nil, 3*time.Minute
		o.Discover = func(ctx context.Context, _ func(string) bool) (found engine.Discovery, err error) {
			found.Tables = d.specs()
			return found, task.Sleep(ctx, d.World.UpTo(time.Second))
		}
	})
}

// publish has changes go through a topic.
func (d *cutoverRun) publish() {
	d.topic, d.subscription = model.NewTopic(d.World), model.NewSubscription(d.World)
	d.subscription.Kept = checkpoint.LongestKept
	d.topic.Stored = func(m relay.Message) { d.subscription.Take(m) }
	for _, t := range d.tables {
		t.FromTopic = true
	}
}

// apply starts an applier.
func (d *cutoverRun) apply(name string) *Worker {
	return startProcess(d.World, name, func(stop, _ context.Context) error {
		return d.applyTopic(stop, name, d.subscription, 10*time.Second, d.specs()...)
	})
}

// drive starts a process that drives.
func (d *cutoverRun) drive(name string) *Worker {
	return startProcess(d.World, name, func(stop, _ context.Context) error {
		for stop.Err() == nil {
			if ledger, err := d.ledger(stop, name); err == nil {
				if len(d.groups) > 1 {
					return d.driver(ledger).RunAll(stop, func(checkpoint.Cutovers) bool { return false })
				}
				return d.driver(ledger).Run(stop, nil)
			}
			_ = task.Sleep(stop, time.Second)
		}
		return nil
	})
}

// ledger opens the ledger for a process that is no worker.
func (d *cutoverRun) ledger(ctx context.Context, name string) (*checkpoint.Ledger, error) {
	return checkpoint.Open(ctx, d.Store(), "default", checkpoint.Options{Worker: name, Lease: d.Lease, ReadOnly: true})
}

func (d *cutoverRun) driver(ledger *checkpoint.Ledger) *cutover.Driver {
	target := model.Target{Bigtable: d.Target}
	return &cutover.Driver{
		Ledger: ledger, Fence: fence.Fence{Ledger: ledger, Families: target}, Hooks: d.app.hooks, Source: d.all(), Open: d.all().open, Row: d.row,
		Verifier: cutoverVerifier{d, ledger}, Parked: sink.NewParking(target, "default").ItemsOf,
		Settings: cutover.Settings{Ready: d.ready(), Pass: 10 * time.Second, Idle: 30 * time.Second, Brisk: 3 * time.Second, Quiet: 15 * time.Second, Silent: time.Minute, Ask: 2 * time.Second, Fresh: 10 * time.Second, Candidates: 200},
		Failed:   func(step string, err error) { d.World.Tracef("%s: %v", step, err) },
	}
}

// lagBound is how far behind a shard may be.
const lagBound = time.Minute

func (d *cutoverRun) ready() readiness.Limits {
	return readiness.Limits{LagBelow: lagBound, LagHeldFor: time.Minute, VerifyWithin: time.Hour, FinalWithin: verifyWithin, HeadroomAbove: 12 * time.Hour, ParkedAtMost: d.allowed, Lease: d.Lease, Small: d.small}
}

// cutoverVerifier begins comparisons of all.
type cutoverVerifier struct {
	d      *cutoverRun
	ledger *checkpoint.Ledger
}

func (v cutoverVerifier) Begin(ctx context.Context, state checkpoint.TableState) (uint32, error) {
	t := v.d.all().named(state.Source)
	if t == nil {
		return 0, fmt.Errorf("there is no table %s", state.Source)
	}
	c := &verify.Comparison{Mapping: t.Mapping, Source: v.d.all(), Target: model.Target{Bigtable: v.d.Target}}
	plan, err := c.NewPlan(ctx, verify.Quiet, "", 1<<10, []byte{1})
	if err != nil {
		return 0, err
	}
	data, err := json.Marshal(plan)
	if err == nil {
		err = v.ledger.RemoveVerify(ctx, state.Source)
	}
	if err != nil {
		return 0, err
	}
	state, err = v.ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: data, Phase: 1, Parts: plan.Parts(1, 0), MappingHash: "h1", BegunAt: v.d.World.Now()})
	return state.Verify.Number, err
}

// Compare compares everything in the driver's process.
func (v cutoverVerifier) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	o, err := v.options(state)
	if err != nil {
		return checkpoint.VerifyResult{}, err
	}
	result, err := verifies.CompareFrozen(ctx, o, state, 1<<10, []byte{1})
	stored := result.Stored()
	stored.Generation = state.Generation
	return stored, err
}

// Reverse compares all items and rows after the switch. No cutover here has a way back.
func (v cutoverVerifier) Reverse(_ context.Context, source string) (checkpoint.ReverseResult, error) {
	return checkpoint.ReverseResult{}, errors.New(source + " has no way back")
}

// Sample compares a few items.
func (v cutoverVerifier) Sample(ctx context.Context, state checkpoint.TableState, _ int) (checkpoint.VerifyResult, error) {
	o, err := v.options(state)
	if err != nil {
		return checkpoint.VerifyResult{}, err
	}
	result, err := verifies.SampleFrozen(ctx, o, state, 8, 2)
	return result.Stored(), err
}

func (v cutoverVerifier) options(state checkpoint.TableState) (verifies.Options, error) {
	t := v.d.all().named(state.Source)
	if t == nil {
		return verifies.Options{}, fmt.Errorf("there is no table %s", state.Source)
	}
	return verifies.Options{
		Ledger: v.ledger, Database: v.d.all(), Rows: model.Target{Bigtable: v.d.Target},
		Table: engine.Spec{Mapping: t.Mapping, MappingHash: "h1", Owned: true, Late: v.d.Late},
	}, nil
}

// canaryPrefix begins the keys of items that a cutover writes.
const canaryPrefix = "replicator-canary-"

// isCanary tells whether keys are of an item that a cutover writes.
func isCanary(keys attribute.Item) bool {
	v, _ := keys.Get("pk")
	return strings.HasPrefix(v.Text(), canaryPrefix)
}

// hashOfItem is an item's hash as records have it.
func hashOfItem(m *transform.Mapping, keys attribute.Item) string {
	return sink.HashOf(m.ItemKey(keys))
}
