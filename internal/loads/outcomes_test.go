package loads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// A scan among exports is refused at every place of the list.
func TestAScanAmongExportsIsRefused(t *testing.T) {
	for _, from := range [][]string{{"scan", at + "full"}, {at + "full", "scan"}, {at + "full", at + "w", ""}} {
		if err := (Request{From: from}).Check("Orders"); !diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), "--export names no export") {
			t.Errorf("%q: %v", from, err)
		}
	}
}

// A start with a further window replaces the requested load of the same full export.
func TestAFurtherWindowReplacesARequest(t *testing.T) {
	full := checkpoint.Export{Address: at + "full", ARN: "arn/full", At: noon}
	one := checkpoint.Export{Address: at + "w1", ARN: "arn/w1", From: noon, At: noon.Add(time.Hour)}
	two := checkpoint.Export{Address: at + "w2", ARN: "arn/w2", From: one.At, At: one.At.Add(time.Hour)}
	asked := checkpoint.Load{AskedAt: noon, Export: full, Windows: []checkpoint.Export{one}}
	for name, c := range map[string]struct {
		named  []checkpoint.Export
		action string
	}{
		"the same":       {[]checkpoint.Export{full, one}, actionNone},
		"without it":     {[]checkpoint.Export{full}, ActionStart},
		"another window": {[]checkpoint.Export{full, two}, ActionStart},
		"one more":       {[]checkpoint.Export{full, one, two}, ActionStart},
	} {
		table := TableInput{Found: true, State: checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Load: asked}}
		if d := (Request{Action: ActionStart, named: &named{records: c.named}}).decide(table); d.Action != c.action {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// An approval during the copy is stored, so that the sweep does not wait. A resume ends every pause
// but the one for another migration, which writes the same tables still.
func TestWhatAResumeLeavesInTheLedger(t *testing.T) {
	for name, c := range map[string]struct {
		paused   string
		request  Request
		left     string
		approved bool
	}{
		"approved while it copies":    {"", Request{Action: ActionResume, Approve: true}, "", true},
		"approved while it is paused": {checkpoint.PausedByOperator, Request{Action: ActionResume, Approve: true}, "", true},
		"the operator's pause":        {checkpoint.PausedByOperator, Request{Action: ActionResume}, "", false},
		"the stream's pause":          {checkpoint.PausedForHeadroom, Request{Action: ActionResume}, "", false},
		"another migration": {checkpoint.PausedForStranger + "migration x", Request{Action: ActionResume},
			checkpoint.PausedForStranger + "migration x", false},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.lose(ctx)
			s.steer(ctx, Request{Action: ActionStart})
			s.seal(ctx, 1, 10, 10)
			s.update(ctx, func(t *checkpoint.TableState) { t.Load.Paused = c.paused })
			s.steer(ctx, c.request)
			if l := s.state(ctx).Load; l.Paused != c.left || l.Sweep.Approved != c.approved || l.DoneAt != (time.Time{}) {
				t.Errorf("%s: %+v", name, l)
			}
		})
	}
}

// Each refused table is named with its own reason.
func TestEachRefusedTableIsNamed(t *testing.T) {
	err := refused([]Decided{{Source: "Orders", Action: actionRefused, Why: "why a"}, {Source: "Stock", Action: actionNone}, {Source: "Parts", Action: actionRefused, Why: "why b"}}, true)
	if err == nil || !facts(err.Error(), "table Orders, why a, table Parts, why b") || strings.Contains(err.Error(), "Stock") {
		t.Errorf("%v", err)
	}
}

