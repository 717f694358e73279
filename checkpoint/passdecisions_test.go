package checkpoint_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A sweep that leaves nothing wrong ends the loss. A sweep that left rows records a loss of the
// widest kind, and keeps its first time. Pass 0 waits for approval only if it found rows and the
// sweep is not approved.
func TestWhatAPassComesTo(t *testing.T) {
	counted := func(seen, unexplained int64) sums {
		return sums{Total: 2, Done: 2, Counts: checkpoint.Counts{Seen: seen, Unexplained: unexplained, Left: 5}}
	}
	for name, c := range map[string]struct {
		sums     sums
		approved bool
		waits    bool
		swept    bool
	}{
		"nothing":             {counted(0, 0), false, false, true},
		"rows":                {counted(3, 0), false, true, false},
		"rows, allowed since": {counted(3, 0), true, false, false},
		"unexplained rows":    {counted(0, 2), false, true, false},
	} {
		s := stateAt(t, "counting")
		s.Load.Sweep.Approved = c.approved
		check(t, s.CompletePass(7, 1, 0, c.sums, begin))
		if sweep := s.Load.Sweep; sweep.Waiting != c.waits || s.Load.SweptAt.IsZero() == c.swept || sweep.Parts != 0 || sweep.Seen != c.sums.Seen || sweep.Unexplained != c.sums.Unexplained || sweep.Left != 5 {
			t.Errorf("%s: %+v", name, s.Load)
		}
	}
	for kind, want := range map[checkpoint.GapKind]checkpoint.GapKind{checkpoint.KindStream: checkpoint.KindSweep, checkpoint.KindTargetLost: checkpoint.KindTargetLost, "": checkpoint.KindSweep} {
		for what, end := range map[string]sums{"writes": done(2, 0, 1), "leaves": counted(0, 1)} {
			s := stateAt(t, "approved")
			s.Kind = kind
			for pass := 1; s.Stage() == checkpoint.StageSweeping; pass++ {
				check(t, s.BeginSweep(7, 1, pass, make([]checkpoint.SweepRange, 2), begin.Add(time.Duration(pass)*time.Hour)))
				check(t, s.CompletePass(7, 1, pass, end, begin))
			}
			if s.Kind != want || !s.NeedsLoad || s.Reason == "" || s.Base == 7 || !s.Load.Sweep.BegunAt.Equal(begin) {
				t.Errorf("of kind %q, it %s: %q, want %q, begun at %s", kind, what, s.Kind, want, s.Load.Sweep.BegunAt)
			}
		}
	}
}

// Rows without a version, which an application continues to write, require no further pass. They
// are counted.
func TestASweepUnderDualWritesEnds(t *testing.T) {
	for name, c := range map[string]struct {
		counts checkpoint.Counts
		ends   bool
	}{
		"bare rows alone": {checkpoint.Counts{Put: 3, Removed: 2, Bare: 5}, true},
		"another, too":    {checkpoint.Counts{Put: 3, Removed: 3, Bare: 5}, false},
	} {
		s := stateAt(t, "approved")
		check(t, s.BeginSweep(7, 1, 1, make([]checkpoint.SweepRange, 2), begin))
		check(t, s.CompletePass(7, 1, 1, sums{Total: 2, Done: 2, Counts: c.counts}, begin))
		if ended := s.Stage() == checkpoint.StageOver; ended != c.ends || s.NeedsLoad == c.ends || s.Load.Sweep.Put != 3 || s.Load.Sweep.Removed != c.counts.Removed {
			t.Errorf("%s: %+v", name, s.Load.Sweep)
		}
	}
	s := stateAt(t, "approved")
	s.Load.Units = 10
	check(t, s.BeginSweep(7, 1, 1, make([]checkpoint.SweepRange, 2), begin))
	check(t, s.CompletePass(7, 1, 1, sums{Total: 2, Done: 2, Units: 2.5}, begin))
	if s.Load.Units != 12.5 {
		t.Errorf("%g units of copy and sweep", s.Load.Units)
	}
	if sums := checkpoint.PartsDone([]checkpoint.Part{{Total: 2, Index: 0, PartProgress: checkpoint.PartProgress{Counts: checkpoint.Counts{Bare: 1}}},
		{Total: 2, Index: 1, PartProgress: checkpoint.PartProgress{Counts: checkpoint.Counts{Bare: 2}}}}, 2); sums.Bare != 3 {
		t.Errorf("%+v", sums)
	}
}

