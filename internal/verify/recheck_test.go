package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// recheckScene is the recheck of one shard. A test sets how its rows differ.
type recheckScene struct {
	*testing.T
	*Recheck
	ctx      context.Context
	differs  map[string]string // by row: how it differs; "expired"; "flight"
	looked   []string
	keys     []string // items that were read with the rows, in order
	fails    int      // number of checks that fail first
	during   func()   // runs during the next check
	notified int
}

// since is when the recheck of a scene began.
var since = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func playRecheck(t *testing.T, script func(s *recheckScene)) {
	t.Helper()
	world := virtual.NewWorld(1, enginetest.ListingsBegin, false)
	err := world.Run(time.Hour, func(ctx context.Context) {
		s := &recheckScene{T: t, ctx: ctx, differs: map[string]string{}}
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Error(err)
			return
		}
		p := engine.NewWorker(&engine.Options{Ledger: ledger, Floors: &engine.Floors{}, Events: engine.Events{}.OrSilent(), Timing: engine.Timing{}.OrDefault(ledger.Lease())}, func(error) {})
		spec := engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"}
		of := &Rechecker{Common: engine.NewTable(p, spec).Common, mapping: spec.Mapping, look: s.look}
		s.Recheck = of.Begin()
		s.Notify(func() { s.notified++ })
		drain, stop := context.WithCancel(ctx)
		world.Go("run", func(ctx context.Context) {
			if err := s.Recheck.Run(engine.Lifecycle{Drain: drain, Work: ctx}); err != nil {
				t.Error(err)
			}
		})
		s.Turn(3, cdc.SequenceOf(10), since)
		script(s)
		stop()
		s.End()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *recheckScene) look(_ context.Context, _ engine.Lifecycle, places []verify.Place) (looks []verify.Look, err error) {
	if s.fails > 0 {
		s.fails--
		return nil, errors.New("denied for a moment")
	}
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	for _, p := range places {
		s.looked = append(s.looked, p.Row)
		for _, item := range p.Keys {
			s.keys = append(s.keys, s.of.mapping.ItemKey(item))
		}
		look := verify.Look{Place: p}
		switch how := s.differs[p.Row]; how {
		case "":
		case "expired":
			look.Expired = true
		case "unmapped":
			look.Unmapped = true
		default:
			look.Findings = []verify.Finding{{Row: p.Row, Kind: verify.Different, Version: transform.Version(how)}}
		}
		looks = append(looks, look)
	}
	return looks, nil
}

// change applies changes of rows; the last one has the given number.
func (s *recheckScene) change(to uint64, rows ...string) {
	b := &transform.Batch{}
	for _, row := range rows {
		m := transform.RowMutation{}
		m.Table, m.Row = "orders", row
		b.Rows = append(b.Rows, m)
	}
	asserted := s.Take(b)
	b.Rows = nil // as a write leaves it
	asserted(s.ctx, cdc.SequenceOf(to))
}

func (s *recheckScene) pass(d time.Duration) { _ = task.Sleep(s.ctx, d) }

// expect compares the state: To, Through and how many rows differ.
func (s *recheckScene) expect(when string, to, through uint64, differing int) {
	s.Helper()
	got := s.State()
	want := checkpoint.Rechecked{Verify: 3, Since: since, To: cdc.SequenceOf(to), Through: cdc.SequenceOf(through), Differing: differing}
	if got != want {
		s.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

// The position passes a page once all of its rows are equal, two seconds after the changes. A
// differing row holds it back.
func TestAPageIsRecheckedWhenItsRowsAreEqual(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["b"] = "v1"
		s.change(11, "a")
		s.change(13, "b", "c")
		s.change(14, "d")
		s.pass(1900 * time.Millisecond)
		s.expect("before two seconds", 10, 10, 0)
		s.pass(200 * time.Millisecond)
		s.expect("after the first look", 11, 11, 0)
		s.pass(2 * time.Second)
		s.expect("after a second look that found the same", 11, 11, 1)
		if s.notified > 0 || s.News() {
			s.Error("all is said to be rechecked")
		}
		s.differs["b"] = "v2" // a newer version
		s.pass(2 * time.Second)
		s.expect("after a look at a newer version", 11, 11, 0)
		s.differs["b"] = ""
		s.pass(2 * time.Second)
		s.expect("when it is equal", 14, 14, 0)
		if s.notified != 1 || !s.News() || s.News() {
			s.Errorf("notified %d times, or no news, or twice", s.notified)
		}
		if got := strings.Join(s.looked, ""); got != "abcdbbb" {
			s.Errorf("looked at %s", got)
		}
	})
}

// A later change of a row replaces the earlier one, so that a busy row delays only itself. The row
// that an item has left stays in the recheck until it is equal.
func TestALaterChangeTakesThePlace(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["busy"], s.differs["left"] = "v", "old"
		s.change(11, "left", "busy")
		for i := range uint64(10) {
			s.pass(time.Second)
			s.change(12+i, "busy")
		}
		if strings.Contains(strings.Join(s.looked, " "), "busy") {
			s.Error("a row was compared less than two seconds after a change")
		}
		s.expect("while the row that was left differs", 10, 10, 1)
		s.differs["left"] = ""
		s.pass(time.Second)
		s.change(30, "busy")
		s.pass(1500 * time.Millisecond)
		s.expect("while one row is busy", 21, 21, 0)
	})
}

