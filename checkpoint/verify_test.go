package checkpoint_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// verifying returns a table whose verify has a number of parts.
func verifying(t *testing.T, ctx context.Context, l *checkpoint.Ledger, parts int) checkpoint.TableState {
	t.Helper()
	state := loading(t, ctx, l, parts)
	state, err := l.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: parts, MappingHash: "h", BegunAt: begin})
	check(t, err)
	return state
}

// A verify ends, with its reason, when the assumptions of its plan have changed. Its parts then
// give no result, even if they were done before any worker noticed.
func TestAVerifyEndsWhenItIsOutdated(t *testing.T) {
	for reason, change := range map[string]func(s *checkpoint.TableState){
		"the mapping has changed":   func(s *checkpoint.TableState) { s.MappingHash = "another" },
		"the table has begun a new": func(s *checkpoint.TableState) { s.Generation++ },
		"a fast load of the table runs": func(s *checkpoint.TableState) {
			s.Load = checkpoint.Load{Generation: s.Generation, Number: 1, Parts: 1, Fast: true}
		},
		"the application has left the": func(s *checkpoint.TableState) { s.Halt.Switched = true },
		"":                             func(s *checkpoint.TableState) { s.Halt.On = true }, // frozen, it still compares
	} {
		virtually(t, func(ctx context.Context, p *place) {
			l := openOn(t, ctx, p.store, "a", lease)
			state := verifying(t, ctx, l, 1)
			now, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { change(s); return nil })
			check(t, err)
			if why := now.VerifyOutdated(); !strings.HasPrefix(why, reason) || (why == "") != (reason == "") {
				t.Errorf("outdated by %q, want %q", why, reason)
			}
			result := checkpoint.VerifyResult{BegunAt: begin, EndedAt: begin.Add(time.Minute)}
			after, err := l.EndVerify(ctx, state, result)
			var refused *checkpoint.LoadError
			if reason == "" {
				if err != nil || !after.Verify.Full.Known() {
					t.Errorf("a verify that is not outdated: %v", err)
				}
				return
			}
			if !errors.As(err, &refused) || !refused.Yet {
				t.Errorf("%s: the result is taken: %v", reason, err)
			}
			after, err = l.EndOutdatedVerify(ctx, source)
			check(t, err)
			if v := after.Verify; v.Running() || !strings.HasPrefix(v.Ended, reason) || v.Result.Known() || v.Number != 1 {
				t.Errorf("%s: %+v", reason, v)
			}
		})
	}
}

// While a fast load copies or sweeps, no row is compared or repaired. Before the load is sealed, and
// after its sweep, nothing hinders that. A guarded load never does.
func TestH146_NothingIsComparedDuringAFastLoad(t *testing.T) {
	load := checkpoint.Load{Generation: 2, Number: 1, Parts: 3, AskedAt: begin, StartedAt: begin, Fast: true}
	asked, swept, guarded := checkpoint.Load{AskedAt: begin, Mode: checkpoint.FastLoad}, load, load
	swept.DoneAt, swept.SweptAt, guarded.Fast = begin, begin, false
	sweeping := load
	sweeping.DoneAt = begin
	for name, c := range map[string]struct {
		load  checkpoint.Load
		waits bool
	}{"asked": {asked, false}, "copying": {load, true}, "sweeping": {sweeping, true}, "swept": {swept, false}, "guarded": {guarded, false}} {
		s := checkpoint.TableState{Source: source, Generation: 2, Load: c.load}
		err := s.BeginVerify(1, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1})
		for what, err := range map[string]error{"a verify": err, "a repair": s.CheckCopied("repair rows")} {
			var refused *checkpoint.LoadError
			if is := errors.As(err, &refused); is != c.waits || is && !strings.Contains(refused.Cure, "backfill status --wait --table "+source) || !is && err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// A verify of a share of the items, or of recent changes, says nothing about all items. Only a full
// one counts as that, and a smaller one leaves its result unchanged.
func TestWhatCountsAsAFullVerify(t *testing.T) {
	for name, c := range map[string]struct {
		result checkpoint.VerifyResult
		full   bool
	}{
		"all":           {checkpoint.VerifyResult{}, true},
		"a sample":      {checkpoint.VerifyResult{Sample: 0.01}, false},
		"changed since": {checkpoint.VerifyResult{Since: begin}, false},
		"both":          {checkpoint.VerifyResult{Sample: 0.01, Since: begin}, false},
	} {
		before := checkpoint.VerifyResult{Number: 3, EndedAt: begin}
		s := checkpoint.TableState{Generation: 2}
		s.Verify.Number, s.Verify.Result, s.Verify.Full = 3, before, before
		check(t, s.BeginVerify(4, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1}))
		c.result.EndedAt = begin.Add(time.Hour)
		check(t, s.EndVerify(4, 1, c.result))
		want := uint32(3)
		if c.full {
			want = 4
		}
		if s.Verify.Result.Number != 4 || s.Verify.Result.Generation != 2 || s.Verify.Full.Number != want {
			t.Errorf("%s: result %d, full %d", name, s.Verify.Result.Number, s.Verify.Full.Number)
		}
	}
}

// Parts of a verify are paused with the verify, and parts of a load with the load. A worker that
// does not know of the pause yet is refused.
func TestPartsFollowTheirOwnPause(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		l := openOn(t, ctx, p.store, "a", lease)
		state := verifying(t, ctx, l, 4)
		compare, copy := state.VerifyPart(), state.LoadPart()
		take := func(part checkpoint.Part, index int) error {
			part.Index = index
			_, err := l.TakePart(ctx, part)
			return err
		}
		_, err := l.PauseLoad(ctx, source, checkpoint.PausedByOperator)
		check(t, err)
		if err := take(compare, 0); err != nil {
			t.Errorf("of a verify while the load is paused: %v", err)
		}
		if err := take(copy, 0); !errors.Is(err, checkpoint.ErrTaken) {
			t.Errorf("of a load that is paused: %v", err)
		}
		_, err = l.ResumeLoad(ctx, source, checkpoint.PausedByOperator)
		check(t, err)
		_, err = l.PauseVerify(ctx, source)
		check(t, err)
		if err := take(compare, 1); !errors.Is(err, checkpoint.ErrTaken) {
			t.Errorf("of a verify that is paused: %v", err)
		}
		if err := take(copy, 1); err != nil {
			t.Errorf("of a load while the verify is paused: %v", err)
		}
		_, err = l.ResumeVerify(ctx, source)
		check(t, err)
		if err := take(compare, 1); err != nil {
			t.Errorf("of a verify that goes on: %v", err)
		}
		_, err = l.CancelVerify(ctx, source)
		check(t, err)
		if err := take(compare, 2); !errors.Is(err, checkpoint.ErrTaken) {
			t.Errorf("of a verify that was cancelled: %v", err)
		}
	})
}