// The first load into a target that replicator created needs no sweep. It does not repair rows in
// doubt, losses during the load, or remains of an earlier base.
func TestWhatACopyMends(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(s *state)
		mends bool
	}{
		"the first into our own": {func(*state) {}, true},
		"of others":              {func(s *state) { s.MadeByUs = false }, false},
		"after a base":           {func(s *state) { s.Base = 6 }, false},
		"after a loss":           {func(s *state) { s.NeedsLoad = true }, false},
		"with windows": {func(s *state) {
			s.Load.Export, s.Load.Windows = checkpoint.Export{Address: "a", At: begin}, []checkpoint.Export{{Address: "b", From: begin}}
		}, false},
		"a full export": {func(s *state) { s.Load.Export = checkpoint.Export{Address: "a", At: begin} }, true},
	} {
		s := state{Source: source, Generation: 7, Adopted: 7, MadeByUs: true, Tries: 1, Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 4}}
		c.edit(&s)
		check(t, s.CompleteCopy(7, 1, done(4, 0, 0), begin))
		if mended := s.Base == 7 && s.Tries == 0; mended != c.mends || s.Load.DoneAt.IsZero() {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A part's trouble is stored with its lease. The next commit writes it, it disappears with its
// cause, and the next worker starts without it. The first lease records when the part was begun.
func TestThePlaceOfAPartsTrouble(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		loading(t, ctx, a, 1)
		p.sleep(ctx, time.Second)
		held := takePart(t, ctx, a, 0)
		row := func() checkpoint.Part {
			parts, err := b.Parts(ctx, table(t, ctx, b), checkpoint.PhaseCopy)
			check(t, err)
			return parts[0]
		}
		begun := row().Begun
		held.Note(checkpoint.Trouble{Cause: "busy"})
		if row().Trouble.Cause != "" {
			t.Error("written at once")
		}
		position := []byte(`"e"`)
		check(t, held.Commit(ctx, checkpoint.PartProgress{Items: 5, Position: position, Rate: 3}))
		copy(position, `"x"`) // the caller's own copy
		if r := row(); r.Trouble.Cause != "busy" || r.Rate != 3 || string(held.Part().Position) != `"e"` || r.Owner != "a" || r.Epoch != 1 {
			t.Errorf("%+v", r)
		}
		held.Note(checkpoint.Trouble{})
		check(t, held.Renew(ctx))
		if r := row(); r.Trouble.Cause != "" || r.Items != 5 {
			t.Errorf("%+v", r)
		}
		held.Note(checkpoint.Trouble{Cause: "busy"})
		check(t, held.Release(ctx))
		if r := row(); r.Trouble.Cause != "" || r.Rate != 0 || r.Owner != "" {
			t.Errorf("released: %+v", r)
		}
		check(t, held.Release(ctx)) // as after an unknown outcome
		p.sleep(ctx, time.Minute)
		next := takePart(t, ctx, b, 0)
		if r := row(); r.Epoch != 2 || r.Owner != "b" || !r.Begun.Equal(begun) || r.Trouble.Cause != "" || begun.IsZero() {
			t.Errorf("taken over: %+v, begun at %s", r, begun)
		}
		if err := held.Release(ctx); !errors.Is(err, checkpoint.ErrLeaseLost) && row().Owner != "b" {
			t.Errorf("the first one's: %v", err)
		}
		check(t, next.Finish(ctx, checkpoint.PartProgress{Items: 9, Position: []byte(`"z"`), Rate: 4}))
		if r := row(); r.State != checkpoint.PartDone || r.Position != nil || r.Rate != 0 || r.Owner != "" {
			t.Errorf("done: %+v", r)
		}
	})
}

