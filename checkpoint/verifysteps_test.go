package checkpoint_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// compared is a table after a full verify and a sampled one, of which rows are left in the ledger.
func compared() state {
	s := state{Source: source, Generation: 7, MappingHash: "h"}
	s.Verify = checkpoint.Verify{Number: 4, Cleaned: 2, BegunAt: begin, Result: checkpoint.VerifyResult{Number: 4, Sample: 0.5, EndedAt: begin}, Full: checkpoint.VerifyResult{Number: 3, EndedAt: begin}}
	return s
}

var comparing = checkpoint.VerifyPlan{Plan: []byte(`{"a":1}`), Phase: 1, Parts: 3, MappingHash: "h", BegunAt: begin, Estimate: 9}

// Each step of a verify is made in its place. Made again, it changes nothing; anywhere else it is
// refused, and changes nothing either.
func TestStepsOfAVerify(t *testing.T) {
	other := comparing
	other.Plan = []byte(`{"b":1}`)
	empty, unphased := comparing, comparing
	empty.Parts, unphased.Phase = 0, 0
	result := checkpoint.VerifyResult{EndedAt: begin.Add(time.Hour)}
	began := func(s *state) error { return s.BeginVerify(5, comparing) }
	second := func(s *state) error {
		return errors.Join(began(s), s.NextVerifyPhase(5, 1, 2, 4, 6, checkpoint.VerifyCounts{Items: 3}))
	}
	ended := func(s *state) error { return errors.Join(second(s), s.EndVerify(5, 2, result)) }
	never := func(s *state) error { s.Verify = checkpoint.Verify{}; return nil }
	for name, c := range map[string]struct {
		before func(s *state) error
		step   func(s *state) error
		want   string // changed, same, refused or yet
	}{
		"begun":                        {nil, began, "changed"},
		"begun again":                  {began, began, "same"},
		"begun by another, this one":   {began, func(s *state) error { return s.BeginVerify(5, other) }, "refused"},
		"begun while one runs":         {began, func(s *state) error { return s.BeginVerify(6, other) }, "refused"},
		"begun after another":          {nil, func(s *state) error { return s.BeginVerify(6, comparing) }, "yet"},
		"begun without parts":          {nil, func(s *state) error { return s.BeginVerify(5, empty) }, "refused"},
		"begun without a phase":        {nil, func(s *state) error { return s.BeginVerify(5, unphased) }, "refused"},
		"the next phase":               {began, second, "changed"},
		"the next phase again":         {second, func(s *state) error { return s.NextVerifyPhase(5, 1, 2, 4, 6, checkpoint.VerifyCounts{Items: 3}) }, "same"},
		"the next of another":          {began, func(s *state) error { return s.NextVerifyPhase(4, 1, 2, 4, 6, checkpoint.VerifyCounts{}) }, "yet"},
		"the next of another phase":    {began, func(s *state) error { return s.NextVerifyPhase(5, 2, 3, 4, 6, checkpoint.VerifyCounts{}) }, "yet"},
		"the phase before":             {second, func(s *state) error { return s.NextVerifyPhase(5, 2, 1, 4, 6, checkpoint.VerifyCounts{}) }, "yet"},
		"the next phase without parts": {began, func(s *state) error { return s.NextVerifyPhase(5, 1, 2, 0, 6, checkpoint.VerifyCounts{}) }, "yet"},
		"ended":                        {second, func(s *state) error { return s.EndVerify(5, 2, result) }, "changed"},
		"ended again":                  {ended, func(s *state) error { return s.EndVerify(5, 2, checkpoint.VerifyResult{Way: "x"}) }, "same"},
		"ended in the phase before":    {second, func(s *state) error { return s.EndVerify(5, 1, result) }, "yet"},
		"ended, of another":            {second, func(s *state) error { return s.EndVerify(4, 2, result) }, "yet"},
		"paused":                       {began, (*state).PauseVerify, "changed"},
		"paused, when it is over":      {ended, (*state).PauseVerify, "refused"},
		"resumed":                      {func(s *state) error { return errors.Join(began(s), s.PauseVerify()) }, (*state).ResumeVerify, "changed"},
		"resumed, and not paused":      {began, (*state).ResumeVerify, "same"},
		"resumed, when it is over":     {ended, (*state).ResumeVerify, "refused"},
		"cancelled":                    {second, (*state).CancelVerify, "changed"},
		"cancelled, when it is over":   {nil, (*state).CancelVerify, "same"},
		"cancelled before the first":   {never, (*state).CancelVerify, "refused"},
	} {
		s := compared()
		if c.before != nil {
			check(t, c.before(&s))
		}
		before := s.Verify
		err := c.step(&s)
		var refused *checkpoint.LoadError
		got := "changed"
		switch {
		case errors.As(err, &refused) && refused.Yet:
			got = "yet"
		case err != nil:
			got = "refused"
		case reflect.DeepEqual(before, s.Verify):
			got = "same"
		}
		if got != c.want || err != nil && !reflect.DeepEqual(before, s.Verify) || refused != nil && refused.Cure == "" {
			t.Errorf("%s: %s, want %s: %v, %+v", name, got, c.want, err, s.Verify)
		}
	}
}

