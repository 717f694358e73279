package loads

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// closing is a target that counts open connections.
type closing struct {
	target
	open *int
}

func (c closing) Close() error { *c.open--; return nil }

// counted makes the operator's connections to the target countable.
func (d *desked) counted() (open, opened *int) {
	open, opened = new(int), new(int)
	inner := d.Ends.Target
	d.Ends.Target = func(ctx context.Context, cfg *config.Config) (desk.Target, error) {
		*open++
		*opened++
		t, err := inner(ctx, cfg)
		return closing{t.(target), open}, err
	}
	return open, opened
}

// Whatever the outcome of a command, its connection to the target is closed when it returns.
// Otherwise a program that embeds commands would leak connections.
func TestACommandClosesWhatItOpened(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		down := errors.New("down")
		for name, c := range map[string]struct {
			run   func(o *desked) error
			fails bool
		}{
			"a look":       {func(o *desked) error { return o.Show(ctx) }, false},
			"a dry run":    {func(o *desked) error { o.DryRun = true; return o.Steer(ctx, Request{Action: ActionStart}) }, false},
			"a limit":      {func(o *desked) error { return o.Steer(ctx, Request{Action: ActionThrottle, Reset: true}) }, false},
			"a bad export": {func(o *desked) error { return o.Steer(ctx, Request{Action: ActionStart, From: []string{at + "none"}}) }, true},
			"the answer no": {func(o *desked) error {
				o.Confirm = func(context.Context, string) error { return down }
				return o.Steer(ctx, Request{Action: ActionRedo})
			}, true},
		} {
			o := s.operator("Orders")
			open, opened := o.counted()
			if err := c.run(o); (err != nil) != c.fails || *open != 0 || *opened != 1 {
				t.Errorf("%s: %v; %d of %d are open", name, err, *open, *opened)
			}
		}
		for fails := 1; ; fails++ { // whichever read of the ledger fails
			o, reads := s.operator("Orders"), 0
			open, _ := o.counted()
			s.store.OnRead = func(context.Context, string) error {
				if reads++; reads == fails {
					return checkpoint.ErrLedgerExchanged
				}
				return nil
			}
			err := o.Show(ctx)
			s.store.OnRead = nil
			if *open != 0 {
				t.Errorf("read %d fails: it is open still", fails)
			}
			if reads < fails {
				return
			}
			if err == nil {
				t.Errorf("read %d fails, and the command does not", fails)
			}
		}
	})
}

// A table whose record has no generation yet is not followed. Nothing is done for it, and `run` is
// the next step, although the ledger knows the table.
func TestATableWithoutAGenerationIsNotFollowed(t *testing.T) {
	table := TableInput{Found: true, State: checkpoint.TableState{Source: "Orders", MappingHash: "h"}}
	table.Config.From = "Orders"
	for _, action := range []string{ActionStart, ActionPause, ActionResume, ActionRedo, ActionThrottle} {
		if d := (Request{Action: action}).decide(table); d.Action != actionRefused || d.acts() {
			t.Errorf("%s: %+v", action, d)
		}
	}
	in := &Input{Cfg: &config.Config{}, Tables: []TableInput{table}, ledger: &checkpoint.Ledger{}}
	d := in.judge(cost.Default(), " -c f", noon)
	if len(d.NextSteps) != 1 || d.NextSteps[0].Command != "replicator run -c f" || d.Tables[0].Generation != nil || d.Tables[0].Load != nil {
		t.Errorf("%+v", d)
	}
}

// An export of a table that is not followed is not read. The answer is the same as for any start.
func TestAnExportOfATableThatIsNotFollowed(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		for _, wish := range []bool{false, true} {
			o := s.operator("Parts")
			err := o.Steer(ctx, Request{Action: ActionStart, From: []string{"s3://bucket/none"}, Wish: wish})
			var said Shown
			if !errors.As(err, &said) || o.document(t).Decided[0].Action != actionRefused || len(o.source.asked) > 0 {
				t.Errorf("wish %v: %v, asked %q", wish, err, o.source.asked)
			}
		}
	})
}