// The text about a sweep has the counts of the last load, also if it would remove nothing.
func TestASweepThatWaitedIsDescribedByItsCounts(t *testing.T) {
	for counts, want := range map[checkpoint.Counts]string{
		{Put: 3}:             "write 3 rows, remove 0 rows, as counted by the previous load",
		{Put: 1, Removed: 2}: "write 1 row, remove 2 rows, as counted by the previous load",
	} {
		s := checkpoint.TableState{Source: "Orders", Generation: 8, Base: 7, MadeByUs: true, Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, DoneAt: noon, Sweep: checkpoint.Sweep{Waiting: true, Counts: counts}}}
		if got := sweepText(TableInput{State: s}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An error about several exports together names all of them. A refusal of the last window names
// that window.
func TestARefusalNamesItsExports(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 0)
		begin := noon.Add(-3 * time.Hour)
		o := s.operator("Orders")
		o.source.exports[at+"full"], o.source.exports[at+"w"] = full(begin), window(begin, noon.Add(-time.Hour))
		o.source.exports[at+"late"] = window(noon.Add(-2*time.Hour), noon.Add(-time.Hour))
		if told := s.refusalOf(ctx, o, Request{From: []string{at + "full", at + "late"}}); told == nil || !facts(told.Error(), at+"full, "+at+"late") {
			t.Errorf("a time is missing: %+v", told)
		}
		if told := s.refusalOf(ctx, o, Request{From: []string{at + "full", at + "w"}}); told == nil || told.What != "cannot load the export "+at+"w" {
			t.Errorf("it ends too early: %+v", told)
		}
	})
}

// A load that is over has no pause, even if the table needs another load.
func TestThePauseOfTheNextLoadIsNotShown(t *testing.T) {
	for _, needs := range []bool{false, true} {
		s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Base: 7, NeedsLoad: needs, Reason: "lost",
			Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, DoneAt: noon, SweptAt: noon, Paused: checkpoint.PausedByOperator}}
		in := &Input{Cfg: &config.Config{}, ledger: &checkpoint.Ledger{}, Tables: []TableInput{{Found: true, State: s}}}
		if table := in.judge(cost.Default(), "", noon).Tables[0]; table.State != standing.LoadDone || table.Needed != needs || table.Paused != nil {
			t.Errorf("needed %v: %+v", needs, table)
		}
	}
}

// Every limit that a flag accepts is shown as it was written.
func TestLimitsAreShownAsTheyWereWritten(t *testing.T) {
	shown := func(a Asked) Limits {
		t.Helper()
		l, err := a.Limits()
		if err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		return limitsOf(config.Backfill{}, checkpoint.TableState{Limits: l})
	}
	for _, rows := range []string{"1", "100000", "2147483647"} {
		if l := shown(Asked{MaxRowsPerSecond: rows}); l.MaxRowsPerSecond == nil || number(*l.MaxRowsPerSecond) != rows {
			t.Errorf("%s rows: %+v", rows, l)
		}
	}
	if _, err := (Asked{MaxRowsPerSecond: "2147483648"}).Limits(); !diag.Has(err, diag.Usage) {
		t.Errorf("more rows than a limit has: %v", err)
	}
	capacities := []string{"1", "500", "40.5", "0.001%", "12.345%"}
	for percent := 1; percent < 100; percent++ {
		capacities = append(capacities, fmt.Sprintf("%d%%", percent))
	}
	for _, c := range capacities {
		if l := shown(Asked{MaxReadCapacity: c}); l.MaxReadCapacity == nil || *l.MaxReadCapacity != c || l.MaxRowsPerSecond != nil || l.PauseAboveTargetCPU != nil {
			t.Errorf("%s: %+v", c, l)
		}
	}
	if l := shown(Asked{PauseAboveTargetCPU: "29%"}); l.PauseAboveTargetCPU == nil || *l.PauseAboveTargetCPU != "29%" {
		t.Errorf("29%% of the CPU: %+v", l)
	}
}

