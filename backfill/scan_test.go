package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

func discard(context.Context, Progress) error { return nil }

func TestLoadsEverythingOnce(t *testing.T) {
	for _, segments := range []int{0, 1, 3, 200} {
		m, out := newMemory(500), &target{}
		var saved []Progress
		var segmentsDone int
		var mu sync.Mutex
		s := &Scan{
			Table: "Orders", Segments: segments, Parallel: 5, Source: m, Write: out.write,
			Save:   func(_ context.Context, p Progress) error { saved = append(saved, p); return nil },
			Events: Events{SegmentDone: func(int, int) { mu.Lock(); segmentsDone++; mu.Unlock() }},
		}
		p, err := s.Run(context.Background(), Progress{})
		if err != nil || !p.Done() || p.Items != 500 || p.Total != max(1, segments) || segmentsDone != p.Total {
			t.Fatalf("%d segments: %+v, %d done, %v", segments, p, segmentsDone, err)
		}
		if !reflect.DeepEqual(saved[len(saved)-1], p) {
			t.Errorf("the last save is %+v", saved[len(saved)-1])
		}
		for key, n := range out.written {
			if n != 1 {
				t.Errorf("%s was written %d times", key, n)
			}
		}
		if keys := out.missing(m); keys != nil {
			t.Errorf("missing: %v", keys)
		}
	}
}

// TestResumedByFewer: what was begun by many segments at once is ended one by one: none is passed over when those before it are over.
func TestResumedByFewer(t *testing.T) {
	m, out := newMemory(90), &target{}
	from := Progress{Total: 4, Next: 3, Open: []Open{{Segment: 0}, {Segment: 1}, {Segment: 2}}}
	s := &Scan{Table: "Orders", Parallel: 1, Source: m, Write: out.write, Save: discard}
	p, err := s.Run(context.Background(), from)
	if err != nil || !p.Done() || out.missing(m) != nil || p.Items != 90 {
		t.Fatalf("%+v %v, missing %v", p, err, out.missing(m))
	}
}

// TestCrashAnywhereLosesNothing crashes a load at every one of its calls in turn, before or after the call took effect, and
// goes on from what was saved (B1, B2).
func TestCrashAnywhereLosesNothing(t *testing.T) {
	for _, segments := range []int{1, 3} {
		for _, page := range []int{1, 4} {
			for _, before := range []bool{true, false} {
				for at, crashed := 1, true; crashed; at++ {
					synctest.Test(t, func(t *testing.T) { crashed = crashAt(t, segments, page, at, before) })
				}
			}
		}
	}
}