// If every table refuses a request for all tables, the command fails, so that a script does not
// continue as if a load had begun. A refused request is not waited for, even with --wait.
func TestACommandFailsWhereEveryTableRefuses(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.follow(ctx)
		over := func(table string) {
			_, err := s.worker.UpdateTable(ctx, table, func(t *checkpoint.TableState) error {
				t.Load, t.Base = checkpoint.Load{Generation: t.Generation, Number: 1, Parts: 1, DoneAt: noon, SweptAt: noon}, t.Generation
				return nil
			})
			s.check(err)
		}
		over("Orders")
		over("Parts")
		for _, table := range []string{"", "Orders"} {
			for _, dry := range []bool{false, true} {
				o := s.operator(table)
				o.DryRun, o.Waits = dry, true
				err := o.Steer(ctx, Request{Action: ActionStart})
				var said Shown
				if !errors.As(err, &said) || diag.ExitCode(err) != diag.ExitNo || !diag.Has(err, diag.LoadRefused) {
					t.Errorf("of %q, dry %v: %v", table, dry, err)
				}
				var told *diag.Error
				if errors.As(err, &told); !strings.Contains(told.What, "Orders") || !strings.Contains(told.Cause, "backfill redo --table Orders") {
					t.Errorf("of %q it says %+v", table, told)
				}
			}
		}
	})
}

// A refusal by the ledger is printed with its own reason and fix, and errors.As still finds the
// ledger's error.
func TestARefusalOfTheLedgerIsPassedOn(t *testing.T) {
	ctx := t.Context()
	var told *diag.Error
	inner := &checkpoint.LoadError{Table: "Orders", Step: "s", Reason: "why", Cure: "cure"}
	err := explain(ctx, "what", inner)
	if !errors.As(err, &told) || told.What != "what" || told.Cause != "why" || told.Fix != "cure" || told.Code != diag.LoadRefused || !errors.Is(err, inner) {
		t.Errorf("%+v", told)
	}
	err = explain(ctx, "what", checkpoint.ErrRaised)
	if !errors.As(err, &told) || told.What != "what" || told.Code != diag.LoadRefused || !strings.Contains(told.Fix, "backfill status") || !errors.Is(err, checkpoint.ErrRaised) {
		t.Errorf("%+v", told)
	}
	if err := explain(ctx, "what", nil); err != nil {
		t.Error(err)
	}
}

// Requests that need no answer also work without a terminal. A redo without an answer is refused
// before anything is opened.
func TestWhichCommandsNeedATerminal(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		for _, c := range []struct {
			action string
			usage  bool
		}{{ActionRedo, true}, {ActionStart, false}, {ActionPause, false}, {ActionResume, false}, {ActionThrottle, false}} {
			o := s.operator("Orders")
			o.Confirm = nil
			_, opened := o.counted()
			err := o.Steer(ctx, Request{Action: c.action, Reset: c.action == ActionThrottle})
			if diag.Has(err, diag.Usage) != c.usage || (err != nil) != c.usage || c.usage && *opened > 0 {
				t.Errorf("%s: %v, opened %d times", c.action, err, *opened)
			}
		}
	})
}

// Only an answer about the sweep approves it. No question is asked about a pause while a sweep
// waits, or about a table that is not followed.
func TestNobodyIsAskedInVain(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		s.steer(ctx, Request{Action: ActionStart})
		s.seal(ctx, 1, 10, 10)
		s.update(ctx, func(t *checkpoint.TableState) {
			t.Load.DoneAt, t.Load.Sweep = noon, checkpoint.Sweep{BegunAt: noon, Waiting: true}
		})
		for _, c := range []struct{ table, action string }{{"Orders", ActionPause}, {"Orders", ActionStart}, {"Orders", ActionThrottle}, {"Parts", ActionRedo}, {"Parts", ActionResume}} {
			o := s.operator(c.table)
			_ = o.Steer(ctx, Request{Action: c.action})
			if sweep := s.state(ctx).Load.Sweep; len(o.asked) > 0 || !sweep.Waiting || sweep.Approved {
				t.Errorf("%s of %s: asked %q, %+v", c.action, c.table, o.asked, sweep)
			}
		}
	})
}

// If no migration has begun, the next step is run, with the flags of the command.
func TestAWaitBeforeTheMigration(t *testing.T) {
	over, err := (&Input{}).verdict(" -c f")
	var told *diag.Error
	if over || !errors.As(err, &told) || told.Code != diag.LoadWaits || told.Fix != "replicator run -c f" {
		t.Errorf("%v, %+v", over, told)
	}
}

// With --yes, a dry run shows what the command would do with --yes.
func TestADryRunKnowsOfTheAnswer(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		s.steer(ctx, Request{Action: ActionStart})
		s.seal(ctx, 1, 10, 10)
		s.update(ctx, func(t *checkpoint.TableState) {
			t.Load.DoneAt, t.Load.Sweep = noon, checkpoint.Sweep{BegunAt: noon, Waiting: true}
		})
		for yes, want := range map[bool]string{false: actionRefused, true: ActionResume} {
			o := s.operator("Orders")
			o.DryRun, o.Yes = true, yes
			err := o.Steer(ctx, Request{Action: ActionResume})
			if d := o.document(t).Decided[0]; d.Action != want || (err != nil) == yes || !s.state(ctx).Load.Sweep.Waiting {
				t.Errorf("yes %v: %+v, %v", yes, d, err)
			}
		}
	})
}

