package switchover

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// former is a ledger's store for a program that does not know groups of tables.
type former struct{ *checkpointtest.Memory }

func (f former) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	reads := func(format int) []byte { return fmt.Appendf(nil, `"reads":%d`, format) }
	return f.Memory.Swap(ctx, key, was, next, bytes.ReplaceAll(data, reads(checkpoint.Format), reads(checkpoint.Format-3)))
}

// done makes the cutover of a group of one table complete.
func (s *scene) done(table string) {
	s.Helper()
	_, err := s.Ledger.UpdateCutover(s.Ctx, table, func(c *checkpoint.Cutover) error {
		p := checkpoint.CutoverPlan{Group: table, Tables: []string{table}, Targets: []string{strings.ToLower(table)}, Approved: true, WatchFor: time.Minute}
		if err := c.Start(p, s.Now()); err != nil {
			return err
		}
		c.Step, c.SwitchedAt = checkpoint.CutoverDone, s.Now()
		return nil
	})
	s.Must(err)
}

// While other groups continue, the workers of this version continue too and do not prevent a
// finalize. A worker of an older version does: it may still write to the group's targets.
func TestFinalizeOfAGroupWhileOthersContinue(t *testing.T) {
	playGroups(t, func(s *scene) {
		finalize := func(f Finalizing) (all []Document, code, text string) {
			return s.with(Selection{}, func(ctx context.Context, o *Operator) error { return o.Finalize(ctx, f) })
		}
		if _, code, _ := finalize(Finalizing{DryRun: true}); code != diag.CutoverRefused {
			t.Errorf("before any cutover: %s", code)
		}
		s.done("Parts")
		if _, code, text := finalize(Finalizing{DryRun: true}); code != "" {
			t.Errorf("workers of this version: %s %s", code, text)
		}
		l, err := checkpoint.Open(s.Ctx, former{s.Store}, s.Config.Name, checkpoint.Options{Worker: "old", ID: "ledger", Lease: s.Config.State.Lease, About: checkpoint.About{Version: "0.9"}})
		s.Must(err)
		s.Must(l.ShowProcess(s.Ctx, checkpoint.RoleStandby))
		if _, code, text := finalize(Finalizing{Yes: true}); code != diag.FinalizeRefused || len(s.Target.Families["parts"]) == 0 {
			t.Errorf("a worker of an older version: %s %s", code, text)
		}
		s.Must(l.RemoveProcess(s.Ctx))
		if _, code, text := finalize(Finalizing{Yes: true}); code != "" {
			t.Errorf("when it has ended: %s %s", code, text)
		}
		if _, code, _ := finalize(Finalizing{DryRun: true}); code != diag.CutoverRefused {
			t.Errorf("a finalized group is offered again: %q", code)
		}
		s.done("Orders")
		s.StopWorker()
		s.Sleep(5 * time.Minute)
		if _, code, text := finalize(Finalizing{Yes: true}); code != "" {
			t.Errorf("of the only other group: %s %s", code, text)
		}
		for _, row := range []string{"Orders", "Parts"} {
			if c, err := s.Ledger.Cutover(s.Ctx, row); err != nil || c.FinalizedAt.IsZero() {
				t.Errorf("group %s is not finalized: %v", row, err)
			}
		}
	})
}

// With --all, a step is only for the cutovers that it fits.
func TestAStepForAllGroupsIsForThoseThatItFits(t *testing.T) {
	cancel := func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Step{Name: "cancel"}) }
	playGroups(t, func(s *scene) {
		if _, code, _ := s.with(Selection{All: true}, cancel); code != diag.CutoverRefused {
			t.Errorf("no cutover has begun: %s", code)
		}
		s.done("Orders")
		if _, code, text := s.with(Selection{Group: "Parts"}, begin(Request{KeepFallback: "no", Yes: true})); code != "" {
			t.Fatal(code, text)
		}
		if all, code, text := s.with(Selection{All: true}, cancel); code != "" || len(all) != 1 || all[0].Group != "Parts" {
			t.Errorf("one of two fits: %s %s, %+v", code, text, all)
		}
	})
}

// The document names the group of the cutover, or without a cutover that of the configuration.
func TestADocumentNamesItsGroup(t *testing.T) {
	cfg := parsed(t, "")
	for name, c := range map[string]struct {
		recorded string
		attempt  uint32
		alone    bool
		group    string
		named    string
	}{
		"no cutover":                 {"", 0, false, "mine", "group mine of " + cfg.Name},
		"a cutover of the group":     {"mine", 1, false, "mine", "group mine of " + cfg.Name},
		"of a group before a change": {"former", 2, false, "former", "group former of " + cfg.Name},
		"the only group":             {"mine", 1, true, "mine", cfg.Name},
	} {
		record := checkpoint.Cutover{Attempt: c.attempt, CutoverPlan: checkpoint.CutoverPlan{Group: c.recorded}}
		d := judge(input{cfg: cfg, group: group{Group: config.Group{Name: "mine"}, alone: c.alone}, record: record}, noon)
		if d.Group != c.group || d.named() != c.named {
			t.Errorf("%s: group %q, %q", name, d.Group, d.named())
		}
	}
}

// A forecast counts the open shards of all tables of the group, and of no other.
func TestAForecastCountsTheOpenShardsOfItsTables(t *testing.T) {
	playScene(t, func(s *scene) {
		o := s.operator()
		s.Must(o.open(s.Ctx, "cutover check"))
		defer o.Close()
		counts := func(tables ...config.Table) int {
			f, err := o.foretell(s.Ctx, group{Group: config.Group{Tables: tables}}, checkpoint.CutoverPlan{}, checkpoint.Cutover{}, false)
			s.Must(err)
			return f.shards
		}
		orders, parts := s.Config.Tables[0], s.Config.Tables[1]
		of, both := counts(orders), counts(orders, parts)
		if of == 0 || counts(parts) == 0 || both != of+counts(parts) {
			t.Fatalf("%d and %d open shards, together %d", of, counts(parts), both)
		}
		state := s.Table(orders.From)
		for i, step := range []struct {
			label string
			state checkpoint.State
			open  int
		}{{state.Label, checkpoint.Waiting, of + 1}, {state.Label, checkpoint.Done, of + 1}, {"former", checkpoint.Waiting, of + 1}} {
			s.Must(s.Ledger.CreateShard(s.Ctx, checkpoint.Shard{Source: orders.From, StreamARN: state.StreamARN, Label: step.label, ID: fmt.Sprint("more", i), State: step.state, Hop: 500_000, Generation: state.Generation, DoneAt: s.Now()}))
			if got := counts(orders); got != step.open || counts(orders, parts) != both+1 {
				t.Errorf("with a %s shard of stream %s: %d open, of both tables %d", step.state, step.label, got, counts(orders, parts))
			}
		}
	})
}