// What a verify keeps of those before it: their results, and how far their rows are removed. Its
// sums are those of all phases that are complete.
func TestWhatAVerifyKeeps(t *testing.T) {
	s := compared()
	check(t, s.BeginVerify(5, comparing))
	check(t, s.NextVerifyPhase(5, 1, 2, 4, 6, checkpoint.VerifyCounts{Items: 3, Missing: 1}))
	v, before := s.Verify, compared().Verify
	if v.Number != 5 || v.Phase != 2 || v.Parts != 4 || v.Differing != 6 || v.Sums != (checkpoint.VerifyCounts{Items: 3, Missing: 1}) || v.Generation != 7 || v.Estimate != 9 || v.MappingHash != "h" {
		t.Errorf("in its second phase %+v", v)
	}
	ended, cancelled := s, s
	check(t, ended.EndVerify(5, 2, checkpoint.VerifyResult{EndedAt: begin.Add(time.Hour)}))
	check(t, cancelled.CancelVerify())
	for name, c := range map[string]struct {
		v            checkpoint.Verify
		result, full uint32
		running      bool
	}{"running": {v, 4, 3, true}, "ended": {ended.Verify, 5, 5, false}, "cancelled": {cancelled.Verify, 4, 3, false}} {
		if c.v.Result.Number != c.result || c.v.Full.Number != c.full || c.v.Cleaned != before.Cleaned || c.v.Running() != c.running || !c.v.BegunAt.Equal(begin) {
			t.Errorf("%s: %+v", name, c.v)
		}
	}
}

// A record of a version that named neither generation nor mapping does not make a verify outdated.
func TestAVerifyOfAnEarlierVersionIsNotOutdated(t *testing.T) {
	s := compared()
	check(t, s.BeginVerify(5, comparing))
	s.Verify.Generation = 0
	if why := s.VerifyOutdated(); why != "" {
		t.Errorf("without a generation: %s", why)
	}
	s.Verify.Generation, s.MappingHash = 7, ""
	if why := s.VerifyOutdated(); why != "" {
		t.Errorf("the table has no mapping: %s", why)
	}
}

// Every count is added, and those of rows that are wrong make a result that differs.
func TestCountsOfAVerify(t *testing.T) {
	var one, ten checkpoint.VerifyCounts
	for _, c := range []struct {
		counts *checkpoint.VerifyCounts
		by     int64
	}{{&one, 1}, {&ten, 10}} {
		fields := reflect.ValueOf(c.counts).Elem()
		for i := range fields.NumField() {
			if f := fields.Field(i); f.CanInt() {
				f.SetInt(int64(i+1) * c.by)
			} else {
				f.SetFloat(float64(i+1) * float64(c.by))
			}
		}
	}
	sum := one
	sum.Add(ten)
	fields := reflect.ValueOf(sum)
	for i := range fields.NumField() {
		if f, want := fields.Field(i), float64(i+1)*11; f.CanInt() && float64(f.Int()) != want || f.CanFloat() && f.Float() != want {
			t.Errorf("%s: %v, want %g", fields.Type().Field(i).Name, f, want)
		}
	}
	for name, c := range map[string]struct {
		counts  checkpoint.VerifyCounts
		differs int64
		clean   bool
	}{
		"nothing":   {checkpoint.VerifyCounts{Items: 5, Kept: 1, Unmapped: 1}, 0, true},
		"missing":   {checkpoint.VerifyCounts{Missing: 1}, 1, false},
		"different": {checkpoint.VerifyCounts{Different: 2}, 2, false},
		"extra":     {checkpoint.VerifyCounts{Extra: 3}, 3, false},
		"foreign":   {checkpoint.VerifyCounts{Foreign: 4}, 4, false},
		"in flight": {checkpoint.VerifyCounts{InFlight: 5}, 0, false},
	} {
		known := checkpoint.VerifyResult{EndedAt: begin, VerifyCounts: c.counts}
		unknown := checkpoint.VerifyResult{VerifyCounts: c.counts}
		if c.counts.Differing() != c.differs || known.Clean() != c.clean || unknown.Clean() {
			t.Errorf("%s: %d differ, clean %v and %v", name, c.counts.Differing(), known.Clean(), unknown.Clean())
		}
	}
}