// A halted table leases no parts of a load, which would write. It leases parts of a verify, which
// only reads.
func TestWhatAHaltedTableLeases(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		loading(t, ctx, a, 1)
		_, err := a.UpdateTable(ctx, source, func(s *state) error {
			s.Halt = checkpoint.Halt{Attempt: 1, On: true}
			s.Verify = checkpoint.Verify{Number: 1, Phase: 1, Parts: 1}
			return nil
		})
		check(t, err)
		s := table(t, ctx, a)
		if !s.Halted() {
			t.Fatal("it is not halted")
		}
		if _, err := a.TakePart(ctx, s.LoadPart()); !errors.Is(err, checkpoint.ErrHalted) {
			t.Errorf("a load's: %v", err)
		}
		if _, err := a.TakePart(ctx, s.VerifyPart()); err != nil {
			t.Errorf("a verify's: %v", err)
		}
	})
}

// Whoever paused a load, or an operator, may end the pause, even if it outlived its load. A step
// for another load or an earlier generation changes nothing.
func TestWhoResumes(t *testing.T) {
	for _, c := range []struct{ paused, by, left string }{
		{"busy", checkpoint.PausedForHeadroom, "busy"}, {"busy", "busy", ""}, {"busy", checkpoint.PausedByOperator, ""},
		{checkpoint.PausedByOperator, "busy", checkpoint.PausedByOperator}, {checkpoint.PausedByOperator, checkpoint.PausedByOperator, ""},
	} {
		for _, stage := range []string{"sealed", "raised", "over"} {
			s := stateAt(t, stage)
			s.Load.Paused = c.paused
			if err := s.ResumeLoad(c.by); err != nil || s.Load.Paused != c.left {
				t.Errorf("%s, paused for %q, resumed by %q: %q, %v", stage, c.paused, c.by, s.Load.Paused, err)
			}
		}
	}
	for name, edit := range map[string]func(s *state){
		"a raise":                    func(s *state) { s.Generation, s.Adopted = 8, 8 },
		"a load of before":           func(s *state) { s.Load.Generation = 6 },
		"another load":               func(s *state) { s.Load.Number = 2 },
		"both of another generation": func(s *state) { s.Generation, s.Load.Generation = 8, 8 },
	} {
		for stage, step := range map[string]func(s *state) error{
			"sealed":   func(s *state) error { return s.CompleteCopy(7, 1, done(4, 0, 0), begin) },
			"copied":   func(s *state) error { return s.BeginSweep(7, 1, 0, make([]checkpoint.SweepRange, 2), begin) },
			"sweeping": func(s *state) error { return s.CompletePass(7, 1, 1, done(2, 0, 0), begin) },
		} {
			s := stateAt(t, stage)
			edit(&s)
			before := s
			var refused *checkpoint.LoadError
			if err := step(&s); !errors.As(err, &refused) || !refused.Yet || !same(before, s) {
				t.Errorf("%s, when %s: %v", name, stage, err)
			}
		}
	}
}

// A load that repairs the table forgets the earlier mappings, because their rows are swept.
func TestWhatIsMendedIsForgotten(t *testing.T) {
	s := stateAt(t, "again")
	s.Former = []checkpoint.Former{{Text: "t", Tables: []string{"former"}}}
	s.Targets, s.WitnessBeats = []string{"orders"}, map[string]uint64{"orders": 1, "former": 2}
	check(t, s.CompletePass(7, 1, 2, done(2, 0, 0), begin))
	if s.NeedsLoad == (len(s.Former) == 0) || !s.NeedsLoad && !reflect.DeepEqual(s.WitnessBeats, map[string]uint64{"orders": 1}) {
		t.Errorf("%+v", s)
	}
}