// A sweep that was already approved is not approved again: there is nothing to do.
func TestAnApprovalIsNotRepeated(t *testing.T) {
	l := checkpoint.Load{Generation: 7, Number: 2, Parts: 4}
	for approved, want := range map[bool]string{false: ActionResume, true: actionNone} {
		l.Sweep.Approved = approved
		table := TableInput{Found: true, State: checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, NeedsLoad: true, Load: l}}
		if d := (Request{Action: ActionResume, Approve: true}).decide(table); d.Action != want {
			t.Errorf("approved %v: %+v", approved, d)
		}
	}
}

// After the copy, an approval is needed only for rows in a target that others may have written. The
// counts of the previous pass are shown.
func TestWhatFollowsTheCopy(t *testing.T) {
	texts := map[string]string{}
	for name, c := range map[string]struct {
		state  checkpoint.TableState
		owned  bool
		answer bool
	}{
		"first into our own":  {checkpoint.TableState{Generation: 7, MadeByUs: true}, false, false},
		"our own after a gap": {checkpoint.TableState{Generation: 7, MadeByUs: true, NeedsLoad: true}, false, false},
		"of others, allowed":  {checkpoint.TableState{Generation: 7, Load: checkpoint.Load{Sweep: checkpoint.Sweep{Approved: true}}}, true, false},
		"of others":           {checkpoint.TableState{Generation: 7}, false, true},
		"of others, owned":    {checkpoint.TableState{Generation: 7}, true, true},
		"counted":             {checkpoint.TableState{Generation: 7, Load: checkpoint.Load{Sweep: checkpoint.Sweep{Waiting: true, Counts: checkpoint.Counts{Put: 31, Removed: 47}}}}, false, false},
	} {
		text := sweepText(TableInput{Found: true, State: c.state, Config: config.Table{Owned: c.owned}})
		if strings.Contains(text, "backfill resume") != c.answer || (name == "counted") != (strings.Contains(text, "31") && strings.Contains(text, "47")) {
			t.Errorf("%s: %s", name, text)
		}
		texts[text] = name
	}
	if len(texts) != 5 { // replicator's own targets and approved ones are swept alike
		t.Errorf("%q", texts)
	}
}

// A table without items takes no time, and no figure is invented for it.
func TestAnEmptyTableHasNoDuration(t *testing.T) {
	in := &Input{Cfg: &config.Config{}}
	if e := in.estimate(backfill.Description{}, cost.Default(), Request{}, TableInput{}); e.Seconds != nil || e.Items != 0 || e.Parts < 1 {
		t.Errorf("%+v", e)
	}
}

// A wait for an export is reported while the load is requested, and names the command to retry once
// there will be no export. A request for a load that has begun is no longer reported.
func TestHowFarAnExportIs(t *testing.T) {
	to := "s3://bucket/p"
	wish := checkpoint.ExportRequest{To: to}
	asking, taken := wish, wish
	asking.Serial, asking.At = 1, noon
	taken.Serial, taken.At, taken.ARN = 1, noon, ordersARN+"/export/9"
	failed, unasked := taken, checkpoint.ExportRequest{To: to, Failed: "denied"}
	failed.Failed = "denied"
	shown := map[string]bool{}
	for name, c := range map[string]struct {
		load checkpoint.Load
		says []string // parts of the text; empty: no text
		next string   // the command after a failure
	}{
		"wished for":         {checkpoint.Load{AskedAt: noon, Request: wish}, []string{to}, ""},
		"being asked for":    {checkpoint.Load{AskedAt: noon, Request: asking}, []string{to, "2026-11-24T12:00:00Z"}, ""},
		"taken":              {checkpoint.Load{AskedAt: noon, Request: taken}, []string{taken.ARN, "2026-11-24T12:00:00Z"}, ""},
		"failed":             {checkpoint.Load{AskedAt: noon, Request: failed}, []string{"denied"}, "replicator backfill start --table Orders --request-export --export " + to},
		"refused":            {checkpoint.Load{AskedAt: noon, Request: unasked}, []string{to, "denied"}, "replicator backfill start --table Orders --export " + to},
		"there":              {checkpoint.Load{AskedAt: noon, Request: taken, Export: checkpoint.Export{Address: to}}, nil, ""},
		"no export":          {checkpoint.Load{AskedAt: noon}, nil, ""},
		"of a load that ran": {checkpoint.Load{AskedAt: noon, Request: failed, Generation: 7, Number: 1, Parts: 1}, nil, ""},
		"of one before":      {checkpoint.Load{AskedAt: noon, Request: failed, Generation: 6, Number: 1, Parts: 1}, nil, ""},
	} {
		state := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Load: c.load}
		p := ProgressOf(state, nil, noon, testLease)
		text := strings.Join(p.Slowed, "\n")
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q does not tell %s", name, text, part)
			}
		}
		if len(p.Slowed) != min(1, len(c.says)) {
			t.Errorf("%s: %q", name, p.Slowed)
		}
		shown[text] = true
		step, ok := Next(state, true, "")
		if why := NoExport(state); (why != "") != (c.next != "") || ok != (c.next != "") || ok && (step.Command != c.next || step.Why != why || why != text) {
			t.Errorf("%s: %+v, %q", name, step, why)
		}
		if _, stuck := ended(state, true); (stuck != "") != (c.next != "") {
			t.Errorf("%s: a wait ends with %q", name, stuck)
		}
	}
	if len(shown) != 6 {
		t.Errorf("these are told apart: %v", shown)
	}
}

