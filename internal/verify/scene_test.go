package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// scene is a process that verifies the kit's table Orders, whose items are in the target.
type scene struct {
	*kit.Migration
	pages    *paged
	spec     engine.Spec
	compared int64    // rows that the process reported
	told     []string // failed steps that were reported
	waited   map[string]time.Duration
	patience time.Duration
	pass     time.Duration // between two reads of the ledger
	over     func(s checkpoint.TableState) bool
	diverged []int64 // rows of each round that were not known to differ
}

// paged is a source whose scans return one item after the other, each after a while and for one
// unit.
type paged struct {
	*kit.Source
	each time.Duration
}

func (p *paged) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	page, err := p.Source.Scan(ctx, table, segment, total, after, limit)
	if err != nil {
		return page, err
	}
	key := func(i attribute.Item) string { pk, _ := i.Get("pk"); return pk.Text() }
	at := slices.IndexFunc(page.Items, func(i attribute.Item) bool { return after.Exists() && key(i) == key(after) }) + 1
	rest := page.Items[at:]
	page.Items, page.Consumed = rest[:min(len(rest), 1)], 1
	if len(rest) > 1 {
		page.Next = kit.Item(key(rest[0]))
	}
	return page, task.Sleep(ctx, p.each)
}

// playScene runs a script with items whose keys are the given letters.
func playScene(t *testing.T, keys string, script func(s *scene)) {
	t.Helper()
	kit.Play(t, kit.Parse(t, ""), func(m *kit.Migration) {
		for _, pk := range strings.Split(keys, "") {
			m.Must(m.Source.Put(m.Ctx, "Orders", kit.Item(pk)))
		}
		m.Load("Orders")
		table, _ := m.Config.Table("Orders")
		spec := engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: m.Config.Hash(table), Segments: 4}
		script(&scene{Migration: m, pages: &paged{Source: m.Source}, spec: spec, pass: 500 * time.Millisecond, waited: map[string]time.Duration{}})
	})
}

// begin begins a verify of the scope in a way.
func (s *scene) begin(way verify.Way, scope verify.Scope) {
	s.Helper()
	c := &verify.Comparison{Mapping: s.spec.Mapping, Source: s.pages, Target: s.Target, Scope: scope}
	plan, err := c.NewPlan(s.Ctx, way, "why", 100, []byte("key"))
	s.Must(err)
	data, err := plan.MarshalJSON()
	s.Must(err)
	_, err = s.Ledger.BeginVerify(s.Ctx, s.Table("Orders"), checkpoint.VerifyPlan{
		Plan: data, Phase: 1, Parts: plan.Parts(1, 0), MappingHash: s.spec.MappingHash, BegunAt: s.Now()})
	s.Must(err)
}

func (s *scene) options() Options {
	events := engine.Events{
		Compared:  func(_ string, rows int64) { s.compared += rows },
		Diverged:  func(_ string, rows int64) { s.diverged = append(s.diverged, rows) },
		Retry:     func(_, step string, _ time.Duration, _ error) { s.told = append(s.told, step) },
		Throttled: func(_, reason string, waited time.Duration) { s.waited[reason] += waited },
	}
	return Options{Ledger: s.Ledger, Database: s.pages, Rows: s.Target, Table: s.spec, Events: events, Timing: engine.Timing{Pass: s.pass},
		Patience: s.patience, Over: s.over}
}

// run works on the verify like a command, until it is over.
func (s *scene) run() error { return Run(s.Ctx, s.options()) }

// worker runs a worker's verifier for a duration, until its drain begins.
func (s *scene) worker(slots *SumSlots, lasts time.Duration) error {
	o := s.options()
	p := engine.NewWorker(&engine.Options{Ledger: o.Ledger, Floors: &engine.Floors{}, Database: o.Database, Events: o.Events.OrSilent(), Timing: o.Timing.OrDefault(o.Ledger.Lease())},
		func(error) {})
	drain, cancel := task.WithTimeout(s.Ctx, lasts)
	defer cancel()
	return NewVerifier(engine.NewTable(p, s.spec), s.Target, func() int { return 1 }, slots).
		Run(engine.Lifecycle{Drain: drain, Work: s.Ctx}, func(state checkpoint.TableState) bool { return !state.Verify.Running() })
}

// found returns the findings of the last verify, as "kind row", in order.
func (s *scene) found() string {
	s.Helper()
	all, err := verify.Findings(s.Ctx, s.Ledger, "Orders", s.Table("Orders").Verify.Result)
	s.Must(err)
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprint(f.Kind, " ", f.Row))
	}
	return strings.Join(lines, ", ")
}
