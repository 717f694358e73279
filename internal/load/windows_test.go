package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// window is one window of a chain, with the items that it puts and removes.
type window struct {
	from, to      time.Time
	puts, removes []string
}

// chained requests a load from windows, after a full export if there is one.
func (s *loadScene) chained(ctx context.Context, at time.Time, items []string, windows ...window) {
	s.Helper()
	o, table := &exportstest.Objects{}, exportstest.Table{ARN: shopARN, ID: s.shop.id}
	var asked []checkpoint.Export
	ask := func(id string) {
		e, err := exports.Read(ctx, o, id)
		s.check(err)
		asked = append(asked, checkpoint.Export{Address: "/exports/" + id, ARN: e.ARN, From: e.From, At: e.At})
	}
	if !at.IsZero() {
		var all []attribute.Item
		for _, pk := range items {
			all = append(all, enginetest.Keyed(pk))
		}
		s.check(o.Full(table, "full", at, all, nil))
		ask("full")
	}
	for i, w := range windows {
		var changes []exportstest.Change
		for _, pk := range w.puts {
			changes = append(changes, exportstest.Change{Keys: enginetest.Keyed(pk), New: enginetest.Keyed(pk), Written: w.from})
		}
		for _, pk := range w.removes {
			changes = append(changes, exportstest.Change{Keys: enginetest.Keyed(pk), Old: enginetest.Keyed(pk), Written: w.from})
		}
		id := fmt.Sprint("w", i)
		s.check(o.Window(table, id, w.from, w.to, "NEW_AND_OLD_IMAGES", changes))
		ask(id)
	}
	s.Options.Folders = func(_ context.Context, address string) (exports.Store, string, error) {
		return o, path.Base(address), nil
	}
	_, err := s.Ledger.AskExport(ctx, "Orders", true, asked...)
	s.check(err)
}

// stocked returns i0 to i(n-1), and more.
func stocked(n int, more ...string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("i", i))
	}
	return append(all, more...)
}

func (s *loadScene) wantStock(ctx context.Context) {
	s.Helper()
	got, want := s.live(ctx), stocked(12)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("rows %v", got)
	}
}

// TestH104_AFullExportAndItsWindowsAreOneLoad: a window may remove what the previous one put,
// whichever part is copied first. An item of the full export may be missing now without a trace in
// any window. The sweep finds it, even in the first generation.
func TestH104_AFullExportAndItsWindowsAreOneLoad(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor, MaxImageAge: 4 * time.Hour})
		now := task.Now(ctx)
		full := now.Add(-9 * 24 * time.Hour) // older than images may be, except for the adoption
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, now.Add(-time.Hour) })
		middle, end := full.Add(20*time.Minute), now.Add(-time.Minute)
		s.chained(ctx, full, stocked(10, "deleted", "unseen"), window{full, middle, []string{"i10", "passing"}, []string{"deleted"}},
			window{middle, end, []string{"i11"}, []string{"passing"}})
		s.check(s.work(ctx, 10*time.Minute, true))
		state := s.state(ctx)
		if l := state.Load; l.Source != "export" || l.Parts != 4 || l.Items != 17 || !state.Loaded() || state.Base != 2 || l.Sweep.Removed != 1 || !l.ImagesAt().Equal(end) {
			t.Errorf("%+v", l)
		}
		s.wantStock(ctx)
		if s.shop.reads != 0 {
			t.Errorf("the source was scanned %d times", s.shop.reads)
		}
	})
}

// lost begins a scene whose stream has lost changes since a time; the target has the given rows of
// generation 1.
func (s *loadScene) lost(ctx context.Context, from time.Time, left ...string) {
	s.Helper()
	for _, pk := range left {
		s.inherited(ctx, pk)
	}
	s.change(ctx, func(state *checkpoint.TableState) {
		state.GapCount, state.AdoptedAt, state.Base, state.MadeByUs = 1, from.Add(2*time.Hour), 1, true
		state.NeedsLoad, state.Kind, state.LostFrom, state.Reason = true, checkpoint.KindStream, from, "trimmed"
	})
}

// TestH36_WindowsMendAGap: they bring the lost changes. The sweep finds the row of an item that was
// inserted before the loss and deleted during it, and one that is in no window.
func TestH36_WindowsMendAGap(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		from := task.Now(ctx).Add(-3 * time.Hour).Truncate(time.Second)
		s.lost(ctx, from, stocked(10, "deleted", "passing")...)
		s.chained(ctx, time.Time{}, nil, window{from.Add(-6 * time.Second), from.Add(150 * time.Minute), []string{"i10", "i11"}, []string{"deleted"}})
		s.check(s.work(ctx, 10*time.Minute, true))
		if state := s.state(ctx); state.Base != 2 || state.NeedsLoad || state.Load.Items != 3 || state.Load.Sweep.Removed != 1 {
			t.Errorf("%+v", state.Load)
		}
		s.wantStock(ctx)
		if s.shop.reads != 0 {
			t.Errorf("the source was scanned %d times", s.shop.reads)
		}
	})
}