// The configuration names a full export. A window alone does not hold the whole table.
func TestTheNamedExportIsAFullOne(t *testing.T) {
	play(t, `{from: "`+at+`{table}"}`, func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 48*time.Hour)
		o := s.operator("Orders")
		o.source.exports[at+"Orders"] = window(noon.Add(-100*time.Hour), noon.Add(-time.Hour))
		x := OfConfiguration(s.cfg, o.source, o.Env)
		orders, _ := s.cfg.Table("Orders")
		if n, _, err := x.Read(ctx, orders); !strings.Contains(Refusal(err), "no full export") {
			t.Errorf("read: %+v, %v", n, err)
		}
		if e, err := x.Judge(ctx, orders, s.state(ctx), nil); !strings.Contains(Refusal(err), "no full export") {
			t.Errorf("judged: %+v, %v", e, err)
		}
	})
}

// While a shard's first read is not known, the named export is not refused, because it may fit
// soon.
func TestTheNamedExportWaitsForAShard(t *testing.T) {
	play(t, `{from: "`+at+`{table}"}`, func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.older(ctx, 48*time.Hour)
		o := s.operator("Orders")
		o.source.exports[at+"Orders"] = full(noon.Add(-time.Hour))
		orders, _ := s.cfg.Table("Orders")
		state := s.state(ctx)
		shard := checkpoint.Shard{Source: "Orders", ID: "shard-1", Label: state.Label}
		_, err := OfConfiguration(s.cfg, o.source, o.Env).Judge(ctx, orders, state, []checkpoint.Shard{shard})
		var hole *checkpoint.NotAdmissible
		if !errors.As(err, &hole) || !hole.Yet || Refusal(err) != "" {
			t.Errorf("%v", err)
		}
	})
}

// A remaining time is known a minute after the copy began, not after the request.
func TestTheRemainingTimeCountsFromTheCopy(t *testing.T) {
	part := checkpoint.Part{Generation: 7, Number: 1, Total: 1, Begun: noon.Add(-30 * time.Second), Owner: "w"}
	part.WrittenAt, part.Items = noon, 600
	table := TableInput{Config: config.Table{From: "Orders"}, Found: true, Parts: []checkpoint.Part{part}, State: checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7,
		Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, AskedAt: noon.Add(-time.Hour), StartedAt: noon.Add(-30 * time.Second), Estimate: 6000}}}
	in := &Input{Cfg: &config.Config{State: config.State{Lease: testLease}}}
	if p := ProgressOf(table.State, table.Parts, noon, testLease); !p.RateKnown || p.ETAKnown {
		t.Errorf("%+v", p)
	}
	if line := in.line(table, noon); line != "Orders  copying  0 of 1 parts  600 items  20 items/s" {
		t.Errorf("%q", line)
	}
	table.State.Load.StartedAt = noon.Add(-time.Minute)
	if line := in.line(table, noon); line != "Orders  copying  0 of 1 parts  600 items  20 items/s  ETA 4m30s" {
		t.Errorf("%q", line)
	}
}

// Every word of a pause without a text of its own is readable.
func TestAPauseOfAnotherVersionIsReadable(t *testing.T) {
	if got := pausedText("target_cpu_too_high"); got != "paused: target cpu too high" {
		t.Error(got)
	}
}

// A load of one part has progress too.
func TestTheOnlyPartHasProgress(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		s.steer(ctx, Request{Action: ActionStart})
		s.seal(ctx, 1, 10, 1<<20)
		s.check(s.part(ctx, 0).Commit(ctx, checkpoint.PartProgress{Position: []byte(`{}`), Items: 4, Bytes: 5, Units: 6}))
		in := s.read(ctx)
		if l := in.judge(cost.Default(), "", noon).Tables[0].Load; l.Parts != (Parts{1, 0, 1}) || l.Items != 4 || l.Bytes != 5 || l.ReadUnits != 6 || len(in.Tables[0].Parts) != 1 {
			t.Errorf("%+v", l)
		}
	})
}

