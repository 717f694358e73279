package checkpoint_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// The plan fixes all that was requested, and keeps what outlives a load: a pause, an approval, the
// latest generation in which a load began. The request is then over. Sealing it again changes
// nothing.
func TestASealedLoadIsWhatWasAskedFor(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	full := checkpoint.Export{Address: "s3://b/1", ARN: "arn/1", At: begin.In(zone)}
	windows := []checkpoint.Export{{Address: "s3://b/2", ARN: "arn/2", From: begin.In(zone), At: begin.Add(time.Hour).In(zone)},
		{Address: "s3://b/3", ARN: "arn/3", From: begin.Add(time.Hour).In(zone), At: begin.Add(2 * time.Hour).In(zone)}}
	s := state{Source: source, Generation: 7, Adopted: 7, Tries: 1, Load: checkpoint.Load{Generation: 6, Number: 4, Parts: 9, Items: 5, Paused: checkpoint.PausedByOperator}}
	check(t, s.AskExport(begin, true, append([]checkpoint.Export{full}, windows...)...))
	sealing := checkpoint.Plan{Generation: 7, Number: 5, Parts: 3, Source: "export", ExportARNs: []string{"arn/1", "arn/2", "arn/3"}, TableID: "id",
		StartedAt: begin.Add(3 * time.Hour).In(zone), Estimate: 11, EstimateBytes: 13}
	want := checkpoint.Load{
		Generation: 7, Number: 5, Before: 6, Parts: 3, Source: "export", TableID: "id", AskedAt: begin, StartedAt: begin.Add(3 * time.Hour), Estimate: 11, EstimateBytes: 13,
		Export: checkpoint.Export{Address: "s3://b/1", ARN: "arn/1", At: begin}, Paused: checkpoint.PausedByOperator, Sweep: checkpoint.Sweep{Approved: true},
		Windows: []checkpoint.Export{{Address: "s3://b/2", ARN: "arn/2", From: begin, At: begin.Add(time.Hour)}, {Address: "s3://b/3", ARN: "arn/3", From: begin.Add(time.Hour), At: begin.Add(2 * time.Hour)}},
	}
	for range 2 {
		check(t, s.SealLoad(sealing))
		if !reflect.DeepEqual(s.Load, want) || s.Tries != 2 {
			t.Errorf("%d tries, %+v", s.Tries, s.Load)
		}
	}
	if !slices.Equal(s.Load.ExportARNs(), sealing.ExportARNs) || !s.Load.ImagesAt().Equal(begin.Add(2*time.Hour)) || !s.Load.Doubted().Equal(begin) || s.Load.MendsGap() {
		t.Errorf("%+v", s.Load)
	}
	again := s
	check(t, again.CompleteCopy(7, 5, sums{Total: 3, Done: 3, Items: 17, Bytes: 19, Units: 2.5}, begin.Add(4*time.Hour).In(zone)))
	want.DoneAt, want.Items, want.Bytes, want.Units = begin.Add(4*time.Hour), 17, 19, 2.5
	if !reflect.DeepEqual(again.Load, want) {
		t.Errorf("%+v", again.Load)
	}
}

// A step that was decided before another generation or load began is refused for that reason,
// whatever the stage of the load was. The caller reads the record again, and no operator is asked
// for anything.
func TestAStepOfAnotherGeneration(t *testing.T) {
	for stage := range stages {
		for name, step := range map[string]func(s *state, generation, number uint32) error{
			"copied": func(s *state, g, n uint32) error { return s.CompleteCopy(g, n, done(4, 0, 0), begin) },
			"begun": func(s *state, g, n uint32) error {
				return s.BeginSweep(g, n, 1, make([]checkpoint.SweepRange, 2), begin)
			},
			"swept": func(s *state, g, n uint32) error { return s.CompletePass(g, n, 1, done(2, 0, 0), begin) },
		} {
			for what, change := range map[string]func(s *state, generation, number *uint32){
				"the table is in the next": func(s *state, _, _ *uint32) { s.Generation = 8 },
				"the step is of another":   func(_ *state, g, _ *uint32) { *g = 6 },
				"the load is of another":   func(s *state, _, _ *uint32) { s.Load.Generation = 6 },
				"another load":             func(_ *state, _, n *uint32) { *n = 2 },
			} {
				s, generation, number := stateAt(t, stage), uint32(7), uint32(1)
				if change(&s, &generation, &number); stage == "raised" {
					s.Generation = 8
				}
				before := s
				var refused *checkpoint.LoadError
				err := step(&s, generation, number)
				if !errors.As(err, &refused) || !refused.Yet || refused.Reason != "another generation or load has begun" || !same(before, s) {
					t.Errorf("%s when %s, %s: %v", name, stage, what, err)
				}
			}
		}
	}
}

