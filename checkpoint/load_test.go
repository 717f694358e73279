package checkpoint_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

type (
	state = checkpoint.TableState
	sums  = checkpoint.Sums
)

var plan = checkpoint.Plan{Generation: 7, Number: 1, Parts: 4, Source: "scan", TableID: "id", StartedAt: begin, Estimate: 100}

// done returns the sums of a phase whose parts are all done, after the given puts and removals.
func done(parts int, put, removed int64) sums {
	return sums{Total: parts, Done: parts, Items: 9, Counts: checkpoint.Counts{Seen: put + removed, Put: put, Removed: removed}}
}

// stages are the stages of a load, by the last completed step. Each is one step after the previous
// one.
var stages = map[string]struct {
	after string
	step  func(s *state) error
}{
	"new":      {"", func(*state) error { return nil }},
	"asked":    {"new", func(s *state) error { return s.AskLoad(begin, false) }},
	"sealed":   {"asked", func(s *state) error { return s.SealLoad(plan) }},
	"paused":   {"sealed", func(s *state) error { return s.PauseLoad(checkpoint.PausedByOperator) }},
	"copied":   {"sealed", func(s *state) error { return s.CompleteCopy(7, 1, done(4, 0, 0), begin) }},
	"counting": {"copied", func(s *state) error { return s.BeginSweep(7, 1, 0, make([]checkpoint.SweepRange, 2), begin) }},
	"waiting":  {"counting", func(s *state) error { return s.CompletePass(7, 1, 0, done(2, 3, 2), begin) }},
	"approved": {"waiting", func(s *state) error { return s.ApproveSweep() }},
	"sweeping": {"approved", func(s *state) error { return s.BeginSweep(7, 1, 1, make([]checkpoint.SweepRange, 2), begin) }},
	"between":  {"sweeping", func(s *state) error { return s.CompletePass(7, 1, 1, done(2, 1, 1), begin) }},
	"again":    {"between", func(s *state) error { return s.BeginSweep(7, 1, 2, make([]checkpoint.SweepRange, 2), begin) }},
	"over":     {"again", func(s *state) error { return s.CompletePass(7, 1, 2, done(2, 0, 0), begin) }},
	"raised":   {"sealed", func(s *state) error { s.Generation, s.Adopted = 8, 8; return nil }},
}

// advance moves a table from before its load to a stage.
func advance(t *testing.T, s *state, stage string) {
	t.Helper()
	if stage != "" {
		advance(t, s, stages[stage].after)
		check(t, stages[stage].step(s))
	}
}

func stateAt(t *testing.T, stage string) state {
	t.Helper()
	s := state{Source: source, Generation: 7, Adopted: 7, NeedsLoad: true, Reason: "lost", Kind: checkpoint.KindStream, LostFrom: begin}
	advance(t, &s, stage)
	return s
}

