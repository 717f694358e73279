package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A written image of an export shows its age: the export's own time, or the adoption of its
// generation if that is later. A scan's images have the time of their page.
func TestTheTimesOfWhatIsCopied(t *testing.T) {
	for _, exported := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.pass(ctx, time.Minute)
			now := task.Now(ctx)
			adopted, image := now.Add(-time.Hour), now.Add(-3*time.Hour)
			s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, adopted })
			if exported {
				s.exported(ctx, 1, image)
			}
			l := s.loader()
			var got []transform.Batch
			l.applier = s.Table().Applier(func(b *transform.Batch) func() {
				seen := *b
				seen.Rows = slices.Clone(b.Rows)
				got = append(got, seen)
				return func() {}
			})
			s.check(s.work(ctx, time.Minute, true))
			if len(got) == 0 || len(got[0].Rows) == 0 {
				t.Fatalf("%v: nothing is written", exported)
			}
			row, read := got[0].Rows[0], got[0].Read
			if read.At.Before(now) || read.Mono == 0 {
				t.Errorf("exported %v: read at %+v", exported, read)
			}
			if exported && (!row.At.Equal(adopted) || row.Version != transform.LoadVersion(2, image)) || !exported && row.Version < transform.LoadVersion(2, now) {
				t.Errorf("exported %v: of %s, version %s", exported, row.At, row.Version)
			}
		})
	}
}

// Items that had expired by the time of the export are left out if configured, and copied
// otherwise. An item that expired later is copied, because the stream brings its removal.
func TestExpiredItemsAreLeftOut(t *testing.T) {
	for skip, want := range map[bool]int{false: 3, true: 2} {
		loads(t, func(ctx context.Context, s *loadScene) {
			now := task.Now(ctx)
			s.Mapping = expiring(t)
			s.SkipExpired = skip
			s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, now.Add(-time.Hour) })
			item := func(pk string, until time.Time) attribute.Item {
				seconds, err := attribute.Number(fmt.Sprint(until.Unix()))
				s.check(err)
				return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "until", Value: seconds}})
			}
			o := &exportstest.Objects{}
			s.check(o.Full(exportstest.Table{ARN: shopARN, ID: s.shop.id}, "1", now.Add(-time.Minute), []attribute.Item{item("over", now.Add(-time.Hour)), item("later", now.Add(-30*time.Second)), item("live", now.Add(time.Hour))}))
			s.Options.Folders = func(context.Context, string) (exports.Store, string, error) { return o, "1", nil }
			e, err := exports.Read(ctx, o, "1")
			s.check(err)
			_, err = s.Ledger.AskExport(ctx, "Orders", true, checkpoint.Export{Address: "/exports/1", ARN: e.ARN, At: e.At})
			s.check(err)
			s.Reset()
			s.check(s.work(ctx, time.Minute, true))
			if live := s.live(ctx); len(live) != want {
				t.Errorf("skip %v: %q", skip, live)
			}
		})
	}
}

// A sweep removes rows without a version only in a table that replicator owns, and never in one
// that only former mappings wrote. Doubts of a full export with windows concern only that load.
func TestWhatASweepLooksFor(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	at := enginetest.ListingsBegin
	windows := checkpoint.Load{Generation: 2, Export: checkpoint.Export{Address: "a", At: at}, Windows: []checkpoint.Export{{Address: "b", From: at, At: at.Add(time.Hour)}}}
	for name, c := range map[string]struct {
		table    string
		state    checkpoint.TableState
		settings loadSettings
		want     sink.Sweeping
	}{
		"of others":        {"orders", checkpoint.TableState{Generation: 2}, loadSettings{}, sink.Sweeping{}},
		"owned":            {"orders", checkpoint.TableState{Generation: 2}, loadSettings{owned: true}, sink.Sweeping{Owned: true}},
		"made by us":       {"orders", checkpoint.TableState{Generation: 2, MadeByUs: true}, loadSettings{}, sink.Sweeping{Owned: true}},
		"made for several": {"orders", checkpoint.TableState{Generation: 2, MadeByUs: true}, loadSettings{shared: true}, sink.Sweeping{Shared: true}},
		"of younger items": {"orders", checkpoint.TableState{Generation: 2}, loadSettings{skipExpired: true}, sink.Sweeping{}},
		"a former table":   {"former", checkpoint.TableState{Generation: 2, MadeByUs: true}, loadSettings{owned: true}, sink.Sweeping{}},
		"written by apps":  {"orders", checkpoint.TableState{Generation: 2}, loadSettings{late: time.Second}, sink.Sweeping{Written: true}},
		"in doubt":         {"orders", checkpoint.TableState{Generation: 2, Load: windows}, loadSettings{}, sink.Sweeping{Doubted: transform.LoadVersion(2, at)}},
		"of a load before": {"orders", checkpoint.TableState{Generation: 3, Load: windows}, loadSettings{}, sink.Sweeping{}},
	} {
		got := sweeping(m, nil, c.table, c.state, c.settings)
		if got.Owned != c.want.Owned || got.Shared != c.want.Shared || got.Written != c.want.Written || got.Doubted != c.want.Doubted || got.Table != c.table || got.Generation != c.state.Generation || got.Mapping != m {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A part of a sweep that writes a table of a former mapping proves its right to that table, too.
func TestWhichTablesAPartWrites(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		state := s.sealed(ctx, 2)
		state.Load.Sweep.Ranges = []checkpoint.SweepRange{{Table: "orders"}, {Table: "former"}}
		for name, c := range map[string]struct {
			part checkpoint.Part
			want []string
		}{
			"a copy":          {checkpoint.Part{Phase: checkpoint.PhaseCopy, Index: 1}, []string{"orders"}},
			"of our own":      {checkpoint.Part{Phase: checkpoint.PhaseSweep(1), Index: 0}, []string{"orders"}},
			"of a former one": {checkpoint.Part{Phase: checkpoint.PhaseSweep(1), Index: 1}, []string{"orders", "former"}},
			"of no range":     {checkpoint.Part{Phase: checkpoint.PhaseSweep(1), Index: 2}, []string{"orders"}},
		} {
			if got := s.loader().tables(state, c.part); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

// Parts are leased only while the load may continue: it is neither paused nor suspended, and has
// the ledger's mapping.
func TestWhichPartsMayBeLeased(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *checkpoint.TableState)
		want int
	}{
		"it runs":            {func(*checkpoint.TableState) {}, 3},
		"it is paused":       {func(s *checkpoint.TableState) { s.Load.Paused = "busy" }, 0},
		"it is suspended":    {func(s *checkpoint.TableState) { s.Suspended.Reason = "gone" }, 0},
		"the mapping is new": {func(s *checkpoint.TableState) { s.MappingHash = "another" }, 0},
		"it is over":         {func(s *checkpoint.TableState) { s.Load.DoneAt, s.Base = enginetest.ListingsBegin, 2 }, 0},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 3)
			s.change(ctx, c.edit)
			if _, of, err := (kind{s.loader()}).Look(ctx); err != nil || of.Total != c.want {
				t.Errorf("%s: %+v, %v", name, of, err)
			}
		})
	}
}