// The verdict of a result in a few words, with its scope and its age.
func TestTheVerdictOfAResult(t *testing.T) {
	for want, c := range map[string]struct {
		result checkpoint.VerifyResult
		age    time.Duration
	}{
		"clean, just now":                                  {checkpoint.VerifyResult{}, -time.Second},
		"clean, 1m ago":                                    {checkpoint.VerifyResult{}, time.Minute},
		"1 row differs, 59m ago":                           {checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{Extra: 1, InFlight: 3}}, 59 * time.Minute},
		"2 rows differ, 1h ago":                            {checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{Missing: 1, Foreign: 1}}, time.Hour},
		"1 row in flight, 24h ago":                         {checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{InFlight: 1}}, 24 * time.Hour},
		"stale: 3 rows in flight, 25h ago":                 {checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{InFlight: 3}}, 25 * time.Hour},
		"stale: clean of 0.5%, 2d ago":                     {checkpoint.VerifyResult{Sample: 0.005}, 48 * time.Hour},
		"stale: clean of the changed rows, 47h ago":        {checkpoint.VerifyResult{Sample: 0.5, Since: begin}, 47*time.Hour + time.Minute},
		"stale: 1 row differs of the changed rows, 3d ago": {checkpoint.VerifyResult{Since: begin, VerifyCounts: checkpoint.VerifyCounts{Different: 1}}, 73 * time.Hour},
	} {
		c.result.EndedAt = begin
		if got := c.result.Verdict(begin.Add(c.age)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (checkpoint.VerifyResult{}).Verdict(begin); got != "" {
		t.Errorf("without a result: %q", got)
	}
}

// The rows of verifies that are over are removed, but the findings of the last result are kept
// until another verify has one. A verify that runs keeps everything.
func TestRowsOfVerifies(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		a := openOn(t, ctx, p.store, "a", lease)
		loading(t, ctx, a, 1)
		left := func() string {
			rows, err := p.store.Read(ctx, "p/verify/")
			check(t, err)
			var keys []string
			for _, r := range rows {
				keys = append(keys, strings.TrimPrefix(r.Key, "p/verify/T/0000000"))
			}
			return strings.Join(keys, " ")
		}
		run := func(end func(s checkpoint.TableState)) {
			s, err := a.BeginVerify(ctx, table(t, ctx, a), checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1, MappingHash: "h", BegunAt: begin})
			check(t, err)
			part, err := a.TakePart(ctx, s.VerifyPart())
			check(t, err)
			for _, name := range []string{"found/index", "picked", "sums/0000/1-000"} {
				check(t, a.PutVerifyData(ctx, s, name, []byte("x")))
			}
			check(t, a.RemoveVerify(ctx, source))
			if now := left(); !strings.Contains(now, "picked") || !strings.Contains(now, "/part/") || !strings.Contains(now, "sums") {
				t.Errorf("of verify %d, which runs: %s", s.Verify.Number, now)
			}
			check(t, part.Finish(ctx, checkpoint.PartProgress{Items: 1}))
			end(s)
			check(t, a.RemoveVerify(ctx, source))
		}
		finish := func(s checkpoint.TableState) {
			_, err := a.EndVerify(ctx, s, checkpoint.VerifyResult{EndedAt: begin})
			check(t, err)
		}
		cancel := func(checkpoint.TableState) { _, err := a.CancelVerify(ctx, source); check(t, err) }
		for i, step := range []struct {
			end  func(s checkpoint.TableState)
			want string
		}{{finish, "1/data/found/index"}, {cancel, "1/data/found/index"}, {finish, "3/data/found/index"}, {finish, "4/data/found/index"}} {
			if run(step.end); left() != step.want {
				t.Errorf("after verify %d: %s", i+1, left())
			}
		}
		reads := 0
		p.store.OnRead = func(_ context.Context, prefix string) error {
			if strings.HasPrefix(prefix, "p/verify/") {
				reads++
			}
			return nil
		}
		check(t, a.RemoveVerify(ctx, source))
		if cleaned := table(t, ctx, a).Verify.Cleaned; cleaned != 3 || reads > 4 {
			t.Errorf("removed up to verify %d, %d reads", cleaned, reads)
		}
	})
}

// A ledger that is replaced during the removal gets no record of it.
func TestARemovalInAnotherLedger(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		a := openOn(t, ctx, p.store, "a", lease)
		create(t, ctx, a)
		_, err := a.UpdateTable(ctx, source, func(s *state) error { s.Verify = compared().Verify; return nil })
		check(t, err)
		p.store.OnRead = func(_ context.Context, prefix string) error {
			if strings.HasPrefix(prefix, "p/verify/") {
				p.store.OnRead = nil
				p.store.Clear()
			}
			return nil
		}
		if err := a.RemoveVerify(ctx, source); err == nil {
			t.Error("the removal is recorded")
		}
		if rows, err := p.store.Read(ctx, "p/table/"); err != nil || len(rows) > 0 {
			t.Errorf("%d records, %v", len(rows), err)
		}
	})
}

// A part that was released, and whose lease then fails, is not taken for done; and the reverse.
func TestAPartEndsInOneWay(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		a := openOn(t, ctx, p.store, "a", lease)
		loading(t, ctx, a, 2)
		released, finished := takePart(t, ctx, a, 0), takePart(t, ctx, a, 1)
		check(t, released.Release(ctx))
		check(t, finished.Finish(ctx, progress(3, "")))
		if err := released.Finish(ctx, progress(3, "")); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("released, then finished: %v", err)
		}
		if err := finished.Release(ctx); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("finished, then released: %v", err)
		}
		check(t, released.Release(ctx)) // as after an outcome that was in doubt
		check(t, finished.Finish(ctx, progress(3, "")))
	})
}