// Two items may take the place of each other in a row. Both are read with it, each once, because
// either may be the one that the row should hold.
func TestARowIsComparedWithEachOfItsItems(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		to := uint64(10)
		item := func(pk string) string {
			return s.of.mapping.ItemKey(attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}}))
		}
		change := func(items ...string) {
			b := &transform.Batch{}
			for _, pk := range items {
				b.Rows = append(b.Rows, transform.RowMutation{Table: "orders", Row: "shared", Item: item(pk)})
			}
			to++
			s.Take(b)(s.ctx, cdc.SequenceOf(to))
		}
		s.differs["shared"] = "v"
		for _, c := range []struct {
			after   time.Duration
			changes []string
			want    []string
		}{
			{0, []string{"a"}, nil},
			{time.Second, []string{"b", "a"}, nil}, // before the first look
			{2100 * time.Millisecond, nil, []string{"a", "b"}},
			{time.Second, []string{"c"}, nil}, // after a look that differed
			{2100 * time.Millisecond, nil, []string{"a", "b", "c"}},
		} {
			s.keys = nil
			s.pass(c.after)
			want := []string{}
			for _, pk := range c.want {
				want = append(want, item(pk))
			}
			if !slices.Equal(s.keys, want) {
				t.Errorf("before change %d: items %q are read, want %q", to+1, s.keys, want)
			}
			if len(c.changes) > 0 {
				change(c.changes...)
			}
		}
		s.differs["shared"], s.keys = "", nil
		s.pass(2 * time.Second)
		s.expect("equal", to, to, 0)
		change("d")
		s.keys = nil
		s.pass(2100 * time.Millisecond)
		if !slices.Equal(s.keys, []string{item("d")}) {
			t.Errorf("after the row was equal: items %q are read", s.keys)
		}
	})
}

// A row that is missing because its item has expired counts as equal for the final comparison, and
// is compared again by the next worker.
func TestAnExpiredItem(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["e"] = "expired"
		s.change(11, "e")
		s.change(12, "a")
		s.pass(3 * time.Second)
		s.expect("expired", 10, 12, 0)
		if !s.News() {
			s.Error("no news")
		}
		s.differs["e"] = "v"
		s.pass(2 * time.Second)
		s.expect("it is back, and differs", 10, 10, 0)
		s.differs["e"] = ""
		s.pass(2 * time.Second)
		s.expect("equal", 12, 12, 0)
		s.differs["e"], s.differs["b"] = "expired", "v"
		s.change(13, "e", "b")
		s.pass(3 * time.Second)
		s.change(14, "e")
		s.expect("it is changed beside a row that differs", 12, 12, 0)
	})
}

// An item that cannot be mapped has no row to compare.
func TestAnUnmappedItemIsNotRechecked(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["u"] = "unmapped"
		s.change(11, "u")
		s.pass(5 * time.Second)
		s.expect("unmapped", 10, 10, 1)
	})
}

// A failed check is repeated.
func TestALookThatFailsIsRepeated(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.fails = 3
		s.change(11, "a")
		s.pass(time.Minute)
		s.expect("after three failures", 11, 11, 0)
	})
}

// A worker that acquires the shard first compares again everything after the previous worker's
// position. Only then does the position move.
func TestAnotherWorkerResumes(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		former := checkpoint.Rechecked{Verify: 3, Since: since, To: cdc.SequenceOf(20), Through: cdc.SequenceOf(20), Differing: 4}
		complete := s.Resume(former, cdc.SequenceOf(25))
		s.expect("at first", 20, 20, 0)
		s.change(26, "new")
		b := &transform.Batch{Rows: make([]transform.RowMutation, 1)}
		b.Rows[0].Table, b.Rows[0].Row = "orders", "again"
		s.Again(s.ctx, b)
		s.pass(3 * time.Second)
		s.expect("while it reads again", 20, 20, 0)
		complete()
		s.expect("when it has read again", 26, 26, 0)
	})
}

// A recheck can be replaced by another one, end, or be given up as lost. Pages that are applied
// again are not compared again.
func TestARecheckEnds(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["a"] = "v"
		s.change(11, "a")
		s.change(11, "b") // the same page, applied again
		s.Turn(4, cdc.SequenceOf(11), time.Time{})
		if got := s.State(); got != (checkpoint.Rechecked{Verify: 4, To: cdc.SequenceOf(11), Through: cdc.SequenceOf(11)}) || !s.News() {
			s.Errorf("another: %+v", got)
		}
		s.Turn(0, cdc.SequenceOf(12), since)
		s.change(13, "a")
		if got := s.State(); got != (checkpoint.Rechecked{}) || !s.News() || len(s.looked) > 0 {
			s.Errorf("ended: %+v, looked at %v", got, s.looked)
		}
		s.Turn(5, cdc.SequenceOf(13), since)
		var rows []string
		for i := range mostRechecks + 1 {
			rows = append(rows, fmt.Sprint("r", i))
		}
		s.change(14, rows...)
		if got := s.State(); got.Verify != 0 || !strings.Contains(got.Lost, "more than 200000 rows") || !s.News() {
			s.Errorf("lost: %+v", got)
		}
	})
}

