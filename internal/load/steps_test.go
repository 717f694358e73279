package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A gap that is declared while a load checks its source ends the load, and not with an error about
// the next generation.
func TestARaiseDuringTheLastChecks(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{Items: 7})
		s.shop.describe = func() error {
			s.shop.describe = nil
			_, err := s.Ledger.Raise(ctx, "Orders", 2, checkpoint.DeclaredGap{Reason: "lost"}, nil)
			return err
		}
		if err := s.step(ctx); !errors.Is(err, sink.ErrFenced) || len(s.state(ctx).Gaps) != 1 {
			t.Errorf("%v, %+v", err, s.state(ctx).Gaps)
		}
	})
}

// Part rows that could not be removed are removed with the next step.
func TestARemovalThatFailsIsRepeated(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{Items: 7})
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.DoneAt, state.Load.SweptAt, state.Base = task.Now(ctx), task.Now(ctx), 2
		})
		failed := errors.New("no answer")
		s.store.OnRead = func(_ context.Context, prefix string) error {
			if strings.HasPrefix(prefix, "load/part/") {
				return failed
			}
			return nil
		}
		if err := s.step(ctx); !errors.Is(err, failed) {
			t.Errorf("it ends with %v", err)
		}
		s.store.OnRead = nil
		s.check(s.step(ctx))
		if rows, err := s.store.Read(ctx, "load/part/"); err != nil || len(rows) != 0 {
			t.Errorf("%d rows are left, %v", len(rows), err)
		}
	})
}

// Calls about one attempt of an export are spaced out. The first call about another attempt, or
// about an accepted export, is made immediately.
func TestTheFirstCallAboutAnExportIsMadeAtOnce(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.Exporter = &archive{scene: s}
		s.Reset()
		calls, now := 0, task.Now(ctx)
		for _, step := range []struct {
			serial uint32
			arn    string
			want   int
		}{{1, "", 1}, {1, "", 1}, {1, "arn", 2}, {1, "arn", 2}, {2, "", 3}, {2, "", 3}} {
			r := checkpoint.ExportRequest{To: "s3://b", Serial: step.serial, ARN: step.arn, At: now.Add(-time.Hour)}
			s.check(s.conductor().asking(ctx, r, now, func() error { calls++; return nil }))
			if calls != step.want {
				t.Errorf("%+v: %d calls", step, calls)
			}
		}
	})
}

// The age of images counts from the adoption of their generation if that is later. Only tombstones
// of that generation could refuse them, so an older export may still be copied.
func TestAnAdoptionMakesImagesYoung(t *testing.T) {
	for adopted, live := range map[time.Duration]int{time.Hour: 12, 5 * time.Hour: 0} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor, MaxImageAge: imageAgeMargin + 4*time.Hour})
			now := task.Now(ctx)
			s.change(ctx, func(state *checkpoint.TableState) { state.AdoptedAt = now.Add(-adopted) })
			_, e := s.exported(ctx, 12, now.Add(-20*time.Hour))
			s.sealed(ctx, 3)
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.Export = checkpoint.Export{Address: "/exports/1", ARN: e.ARN, At: e.At}
			})
			s.Reset()
			s.check(s.work(ctx, time.Minute, false))
			if got := len(s.live(ctx)); got != live {
				t.Errorf("adopted %s ago: %d rows", adopted, got)
			}
		})
	}
}

// The writes of a page of any source also delete cells of other rules while the target may hold
// rows of an earlier generation. In a target that was empty they do not.
func TestWhatAPageDeletes(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
		to := func(family string) []transform.Write {
			return []transform.Write{{Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}}
		}
		when, err := expression.ParseWhen("k = 'b'")
		s.check(err)
		m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", PrimaryKey: key, Families: []transform.Family{{Name: "d"}, {Name: "e"}},
			Rules: []transform.Rule{{When: when, Text: "k = 'b'", Writes: to("e")}, {Writes: to("d")}}})
		s.check(err)
		s.Mapping = m
		s.Reset()
		for name, c := range map[string]struct {
			state checkpoint.TableState
			both  bool
		}{
			"a first load into a new target": {checkpoint.TableState{Generation: 1, MadeByUs: true}, false},
			"a target that had rows":         {checkpoint.TableState{Generation: 1}, true},
			"after a gap":                    {checkpoint.TableState{Generation: 2, Base: 1, GapCount: 1, MadeByUs: true}, true},
		} {
			item := enginetest.Keyed("a")
			for source, changes := range map[string][]cdc.Change{
				"a scan":   nil,
				"a window": {{Event: cdc.Modify, Keys: item, New: item, Sequence: cdc.SequenceOf(1), Time: task.Now(ctx)}},
			} {
				b := s.loader().pageOf(c.state, []attribute.Item{item}, changes, task.Now(ctx))
				if both := slices.Contains(b.Rows[0].Families, "e"); len(b.Rows) != 1 || both != c.both {
					t.Errorf("%s of %s: %q", name, source, b.Rows[0].Families)
				}
			}
		}
	})
}

// absent is a target in which one table is deleted.
type absent struct {
	sink.MarkReader
	table string
}

func (a absent) ReadMarks(ctx context.Context, table string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error {
	if table == a.table {
		return &sink.Error{Op: "ReadRows", Reason: sink.Permanent, Code: "NotFound"}
	}
	return a.MarkReader.ReadMarks(ctx, table, r, unmarked, limit, f)
}

// A former table that is deleted during its sweep has no rows left. A missing target table is a
// failure, and so are a part without a range in the plan and progress that cannot be saved.
func TestAPartOfASweepWithoutItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		gone  string
		index int
		ended bool
		fails bool
	}{
		"nothing is gone":        {},
		"a former table is gone": {gone: "former", index: 1},
		"a target table is gone": {gone: "orders", fails: true},
		"no range":               {index: 2, fails: true},
		"its lease has ended":    {ended: true, fails: true},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.DoneAt = task.Now(ctx)
				state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 3, Approved: true, Ranges: []checkpoint.SweepRange{{Table: "orders"}, {Table: "former"}}}
			})
			s.target.Create("former", "d")
			l := s.loader()
			l.target = absent{s.target, c.gone}
			drain, cancel := task.WithTimeout(ctx, time.Minute)
			defer cancel()
			lease := s.part(ctx, c.index)
			if c.ended {
				s.check(lease.Finish(ctx, checkpoint.PartProgress{}))
			}
			if _, err := l.sweep(engine.Lifecycle{Drain: drain, Work: ctx}, s.state(ctx), lease, &engine.Right{}); (err != nil) != c.fails {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// If the source reports no table ID, now or when the load began, the table counts as the same.
func TestATableWithoutAnIDIsTheSame(t *testing.T) {
	for _, c := range []struct{ began, now string }{{"", "second"}, {"first", ""}, {"", ""}} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.TableID = c.began })
			s.shop.id = c.now
			s.finish(ctx, checkpoint.PartProgress{Items: 7})
			s.check(s.step(ctx))
			if state := s.state(ctx); state.Load.DoneAt.IsZero() || state.Generation != 2 {
				t.Errorf("%+v: %+v", c, state)
			}
		})
	}
}