// A load after a gap is requested. After a load that did not help, a verify counts the remaining
// rows.
func TestTheNextStepAfterALoss(t *testing.T) {
	over := checkpoint.Load{Generation: 7, Number: 1, Parts: 1, DoneAt: noon, SweptAt: noon}
	for name, c := range map[string]struct {
		load checkpoint.Load
		want string
	}{
		"a gap":               {checkpoint.Load{}, "replicator backfill repair Orders"},
		"the load was over":   {over, "replicator verify --table Orders"},
		"of a load before it": {checkpoint.Load{Generation: 6, Number: 1, Parts: 1, DoneAt: noon, SweptAt: noon}, "replicator backfill repair Orders"},
	} {
		s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, NeedsLoad: true, Reason: "lost", Load: c.load}
		if step, ok := Next(s, false, ""); !ok || step.Command != c.want {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

// The latest time of windows is shown only if windows alone repair the loss. The exports that a
// load copies are named with their addresses, first to last.
func TestWhatTheDocumentTellsOfExports(t *testing.T) {
	s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, Base: 5, NeedsLoad: true, Reason: "lost", Kind: checkpoint.KindStream, LostFrom: noon}
	in := &Input{Cfg: &config.Config{State: config.State{Lease: testLease}}, ledger: &checkpoint.Ledger{}, Tables: []TableInput{{Found: true, State: s}}}
	in.Tables[0].Config.From = "Orders"
	text := func() (Table, string) {
		var b strings.Builder
		d := in.judge(cost.Default(), "", noon)
		if err := d.render(&b); err != nil {
			t.Fatal(err)
		}
		return d.Tables[0], b.String()
	}
	by := noon.Add(-6 * time.Second)
	if table, shown := text(); table.WindowsBy == nil || !table.WindowsBy.Equal(by) || !strings.Contains(shown, by.Format(time.RFC3339)) {
		t.Errorf("%+v\n%s", table, shown)
	}
	in.Tables[0].State.Kind = checkpoint.KindTargetLost
	if table, _ := text(); table.WindowsBy != nil {
		t.Errorf("windows do not mend that: %+v", table)
	}
	in.Tables[0].State.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 2, StartedAt: noon, Export: checkpoint.Export{Address: "s3://b/full", At: noon},
		Windows: []checkpoint.Export{{Address: "s3://b/w", From: noon, At: noon.Add(time.Hour)}}}
	if table, shown := text(); !slices.Equal(table.Load.Exports, []string{"s3://b/full", "s3://b/w"}) || !strings.Contains(shown, "s3://b/full") {
		t.Errorf("%+v\n%s", table, shown)
	}
	// Once its load runs, no windows need to be requested.
	in.Tables[0].State.Kind, in.Tables[0].State.Load.Export.From = checkpoint.KindStream, noon.Add(-time.Hour)
	if _, shown := text(); strings.Contains(shown, by.Format(time.RFC3339)) {
		t.Errorf("while it is loaded:\n%s", shown)
	}
}