// Each step changes the record only in its stage. Repeated there, it changes nothing. In any other
// stage it is refused with a cure, and changes nothing either.
func TestStepsOfALoad(t *testing.T) {
	for name, c := range map[string]struct {
		step  func(s *state) error
		from  []string // stages in which it changes the record
		again []string // stages in which it was made already
	}{
		"ask":          {func(s *state) error { return s.AskLoad(begin, false) }, []string{"new", "raised"}, []string{"asked"}},
		"seal":         {func(s *state) error { return s.SealLoad(plan) }, []string{"asked"}, []string{"sealed", "paused"}},
		"pause":        {func(s *state) error { return s.PauseLoad(checkpoint.PausedForHeadroom) }, []string{"asked", "sealed", "copied", "counting", "waiting", "approved", "sweeping", "between", "again"}, []string{"paused"}},
		"resume":       {func(s *state) error { return s.ResumeLoad(checkpoint.PausedByOperator) }, []string{"paused"}, []string{"asked", "sealed", "copied", "counting", "waiting", "approved", "sweeping", "between", "again"}},
		"copied":       {func(s *state) error { return s.CompleteCopy(7, 1, done(4, 0, 0), begin) }, []string{"sealed", "paused"}, []string{"copied", "counting", "waiting", "approved", "sweeping", "between", "again", "over"}},
		"not copied":   {func(s *state) error { return s.CompleteCopy(7, 1, sums{Total: 4, Done: 3}, begin) }, nil, []string{"copied", "counting", "waiting", "approved", "sweeping", "between", "again", "over"}},
		"copied other": {func(s *state) error { return s.CompleteCopy(7, 1, done(3, 0, 0), begin) }, nil, []string{"copied", "counting", "waiting", "approved", "sweeping", "between", "again", "over"}},
		"count":        {func(s *state) error { return s.BeginSweep(7, 1, 0, make([]checkpoint.SweepRange, 2), begin) }, []string{"copied"}, []string{"counting"}},
		"counted":      {func(s *state) error { return s.CompletePass(7, 1, 0, done(2, 3, 2), begin) }, []string{"counting"}, []string{"waiting", "approved", "sweeping", "between", "again", "over"}},
		"approve":      {func(s *state) error { return s.ApproveSweep() }, []string{"asked", "sealed", "paused", "copied", "counting", "waiting"}, []string{"approved", "sweeping", "between", "again", "over"}},
		"sweep":        {func(s *state) error { return s.BeginSweep(7, 1, 1, make([]checkpoint.SweepRange, 2), begin) }, []string{"approved"}, []string{"sweeping"}},
		"swept":        {func(s *state) error { return s.CompletePass(7, 1, 1, done(2, 1, 1), begin) }, []string{"sweeping"}, []string{"between", "again", "over"}},
		"not swept":    {func(s *state) error { return s.CompletePass(7, 1, 1, sums{Total: 2, Done: 1}, begin) }, nil, []string{"between", "again", "over"}},
		"sweep again":  {func(s *state) error { return s.BeginSweep(7, 1, 2, make([]checkpoint.SweepRange, 2), begin) }, []string{"between"}, []string{"again"}},
		"end":          {func(s *state) error { return s.CompletePass(7, 1, 2, done(2, 0, 0), begin) }, []string{"again"}, []string{"over"}},
		"another load": {func(s *state) error { return s.CompleteCopy(7, 2, done(4, 0, 0), begin) }, nil, nil},
		"other parts":  {func(s *state) error { p := plan; p.Parts = 5; return s.SealLoad(p) }, []string{"asked"}, nil},
		"late plan":    {func(s *state) error { p := plan; p.Generation = 6; return s.SealLoad(p) }, nil, nil},
		"no parts":     {func(s *state) error { p := plan; p.Parts = 0; return s.SealLoad(p) }, nil, nil},
		"old number":   {func(s *state) error { p := plan; p.Number = 3; return s.SealLoad(p) }, nil, nil},
	} {
		for stage := range stages {
			s := stateAt(t, stage)
			before := s
			err := c.step(&s)
			var refused *checkpoint.LoadError
			allowed, again := slices.Contains(c.from, stage), slices.Contains(c.again, stage)
			switch changed := !same(before, s); {
			case allowed || again:
				if err != nil || changed != allowed {
					t.Errorf("%s when %s: changed %v, %v", name, stage, changed, err)
				}
			case changed || !errors.As(err, &refused) || refused.Cure == "" || refused.Table != source || refused.Step == "" || refused.Reason == "" || !strings.Contains(err.Error(), refused.Cure):
				t.Errorf("%s when %s: changed %v, %v", name, stage, changed, err)
			}
			if allowed {
				once := s
				if err := c.step(&s); err != nil || !same(once, s) {
					t.Errorf("%s twice when %s: %v", name, stage, err)
				}
			}
		}
	}
}

func same(a, b state) bool {
	return reflect.DeepEqual(a.Load, b.Load) && a.Base == b.Base && a.NeedsLoad == b.NeedsLoad && a.Reason == b.Reason && a.Kind == b.Kind && a.Tries == b.Tries
}

// A swept load is the base, and earlier losses are repaired. Its record keeps its counts.
func TestALoadThatIsSweptIsTheBase(t *testing.T) {
	s := stateAt(t, "over")
	if s.Base != 7 || s.NeedsLoad || s.Reason != "" || s.Kind != "" || !s.LostFrom.IsZero() || s.Tries != 0 || !s.Loaded() {
		t.Errorf("%+v", s)
	}
	want := checkpoint.Counts{Put: 1, Removed: 1} // without those of pass 0
	if l := s.Load; l.Sweep.Counts != want || l.Sweep.Pass != 2 || l.Items != 9 || l.Number != 1 || l.SweptAt.IsZero() {
		t.Errorf("%+v", l)
	}
	for _, stage := range []string{"copied", "waiting", "again"} {
		if s := stateAt(t, stage); s.Base != 0 || !s.NeedsLoad || s.Loaded() {
			t.Errorf("%s: %+v", stage, s)
		}
	}
}

