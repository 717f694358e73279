package comparison

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A command that does not wait reports no differing rows, because the known ones are from earlier.
// From the freeze on, a verify without a repair is not refused.
func TestOnlyAVerifyThatIsWaitedForJudges(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "d", "total", "x")
		if _, code := s.begin(nil); code != diag.RowsDiffer {
			t.Fatalf("%q", code)
		}
		s.Source.Count = 1_000_000_000 // of 100 bytes each
		d, code := s.begin(func(o *Operator) { o.Waits = false })
		if p := d.Tables[0].Progress; code != "" || p == nil || p.Parts.Total < 17 || d.Tables[0].Result == nil {
			t.Errorf("%q, %+v", code, p)
		}
	})
	playScene(t, func(s *scene) {
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, checkpoint.CutoverVerify; return nil }))
		if d, code := s.begin(nil); code != "" || d.Tables[0].State != StateDone {
			t.Errorf("%q, %s", code, d.Tables[0].State)
		}
	})
}

// The change rate of all shards together chooses the mode. If --changed-since is a time instead of a
// duration, the plan keeps it unchanged. Remains of an earlier verify are removed first.
func TestWhatABeginningPlans(t *testing.T) {
	since := kit.Begin.Add(-3 * time.Hour)
	for name, c := range map[string]struct {
		rates []float64
		since time.Time
		ago   time.Duration
		way   verify.Way
	}{
		"at rest":             {way: verify.Quiet},
		"one shard":           {rates: []float64{400}, way: verify.Quiet},
		"two shards":          {rates: []float64{400, 400}, way: verify.Live},
		"since a time":        {since: since, way: verify.Live},
		"for the last hour":   {ago: time.Hour, way: verify.Live},
		"a span, not a time":  {since: since, ago: time.Hour, way: verify.Live},
		"no shard that rests": {rates: []float64{0, 800}, way: verify.Live},
	} {
		playScene(t, func(s *scene) {
			for i, rate := range c.rates {
				s.Must(s.Ledger.CreateShard(s.Ctx, checkpoint.Shard{Source: "Orders", StreamARN: "arn", Label: "L", ID: string(rune('a' + i)), State: checkpoint.Done, Shown: checkpoint.Shown{Rate: rate}}))
			}
			s.Change("Orders", func(state *checkpoint.TableState) { state.Verify.Number = 2 }) // it was cancelled
			s.Must(s.Ledger.PutVerifyData(s.Ctx, s.Table("Orders"), "picked", []byte("x")))
			b := Beginning{Ledger: s.Ledger, Source: s.Source, Target: s.Target, Mapping: enginetest.OrdersMapping(t), Hash: "h", Since: c.since, Ago: c.ago, Items: 1_000_000, Bytes: 100}
			state, err := b.Begin(s.Ctx, s.Table("Orders"))
			s.Must(err)
			var plan verify.Plan
			s.Must(json.Unmarshal(state.Verify.Plan, &plan))
			want := c.since
			if c.ago > 0 {
				want = s.Now().Add(-c.ago)
			}
			if plan.Way != c.way || !plan.Scope.Since.Equal(want) || len(plan.Key) != 32 || state.Verify.MappingHash != "h" || state.Verify.Estimate != 1_000_000 || !state.Verify.BegunAt.Equal(s.Now()) {
				t.Errorf("%s: %s since %s, %+v", name, plan.Way, plan.Scope.Since, state.Verify)
			}
			if left, err := s.Ledger.VerifyData(s.Ctx, "Orders", 2, ""); err != nil || len(left) > 0 {
				t.Errorf("%s: %d rows of before are left, %v", name, len(left), err)
			}
		})
	}
}

// slow is a source with slow scans.
type slow struct{ *kit.Source }

func (c slow) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	if err := task.Sleep(ctx, 35*time.Second); err != nil {
		return backfill.ScanPage{}, err
	}
	return c.Source.Scan(ctx, table, segment, total, after, limit)
}

// A waiting command shows its progress every ten seconds, until the verify is over.
func TestWhoWaitsIsToldHowFarItIs(t *testing.T) {
	playScene(t, func(s *scene) {
		began := s.Now()
		_, code := s.begin(func(o *Operator) {
			o.reach = func(*desk.Migration) ends { return ends{source: slow{s.Source}, target: s.Target, repair: s.Target} }
		})
		lines := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
		if most := int(s.Now().Sub(began) / (10 * time.Second)); code != "" || len(lines) < 3 || len(lines) > most {
			t.Errorf("%q: %d lines in %s: %q", code, len(lines), s.Now().Sub(began), lines)
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, "Orders  running: phase 1 of 2, ") {
				t.Errorf("%q", line)
			}
		}
	})
}