// A load starts automatically if none is in progress, for the first time or after a gap, as
// configured. If a needed load does not start, the reason is returned.
func TestWhichLoadsAskThemselves(t *testing.T) {
	lostSince := func(stage string, needs bool) state {
		s := stateAt(t, stage)
		s.NeedsLoad = needs
		return s
	}
	for name, c := range map[string]struct {
		s            state
		first, again bool
		asks, waits  bool
	}{
		"the first":                   {state{Generation: 7}, true, false, true, false},
		"the first, not configured":   {state{Generation: 7}, false, true, false, false},
		"a gap":                       {state{Generation: 7, NeedsLoad: true}, false, true, true, false},
		"a gap, to be waited for":     {state{Generation: 7, NeedsLoad: true}, true, false, false, true},
		"before the first generation": {state{NeedsLoad: true}, true, true, false, false},
		"asked for":                   {lostSince("asked", true), true, true, false, false},
		"copying":                     {lostSince("sealed", true), true, true, false, false},
		"sweeping":                    {lostSince("sweeping", true), true, true, false, false},
		"over, in vain":               {lostSince("over", true), true, true, false, false},
		"over":                        {lostSince("over", false), true, true, false, false},
		"over, the base another":      {state{Generation: 7, Load: checkpoint.Load{Generation: 7, Parts: 1, DoneAt: begin, SweptAt: begin}}, true, true, false, false},
		"after a raise":               {lostSince("raised", true), true, true, true, false},
		"after two tries":             {state{Generation: 7, NeedsLoad: true, Tries: checkpoint.MaxTries - 1}, true, true, true, false},
		"after three":                 {state{Generation: 7, NeedsLoad: true, Tries: checkpoint.MaxTries}, true, true, false, true},
	} {
		if name == "over, in vain" {
			c.s.Reason, c.waits = "left", true
		}
		if asks, waits := c.s.AsksItself(c.first, c.again); asks != c.asks || (waits != "") != c.waits {
			t.Errorf("%s: asks %v, waits for %q", name, asks, waits)
		}
	}
}

// In a target that replicator did not create, the next pass only counts until the sweep is
// approved. None is due while one runs or waits, or after the last.
func TestWhichPassIsNext(t *testing.T) {
	for name, c := range map[string]struct {
		sweep checkpoint.Sweep
		made  bool
		want  int // -1: none
	}{
		"of others":             {checkpoint.Sweep{}, false, 0},
		"of others, allowed":    {checkpoint.Sweep{Approved: true}, false, 1},
		"of our own":            {checkpoint.Sweep{}, true, 1},
		"it runs":               {checkpoint.Sweep{Pass: 1, Parts: 2}, true, -1},
		"it waits":              {checkpoint.Sweep{Waiting: true}, false, -1},
		"after one":             {checkpoint.Sweep{Pass: 1}, true, 2},
		"after one, of others":  {checkpoint.Sweep{Pass: 1}, false, 2},
		"counted, then allowed": {checkpoint.Sweep{Approved: true, BegunAt: begin}, false, 1},
	} {
		s := stateAt(t, "copied")
		s.Load.Sweep, s.MadeByUs = c.sweep, c.made
		if pass, due := s.NextPass(); due != (c.want >= 0) || due && pass != c.want {
			t.Errorf("%s: %d, %v", name, pass, due)
		}
	}
	s := stateAt(t, "copied")
	for name, begins := range map[string]func() error{
		"no parts":     func() error { return s.BeginSweep(7, 1, 0, nil, begin) },
		"not the next": func() error { return s.BeginSweep(7, 1, 1, make([]checkpoint.SweepRange, 2), begin) },
		"none runs":    func() error { return s.CompletePass(7, 1, 0, done(0, 0, 0), begin) },
		"before the copy": func() error {
			s := stateAt(t, "sealed")
			return s.BeginSweep(7, 1, 0, make([]checkpoint.SweepRange, 2), begin)
		},
		"another division": func() error { s := stateAt(t, "counting"); return s.CompletePass(7, 1, 0, done(3, 0, 0), begin) },
		"a later pass":     func() error { s := stateAt(t, "sweeping"); return s.CompletePass(7, 1, 2, done(2, 0, 0), begin) },
		"allowed too late": func() error { s := stateAt(t, "over"); s.Load.Sweep.Approved = false; return s.ApproveSweep() },
	} {
		var refused *checkpoint.LoadError
		if err := begins(); !errors.As(err, &refused) || refused.Cure == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The sums of a pass include every count of every part.
func TestSumsOfAPass(t *testing.T) {
	row := func(index int, n int64) checkpoint.Part {
		p := checkpoint.Part{Index: index, Total: 2, State: checkpoint.PartDone}
		p.Items, p.Bytes, p.Units, p.Rate = n, 2*n, float64(3*n), float64(4*n)
		p.Counts = checkpoint.Counts{Seen: 5 * n, Put: 6 * n, Removed: 7 * n, Left: 8 * n, Unexplained: 9 * n}
		return p
	}
	want := checkpoint.Sums{Total: 2, Done: 2, Items: 11, Bytes: 22, Units: 33, Rate: 44, Counts: checkpoint.Counts{Seen: 55, Put: 66, Removed: 77, Left: 88, Unexplained: 99}}
	if got := checkpoint.PartsDone([]checkpoint.Part{row(0, 1), row(1, 10)}, 2); got != want {
		t.Errorf("%+v", got)
	}
}

// A page without items advances a part, and the parts of a running sweep are kept. A worker that
// holds no part any more does not count for the shares.
func TestPartsThatMoveOn(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		loading(t, ctx, a, 1)
		held := takePart(t, ctx, a, 0)
		check(t, held.Commit(ctx, progress(5, "e")))
		check(t, held.Commit(ctx, progress(5, "f")))
		if got := string(held.Part().Position); got != `"f"` {
			t.Error(got)
		}
		_, err := a.UpdateTable(ctx, source, func(s *state) error {
			s.Load.DoneAt, s.Load.Sweep = begin, checkpoint.Sweep{Pass: 1, Parts: 1, BegunAt: begin}
			return nil
		})
		check(t, err)
		sweeping := takePart(t, ctx, a, 0)
		check(t, a.RemoveParts(ctx, source))
		check(t, sweeping.Finish(ctx, progress(1, "")))
	})
	free := make([]checkpoint.Part, 4)
	if taken := checkpoint.PartsToTake(free, map[string]int{"b": 0}, "me", 1, 8); len(taken) != 4 {
		t.Errorf("%d are taken", len(taken))
	}
}

