package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// begin is when a scene begins.
var begin = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// scene is a cutover in virtual time: a worker that reads one shard of each table, a driver, hooks.
// Fields may be changed before and while it is played.
type scene struct {
	t       *testing.T
	ctx     context.Context
	world   *virtual.World
	store   *checkpointtest.Memory
	ledger  *checkpoint.Ledger // of the driver
	worker  *checkpoint.Ledger
	tables  []string
	targets []string

	sighted  map[string]*checkpoint.Sighted // by table
	canaries map[string]bool                // items in the sources
	blind    bool                           // no shard gives a canary
	denied   error                          // of writes to the sources
	families map[string][]string            // by target table
	calls    []string                       // of hooks: hook and token
	hook     func(call cutover.Call) (string, cutover.Outcome)
	slow     time.Duration // how much longer than other hooks the switch takes
	gone     bool          // the hooks were removed
	found    checkpoint.VerifyCounts
	since    time.Time // of final verifies
	parked   func() int
	stream   cdc.Source
	lists    int // listings of streams
	settings cutover.Settings
}

// stage plays a cutover of so many tables into so many target tables.
func stage(t *testing.T, tables, targets int, play func(s *scene)) {
	t.Helper()
	s := &scene{t: t, store: &checkpointtest.Memory{}, sighted: map[string]*checkpoint.Sighted{}, canaries: map[string]bool{},
		families: map[string][]string{}, world: virtual.NewWorld(1, begin, false)}
	for i := range tables {
		s.tables = append(s.tables, fmt.Sprintf("T%02d", i))
	}
	for i := range targets {
		s.targets = append(s.targets, fmt.Sprintf("target%02d", i))
	}
	s.hook = func(cutover.Call) (string, cutover.Outcome) { return "", cutover.HookDone }
	s.parked = func() int { return 0 }
	s.stream = stream{s}
	s.settings.Ready = readiness.Limits{LagBelow: 5 * time.Second, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour}
	err := s.world.Run(100*24*time.Hour, func(ctx context.Context) {
		s.ctx = ctx
		s.ledger, s.worker = s.open("driver"), s.open("worker")
		for _, source := range s.tables {
			s.create(source)
		}
		for _, target := range s.targets {
			_, err := s.ledger.UpdateTarget(ctx, target, func(t *checkpoint.Target) error { t.Fence = 7; return nil })
			s.must(err)
			s.families[target] = []string{"d", "_cdc", "_cdc_gone", sink.FenceFamily(s.ledger.ID(), 7)}
		}
		s.pass(30 * time.Second)
		play(s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// pass lets time pass.
func (s *scene) pass(d time.Duration) { s.must(task.Sleep(s.ctx, d)) }

func (s *scene) open(worker string) *checkpoint.Ledger {
	l, err := checkpoint.Open(s.ctx, s.store, "p", checkpoint.Options{Worker: worker, ID: "ledger"})
	s.must(err)
	l.Heard(s.ctx, s.world.Now())
	return l
}

// create makes a table that is loaded and was verified half an hour ago, and a worker reads its
// shard.
func (s *scene) create(source string) {
	s.update(source, func(st *checkpoint.TableState) {
		st.StreamARN, st.Label = "arn/"+source, "l"
		st.Generation, st.Adopted, st.Base, st.Listed = 5, 5, 5, 5
		st.Load = checkpoint.Load{Generation: 5, DoneAt: begin}
		clean := checkpoint.VerifyResult{Number: 1, Way: "quiet", VerifyCounts: checkpoint.VerifyCounts{Items: 1000}, BegunAt: begin.Add(-33 * time.Minute), EndedAt: begin.Add(-30 * time.Minute), Generation: 5}
		st.Verify.Number, st.Verify.Result, st.Verify.Full = 1, clean, clean
	})
	s.shard(checkpoint.Shard{Source: source, ID: "s", State: checkpoint.Waiting, Generation: 5})
	s.sighted[source] = &checkpoint.Sighted{}
	s.follow(source, "s")
}

func (s *scene) update(source string, change func(st *checkpoint.TableState)) {
	_, err := s.ledger.UpdateTable(s.ctx, source, func(st *checkpoint.TableState) error { change(st); return nil })
	s.must(err)
}

func (s *scene) shard(sh checkpoint.Shard) {
	sh.StreamARN, sh.Label, sh.Hop = "arn/"+sh.Source, "l", 500_000
	s.must(s.ledger.CreateShard(s.ctx, sh))
}

// follow starts a worker that reads a shard, which is idle but for canaries.
func (s *scene) follow(source, id string) {
	s.world.Go("follow "+source+" "+id, func(ctx context.Context) {
		for ctx.Err() == nil {
			shards, err := s.worker.Shards(ctx, source)
			s.must(err)
			var shard, parent *checkpoint.Shard
			for i := range shards {
				if shards[i].ID == id {
					shard = &shards[i]
				}
			}
			for i := range shards {
				if shards[i].ID == shard.Parent {
					parent = &shards[i]
				}
			}
			if lease, err := s.worker.Take(ctx, *shard, parent); err == nil { // not halted
				s.read(ctx, lease, source)
			}
			_ = task.Sleep(ctx, 10*time.Second)
		}
	})
}

// read reads on until the lease is lost or the table is halted.
func (s *scene) read(ctx context.Context, lease *checkpoint.Lease, source string) {
	for lease.Context().Err() == nil {
		if st, _, _ := s.worker.Table(ctx, source); st.Halted() {
			_ = lease.Release(ctx)
			return
		}
		now := s.world.Now()
		progress := checkpoint.Progress{FirstRead: begin, AppliedTo: now, ReadAt: now, CaughtUp: true, Cutover: *s.sighted[source]}
		progress.Position = cdc.Position{After: cdc.SequenceOf(1000)}
		if lease.Commit(ctx, progress) != nil {
			return
		}
		_ = task.Sleep(ctx, time.Second)
	}
}

// Describe, Put and Delete are the source.
func (s *scene) Describe(_ context.Context, table string) (backfill.Description, error) {
	return backfill.Description{Name: table, Items: 1000, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, At: s.world.Now()}, nil
}

func (s *scene) Put(_ context.Context, table string, item attribute.Item) error {
	if s.denied != nil {
		return s.denied
	}
	of, _ := item.Get("replicator_cutover")
	n, _ := item.Get("replicator_canary")
	var attempt, number int
	if _, err := fmt.Sscan(of.Text()+" "+n.Text(), &attempt, &number); err != nil {
		return err
	}
	pk, _ := item.Get("pk")
	s.canaries[table+"/"+pk.Text()] = true
	if !s.blind {
		s.sighted[table].See(uint32(attempt), number)
	}
	return nil
}

func (s *scene) Delete(_ context.Context, table string, key attribute.Item) error {
	pk, _ := key.Get("pk")
	delete(s.canaries, table+"/"+pk.Text())
	return nil
}

// ListFamilies, CreateFamily, DropFamily and DropDelay are the schemas of target tables.
func (s *scene) ListFamilies(_ context.Context, table string) ([]string, error) {
	return slices.Clone(s.families[table]), nil
}

func (s *scene) CreateFamily(_ context.Context, table, family string) error {
	s.families[table] = append(s.families[table], family)
	return nil
}

func (s *scene) DropFamily(_ context.Context, table, family string) error {
	s.families[table] = slices.DeleteFunc(s.families[table], func(f string) bool { return f == family })
	return nil
}

func (s *scene) DropDelay() time.Duration { return sink.DefaultTimeout }

// Call is the hooks.
func (s *scene) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	switch {
	case call.Probe && s.gone:
		return "404 Not Found", cutover.HookUnknown
	case call.Probe:
		return "", cutover.HookDone
	}
	s.calls = append(s.calls, call.Hook+" "+call.Token)
	output, outcome := s.hook(call)
	takes := time.Second
	if call.Hook == cutover.Switch {
		takes += s.slow
	}
	if task.Sleep(ctx, takes) != nil {
		return "it exceeded its time limit and was killed", cutover.HookUnknown
	}
	return output, outcome
}

// Begin begins a final verify, which takes five seconds.
func (s *scene) Begin(ctx context.Context, state checkpoint.TableState) (uint32, error) {
	begun, err := s.ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1, BegunAt: s.world.Now(), MappingHash: state.MappingHash})
	if err != nil {
		return 0, err
	}
	s.world.Go("verify "+state.Source, func(ctx context.Context) {
		_ = task.Sleep(ctx, 5*time.Second)
		found := s.found
		found.Items = 1000
		_, err := s.ledger.EndVerify(ctx, begun, checkpoint.VerifyResult{
			Since: s.since, VerifyCounts: found, BegunAt: begun.Verify.BegunAt, EndedAt: s.world.Now()})
		s.must(err)
	})
	return begun.Verify.Number, nil
}

// Sample compares a few items of a large table.
func (s *scene) Sample(ctx context.Context, state checkpoint.TableState, _ int) (checkpoint.VerifyResult, error) {
	return s.Compare(ctx, state)
}

// Reverse compares the items of a table with its rows after the switch.
func (s *scene) Reverse(ctx context.Context, source string) (checkpoint.ReverseResult, error) {
	r, err := s.Compare(ctx, checkpoint.TableState{Source: source})
	return checkpoint.ReverseResult{BeganAt: r.BegunAt, EndedAt: r.EndedAt, Different: r.Differing()}, err
}

// Compare compares a small table, which takes a second.
func (s *scene) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	began := s.world.Now()
	_ = task.Sleep(ctx, time.Second)
	found := s.found
	found.Items = 1000
	return checkpoint.VerifyResult{VerifyCounts: found, Generation: state.Generation, BegunAt: began, EndedAt: s.world.Now()}, ctx.Err()
}