// The source is asked for keys only if the last verify of the table ended and found something,
// because status must work when DynamoDB cannot be reached.
func TestStatusAsksTheSourceOnlyForKeys(t *testing.T) {
	for name, c := range map[string]struct {
		change func(v *checkpoint.Verify)
		asks   bool
	}{
		"clean":     {func(*checkpoint.Verify) {}, false},
		"differing": {func(v *checkpoint.Verify) { v.Result.Different = 1 }, true},
		"differing, one is running": {func(v *checkpoint.Verify) {
			v.Result.Different, v.Phase, v.Parts, v.Number, v.Plan = 1, 1, 1, 2, []byte(`{"way":"live"}`)
		}, false},
	} {
		playScene(t, func(s *scene) {
			s.Change("Orders", func(state *checkpoint.TableState) { c.change(&state.Verify) })
			asked := 0
			s.Source.Fail = func(string) error { asked++; return nil }
			_, code := s.run(func(ctx context.Context) error { return s.operator(nil).Show(ctx) })
			if s.Source.Fail = nil; code != "" || (asked > 0) != c.asks {
				t.Errorf("%s: %q, asked %d times", name, code, asked)
			}
		})
	}
}

// The values of an orphan row are read as the verify judged it: as replicator's row, if the table
// is.
func TestValuesOfExtraRows(t *testing.T) {
	for _, made := range []bool{true, false} {
		playScene(t, func(s *scene) {
			s.Change("Orders", func(state *checkpoint.TableState) { state.MadeByUs = made })
			s.Damage("orders", "z", "d", "total", "x")
			d, code := s.begin(func(o *Operator) { o.ShowValues = true })
			if code != diag.RowsDiffer || len(d.Tables[0].Result.Findings) != 1 {
				t.Fatalf("%q", code)
			}
			f := d.Tables[0].Result.Findings[0]
			if want := map[bool]string{true: "extra", false: "foreign"}[made]; f.Kind != want || len(f.Columns) != 1 || f.Columns[0].HaveValue == nil || *f.Columns[0].HaveValue != "x" {
				t.Errorf("made by us %t: %+v", made, f)
			}
		})
	}
}

// Progress counts the reads of all parts of this phase and of earlier phases. The remaining time is
// extrapolated from the parts done since the first began. It is not shown if none or all are done,
// or during a pause.
func TestHowFarAVerifyIs(t *testing.T) {
	part := func(index int, state checkpoint.PartState, owner string, begun time.Time) checkpoint.Part {
		p := checkpoint.Part{Index: index, Total: 4, State: state, Owner: owner, Begun: begun}
		p.Compared = checkpoint.VerifyCounts{Items: 10, Rows: 20, Units: 5, Bytes: 1 << 30, Missing: 1}
		return p
	}
	early, late := noon.Add(-time.Hour), noon.Add(-30*time.Minute)
	waits := part(3, checkpoint.PartOpen, "", time.Time{})
	waits.Compared = checkpoint.VerifyCounts{}
	done := func(n int) (all []checkpoint.Part) {
		for i := range n {
			all = append(all, part(i, checkpoint.PartDone, "", []time.Time{late, early, late, late}[i]))
		}
		return all
	}
	for name, c := range map[string]struct {
		parts  []checkpoint.Part
		paused string
		eta    time.Duration // 0: unknown
		held   int
	}{
		"none is done":               {parts: []checkpoint.Part{part(0, checkpoint.PartOpen, "w", early), waits}, held: 1},
		"two are done":               {parts: append(done(2), part(2, checkpoint.PartOpen, "w", late), waits), eta: time.Hour, held: 1},
		"one was not begun at first": {parts: append([]checkpoint.Part{waits}, done(2)...), eta: time.Hour},
		"all are done":               {parts: done(4)},
		"it rests":                   {parts: done(2), paused: "x"},
	} {
		state := checkpoint.TableState{Verify: checkpoint.Verify{Number: 2, Phase: 2, Parts: 4, Paused: c.paused, BegunAt: early,
			Sums: checkpoint.VerifyCounts{Items: 100, Rows: 200, Units: 50, Bytes: 1 << 30, Extra: 2}}}
		p := progressOf(state, c.parts, cost.Default(), noon)
		read := int64(0)
		for _, one := range c.parts {
			read += one.Compared.Missing
		}
		if p.Items != 100+10*read || p.Rows != 200+20*read || p.Differing != 2+read || p.ReadUnits != 50+5*float64(read) || p.Parts.Held != c.held || p.Parts.Total != 4 || p.Estimate != nil {
			t.Errorf("%s: %+v", name, p)
		}
		if (p.ETASeconds != nil) != (c.eta > 0) || c.eta > 0 && *p.ETASeconds != c.eta.Seconds() {
			t.Errorf("%s: %v", name, p.ETASeconds)
		}
		want := cost.Default().Spent(p.ReadUnits, (1+read)<<30)
		for i, line := range p.Spent {
			if line.Amount != want[i].Amount {
				t.Errorf("%s: %+v, want %+v", name, p.Spent, want)
			}
		}
	}
}