// A shard that was read to its end waits for its rows, and gives up if they still differ.
func TestTheEndOfAShard(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.change(11, "a")
		began := task.Mono(s.ctx)
		s.Finish(engine.Until(s.ctx))
		if took := task.Mono(s.ctx) - began; took < 2*time.Second || took > 3*time.Second {
			s.Errorf("it waited %s", took)
		}
		s.expect("equal", 11, 11, 0)
		s.differs["b"] = "v"
		s.change(12, "b")
		s.Finish(engine.Until(s.ctx))
		if got := s.State(); got.Verify != 0 || got.Lost == "" {
			s.Errorf("it gave up nothing: %+v", got)
		}
	})
}

// A row whose item has expired never counts as differing, however often it is compared. The
// recheck is reported as whole once, not with every comparison.
func TestAnExpiredItemIsNotListed(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["r"] = "expired"
		s.change(11, "r")
		s.pass(20 * time.Second)
		s.expect("expired", 10, 11, 0)
		if len(s.looked) < 8 || s.notified != 1 {
			s.Errorf("compared %d times, reported %d times", len(s.looked), s.notified)
		}
	})
}

// A change that is applied during a comparison replaces the row that is compared. The outcome says
// nothing about the later change, and the row does not stay listed as differing.
func TestAChangeDuringAComparison(t *testing.T) {
	for _, again := range []bool{false, true} {
		playRecheck(t, func(s *recheckScene) {
			s.differs["r"] = "v"
			replace := func() { s.change(12, "r") }
			if s.change(11, "r"); again {
				s.pass(2100 * time.Millisecond)
			}
			s.during = replace
			s.pass(2100 * time.Millisecond)
			s.differs["r"] = ""
			s.expect("after the comparison", 11, 11, 0)
			s.pass(2 * time.Second)
			s.expect("after the next comparison", 12, 12, 0)
		})
	}
}

// A drain ends the wait at the end of a shard, and the recheck is not lost: the next worker
// resumes it.
func TestADrainedShardLosesNoRecheck(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		s.differs["b"] = "v"
		s.change(11, "b")
		drain, cancel := task.WithTimeout(s.ctx, time.Second)
		defer cancel()
		began := task.Mono(s.ctx)
		s.Finish(engine.Lifecycle{Drain: drain, Work: s.ctx})
		if took := task.Mono(s.ctx) - began; took > 2*time.Second {
			s.Errorf("it waited %s", took)
		}
		s.expect("drained", 10, 10, 0)
	})
}

// What another recheck has replaced changes nothing: neither changes that are read again for it,
// nor its end. A recheck that has ended is not lost.
func TestAReplacedRecheckChangesNothing(t *testing.T) {
	playRecheck(t, func(s *recheckScene) {
		b := &transform.Batch{Rows: make([]transform.RowMutation, 1)}
		b.Rows[0].Table, b.Rows[0].Row = "orders", "again"
		complete := s.Resume(checkpoint.Rechecked{Verify: 3, Since: since, To: cdc.SequenceOf(20), Through: cdc.SequenceOf(20)}, cdc.SequenceOf(25))
		s.Turn(3, cdc.SequenceOf(25), since)
		s.Again(s.ctx, b)
		s.pass(3 * time.Second)
		s.expect("replaced", 25, 25, 0)
		s.differs["new"] = "v"
		s.change(26, "new")
		complete()
		s.pass(3 * time.Second)
		s.expect("completed", 25, 25, 0)
		s.Turn(0, cdc.SequenceOf(26), since)
		s.Again(s.ctx, b)
		s.Lose("why")
		s.pass(3 * time.Second)
		if got := s.State(); got != (checkpoint.Rechecked{}) || strings.Contains(strings.Join(s.looked, " "), "again") {
			s.Errorf("ended: %+v, compared %q", got, s.looked)
		}
	})
}

// A fatal error ends the comparisons. A failure after a drain has begun is none.
func TestHowARecheckRunEnds(t *testing.T) {
	for _, drains := range []bool{false, true} {
		playRecheck(t, func(s *recheckScene) {
			drain, stop := context.WithCancel(s.ctx)
			defer stop()
			of := *s.of
			of.look = func(context.Context, engine.Lifecycle, []verify.Place) ([]verify.Look, error) {
				if drains {
					stop()
				}
				return nil, checkpoint.ErrLedgerExchanged
			}
			r := of.Begin()
			r.Turn(3, cdc.SequenceOf(10), since)
			r.asserted(s.ctx, []verify.Place{{Table: "orders", Row: "a"}}, cdc.SequenceOf(11))
			if err := r.Run(engine.Lifecycle{Drain: drain, Work: s.ctx}); errors.Is(err, checkpoint.ErrLedgerExchanged) == drains {
				s.Errorf("drains %v: %v", drains, err)
			}
		})
	}
}