// The first generation in an empty target needs no sweep, unless a gap came before its load was
// complete. A sweep needs no approval if replicator created the target, or if the sweep finds
// nothing.
func TestWhatNeedsNoSweep(t *testing.T) {
	first := state{Source: source, Generation: 7, Adopted: 7, MadeByUs: true}
	advance(t, &first, "copied")
	if _, due := first.NextPass(); first.Base != 7 || due || !first.Loaded() || first.Stage() != checkpoint.StageOver {
		t.Errorf("the first: %+v", first)
	}
	broken := state{Source: source, Generation: 7, Adopted: 7, MadeByUs: true, NeedsLoad: true}
	advance(t, &broken, "copied")
	if pass, due := broken.NextPass(); broken.Base != 0 || !due || pass != 1 {
		t.Errorf("after a gap: %+v", broken)
	}
	adopted := state{Source: source, Generation: 7, Adopted: 7, AdoptRows: true}
	advance(t, &adopted, "counting")
	if err := adopted.CompletePass(7, 1, 0, done(2, 0, 0), begin); err != nil || adopted.Base != 7 || adopted.Load.Sweep.Waiting {
		t.Errorf("nothing to sweep: %v, %+v", err, adopted)
	}
	allowed := state{Source: source, Generation: 7, Adopted: 7}
	if err := allowed.AskLoad(begin, true); err != nil {
		t.Fatal(err)
	}
	advance(t, &allowed, "copied")
	if pass, due := allowed.NextPass(); !due || pass != 1 {
		t.Errorf("allowed beforehand: pass %d, %v", pass, due)
	}
}

// Rows that no mapping explains stay and are counted, and keep the table from being in sync.
// Another load would find the same rows.
func TestUnexplainedRowsKeepNeedsLoad(t *testing.T) {
	s := stateAt(t, "again")
	end := done(2, 0, 0)
	end.Unexplained = 4
	if err := s.CompletePass(7, 1, 2, end, begin); err != nil || !s.NeedsLoad || s.Base != 0 || s.Load.Sweep.Unexplained != 4 || s.Kind != checkpoint.KindSweep {
		t.Errorf("%v: %+v", err, s)
	}
	if asks, waits := s.AsksItself(true, true); asks || waits == "" {
		t.Errorf("asks %v, waits for %q", asks, waits)
	}
}

// If the target refuses even the removal of a row, every pass finds it. The sweep still ends, and
// the table still needs a load.
func TestASweepEndsThoughEveryPassWrites(t *testing.T) {
	s := stateAt(t, "approved")
	for pass := 1; s.Stage() == checkpoint.StageSweeping; pass++ {
		err := errors.Join(s.BeginSweep(7, 1, pass, make([]checkpoint.SweepRange, 2), begin), s.CompletePass(7, 1, pass, done(2, 0, 1), begin))
		if err != nil || pass > checkpoint.MaxPasses {
			t.Fatalf("pass %d: %v", pass, err)
		}
	}
	if asks, waits := s.AsksItself(true, true); asks || waits == "" || !s.NeedsLoad || s.Base != 0 || s.Load.Sweep.Removed != checkpoint.MaxPasses {
		t.Errorf("asks %v, waits for %q: %+v", asks, waits, s)
	}
}

// TestH106_ThreeLoadsThatDoNotEnd: after a load that a gap ended, the next one is requested
// automatically, twice. After the third, only an operator can request one.
func TestH106_ThreeLoadsThatDoNotEnd(t *testing.T) {
	s := state{Source: source, Generation: 7, Adopted: 7}
	for n := uint32(1); ; n++ {
		asks, waits := s.AsksItself(true, true)
		if !asks {
			if n != checkpoint.MaxTries+1 || waits == "" {
				t.Errorf("after %d loads: waits for %q", n-1, waits)
			}
			break
		}
		p := plan
		p.Generation, p.Number = s.Generation, n
		if err := errors.Join(s.AskLoad(begin, false), s.SealLoad(p)); err != nil {
			t.Fatal(err)
		}
		s.Generation, s.Adopted, s.NeedsLoad = s.Generation+1, s.Generation+1, true
	}
	if err := s.AskLoad(begin, false); err != nil {
		t.Errorf("an operator asks: %v", err)
	}
	for name, c := range map[string]struct {
		s            state
		first, again bool
		asks, waits  bool
	}{
		"no backfill":          {state{Generation: 7}, false, true, false, false},
		"on_gap wait":          {state{Generation: 7, NeedsLoad: true}, true, false, false, true},
		"not followed yet":     {state{}, true, true, false, false},
		"loaded":               {stateAt(t, "over"), true, true, false, false},
		"under way":            {stateAt(t, "sealed"), true, true, false, false},
		"taken over, as swept": {state{Generation: 7, Base: 7}, true, true, false, false},
	} {
		if asks, waits := c.s.AsksItself(c.first, c.again); asks != c.asks || (waits != "") != c.waits {
			t.Errorf("%s: asks %v, waits for %q", name, asks, waits)
		}
	}
}

