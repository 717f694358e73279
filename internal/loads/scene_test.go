package loads

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

const testLease = 15 * time.Second

// scene is a migration of the tables Orders and Parts in virtual time: a real ledger in memory,
// written by a worker and an operator.
type scene struct {
	*testing.T
	world  *virtual.World
	store  *checkpointtest.Memory
	cfg    *config.Config
	worker *checkpoint.Ledger
}

// play runs a script in a world of its own, from noon.
func play(t *testing.T, backfill string, script func(ctx context.Context, s *scene)) {
	t.Helper()
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders, to: orders-rows}, {from: Parts, to: parts-rows}]\nbackfill: "+backfill+"\n"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, world: virtual.NewWorld(1, noon, true), store: &checkpointtest.Memory{}, cfg: cfg}
	if err := s.world.Run(100*time.Hour, func(ctx context.Context) { script(ctx, s) }); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// begin opens the ledger and begins the first generation of Orders.
func (s *scene) begin(ctx context.Context) {
	s.Helper()
	machine := s.world.NewProcess("a")
	l, err := checkpoint.Open(machine.Context(), s.store, "test", checkpoint.Options{Worker: "a", ID: "1", Lease: testLease})
	s.check(err)
	l.Heard(machine.Context(), task.Now(machine.Context()))
	s.worker = l
	s.update(ctx, func(t *checkpoint.TableState) { t.Generation, t.Adopted, t.Listed, t.Label = 7, 7, 7, "L" })
}

func (s *scene) update(ctx context.Context, change func(*checkpoint.TableState)) {
	s.Helper()
	_, err := s.worker.UpdateTable(ctx, "Orders", func(t *checkpoint.TableState) error { change(t); return nil })
	s.check(err)
}

func (s *scene) state(ctx context.Context) checkpoint.TableState {
	s.Helper()
	state, _, err := s.worker.Table(ctx, "Orders")
	s.check(err)
	return state
}

// lose raises the generation because of a gap.
func (s *scene) lose(ctx context.Context) {
	s.Helper()
	_, err := s.worker.Raise(ctx, "Orders", s.state(ctx).Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "shard-1", Reason: "changes were trimmed before they were read",
		LostFrom: noon.Add(-25 * time.Hour)}, nil)
	s.check(err)
}

// seal plans the requested load.
func (s *scene) seal(ctx context.Context, parts int, items, bytes int64) {
	s.Helper()
	state := s.state(ctx)
	_, err := s.worker.SealLoad(ctx, "Orders", checkpoint.Plan{Generation: state.Generation, Number: state.Load.Number + 1, Parts: parts, Source: "scan", TableID: "id",
		StartedAt: task.Now(ctx), Estimate: items, EstimateBytes: bytes})
	s.check(err)
}

// part leases a part of the running phase.
func (s *scene) part(ctx context.Context, index int) *checkpoint.PartLease {
	s.Helper()
	state := s.state(ctx)
	phase, total := state.RunningPhase()
	part := checkpoint.Part{Source: "Orders", Generation: state.Generation, Number: state.Load.Number, Phase: phase, Index: index, Total: total}
	rows, err := s.worker.Parts(ctx, state, phase)
	s.check(err)
	for _, row := range rows {
		if row.Index == index {
			part = row
		}
	}
	l, err := s.worker.TakePart(ctx, part)
	s.check(err)
	return l
}

func (s *scene) sleep(ctx context.Context, d time.Duration) { s.Helper(); s.check(task.Sleep(ctx, d)) }

// read returns an operator's view of Orders.
func (s *scene) read(ctx context.Context) *Input {
	s.Helper()
	o := &Operator{Console: &terminal.Console{Stderr: io.Discard, Env: func(string) (string, bool) { return "", false }}, Cfg: s.cfg, Table: "Orders",
		Ends: desk.Ends{Target: func(context.Context, *config.Config) (desk.Target, error) { return target{store: s.store}, nil }}}
	_, in, err := o.open(ctx, "backfill status")
	s.check(err)
	return in
}

// target is a target that only has a ledger.
type target struct {
	desk.Target
	store checkpoint.Store
}

func (t target) Ledger(string) checkpoint.Store          { return t.store }
func (t target) Cluster(context.Context) (string, error) { return "", nil }
func (t target) Close() error                            { return nil }

// steer acts like a command without questions.
func (s *scene) steer(ctx context.Context, r Request) []Decided {
	s.Helper()
	in := s.read(ctx)
	decided := in.decideAll(r)
	s.check(in.carryOut(ctx, r, decided))
	return decided
}

// golden compares text and document with the expected ones, and validates the document.
func (s *scene) golden(ctx context.Context, name string, decided ...Decided) *Document {
	s.Helper()
	d := s.read(ctx).judge(cost.Default(), " -c f.yaml", s.world.Now())
	if len(decided) > 0 {
		d.Decided = decided
	}
	var text bytes.Buffer
	s.check(d.render(&text))
	s.expect(name+".txt", text.Bytes())
	document, err := json.MarshalIndent(d, "", "  ")
	s.check(err)
	s.expect(name+".json", append(document, '\n'))
	validate(s.T, document)
	return d
}

func (s *scene) expect(name string, got []byte) {
	s.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		s.check(os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	s.check(err)
	if !bytes.Equal(got, want) {
		s.Errorf("%s differs; got:\n%s", path, got)
	}
}

func validate(t *testing.T, document []byte) {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("backfill.schema.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("backfill.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err == nil {
		err = compiled.Validate(value)
	}
	if err != nil {
		t.Error(err)
	}
}