// TestH107_WindowsWaitWhereTheyDoNotMend: requested windows wait if they no longer suffice, because
// the loss may have grown since.
func TestH107_WindowsWaitWhereTheyDoNotMend(t *testing.T) {
	for want, edit := range map[string]func(s *checkpoint.TableState, from time.Time){
		"target_lost":             func(s *checkpoint.TableState, _ time.Time) { s.Kind = checkpoint.KindTargetLost },
		"the first window begins": func(s *checkpoint.TableState, from time.Time) { s.LostFrom = from.Add(-time.Second) },
		"never loaded":            func(s *checkpoint.TableState, _ time.Time) { s.Base = 0 },
		"began at":                func(s *checkpoint.TableState, from time.Time) { s.AdoptedAt = from.Add(170 * time.Minute) },
	} {
		t.Run(want, func(t *testing.T) {
			loads(t, func(ctx context.Context, s *loadScene) {
				var failures []string
				s.Events.Retry = func(_, _ string, _ time.Duration, err error) { failures = append(failures, err.Error()) }
				from := task.Now(ctx).Add(-3 * time.Hour).Truncate(time.Second)
				s.lost(ctx, from, stocked(10, "deleted")...)
				s.chained(ctx, time.Time{}, nil, window{from.Add(-6 * time.Second), from.Add(150 * time.Minute), nil, []string{"deleted"}})
				s.change(ctx, func(state *checkpoint.TableState) { edit(state, from) })
				s.check(s.work(ctx, time.Minute, true))
				if state := s.state(ctx); state.Stage() != checkpoint.StageAsked || len(s.live(ctx)) != 11 {
					t.Errorf("%s: %+v", state.Stage(), state.Load)
				}
				if text := strings.Join(failures, "\n"); !strings.Contains(text, want) {
					t.Errorf("it says %q, and should say %q", text, want)
				}
			})
		})
	}
}

// TestH90_WindowsThatDoNotTouchAreNotPlanned: windows with a hole between them are refused, even if
// an operator requested them, because a change would be in none.
func TestH90_WindowsThatDoNotTouchAreNotPlanned(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		var fault *source.Fault
		s.Events.Retry = func(_, _ string, _ time.Duration, err error) { errors.As(err, &fault) }
		now := task.Now(ctx).Truncate(time.Second)
		full := now.Add(-3 * time.Hour)
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, full })
		s.chained(ctx, full, stocked(12), window{full, full.Add(time.Hour), nil, nil}, window{full.Add(time.Hour + time.Second), now.Add(-time.Minute), nil, nil})
		s.check(s.work(ctx, time.Minute, true))
		if state := s.state(ctx); state.Stage() != checkpoint.StageAsked || fault == nil || !strings.Contains(fault.Error(), "are in no export") {
			t.Errorf("%s, %v", state.Stage(), fault)
		}
	})
}

// TestADamagedFileIsNamed: status and log name its line and the fix, and the other files of the
// load continue.
func TestADamagedFileIsNamed(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		now := task.Now(ctx)
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, now.Add(-time.Hour) })
		o, e := s.exported(ctx, 12, now.Add(-time.Minute))
		in, err := o.Open(ctx, e.Files[1].Name)
		s.check(err)
		packed, err := io.ReadAll(in)
		s.check(err)
		o.Put(e.Files[1].Name, packed[:len(packed)-9])
		var told []string
		g := task.NewGroup(ctx, 0)
		g.Go("work", func(ctx context.Context) error { return s.work(ctx, time.Minute, true) })
		g.Go("look", func(ctx context.Context) error {
			s.check(task.Sleep(ctx, 50*time.Second))
			for _, p := range s.parts(ctx) {
				if p.Trouble.Cause != "" {
					told = append(told, p.Trouble.Cause)
				}
			}
			return nil
		})
		s.check(g.Wait())
		text := strings.Join(told, "\n")
		if len(told) != 1 || !strings.Contains(text, e.Files[1].Name+", line ") || !strings.Contains(text, "cut short: copy the export again") || len(s.live(ctx)) != 8 {
			t.Errorf("%d rows; parts tell %q", len(s.live(ctx)), told)
		}
	})
}