// stream has one open shard, s, and nothing in it.
type stream struct{ s *scene }

func (r stream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	r.s.lists++
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "s"}}, At: r.s.world.Now()}, nil
}

func (r stream) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) { return "i", nil }

func (r stream) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{Next: "i", At: r.s.world.Now()}, nil
}

func (s *scene) driver() *cutover.Driver {
	return &cutover.Driver{
		Ledger: s.ledger, Fence: fence.Fence{Ledger: s.ledger, Families: s}, Hooks: s, Source: s, Open: func(string) cdc.Source { return s.stream },
		Verifier: s, Parked: func(context.Context, string) ([]string, error) { return names(s.parked()), nil }, Settings: s.settings,
	}
}

// names are so many items that are parked.
func names(n int) (items []string) {
	for i := range n {
		items = append(items, fmt.Sprint("item", i))
	}
	return items
}

// plan is a cutover of all tables that is approved, with the default deadlines.
func (s *scene) plan() checkpoint.CutoverPlan {
	return checkpoint.CutoverPlan{Tables: s.tables, Targets: s.targets, Approved: true, WatchFor: 24 * time.Hour, FreezeAtMost: time.Hour,
		FreezeWithin: time.Minute, FreezeDeadline: 10 * time.Minute}
}

// cut begins a cutover and drives it until it is over or the application has switched.
func (s *scene) cut(plan checkpoint.CutoverPlan) checkpoint.Cutover {
	_, err := s.ledger.UpdateCutover(s.ctx, "", func(c *checkpoint.Cutover) error { return c.Start(plan, s.world.Now()) })
	s.must(err)
	return s.drive(func(c checkpoint.Cutover) bool { return c.Step.Over() || c.Step.Switched() })
}

// drive drives the cutover until its record says that it is time, at most 30 hours.
func (s *scene) drive(until func(c checkpoint.Cutover) bool) checkpoint.Cutover {
	end := s.world.Now().Add(30 * time.Hour)
	err := s.driver().Run(s.ctx, func(c checkpoint.Cutover) bool { return until(c) || s.world.Now().After(end) })
	if err != nil && !errors.Is(err, context.Canceled) {
		s.t.Fatal(err)
	}
	c, err := s.ledger.Cutover(s.ctx, "")
	s.must(err)
	return c
}

// frozen is how long the application's writes were frozen.
func (s *scene) frozen(c checkpoint.Cutover) time.Duration {
	return c.FrozenFor(s.world.Now()).Round(time.Second)
}
