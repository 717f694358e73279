package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

type partProgress = checkpoint.PartProgress

// part returns a part of a table in memory, which is written to out.
func part(m ScanSource, out *target, index, total int) *Part {
	return &Part{
		Index: index, Total: total, Source: Segments{"Orders", m}, Write: out.write,
		Save: func(context.Context, partProgress) error { return nil },
	}
}

func (p *Part) run(ctx context.Context, from partProgress) (partProgress, error) {
	return p.Run(ctx, ctx, from)
}

// Every item is loaded once, for any number of parts, and the counts add up. Pages without items do
// not end a part.
func TestPartsLoadEverythingOnce(t *testing.T) {
	for _, total := range []int{1, 3, 200} {
		m, out := newMemory(500), &target{}
		var copied, read int
		var items int64
		for index := range total {
			p := part(&halting{memory: m}, out, index, total)
			p.Events = PartEvents{Copied: func(n int) { copied += n }, Read: func(n int, _ float64) { read += n }}
			end, err := p.run(t.Context(), partProgress{})
			if err != nil || end.Position != nil {
				t.Fatalf("part %d of %d: %+v %v", index, total, end, err)
			}
			items += end.Items
		}
		if copied != 500 || read != 500 || items != 500 || out.missing(m) != nil || len(out.written) != 500 {
			t.Errorf("of %d: %d copied, %d read, %d counted, missing %v", total, copied, read, items, out.missing(m))
		}
	}
}

// TestAPartCrashesAnywhere: a crash at every call in turn, before or after the call took effect.
// The part continues from the saved progress (B1, B2).
func TestAPartCrashesAnywhere(t *testing.T) {
	for _, page := range []int{1, 4} {
		for _, before := range []bool{true, false} {
			for at, crashed := 1, true; crashed; at++ {
				synctest.Test(t, func(t *testing.T) { crashed = partCrashesAt(t, page, at, before) })
			}
		}
	}
}

func partCrashesAt(t *testing.T, page, at int, before bool) (crashed bool) {
	m, out := newMemory(25), &target{}
	m.pages = func(uint64) int { return page }
	calls := 0
	step := func(effect func() error) error {
		calls++
		if at > 0 && (calls > at || calls == at && before) {
			crashed = true
			return errCrash // nothing happens after the crash
		}
		if err := effect(); err != nil {
			return err
		}
		if calls == at {
			crashed = true
			return errCrash
		}
		return nil
	}
	m.calls = func(ctx context.Context) error {
		_ = task.Sleep(ctx, 300*time.Millisecond) // so that saves become due
		return step(func() error { return nil })
	}
	var saved []byte
	load := func() error {
		var from partProgress
		if saved != nil {
			if err := json.Unmarshal(saved, &from); err != nil {
				t.Fatal(err)
			}
		}
		p := part(m, out, 0, 1)
		p.Write = func(ctx context.Context, page Page, at time.Time) error {
			return step(func() error { return out.write(ctx, page, at) })
		}
		p.Save = func(_ context.Context, p partProgress) error {
			return step(func() (err error) { saved, err = json.Marshal(p); return err })
		}
		_, err := p.run(t.Context(), from)
		return err
	}
	err := load()
	if crashed {
		if !errors.Is(err, errCrash) {
			t.Fatalf("crash at call %d: %v", at, err)
		}
		at = 0
		err = load()
	}
	if err != nil || out.missing(m) != nil {
		t.Fatalf("crash at call %d: %v, missing %v", at, err, out.missing(m))
	}
	return crashed
}

// TestH98_KilledAndTakenOver: workers are killed without warning under many schedules. Others
// continue their parts when the leases end.
func TestH98_KilledAndTakenOver(t *testing.T) {
	const parts = 5
	for seed := range uint64(30) {
		w := virtual.NewWorld(seed, day, false)
		m, out := newMemory(120), &target{}
		pause := func(ctx context.Context) error {
			return task.Sleep(ctx, time.Duration(w.Rand().IntN(900))*time.Millisecond)
		}
		m.calls, m.after = pause, pause
		saved, ended := make([]partProgress, parts), make([]bool, parts)
		err := w.Run(24*time.Hour, func(ctx context.Context) {
			for index := range parts {
				for kills := 0; !ended[index]; kills++ {
					worker := w.NewProcess(fmt.Sprint("worker", index, "-", kills))
					worker.Go("load", func() {
						p := part(m, out, index, parts)
						p.Write = func(ctx context.Context, page Page, at time.Time) error {
							if err := pause(ctx); err != nil {
								return err
							}
							return out.write(ctx, page, at)
						}
						p.Save = func(ctx context.Context, p partProgress) error {
							if err := pause(ctx); err != nil {
								return err
							}
							saved[index] = p
							return pause(ctx)
						}
						if _, err := p.run(worker.Context(), saved[index]); err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
						ended[index] = true
					})
					_ = task.Sleep(ctx, time.Duration(1+w.Rand().IntN(5))*time.Second)
					if !ended[index] {
						worker.Kill()
					}
				}
			}
		})
		if keys := out.missing(m); err != nil || keys != nil {
			t.Fatalf("seed %d: %v, missing %v", seed, err, keys)
		}
	}
}