// A finding is named by its item, as parked items are, otherwise by its row. Keys and values are
// shown only on request, and values only if known.
func TestWhatIsShownOfAFinding(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	keys := enginetest.Keyed("a")
	f := verify.Finding{Source: "Orders", Table: "orders", Row: "a", Keys: keys, Kind: verify.Different, Reason: "r", Columns: []verify.Column{{Family: "d", Qualifier: "v", Want: "11", Have: "22"}}}
	shown := FindingOf(m, f, true)
	if shown.KeyHash != sink.HashOf(m.ItemKey(keys)) || shown.Key == nil || *shown.Key != `{"pk":{"S":"a"}}` || shown.Reason == nil || *shown.Reason != "r" || shown.Target != "orders" {
		t.Errorf("%+v", shown)
	}
	if c := shown.Columns[0]; c.Column != "d:v" || *c.WantHash != "11" || *c.HaveHash != "22" || c.WantValue != nil || c.HaveValue != nil {
		t.Errorf("%+v", c)
	}
	f.Keys = attribute.Item{}
	if other := FindingOf(m, f, true); other.KeyHash != sink.HashOf("orders\x00a") || *other.Key != "a" {
		t.Errorf("of nobody: %+v", other)
	}
	if hidden := FindingOf(m, f, false); hidden.Key != nil {
		t.Errorf("hidden: %+v", hidden)
	}
	want, have := "w", "h"
	for text, c := range map[string]Column{"  d:v (want w, have h)": {Column: "d:v", WantValue: &want, HaveValue: &have}, "  d:v (want nothing, have h)": {Column: "d:v", HaveValue: &have},
		"  d:v (want w, have nothing)": {Column: "d:v", WantValue: &want}, "  d:v": {Column: "d:v"}} {
		if got := (Finding{Columns: []Column{c}}).details(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	if got := (Finding{Reason: &want}).details(); got != "  (w)" {
		t.Errorf("%q", got)
	}
}

// Values that a check has just read are in an output only on request. The document has their hashes
// in any case.
func TestValuesAreShownOnlyOnRequest(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("c", "total=wanted1"))) // it differs
		s.Damage("orders", "c", "d", "total", "held1")
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("d", "total=wanted2"))) // it is missing
		s.Damage("orders", "d", "", "", "")
		s.Damage("orders", "z", "d", "total", "held2") // foreign
		m := enginetest.OrdersMapping(t)
		look := &verify.Comparison{Mapping: m, Source: s.Source, Target: s.Target}
		var list []verify.Finding
		for _, pk := range []string{"c", "d", "z"} {
			looks, err := look.Look(s.Ctx, verify.Place{Table: "orders", Row: pk, Keys: []attribute.Item{enginetest.Keyed(pk)}})
			s.Must(err)
			list = append(list, looks[0].Findings...)
		}
		if len(list) != 3 || list[0].Kind != verify.Different || list[1].Kind != verify.Missing || list[2].Kind != verify.Foreign {
			t.Fatalf("%+v", list)
		}
		result := ended(func(r *checkpoint.VerifyResult) { r.Different, r.Missing, r.Foreign = 1, 1, 1 })
		for _, values := range []bool{false, true} {
			o := s.operator(func(o *Operator) { o.ShowValues = values })
			o.migration = &desk.Migration{}
			o.tables = []table{{config: s.Config.Tables[0], mapping: m, list: list, state: checkpoint.TableState{Source: "Orders", Verify: checkpoint.Verify{Number: 1, Result: result}}}}
			d := o.judge(noon)
			for name, write := range map[string]func(w *bytes.Buffer) error{
				"document": func(w *bytes.Buffer) error { return json.NewEncoder(w).Encode(d) },
				"text":     func(w *bytes.Buffer) error { return d.render(w) },
				"page":     func(w *bytes.Buffer) error { return writePage(w, d) },
				"lines":    func(w *bytes.Buffer) error { return o.lines(w, noon) },
			} {
				var out bytes.Buffer
				s.Must(write(&out))
				for _, value := range []string{"wanted1", "held1", "wanted2", "held2"} {
					if strings.Contains(out.String(), value) != values {
						t.Errorf("%s, with values %t: %q is in it: %t", name, values, value, !values)
					}
				}
			}
			for i, f := range d.Tables[0].Result.Findings {
				for n, c := range f.Columns {
					if of := list[i].Columns[n]; c.Column != "d:"+of.Qualifier || (c.WantHash == nil) != (of.Want == "") || (c.HaveHash == nil) != (of.Have == "") ||
						(c.WantValue != nil) != (values && of.Want != "") || (c.HaveValue != nil) != (values && of.Have != "") {
						t.Errorf("with values %t, %s: %+v", values, f.Kind, c)
					}
				}
			}
		}
	})
}