// Throttling by the source during a copy is reported as waiting for it, together with waits for the
// program's limits.
func TestACopyTellsWhatItWaitsFor(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		rows := 1.0
		s.Limits.RowsPerSecond = &rows
		s.Reset()
		s.sealed(ctx, 2)
		throttles := 3
		s.shop.scan = func(context.Context) error {
			if throttles--; throttles >= 0 {
				return &cdc.Error{Op: "Scan", Reason: cdc.Throttled, Err: errors.New("slow down")}
			}
			return nil
		}
		copied := 0
		s.Events.Copied = func(_ string, n int64) { copied += int(n) }
		s.Reset()
		s.check(s.work(ctx, time.Minute, false))
		waits := map[string]bool{}
		for _, w := range s.Table().Waits.Report(task.Now(ctx)) {
			waits[w.Reason] = w.Seconds > 0
		}
		if !waits[engine.LimitRows] || !waits[engine.LimitSource] || copied != 12 {
			t.Errorf("%v, %d copied", waits, copied)
		}
	})
}

// expiring returns the mapping of Orders with a time to live.
func expiring(t *testing.T) *transform.Mapping {
	t.Helper()
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", Families: []transform.Family{{Name: "d"}}, TTL: transform.TTL{Attribute: "until"}, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A worker that cannot read exports plans no load from them and copies none of their files. It says
// so, and does not scan instead.
func TestAWorkerThatCannotReadTheExport(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			now := task.Now(ctx)
			s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, now.Add(-time.Hour) })
			s.exported(ctx, 12, now.Add(-time.Minute))
			if sealed {
				s.check(s.conduct(ctx, time.Second))
			}
			s.Options.Folders = nil
			told := 0
			s.Events.Retry = func(_, _ string, _ time.Duration, err error) {
				if told++; !errors.Is(err, source.ErrNone) {
					t.Error(err)
				}
			}
			s.Reset()
			s.check(s.work(ctx, time.Minute, true))
			if state := s.state(ctx); told == 0 || s.shop.reads > 0 || len(s.live(ctx)) > 0 || (state.Stage() == checkpoint.StageCopying) != sealed {
				t.Errorf("sealed %v: told %d times, %+v", sealed, told, state.Load)
			}
		})
	}
}

// The plan of exports has their numbers of items and bytes, and their order in time. Another order
// is refused, because a window may remove what the previous one put.
func TestThePlanOfExports(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			now := task.Now(ctx).Truncate(time.Second)
			begin := now.Add(-3 * time.Hour)
			s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, begin })
			s.chained(ctx, begin, stocked(10), window{begin, begin.Add(time.Hour), []string{"i10"}, nil}, window{begin.Add(time.Hour), now.Add(-time.Minute), []string{"i11"}, nil})
			if swapped {
				s.change(ctx, func(state *checkpoint.TableState) {
					state.Load.Windows = []checkpoint.Export{state.Load.Windows[1], state.Load.Windows[0]}
				})
			}
			var fault *source.Fault
			s.Events.Retry = func(_, _ string, _ time.Duration, err error) { errors.As(err, &fault) }
			s.Reset()
			s.check(s.conduct(ctx, 10*time.Second))
			l := s.state(ctx).Load
			if swapped && (fault == nil || l.Generation != 0) || !swapped && (fault != nil || l.Estimate != 12 || l.Parts != 4 || l.TableID != "first" || len(l.ExportARNs()) != 3) {
				t.Errorf("swapped %v: %v, %+v", swapped, fault, l)
			}
		})
	}
}