// Only an operator ends an operator's pause. It outlives its load.
func TestWhoPauses(t *testing.T) {
	s := stateAt(t, "paused")
	_ = s.PauseLoad(checkpoint.PausedForHeadroom)
	_ = s.ResumeLoad(checkpoint.PausedForHeadroom)
	s.Generation, s.Adopted = 8, 8
	if err := s.AskLoad(begin, false); err != nil || s.Load.Paused != checkpoint.PausedByOperator {
		t.Errorf("%v, paused by %q", err, s.Load.Paused)
	}
	_ = s.ResumeLoad(checkpoint.PausedByOperator)
	_ = s.PauseLoad(checkpoint.PausedForHeadroom)
	if err := s.PauseLoad(checkpoint.PausedByOperator); err != nil || s.Load.Paused != checkpoint.PausedByOperator {
		t.Errorf("%v, paused by %q", err, s.Load.Paused)
	}
}

// H114: changes that a load has superseded stay superseded, also while the next load is requested
// and planned.
func TestH114_ABegunLoadIsRemembered(t *testing.T) {
	if begun := stateAt(t, "asked").Load.Begun(); begun != 0 {
		t.Errorf("before any load: %d", begun)
	}
	s := stateAt(t, "raised")
	next := plan
	next.Generation, next.Number = 8, 2
	for _, c := range []struct {
		step func() error
		want uint32
	}{
		{func() error { return nil }, 7},
		{func() error { return s.AskLoad(begin, false) }, 7},
		{func() error { return s.AskLoad(begin, false) }, 7},
		{func() error { return s.SealLoad(next) }, 8},
	} {
		if err := c.step(); err != nil || s.Load.Begun() != c.want {
			t.Errorf("%v: a load has begun in %d, want %d", err, s.Load.Begun(), c.want)
		}
	}
}

func TestBeginInto(t *testing.T) {
	for name, c := range map[string]struct {
		s            state
		holds, adopt bool
		refused      bool
		made, adopts bool
	}{
		"empty":                  {state{}, false, false, false, true, false},
		"rows":                   {state{}, true, false, true, false, false},
		"rows, adopted":          {state{}, true, true, false, false, true},
		"rows, adopted before":   {state{AdoptRows: true}, true, false, false, false, true},
		"a generation has begun": {state{Generation: 7}, true, false, false, false, false},
	} {
		err := c.s.BeginInto(c.holds, c.adopt)
		if (err != nil) != c.refused || c.s.MadeByUs != c.made || c.s.AdoptRows != c.adopts {
			t.Errorf("%s: %v, %+v", name, err, c.s)
		}
	}
}

// A load goes through all its steps in the ledger, and is repeated in a new generation.
func TestALoadInTheLedger(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		if _, err := a.AskLoad(ctx, source, false); err == nil {
			t.Error("a table that is not followed is loaded")
		}
		if _, err := a.Redo(ctx, source, 0, "again", false); err == nil {
			t.Error("a table that is not followed is loaded again")
		}
		create(t, ctx, a)
		first := plan
		first.Generation = 1
		_, err := a.AskLoad(ctx, source, true)
		check(t, err)
		s, err := a.SealLoad(ctx, source, first)
		check(t, err)
		_, err = a.PauseLoad(ctx, source, checkpoint.PausedByOperator)
		check(t, err)
		_, err = a.ResumeLoad(ctx, source, checkpoint.PausedByOperator)
		check(t, err)
		_, err = a.ApproveSweep(ctx, source)
		check(t, err)
		s, err = a.CompleteCopy(ctx, s, done(4, 0, 0))
		check(t, err)
		s, err = a.BeginSweep(ctx, s, 1, make([]checkpoint.SweepRange, 2))
		check(t, err)
		s, err = a.CompletePass(ctx, s, done(2, 0, 0))
		check(t, err)
		if s.Base != 1 || s.Load.SweptAt.IsZero() {
			t.Fatalf("%+v", s)
		}
		for range 2 { // as after an unknown outcome
			s, err = a.Redo(ctx, source, 1, "an operator wants it", false)
			check(t, err)
			if s.Generation <= 1 || s.Stage() != checkpoint.StageAsked || s.Kind != checkpoint.KindAskedFor || s.Load.Number != 1 || !s.Load.Sweep.Approved || s.GapCount != 1 {
				t.Fatalf("%+v", s)
			}
		}
		p.sleep(ctx, time.Second)
		if _, err := a.SealLoad(ctx, source, first); err == nil {
			t.Error("the plan of before is sealed again")
		}
	})
}