// A page calls everything clean only if each table has a recent, clean result and no verify is in
// progress.
func TestWhenAPageIsClean(t *testing.T) {
	clean := Table{Result: &Result{Clean: true}}
	for name, c := range map[string]struct {
		tables          []Table
		clean, compared bool
	}{
		"one":                  {[]Table{clean}, true, true},
		"one beside another":   {[]Table{{}, clean}, false, true},
		"one that differs":     {[]Table{clean, {Result: &Result{}}}, false, true},
		"the first differs":    {[]Table{{Result: &Result{}}, clean}, false, true},
		"one that is stale":    {[]Table{clean, {Result: &Result{Clean: true, Stale: true}}}, false, true},
		"one is under way":     {[]Table{clean, {Result: &Result{Clean: true}, Progress: &Progress{}}}, false, true},
		"none was ever made":   {[]Table{{}}, false, false},
		"the second is missed": {[]Table{clean, {}}, false, true},
	} {
		if got := shownOf(&Document{Tables: c.tables}); got.Clean != c.clean || got.Compared != c.compared {
			t.Errorf("%s: clean %t, compared %t", name, got.Clean, got.Compared)
		}
	}
}

// An application that has just started to write is not yet in the rate that readers note, so its
// changes are counted. Without recent changes, for a small table and near a freeze, nothing is
// counted.
func TestChangesAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		each  int // changes of each second, of each of two shards
		noted float64
		items int64
		near  bool
		way   verify.Way
		takes time.Duration
	}{
		"no change":      {0, 1, 1_000_000, false, verify.Quiet, 0},
		"few":            {3, 1, 1_000_000, false, verify.Quiet, 2 * countFor},
		"many":           {500, 20, 1_000_000, false, verify.Live, 2 * countFor},
		"many are noted": {500, 500, 1_000_000, false, verify.Live, 0},
		"a small table":  {500, 20, 20_000, false, verify.Quiet, 0},
		"near a freeze":  {500, 20, 1_000_000, true, verify.Quiet, 0},
	} {
		playScene(t, func(s *scene) {
			for _, id := range []string{"x", "y"} {
				s.Must(s.Ledger.CreateShard(s.Ctx, checkpoint.Shard{Source: "Orders", StreamARN: "arn", Label: "L", ID: id, State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 1}))
			}
			shards, err := s.Ledger.Shards(s.Ctx, "Orders")
			s.Must(err)
			for _, shard := range shards {
				s.World.Go("reader", func(ctx context.Context) {
					lease, err := s.Ledger.Take(ctx, shard, nil)
					for at := (checkpoint.Progress{Shown: checkpoint.Shown{Rate: c.noted}}); err == nil && c.each > 0; _ = task.Sleep(ctx, time.Second) {
						at.Applied, at.EventTime, at.ReadAt = at.Applied+uint64(c.each), s.Now(), s.Now()
						err = lease.Commit(ctx, at)
					}
				})
			}
			s.Sleep(3 * time.Second)
			if c.near {
				s.Change("Orders", func(state *checkpoint.TableState) { s.Must(state.Approach(1)) })
			}
			b := Beginning{Ledger: s.Ledger, Source: s.Source, Target: s.Target, Mapping: enginetest.OrdersMapping(t), Hash: "h", Items: c.items, Bytes: 100}
			began := s.Now()
			state, err := b.Begin(s.Ctx, s.Table("Orders"))
			s.Must(err)
			var plan verify.Plan
			s.Must(json.Unmarshal(state.Verify.Plan, &plan))
			if took := s.Now().Sub(began); plan.Way != c.way || took != c.takes {
				t.Errorf("%s: %s after %s, because %s", name, plan.Way, took, plan.Why)
			}
		})
	}
}