// TestH31_ImagesOfAPartDoNotClaimToBeYounger: a page has the time of its request, in the attempt
// that was answered (B3).
func TestH31_ImagesOfAPartDoNotClaimToBeYounger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, slow, asked := newMemory(30), 0, time.Time{}
		m.clock = time.Now
		m.calls = func(ctx context.Context) error {
			asked = task.Now(ctx)
			if slow++; slow == 2 {
				_ = task.Sleep(ctx, time.Hour)
				return &cdc.Error{Op: "Scan", Reason: cdc.Throttled, Err: errors.New("busy")}
			}
			return task.Sleep(ctx, time.Second)
		}
		p := part(m, &target{}, 0, 1)
		p.Retry = func(ctx context.Context, op func(context.Context) error) error {
			for op(ctx) != nil {
			}
			return nil
		}
		pages := 0
		p.Write = func(_ context.Context, _ Page, at time.Time) error {
			if pages++; !at.Equal(asked) {
				t.Errorf("claims %s, was asked for at %s", at, asked)
			}
			return nil
		}
		if _, err := p.run(t.Context(), partProgress{}); err != nil || pages < 3 {
			t.Error(pages, err)
		}
	})
}

// A worker that is asked to stop leaves the part between two pages, even while it waits for its
// limits, and saves its progress.
func TestAPartIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out := newMemory(100), &target{}
		var saved partProgress
		p := part(m, out, 0, 1)
		p.Limits = NewLimits(0.001, 0)
		p.Save = func(_ context.Context, to partProgress) error { saved = to; return nil }
		drain, stop := context.WithCancel(t.Context())
		g := task.NewGroup(t.Context(), 0)
		g.Go("operator", func(ctx context.Context) error {
			defer stop()
			return task.Sleep(ctx, time.Minute)
		})
		began := task.Mono(t.Context())
		at, err := p.Run(drain, t.Context(), partProgress{})
		if took := task.Mono(t.Context()) - began; !errors.Is(err, ErrDrained) || took != time.Minute {
			t.Errorf("left after %s: %v", took, err)
		}
		if saved.Items == 0 || saved.Items != at.Items || saved.Position == nil || int(at.Items) != len(out.written) {
			t.Errorf("saved %+v of %+v", saved, at)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		p.Limits = nil
		if _, err := p.run(t.Context(), saved); err != nil || out.missing(m) != nil {
			t.Errorf("gone on with: %v, missing %v", err, out.missing(m))
		}
		for key, n := range out.written {
			if n != 1 {
				t.Errorf("%s is written %d times", key, n)
			}
		}
	})
}

// Run returns the error that ended the part. Once the right to save is over, nothing is saved.
func TestAPartEndsWithWhatEndedIt(t *testing.T) {
	failed := errors.New("no")
	for name, spoil := range map[string]func(p *Part, end context.CancelCauseFunc){
		"a read": func(p *Part, _ context.CancelCauseFunc) {
			p.Retry = func(context.Context, func(context.Context) error) error { return failed }
		},
		"a write": func(p *Part, _ context.CancelCauseFunc) {
			p.Write = func(context.Context, Page, time.Time) error { return failed }
		},
		"a save": func(p *Part, _ context.CancelCauseFunc) {
			p.Save = func(context.Context, partProgress) error { return failed }
		},
		"the end of its lease": func(p *Part, end context.CancelCauseFunc) {
			write := p.Write
			p.Write = func(ctx context.Context, page Page, at time.Time) error {
				end(failed)
				return write(ctx, page, at)
			}
			p.Save = func(context.Context, partProgress) error { return errors.New("saved without the right to") }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, out := newMemory(100), &target{}
			m.calls = func(ctx context.Context) error { return task.Sleep(ctx, saveEvery-time.Millisecond) }
			p := part(m, out, 0, 1)
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			spoil(p, end)
			at, err := p.run(ctx, partProgress{})
			if !errors.Is(err, failed) || strings.Contains(err.Error(), "without the right") || len(out.written) > 14 || int(at.Items) != len(out.written) {
				t.Errorf("%s: %d items are written, %d counted: %v", name, len(out.written), at.Items, err)
			}
		})
	}
}