// crashAt loads with a crash at the given call and once more without; it returns false if there were fewer calls.
func crashAt(t *testing.T, segments, page, at int, before bool) (crashed bool) {
	m, out := newMemory(25), &target{}
	m.pages = func(uint64) int { return page }
	calls := 0
	var mu sync.Mutex
	step := func(effect func() error) error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if at > 0 && (calls > at || calls == at && before) {
			crashed = true
			return errCrash // nothing happens any more after the crash
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
	load := func() (Progress, error) {
		var from Progress
		if saved != nil {
			if err := json.Unmarshal(saved, &from); err != nil {
				t.Fatal(err)
			}
		}
		s := &Scan{
			Table: "Orders", Segments: segments, Source: m,
			Write: func(ctx context.Context, items []attribute.Item, at time.Time) error {
				_ = task.Sleep(ctx, 170*time.Millisecond) // so that other segments save meanwhile
				return step(func() error { return out.write(ctx, items, at) })
			},
			Save: func(_ context.Context, p Progress) error {
				return step(func() (err error) { saved, err = json.Marshal(p); return err })
			},
		}
		return s.Run(context.Background(), from)
	}
	p, err := load()
	if crashed {
		if !errors.Is(err, errCrash) {
			t.Fatalf("crash at call %d: %v", at, err)
		}
		at, segments = 0, segments+1 // what was saved decides, if anything was
		p, err = load()
	}
	if err != nil || !p.Done() || out.missing(m) != nil {
		t.Fatalf("crash at call %d: %+v %v, missing %v", at, p, err, out.missing(m))
	}
	return crashed
}

// TestKilledAndResumedUnderTheScheduler kills the process without warning, so that not even a last save happens, under many
// schedules.
func TestKilledAndResumedUnderTheScheduler(t *testing.T) {
	for seed := range uint64(50) {
		w := virtual.NewWorld(seed, day, false)
		m, out := newMemory(120), &target{}
		pause := func(ctx context.Context) error {
			return task.Sleep(ctx, time.Duration(w.Rand().IntN(900))*time.Millisecond)
		}
		m.calls, m.after = pause, pause
		var saved []byte
		saving, kills := false, 0
		err := w.Run(24*time.Hour, func(ctx context.Context) {
			for done := false; !done; {
				worker := w.NewProcess(fmt.Sprint("worker", kills))
				worker.Go("load", func() {
					var from Progress
					if saved != nil {
						if err := json.Unmarshal(saved, &from); err != nil {
							t.Error(err)
						}
					}
					s := &Scan{
						Table: "Orders", Segments: 5, Parallel: 3, Source: m,
						Write: func(ctx context.Context, items []attribute.Item, at time.Time) error {
							if err := pause(ctx); err != nil {
								return err
							}
							return out.write(ctx, items, at)
						},
						Save: func(ctx context.Context, p Progress) error {
							if saving {
								t.Error("two saves at once")
							}
							saving = true
							defer func() { saving = false }()
							b, err := json.Marshal(p)
							if err != nil {
								return err
							}
							if err := pause(ctx); err != nil {
								return err
							}
							saved = b
							return pause(ctx)
						},
					}
					p, err := s.Run(worker.Context(), from)
					if err != nil || !p.Done() {
						t.Errorf("seed %d: %+v %v", seed, p, err)
					}
					done = true
				})
				_ = task.Sleep(ctx, time.Duration(1+w.Rand().IntN(5))*time.Second)
				if !done {
					worker.Kill()
					kills++
				}
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if keys := out.missing(m); keys != nil {
			t.Fatalf("seed %d, %d kills: missing %v", seed, kills, keys)
		}
	}
}

func TestAnOlderGenerationIsNotResumed(t *testing.T) {
	m, out := newMemory(40), &target{}
	s := &Scan{Table: "Orders", Generation: 8, Segments: 2, Source: m, Write: out.write, Save: discard}
	p, err := s.Run(context.Background(), Progress{Generation: 7, Total: 3, Next: 3})
	if err != nil || p.Generation != 8 || p.Total != 2 || out.missing(m) != nil {
		t.Fatalf("%+v %v", p, err)
	}
	p, err = s.Run(context.Background(), p)
	if err != nil || len(out.written) != 40 || slices.Max(slices.Collect(maps.Values(out.written))) != 1 {
		t.Fatalf("a finished load was loaded again: %+v %v", p, err)
	}
}

func TestAPageThatDoesNotMoveIsAnError(t *testing.T) {
	m := newMemory(10)
	stuck := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("item1")}})
	s := &Scan{Table: "Orders", Source: repeating{m, stuck}, Write: (&target{}).write, Save: discard}
	if _, err := s.Run(context.Background(), Progress{}); !cdc.Is(err, cdc.Malformed) {
		t.Fatal(err)
	}
}

// TestEmptyPagesAreNotTheEnd: only an answer without a key ends a segment.
func TestEmptyPagesAreNotTheEnd(t *testing.T) {
	m, out := newMemory(50), &target{}
	s := &Scan{Table: "Orders", Segments: 2, Source: &halting{memory: m}, Write: out.write, Save: discard}
	if p, err := s.Run(context.Background(), Progress{}); err != nil || p.Items != 50 || out.missing(m) != nil {
		t.Fatalf("%+v %v", p, err)
	}
}

// TestH31_ImagesDoNotClaimToBeYounger: the time given with a page is when it was asked for, repeated requests and clocks
// that are ahead included (B3).
func TestH31_ImagesDoNotClaimToBeYounger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(30)
		slow := 0
		m.calls = func(ctx context.Context) error {
			if slow++; slow == 2 {
				_ = task.Sleep(ctx, time.Minute)
				return &cdc.Error{Op: "Scan", Reason: cdc.Throttled, Err: errors.New("busy")}
			}
			return task.Sleep(ctx, time.Second)
		}
		ctx := context.Background()
		asked := task.Now(ctx)
		s := &Scan{
			Table: "Orders", Source: m, Save: discard,
			Retry: func(ctx context.Context, op func(context.Context) error) error {
				for {
					asked = task.Now(ctx)
					if err := op(ctx); err == nil {
						return nil
					}
				}
			},
			Write: func(_ context.Context, _ []attribute.Item, at time.Time) error {
				if !at.Equal(asked) {
					t.Errorf("claims %s, was asked for at %s", at, asked)
				}
				return nil
			},
		}
		if _, err := s.Run(ctx, Progress{}); err != nil {
			t.Fatal(err)
		}
	})
	sent := day.Add(time.Hour)
	for _, c := range []struct {
		answered time.Time
		took     time.Duration
		want     time.Time
	}{
		{time.Time{}, time.Second, sent},
		{day, time.Second, day.Add(-time.Second)},                            // the worker's clock is an hour ahead
		{sent.Add(time.Hour), time.Second, sent},                             // the worker's clock is behind
		{sent.Add(time.Second), 3 * time.Second, sent.Add(-2 * time.Second)}, // the service floors to the second
	} {
		if got := imageTime(sent, c.answered, c.took); !got.Equal(c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestEndedContext: a load that is told to stop returns what is durable, without a save that it may no longer have the right to.
func TestEndedContext(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	m, out := newMemory(100), &target{}
	saves, pages := 0, 0
	s := &Scan{
		Table: "Orders", Segments: 3, Parallel: 1, Source: m,
		Write: func(ctx context.Context, items []attribute.Item, at time.Time) error {
			if pages++; pages == 4 {
				cancel(stop)
				return context.Cause(ctx)
			}
			return out.write(ctx, items, at)
		},
		Save: func(context.Context, Progress) error { saves++; return nil },
	}
	p, err := s.Run(ctx, Progress{})
	if !errors.Is(err, stop) || saves != 0 || p.Done() || p.Items != int64(len(out.written)) || len(out.written) == 0 {
		t.Fatalf("%+v %v, %d saves", p, err, saves)
	}
	p, err = s.Run(context.Background(), p)
	if err != nil || !p.Done() || out.missing(m) != nil {
		t.Fatalf("%+v %v", p, err)
	}
}

// TestEndedBeforeItBegan: a load whose right was over before a segment was begun has loaded nothing, and does not look complete.
func TestEndedBeforeItBegan(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	s := &Scan{Table: "Orders", Segments: 3, Source: newMemory(10), Write: (&target{}).write, Save: discard}
	if p, err := s.Run(ctx, Progress{}); !errors.Is(err, stop) || p.Done() {
		t.Fatalf("%+v %v", p, err)
	}
}
