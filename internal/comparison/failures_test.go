package comparison

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

var keysOfOrders = []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}

// counted is a target that counts open connections.
type counted struct {
	desk.Target
	open *int
}

func (c counted) Close() error { *c.open--; return c.Target.Close() }

// Whichever read of the ledger fails, a command fails, and closes the connections that it opened.
func TestACommandFailsWithTheLedgerAndCloses(t *testing.T) {
	for name, command := range map[string]func(ctx context.Context, o *Operator) error{
		"status": func(ctx context.Context, o *Operator) error { return o.Show(ctx) },
		"values": func(ctx context.Context, o *Operator) error { o.ShowValues = true; return o.Show(ctx) },
		"pause":  func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Pause) },
		"resume": func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Resume) },
		"cancel": func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Cancel) },
		"begin":  func(ctx context.Context, o *Operator) error { o.Waits = false; return o.Begin(ctx) },
	} {
		playScene(t, func(s *scene) {
			s.Damage("orders", "d", "d", "total", "x")
			if name != "begin" {
				s.begin(nil) // there are findings
			}
			if name == "pause" || name == "resume" || name == "cancel" {
				s.begin(func(o *Operator) { o.Waits = false })
			}
			before := s.Table("Orders")
			for fails := 1; ; fails++ {
				reads, open := 0, 0
				o := s.operator(nil)
				target := o.Ends.Target
				o.Ends.Target = func(ctx context.Context, cfg *config.Config) (desk.Target, error) {
					t, err := target(ctx, cfg)
					open++
					return counted{t, &open}, err
				}
				s.Store.OnRead = func(context.Context, string) error {
					if reads++; reads == fails {
						return checkpoint.ErrLedgerExchanged
					}
					return nil
				}
				err := command(s.Ctx, o)
				s.Store.OnRead = nil
				if (err != nil) != (reads >= fails) || open != 0 {
					t.Errorf("%s: read %d of %d fails: %v, %d are open", name, fails, reads, err, open)
				}
				if reads < fails || fails > 50 {
					return
				}
				s.Change("Orders", func(state *checkpoint.TableState) { state.Verify = before.Verify })
			}
		})
	}
}

// A verify that other processes ended is described by the way in which it ended.
func TestWhatBecameOfAVerify(t *testing.T) {
	for name, c := range map[string]struct {
		verify   checkpoint.Verify
		switched bool
		code     string
		cause    string
		fix      string
	}{
		"it runs":               {verify: checkpoint.Verify{Number: 2, Phase: 1}},
		"it is paused":          {verify: checkpoint.Verify{Number: 2, Phase: 1, Paused: "x"}, code: diag.VerifyWaits, cause: "paused", fix: "replicator verify resume --table Orders -c f"},
		"a result":              {verify: checkpoint.Verify{Number: 2, Result: checkpoint.VerifyResult{Number: 2}}},
		"a result, then ended":  {verify: checkpoint.Verify{Number: 2, Ended: "why", Result: checkpoint.VerifyResult{Number: 2}}},
		"a result, once paused": {verify: checkpoint.Verify{Number: 2, Paused: "x", Result: checkpoint.VerifyResult{Number: 2}}},
		"ended":                 {verify: checkpoint.Verify{Number: 2, Ended: "why", Result: checkpoint.VerifyResult{Number: 1}}, code: diag.VerifyWaits, cause: "why", fix: "replicator verify --table Orders -c f"},
		"ended by a cutover":    {verify: checkpoint.Verify{Number: 2, Ended: "why"}, switched: true, code: diag.CutOver, cause: "why"},
		"cancelled":             {verify: checkpoint.Verify{Number: 2, Result: checkpoint.VerifyResult{Number: 1}}, code: diag.VerifyWaits, cause: "cancelled"},
	} {
		state := checkpoint.TableState{Source: "Orders", Verify: c.verify}
		state.Halt.Switched = c.switched
		o := &Operator{With: " -c f", tables: []table{{config: config.Table{From: "Orders", To: "orders"}, state: state}}}
		err := o.unfinished()
		var told *diag.Error
		if errors.As(err, &told); (err != nil) != (c.code != "") || told != nil && (told.Code != c.code || !strings.Contains(told.What, "table Orders") || !strings.Contains(told.Cause, c.cause) || !strings.HasSuffix(told.Fix, c.fix)) {
			t.Errorf("%s: %+v", name, told)
		}
	}
}