// Progress is saved about once a second, and a saved value does not change afterwards.
func TestAPartSavesOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, saves := newMemory(700), []partProgress{}
		m.calls = func(ctx context.Context) error { return task.Sleep(ctx, 100*time.Millisecond) }
		p := part(m, &target{}, 0, 1)
		p.Save = func(_ context.Context, to partProgress) error { saves = append(saves, to); return nil }
		if _, err := p.run(t.Context(), partProgress{}); err != nil || len(saves) < 9 || len(saves) > 10 { // 100 pages
			t.Errorf("%d saves: %v", len(saves), err)
		}
		for i, s := range saves {
			if want := int64(70 * (i + 1)); s.Items != want || s.Position == nil || i > 0 && (s.Rate < 60 || s.Rate > 80) {
				t.Errorf("save %d is %+v, want %d items", i, s, want)
			}
		}
	})
}

// An invalid position ends the part, and the error does not show it. A page that does not move the
// position ends the part as well.
func TestAPartThatCannotGoOn(t *testing.T) {
	for _, position := range []string{`{"pk":{"Q":"secret"}}`, `"secret"`, `{}`, `secret`} {
		_, err := part(newMemory(10), &target{}, 0, 1).run(t.Context(), partProgress{Position: []byte(position)})
		if !errors.Is(err, ErrProgress) || strings.Contains(err.Error(), "secret") {
			t.Errorf("from %s: %v", position, err)
		}
	}
	stuck := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("item1")}})
	if _, err := part(repeating{newMemory(10), stuck}, &target{}, 0, 1).run(t.Context(), partProgress{}); !cdc.Is(err, cdc.Malformed) {
		t.Error(err)
	}
}

// fullPages reports each page as large as a page of a Scan.
type fullPages struct{ PartSource }

func (s fullPages) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	page, err := s.PartSource.Read(ctx, index, total, after, limit)
	page.Bytes = 1 << 20
	return page, err
}

// A crash repeats only one page of a Scan, however many are read in a second.
func TestEachFullPageIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out, unsaved := newMemory(70), &target{}, 0
		p := part(m, out, 0, 1)
		p.Source = fullPages{p.Source}
		p.Write = func(ctx context.Context, page Page, readAt time.Time) error {
			if unsaved++; unsaved > 1 {
				t.Fatalf("%d pages are not saved", unsaved)
			}
			return out.write(ctx, page, readAt)
		}
		p.Save = func(context.Context, partProgress) error { unsaved = 0; return nil }
		if _, err := p.run(t.Context(), partProgress{}); err != nil || out.missing(m) != nil {
			t.Error(err)
		}
	})
}

// priced is a source of full pages, each of which costs units. It has its own clock.
type priced struct {
	PartSource
	ahead time.Duration
	calls int
}

func (s *priced) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	s.calls++
	_ = task.Sleep(ctx, time.Second)
	page, err := s.PartSource.Read(ctx, index, total, after, limit)
	page.Bytes, page.Consumed, page.At = 100, 2.5, task.Now(ctx).Add(s.ahead)
	return page, err
}

// What a part reads is added to its earlier progress, but its rate is not. Every page is paid for,
// even the last one, and none before it is written.
func TestAPartCountsAndPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out := newMemory(21), &target{}
		p := part(m, out, 0, 1)
		source := &priced{PartSource: p.Source}
		p.Source, p.Limits = source, NewLimits(0, 1)
		var waited, units, read, copied float64
		p.Events = PartEvents{Waited: func(_, forUnits time.Duration) { waited += forUnits.Seconds() }, Read: func(n int, u float64) { read, units = read+float64(n), units+u },
			Copied: func(n int) { copied += float64(n) }}
		saves := 0
		p.Save = func(_ context.Context, at partProgress) error {
			if saves++; at.Position == nil {
				t.Error("the end is the caller's to commit")
			}
			return nil
		}
		began := time.Now()
		end, err := p.run(t.Context(), partProgress{Items: 1000, Bytes: 5000, Units: 70})
		if err != nil || end.Items != 1021 || end.Bytes != 5300 || end.Units != 77.5 || end.Rate <= 0 || end.Rate > 21 || units != 7.5 || read != 21 || copied != 21 || source.calls != 3 || saves != 2 {
			t.Errorf("%+v, %g units, %g items read and %g copied in %d calls, %d saves, %v", end, units, read, copied, source.calls, saves, err)
		}
		if took := time.Since(began).Seconds(); took != 3+waited || waited != 4.5 {
			t.Errorf("it waited %gs of %gs", waited, took)
		}
		if p.Limits.running.Load() != 0 {
			t.Error("a part that is over counts as running")
		}
	})
}