// A request for another load changes its source, and neither the time of the request nor the
// approval. No request withdraws an approval.
func TestWhoeverAsksAgainChangesTheSource(t *testing.T) {
	later := begin.Add(time.Hour)
	e := checkpoint.Export{Address: "s3://b/1", ARN: "arn/1", At: begin}
	w := checkpoint.Export{Address: "s3://b/2", ARN: "arn/2", From: begin, At: later}
	s := state{Source: source, Generation: 7, Adopted: 7}
	check(t, s.AskExport(begin, true, e, w))
	check(t, s.AskLoad(later, false))
	if l := s.Load; !l.AskedAt.Equal(begin) || !l.Sweep.Approved || l.Exports() != nil || len(l.Windows) > 0 {
		t.Errorf("a scan: %+v", l)
	}
	check(t, s.RequestExport(later, false, checkpoint.ExportRequest{To: "s3://b", NotBefore: begin, Serial: 9, Failed: "old"}))
	if r := s.Load.Request; !reflect.DeepEqual(r, checkpoint.ExportRequest{To: "s3://b", NotBefore: begin}) || !s.Load.AskedAt.Equal(begin) {
		t.Errorf("an export that is to be made: %+v", r)
	}
	check(t, s.AskExport(later, false, e))
	if l := s.Load; l.Request.Wanted() || len(l.Exports()) != 1 || !l.Sweep.Approved {
		t.Errorf("one that there is: %+v", l)
	}
}