// The estimate of a short load has its duration too.
func TestAShortEstimateHasItsDuration(t *testing.T) {
	var text strings.Builder
	seconds := 30.0
	d := &Document{DryRun: true, Currency: "USD", Decided: []Decided{{Source: "Orders", Action: ActionStart, Why: "why",
		Estimate: &Estimate{Mode: "fast", Items: 1, Bytes: 1 << 20, Parts: 2, Seconds: &seconds, LimitedBy: "rows", Cost: []cost.Line{{What: "read", Quantity: "q", Amount: 1, Note: "n"}}, Sweep: "none"}}}}
	if err := d.render(&text); err != nil {
		t.Fatal(err)
	}
	want := "Orders: would start: why\n  1 item of " + cost.Size(1<<20) + " in 2 parts, fast, about 30s with one worker, limited by rows\n  read: q, " + cost.Money(1) + " USD (n)\n  sweep: none\nnothing was changed\n"
	if text.String() != want {
		t.Errorf("%s, want\n%s", &text, want)
	}
}

// Read units limit every table, so no warning is due and the tables are not described. A share
// warns for each table that has no capacity, even if DynamoDB does not describe another.
func TestWhichLimitsWarn(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		for asked, want := range map[string]bool{"500": false, "none": false, "25%": true} {
			limits, err := Asked{MaxReadCapacity: asked}.Limits()
			s.check(err)
			o := s.operator("Orders")
			o.source.capacity = 0
			s.check(o.Steer(ctx, Request{Action: ActionThrottle, Limits: limits}))
			if warned := strings.Contains(o.stderr.String(), "--max-read-capacity"); warned != want || (len(o.source.asked) > 0) != want {
				t.Errorf("%s: %s, described %q", asked, &o.stderr, o.source.asked)
			}
		}
	})
	decided := []Decided{{Source: "Denied", Action: ActionThrottle}, {Source: "Nothing", Action: actionNone}, {Source: "A", Action: ActionThrottle}, {Source: "B", Action: ActionThrottle}}
	if found := idleShares(t.Context(), capacities{"A": 0, "B": 0, "Nothing": 0}, "25%", decided); len(found) != 2 || !facts(found.Error(), "table A, table B") {
		t.Errorf("%v", found)
	}
}

// Without a terminal, a cancel is refused before anything is opened, as a redo is.
func TestACancelNeedsATerminal(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		s.steer(ctx, Request{Action: ActionStart})
		for _, action := range []string{ActionCancel, ActionRedo} {
			o := s.operator("Orders")
			o.Confirm = nil
			_, opened := o.counted()
			err := o.Steer(ctx, Request{Action: action})
			var told *diag.Error
			if !errors.As(err, &told) || told.Code != diag.Usage || told.What != "replicator backfill "+action+" needs confirmation, but there is no terminal" || told.Fix != "add --yes" || *opened != 0 {
				t.Errorf("%s: %+v, opened %d", action, told, *opened)
			}
		}
	})
}

// A request for all tables asks about each table that it changes, also behind one that it does not.
func TestTheQuestionsOfARequestForAllTables(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.follow(ctx)
		_, err := s.worker.UpdateTable(ctx, "Parts", func(t *checkpoint.TableState) error {
			t.Base, t.Load = 0, checkpoint.Load{AskedAt: noon}
			return nil
		})
		s.check(err)
		o := s.operator("")
		s.check(o.Steer(ctx, Request{Action: ActionCancel}))
		if want := []string{"Cancel the load of table Parts? The next load copies everything again, and you must start it."}; !slices.Equal(o.asked, want) {
			t.Errorf("%q", o.asked)
		}
	})
}

// The parts of an estimate follow the configured segments, for a table of every size.
func TestTheEstimateOfASmallTable(t *testing.T) {
	for segments, want := range map[int]int{1: 4, 2: 8, 9: 36} {
		in := &Input{Cfg: &config.Config{Backfill: config.Backfill{Segments: segments}}}
		e := in.estimate(backfill.Description{Items: 10, Bytes: 8 << 20, ReadCapacity: 100}, cost.Default(), Request{}, TableInput{})
		if e.Parts != want || e.Items != 10 || e.Bytes != 8<<20 {
			t.Errorf("%d segments: %+v", segments, e)
		}
	}
}