// B3: an image has the earlier of the two clocks' times of its request.
func TestH31_TheEarlierClockCounts(t *testing.T) {
	sent := day
	for _, c := range []struct{ answered, want time.Duration }{{time.Second, 0}, {time.Hour, 0}, {-time.Minute, -time.Minute - time.Second}, {999 * time.Millisecond, -time.Millisecond}} {
		if got := imageTime(sent, sent.Add(c.answered), time.Second); got.Sub(sent) != c.want {
			t.Errorf("answered %s later: %s", c.answered, got.Sub(sent))
		}
	}
	if got := imageTime(sent, time.Time{}, time.Second); got != sent {
		t.Error(got)
	}
}

// timed is a source whose every second call fails after a minute. It records the times of the
// requests.
type timed struct {
	PartSource
	ahead time.Duration
	calls []time.Time
}

func (s *timed) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	s.calls = append(s.calls, task.Now(ctx))
	_ = task.Sleep(ctx, time.Minute)
	if len(s.calls)%2 == 1 {
		return Page{At: task.Now(ctx).Add(s.ahead)}, &cdc.Error{Op: "Scan", Reason: cdc.Unavailable}
	}
	page, err := s.PartSource.Read(ctx, index, total, after, limit)
	page.At = task.Now(ctx).Add(s.ahead)
	return page, err
}

// B3: the images of a page are as old as the call that returned them, not as a failed attempt
// before it or as the previous page. That also holds on the service's clock.
func TestAnImageIsAsOldAsItsOwnCall(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := part(newMemory(21), &target{}, 0, 1)
			source := &timed{PartSource: p.Source, ahead: ahead}
			p.Source = source
			p.Retry = func(ctx context.Context, op func(ctx context.Context) error) error {
				for op(ctx) != nil {
					_ = task.Sleep(ctx, time.Hour)
				}
				return nil
			}
			pages := 0
			p.Write = func(_ context.Context, _ Page, readAt time.Time) error {
				pages++
				if asked := source.calls[len(source.calls)-1].Add(min(ahead, 0)); !readAt.Equal(asked) {
					t.Errorf("page %d, a clock that is %s ahead: of %s, asked for at %s", pages, ahead, readAt, asked)
				}
				return nil
			}
			if _, err := p.run(t.Context(), partProgress{}); err != nil || pages < 3 || len(source.calls) < 2*pages {
				t.Errorf("%v, %d pages in %d calls", err, pages, len(source.calls))
			}
		})
	}
}

// Durable progress is saved when a part fails, once: a needless save could fail as well.
func TestAFailedPartIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("no")
		m, out := newMemory(21), &target{}
		p := part(m, out, 0, 1)
		pages := 0
		p.Write = func(ctx context.Context, page Page, at time.Time) error {
			if pages++; pages == 3 {
				return failed
			}
			return out.write(ctx, page, at)
		}
		var saved []partProgress
		p.Save = func(_ context.Context, at partProgress) error { saved = append(saved, at); return nil }
		at, err := p.run(t.Context(), partProgress{})
		if !errors.Is(err, failed) || at.Items != 14 || len(saved) != 1 || saved[0].Items != 14 || len(out.written) != 14 {
			t.Errorf("%+v, saved %+v, %v", at, saved, err)
		}
		pages, saved = 2, nil // it fails immediately
		if _, err := p.run(t.Context(), at); !errors.Is(err, failed) || len(saved) != 0 {
			t.Errorf("nothing was done, and saved %+v, %v", saved, err)
		}
	})
}

// weighing reports each page as a hundred kilobytes.
type weighing struct{ PartSource }

func (s weighing) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	page, err := s.PartSource.Read(ctx, index, total, after, limit)
	page.Bytes = 100_000
	return page, err
}

// Within a second a part saves after each half megabyte, counted from its last save or its
// beginning.
func TestAPartSavesByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := part(newMemory(7*20), &target{}, 0, 1)
		p.Source = weighing{p.Source}
		var saved []int64
		p.Save = func(_ context.Context, at partProgress) error { saved = append(saved, at.Bytes/100_000); return nil }
		if _, err := p.run(t.Context(), partProgress{Bytes: 5_000_000}); err != nil || fmt.Sprint(saved) != "[56 62 68]" {
			t.Errorf("saved after %v pages, %v", saved, err)
		}
	})
}