// A verify is refused while a fast load runs, with the reason and what to wait for.
func TestH146_AVerifyIsRefusedDuringAFastLoad(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Change("Orders", func(state *checkpoint.TableState) {
			state.Load = checkpoint.Load{Generation: state.Generation, Number: 9, Parts: 1, Fast: true}
		})
		if _, code := s.begin(nil); code != diag.VerifyRefused || s.Table("Orders").Verify.Running() {
			t.Errorf("%q", code)
		}
	})
}

// In mode topic, a repair command becomes a load, and other commands stay.
func TestNextStepsInModeTopic(t *testing.T) {
	for name, c := range map[string]struct {
		result checkpoint.VerifyResult
		apply  checkpoint.Mode
		next   string
	}{
		"differences":          {ended(func(r *checkpoint.VerifyResult) { r.Extra = 1 }), checkpoint.Direct, "replicator verify --repair --dry-run --table Orders"},
		"differences, a topic": {ended(func(r *checkpoint.VerifyResult) { r.Extra = 1 }), checkpoint.Topic, "replicator backfill redo --table Orders"},
		"in flight, a topic":   {ended(func(r *checkpoint.VerifyResult) { r.InFlight = 1 }), checkpoint.Topic, "replicator verify --in-flight --table Orders"},
		"clean, a topic":       {ended(nil), checkpoint.Topic, ""},
	} {
		o := &Operator{Cfg: &config.Config{}, migration: &desk.Migration{}, tables: []table{{config: config.Table{From: "Orders", To: "orders"},
			state: checkpoint.TableState{Source: "Orders", Apply: c.apply, Verify: checkpoint.Verify{Number: c.result.Number, Result: c.result}}}}}
		got := ""
		for _, step := range o.judge(noon).NextSteps {
			got += step.Command
		}
		if got != c.next {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A repair passes over tables without differences, with changes in flight alone, and tables that
// were not read.
func TestARepairPassesOverTables(t *testing.T) {
	m, err := preflight.MapTable(config.Table{From: "Orders", To: "orders"}, keysOfOrders)
	if err != nil {
		t.Fatal(err)
	}
	inFlight, extra := verify.Finding{Kind: verify.InFlight}, verify.Finding{Kind: verify.Extra}
	o := &Operator{Cfg: &config.Config{}, Repair: true, tables: []table{{mapping: m}, {mapping: m, list: []verify.Finding{inFlight}}, {list: []verify.Finding{extra}}}}
	if err := o.repair(t.Context()); err != nil {
		t.Error(err)
	}
	for _, table := range o.tables {
		if table.repaired != nil {
			t.Errorf("%+v", table)
		}
	}
}

// Another migration is searched for in every target table, before an extra row is repaired. If the
// search fails, nothing is repaired.
func TestEveryTargetIsSearchedForAnotherMigration(t *testing.T) {
	playScene(t, func(s *scene) {
		m, err := preflight.MapTable(config.Table{From: "Orders", To: "orders"}, keysOfOrders)
		s.Must(err)
		away := errors.New("away")
		for name, c := range map[string]struct {
			store func(*testing.T) checkpoint.Store
			err   error
			may   int
			found bool
		}{
			"nobody":                          {func(*testing.T) checkpoint.Store { return &checkpointtest.Memory{} }, nil, 2, false},
			"another":                         {func(*testing.T) checkpoint.Store { return s.witnessed("Returns") }, nil, 1, true},
			"a table that is configured only": {func(*testing.T) checkpoint.Store { return s.witnessed("Later") }, nil, 2, false},
			"no answer": {func(*testing.T) checkpoint.Store {
				return &checkpointtest.Memory{OnRead: func(context.Context, string) error { return away }}
			}, away, 0, false},
		} {
			asked := ""
			o := s.operator(nil)
			o.ledger = s.Ledger
			cfg := *s.Config
			cfg.Tables = append(slices.Clone(cfg.Tables), config.Table{From: "Later", To: "later"})
			o.Cfg = &cfg
			o.ends.witness = func(table string) checkpoint.Store { asked += table; return c.store(t) }
			list := []verify.Finding{{Kind: verify.Different, Table: "orders", Row: "a"}, {Kind: verify.Extra, Table: "orders", Row: "b", Version: transform.LoadVersion(2, noon)}}
			state := checkpoint.TableState{Source: "Orders", Generation: 2}
			s.stderr.Reset()
			may, refused, err := o.repairable(s.Ctx, &table{config: config.Table{From: "Orders", To: "orders"}, mapping: m, state: state}, list, &sink.Repairer{Had: state.HadGeneration})
			if !errors.Is(err, c.err) || len(may) != c.may || (refused != nil) != c.found || asked != "orders" || s.stderr.Len() > 0 {
				t.Errorf("%s: %+v, %v, %v; asked %q; %s", name, may, refused, err, asked, &s.stderr)
			}
			if refused != nil && !strings.Contains(refused.Error(), "Orders") {
				t.Error(refused)
			}
		}
	})
}

// A failure is explained with its command and cause.
func TestAFailureNamesItsCommand(t *testing.T) {
	for name, err := range map[string]error{"refused": &checkpoint.LoadError{Reason: "reason", Cure: "cure"}, "late": &verify.NotApplied{}} {
		got := explain(t.Context(), "cannot verify table Orders", err)
		var told *diag.Error
		if !strings.Contains(got.Error(), "cannot verify table Orders") || !errors.As(got, &told) || name == "refused" && (told.Cause != "reason" || told.Fix != "cure") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Each count below a result is named by itself, and the cost by its currency.
func TestEachCountIsNamed(t *testing.T) {
	for want, r := range map[string]Result{
		"3 rows without an item": {Kept: 3},
		"4 items cannot be":      {Unmapped: 4},
		"does not find: x":       {Blind: []string{"x"}},
	} {
		var out strings.Builder
		(&Table{Source: "Orders", Result: &r}).renderFindings(&out)
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%q, want %q", &out, want)
		}
	}
	var out strings.Builder
	(&Document{Schema: "s", Currency: "USD", PricesDate: "2026-01-01"}).renderCost(&out, "Orders", 7, []cost.Line{{Amount: 2}, {Amount: 3}})
	if !strings.Contains(out.String(), "7 read units, "+cost.Money(5)+" USD at list prices of 2026-01-01") {
		t.Error(out.String())
	}
	out.Reset()
	(&Document{}).renderCost(&out, "Orders", 0, nil)
	if out.Len() > 0 {
		t.Error(out.String())
	}
}

// Where no verify runs, the command says how to begin one.
func TestSteeringNothingLeadsToABegin(t *testing.T) {
	playScene(t, func(s *scene) {
		for _, step := range []string{Pause, Resume, Cancel} {
			err := s.operator(func(o *Operator) { o.Table = "" }).Steer(s.Ctx, step)
			var told *diag.Error
			if !errors.As(err, &told) || told.Code != diag.VerifyRefused || !strings.Contains(told.What, step) || !strings.HasSuffix(told.Fix, "replicator verify -c f") {
				t.Errorf("%s: %+v", step, told)
			}
		}
		s.Sleep(time.Second)
	})
}

// The clients of both databases reach a comparison, each as what it is.
func TestTheEndsOfAMigration(t *testing.T) {
	if e := endsOf(&desk.Migration{}); e.source != nil || e.target != nil || e.repair != nil || e.witness != nil || e.stream != nil {
		t.Errorf("%+v", e)
	}
	tables, data := &backfill.Tables{}, &sink.Bigtable{}
	target := &preflight.Target{Data: data}
	e := endsOf(&desk.Migration{Source: &preflight.Source{Tables: tables}, Target: target})
	if e.source != Source(tables) || e.target != Target(data) || e.repair != repair.Target(target) || e.witness == nil || e.stream == nil {
		t.Errorf("%+v", e)
	}
}

// A page that cannot be written fails, and a finding says how many columns it leaves out.
func TestAPageThatCannotBeWritten(t *testing.T) {
	full := errors.New("full")
	if err := writePage(refusing{full}, &Document{}); !errors.Is(err, full) {
		t.Error(err)
	}
	m, err := preflight.MapTable(config.Table{From: "Orders", To: "orders"}, keysOfOrders)
	if err != nil {
		t.Fatal(err)
	}
	if f := FindingOf(m, verify.Finding{Kind: verify.Different, Table: "orders", Row: "a", More: 5}, false); f.MoreColumns != 5 || f.Key != nil || f.Target != "orders" || f.Kind != "different" {
		t.Errorf("%+v", f)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

// If the items cannot be read again, their values are not shown as missing: the command fails.
func TestValuesThatCannotBeRead(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "d", "d", "total", "x")
		s.begin(nil)
		s.Source.Fail = func(call string) error {
			if call == "Describe" {
				return nil
			}
			return &cdc.Error{Op: "BatchGetItem", Reason: cdc.Denied, Err: errors.New("denied")}
		}
		for _, values := range []bool{false, true} {
			if err := s.operator(func(o *Operator) { o.ShowValues = values }).Show(s.Ctx); (err != nil) != values {
				t.Errorf("values %v: %v", values, err)
			}
		}
		s.Source.Fail = nil
	})
}