// Windows can repair a loss only if its begin is known. The age of an image counts from the later
// of its own time and the adoption, before which no remove refuses it.
func TestTheTimesOfWindows(t *testing.T) {
	lost := begin.Add(500 * time.Millisecond)
	s := state{Generation: 7, Base: 5, NeedsLoad: true, Kind: checkpoint.KindStream, LostFrom: lost}
	if by := s.WindowsBy(); !by.Equal(begin.Add(-6*time.Second)) || checkpoint.Mendable(s) != nil {
		t.Errorf("by %s", by)
	}
	s.LostFrom = time.Time{}
	if by := s.WindowsBy(); !by.IsZero() || checkpoint.Mendable(s) == nil {
		t.Errorf("nobody knows since when: by %s", by)
	}
	for _, c := range []struct{ at, adopted, want time.Time }{{begin, lost, lost}, {lost, begin, lost}, {begin, time.Time{}, begin}, {begin, begin, begin}} {
		if got := checkpoint.Aged(c.at, c.adopted); !got.Equal(c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
	full, window := checkpoint.Export{Address: "a", At: begin}, checkpoint.Export{Address: "b", From: begin, At: lost}
	for name, c := range map[string]struct {
		load    checkpoint.Load
		doubted time.Time
		mends   bool
	}{
		"a scan":                  {checkpoint.Load{StartedAt: begin}, time.Time{}, false},
		"a full export":           {checkpoint.Load{Export: full}, time.Time{}, false},
		"a full one and a window": {checkpoint.Load{Export: full, Windows: []checkpoint.Export{window}}, begin, false},
		"windows alone":           {checkpoint.Load{Export: window, Windows: []checkpoint.Export{window}}, time.Time{}, true},
	} {
		if !c.load.Doubted().Equal(c.doubted) || c.load.MendsGap() != c.mends {
			t.Errorf("%s: %s, %v", name, c.load.Doubted(), c.load.MendsGap())
		}
	}
}