// The stage follows from the record alone, even from one of a version without parts.
func TestTheStageOfARecord(t *testing.T) {
	type load = checkpoint.Load
	for name, c := range map[string]struct {
		s    state
		want checkpoint.Stage
	}{
		"nothing":                   {state{Generation: 7}, checkpoint.StageNone},
		"not followed":              {state{}, checkpoint.StageNone},
		"asked":                     {state{Generation: 7, Load: load{AskedAt: begin}}, checkpoint.StageAsked},
		"of a generation before":    {state{Generation: 7, Load: load{Generation: 6, Parts: 1, AskedAt: begin}}, checkpoint.StageNone},
		"of one that is over":       {state{Generation: 7, Load: load{Generation: 6, Parts: 1, DoneAt: begin, SweptAt: begin}}, checkpoint.StageNone},
		"copying":                   {state{Generation: 7, Load: load{Generation: 7, Parts: 1}}, checkpoint.StageCopying},
		"begun without parts":       {state{Generation: 7, Load: load{Generation: 7}}, checkpoint.StageNone},
		"done without parts":        {state{Generation: 7, Load: load{Generation: 7, DoneAt: begin}}, checkpoint.StageOver},
		"to be swept":               {state{Generation: 7, Load: load{Generation: 7, Parts: 1, DoneAt: begin}}, checkpoint.StageSweeping},
		"to be swept, after a base": {state{Generation: 7, Base: 6, Load: load{Generation: 7, Parts: 1, DoneAt: begin}}, checkpoint.StageSweeping},
		"nothing to be swept":       {state{Generation: 7, Base: 7, Load: load{Generation: 7, Parts: 1, DoneAt: begin}}, checkpoint.StageOver},
		"swept":                     {state{Generation: 7, Load: load{Generation: 7, Parts: 1, DoneAt: begin, SweptAt: begin}}, checkpoint.StageOver},
	} {
		if got := c.s.Stage(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Rows may be older than the generation unless it is swept, or it is the first in a target that
// replicator created. If a reader ignored that, cells of a removed item would stay in its row.
func TestWhichRowsMayBeOlder(t *testing.T) {
	for name, c := range map[string]struct {
		s    state
		want bool
	}{
		"the first, in our target": {state{Generation: 7, MadeByUs: true}, false},
		"the first, in another's":  {state{Generation: 7}, true},
		"after a gap":              {state{Generation: 7, MadeByUs: true, GapCount: 1}, true},
		"after a base":             {state{Generation: 7, MadeByUs: true, Base: 6}, true},
		"swept":                    {state{Generation: 7, Base: 7, GapCount: 3}, false},
		"swept, in another's":      {state{Generation: 7, Base: 7}, false},
	} {
		if got := c.s.MayHoldOlderRows(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A load counts as loaded only in its generation, once it is copied, and as long as nothing was
// lost since.
func TestWhatIsLoaded(t *testing.T) {
	done := checkpoint.Load{Generation: 7, Number: 1, Parts: 1, DoneAt: begin}
	for name, c := range map[string]struct {
		s    state
		want bool
	}{
		"copied":                {state{Generation: 7, Load: done}, true},
		"lost since":            {state{Generation: 7, Load: done, NeedsLoad: true}, false},
		"in another generation": {state{Generation: 8, Load: done}, false},
		"not yet":               {state{Generation: 7, Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1}}, false},
	} {
		if got := c.s.Loaded(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A load has at most as many exports as the record may name, in order; one more is refused.
func TestTheMostExportsOfALoad(t *testing.T) {
	all := make([]checkpoint.Export, checkpoint.MaxExports)
	for i := range all {
		all[i] = checkpoint.Export{Address: string(rune('A' + i)), At: begin.Add(time.Duration(i) * time.Hour)}
	}
	s := state{Source: source, Generation: 7, Adopted: 7}
	if err := s.AskExport(begin, false, all...); err != nil || !slices.Equal(s.Load.Exports(), all) {
		t.Errorf("%v, %+v", err, s.Load.Exports())
	}
	s = state{Source: source, Generation: 7, Adopted: 7}
	if err := s.AskExport(begin, false, all[0]); err != nil || s.Load.Windows != nil || s.Load.Doubted() != (time.Time{}) {
		t.Errorf("%v, %+v", err, s.Load)
	}
}

// TestH33_TheBoundsOfAnExport: the bounds are exact. A time at a bound is admissible, and a
// nanosecond beyond it is not.
func TestH33_TheBoundsOfAnExport(t *testing.T) {
	now := begin.Add(100 * time.Hour)
	root := checkpoint.Shard{ID: "a", Label: label, FirstRead: begin}
	for name, c := range map[string]struct {
		edit func(s *state)
		now  time.Time
		at   time.Time // the admissible time
		off  time.Duration
	}{
		"as late as clocks allow":     {func(*state) {}, now, now.Add(checkpoint.Slack), 1},
		"as early as it is cut":       {func(s *state) { s.Cut = now.Add(-time.Hour) }, now, now.Add(-time.Hour + checkpoint.Slack), -1},
		"as early as roots are known": {func(*state) {}, begin.Add(72 * time.Hour), begin.Add(72*time.Hour + checkpoint.Slack - 72*time.Hour), -1},
		"of the generation of a gap":  {func(s *state) { s.GapCount, s.AdoptedAt = 1, now.Add(-time.Hour) }, now, now.Add(-time.Hour + checkpoint.Slack), -1},
		"as early as the stream held": {func(s *state) { s.GapCount, s.AdoptedAt = 1, begin.Add(-80*time.Hour) }, now, begin.Add(checkpoint.Slack - 24*time.Hour), -1},
	} {
		s := state{Source: source, Label: label, Generation: 7, Adopted: 7, Listed: 7}
		c.edit(&s)
		roots := []checkpoint.Shard{root}
		if name == "as early as roots are known" {
			roots = nil // they are removed
		}
		if err := checkpoint.AdmissibleExport(s, roots, c.at, c.now, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := checkpoint.AdmissibleExport(s, roots, c.at.Add(c.off), c.now, 0); err == nil {
			t.Errorf("%s: beyond it, it is admissible", name)
		}
	}
	// Before the first gap, the first reads decide, not the adoption.
	s := state{Source: source, Label: label, Generation: 7, Adopted: 7, Listed: 7, AdoptedAt: begin}
	if err := checkpoint.AdmissibleExport(s, []checkpoint.Shard{root}, begin.Add(-time.Hour), begin.Add(time.Hour), 0); err != nil {
		t.Errorf("the first generation: %v", err)
	}
}

// A requested export goes through its steps in the record. Each answer is recorded for its own
// attempt, and the outcome of the previous attempt is forgotten.
func TestTheStepsOfAnExport(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	s := state{Source: source, Generation: 7, Adopted: 7}
	request := func() checkpoint.ExportRequest { return s.Load.Request }
	check(t, s.RequestExport(begin, false, checkpoint.ExportRequest{To: "s3://b", NotBefore: begin.In(zone)}))
	want := checkpoint.ExportRequest{To: "s3://b", NotBefore: begin}
	if !reflect.DeepEqual(request(), want) || want.Refused() || !want.Wanted() {
		t.Errorf("wished for: %+v", request())
	}
	check(t, s.BeginExport(1, 7, begin.Add(time.Hour).In(zone)))
	want.Serial, want.Attempts, want.Generation, want.At = 1, 1, 7, begin.Add(time.Hour)
	if !reflect.DeepEqual(request(), want) || s.ExportsAsked != 1 {
		t.Errorf("begun: %+v", request())
	}
	var refused *checkpoint.LoadError
	if err := s.BeginExport(1, 7, begin.Add(2*time.Hour)); !errors.As(err, &refused) || !refused.Yet || !reflect.DeepEqual(request(), want) {
		t.Errorf("begun by two at once: %v, %+v", err, request())
	}
	check(t, s.AcceptExport(1, "arn/1"))
	if want.ARN = "arn/1"; !reflect.DeepEqual(request(), want) {
		t.Errorf("taken: %+v", request())
	}
	check(t, s.FinishExport(1, checkpoint.Export{Address: "s3://b/1", ARN: "arn/1", At: begin.In(zone)}))
	if s.Load.Export != (checkpoint.Export{Address: "s3://b/1", ARN: "arn/1", At: begin}) || !reflect.DeepEqual(request(), want) {
		t.Errorf("there: %+v", s.Load)
	}
	check(t, s.BeginExport(2, 7, begin.Add(3*time.Hour)))
	want.Serial, want.Attempts, want.At, want.ARN = 2, 2, begin.Add(3*time.Hour), ""
	if !reflect.DeepEqual(request(), want) || s.Load.Export != (checkpoint.Export{}) || s.ExportsAsked != 2 {
		t.Errorf("once more: %+v", s.Load)
	}
	check(t, s.FinishExport(2, checkpoint.Export{Address: "s3://b/2", ARN: "arn/2", At: begin}))
	check(t, s.FailExport(2, "denied"))
	if want.Failed = "denied"; !reflect.DeepEqual(request(), want) || s.Load.Export != (checkpoint.Export{}) || want.Refused() {
		t.Errorf("failed: %+v", s.Load)
	}
	check(t, s.ForgetRefusal())
	// The service was asked, so that is no refusal.
	if !reflect.DeepEqual(request(), want) || s.Stage() != checkpoint.StageAsked {
		t.Errorf("after a restart: %+v", s.Load)
	}
	check(t, s.AskLoad(begin, false))
	if err := s.BeginExport(3, 7, begin); !errors.As(err, &refused) || !refused.Yet || request().Wanted() {
		t.Errorf("a scan was asked for: %v, %+v", err, request())
	}
	if unasked := (checkpoint.ExportRequest{Failed: "no"}); unasked.Refused() {
		t.Error("nothing was refused where nothing was wished for")
	}
}

// The requirements of a plan are checked before it is written: parts, a time, and a generation that
// every shard has adopted. The error says if waiting helps.
func TestWhatAPlanNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *state, p *checkpoint.Plan)
		yet  bool
	}{
		"no time":          {func(_ *state, p *checkpoint.Plan) { p.StartedAt = time.Time{} }, false},
		"no parts":         {func(_ *state, p *checkpoint.Plan) { p.Parts = 0 }, false},
		"not adopted":      {func(s *state, _ *checkpoint.Plan) { s.Adopted = 6 }, true},
		"raised":           {func(s *state, _ *checkpoint.Plan) { s.Generation, s.Adopted = 8, 8 }, true},
		"planned by two":   {func(s *state, _ *checkpoint.Plan) { s.Load.Number = 1 }, true},
		"sealed by two":    {func(s *state, p *checkpoint.Plan) { check(t, s.SealLoad(*p)); p.Parts++ }, true},
		"of other exports": {func(_ *state, p *checkpoint.Plan) { p.ExportARNs = []string{"arn"} }, true},
		"with a wish":      {func(s *state, _ *checkpoint.Plan) { s.Load.Request.To = "s3://b" }, true},
	} {
		s, p := stateAt(t, "asked"), plan
		c.edit(&s, &p)
		before := s
		var refused *checkpoint.LoadError
		if err := s.SealLoad(p); !errors.As(err, &refused) || refused.Yet != c.yet || refused.Table != source || refused.Step == "" || refused.Reason == "" || !same(before, s) {
			t.Errorf("%s: %+v", name, refused)
		}
	}
}

// A load of only windows is judged at each end, the copy's and each pass's. Another shard's loss
// may be recorded meanwhile, and begin before the first window. Completing such a load would clear
// a loss that it did not repair. A refusal changes nothing, and no retry helps.
func TestH107_WindowsAreJudgedAtEveryEnd(t *testing.T) {
	for stage, end := range map[string]func(s *state) error{
		"sealed":   func(s *state) error { return s.CompleteCopy(7, 1, done(4, 0, 0), begin) },
		"counting": func(s *state) error { return s.CompletePass(7, 1, 0, done(2, 0, 0), begin) },
		"sweeping": func(s *state) error { return s.CompletePass(7, 1, 1, done(2, 1, 1), begin) },
		"again":    func(s *state) error { return s.CompletePass(7, 1, 2, done(2, 0, 0), begin) },
	} {
		for before, mends := range map[time.Duration]bool{6 * time.Second: true, 5 * time.Second: false} {
			s := stateAt(t, stage)
			s.Base, s.Load.Export = 6, checkpoint.Export{Address: "a", From: begin.Add(-before), At: begin.Add(time.Hour)}
			was := s
			err := end(&s)
			var hole *checkpoint.NotAdmissible
			if mends != (err == nil) || !mends && (!errors.As(err, &hole) || hole.Yet) || mends == same(was, s) {
				t.Errorf("%s, the first window begins %s before the loss: %v", stage, before, err)
			}
		}
	}
}