// A sweep's read units are added to those of its copy, with their price. The copy's units come from
// its parts, because its record has them only at the end.
func TestReadUnitsOfCopyAndSweep(t *testing.T) {
	l := checkpoint.Load{Generation: 7, Number: 1, Parts: 1, Units: 100, Items: 3, StartedAt: noon}
	s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, NeedsLoad: true, Load: l}
	p := Progress{Sums: checkpoint.Sums{Units: 7, Items: 2, Bytes: 5}}
	if got := load(s, nil, p, cost.Default()); got.ReadUnits != 7 || got.Items != 2 || got.Bytes != 5 {
		t.Errorf("copying %+v", got)
	}
	s.Load.DoneAt = noon
	got := load(s, nil, p, cost.Default())
	if got.ReadUnits != 107 || got.Items != 3 || !reflect.DeepEqual(got.Spent, cost.Default().Spent(107, 0)) {
		t.Errorf("sweeping %+v", got)
	}
}

// A pause for the next load does not slow the current one. A rate is shown while one of several
// workers writes. Only a copy has an estimated end.
func TestWhatIsToldOfNow(t *testing.T) {
	part := func(total int, written time.Time) checkpoint.Part {
		p := checkpoint.Part{Generation: 7, Number: 1, Total: total, Begun: noon.Add(-2 * time.Minute), Owner: "w"}
		p.WrittenAt, p.Items = written, 600
		return p
	}
	l := checkpoint.Load{Generation: 7, Number: 1, Parts: 2, StartedAt: noon.Add(-2 * time.Minute), Estimate: 6000}
	s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, NeedsLoad: true, Load: l}
	parts := []checkpoint.Part{part(2, noon), part(2, noon.Add(-time.Hour))}
	if p := ProgressOf(s, parts, noon, testLease); !p.RateKnown || !p.ETAKnown {
		t.Errorf("one of two writes: %+v", p)
	}
	slices.Reverse(parts)
	if p := ProgressOf(s, parts, noon, testLease); !p.RateKnown || !p.ETAKnown {
		t.Errorf("the other one writes: %+v", p)
	}
	swept := s
	swept.Load.DoneAt, swept.Load.Sweep = noon, checkpoint.Sweep{Pass: 1, Parts: 2, BegunAt: noon}
	if p := ProgressOf(swept, parts, noon, testLease); !p.RateKnown || p.ETAKnown {
		t.Errorf("a sweep: %+v", p)
	}
	for name, l := range map[string]checkpoint.Load{
		"none yet": {Paused: checkpoint.PausedForHeadroom},
		"over":     {Generation: 7, Number: 1, Parts: 2, DoneAt: noon, SweptAt: noon, Paused: checkpoint.PausedForHeadroom},
	} {
		s.Load = l
		if p := ProgressOf(s, nil, noon, testLease); len(p.Slowed) > 0 {
			t.Errorf("%s: %q", name, p.Slowed)
		}
	}
	young := part(1, noon)
	young.Begun = noon.Add(-rateAfter)
	if r, ok := rate([]checkpoint.Part{young}, noon); !ok || r != 60 {
		t.Errorf("after %s: %v, %v", rateAfter, r, ok)
	}
}

// While the command waits, a copy's line has items, rate, remaining time, and the reason why it is
// slow.
func TestALineOfAWait(t *testing.T) {
	p := checkpoint.Part{Generation: 7, Number: 1, Total: 1, Begun: noon.Add(-2 * time.Minute), Owner: "w"}
	p.WrittenAt, p.Items, p.Trouble.Cause = noon, 1200, "target CPU"
	in := &Input{Cfg: &config.Config{State: config.State{Lease: testLease}}}
	table := TableInput{Found: true, Parts: []checkpoint.Part{p}, State: checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7,
		Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: noon.Add(-2 * time.Minute), Estimate: 2400}}}
	line := in.line(table, noon)
	for _, want := range []string{string(standing.LoadCopying), "0 of 1", "1.2k", "10 items/s", "ETA", "target CPU"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not tell %s", line, want)
		}
	}
	table.Parts = nil
	if line := in.line(table, noon); strings.Contains(line, "items/s") || strings.Contains(line, "ETA") {
		t.Errorf("nothing is known of now: %q", line)
	}
}

// A dry run says "would" for what would be done, and for nothing else.
func TestWhatADryRunWouldDo(t *testing.T) {
	d := &Document{DryRun: true}
	for action, would := range map[string]bool{ActionStart: true, ActionRedo: true, ActionThrottle: true, actionNone: false, actionRefused: false} {
		if got := d.actionText(action); got == "" || strings.HasPrefix(got, "would") != would {
			t.Errorf("%s: %q", action, got)
		}
	}
}
