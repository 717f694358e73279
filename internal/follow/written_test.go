package follow

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// twoRules is a mapping whose items have columns in family d, or in e if their k is b.
func twoRules(t *testing.T) *transform.Mapping {
	t.Helper()
	when, err := expression.ParseWhen("k = 'b'")
	if err != nil {
		t.Fatal(err)
	}
	to := func(family string) []transform.Write {
		return []transform.Write{{Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}}
	}
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "d"}, {Name: "e"}}, Rules: []transform.Rule{{When: when, Text: "k = 'b'", Writes: to("e")}, {Writes: to("d")}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// deleted are the families that a request deletes, in order.
func deleted(r sink.Request) (families []string) {
	for _, op := range r.Ops {
		if op.Kind == sink.DeleteFamily && !sink.IsOwn(op.Family) {
			families = append(families, op.Family)
		}
	}
	slices.Sort(families)
	return families
}

// While rows may be older than the generation, a write removes what another rule may have left of
// its item: the change that would have removed it may be lost. Afterwards a remove alone does,
// always. So it is when the generation was raised between a worker's look and its lease.
func TestAWriteRemovesWhatMayBeOlder(t *testing.T) {
	for name, c := range map[string]struct {
		late   time.Duration
		change func(state *checkpoint.TableState)
		raised bool
		all    bool
	}{
		"swept":                    {0, func(*checkpoint.TableState) {}, false, false},
		"not swept":                {0, func(state *checkpoint.TableState) { state.Base = 6 }, false, true},
		"raised since":             {0, func(*checkpoint.TableState) {}, true, true},
		"swept, with dual writes":  {time.Minute, func(*checkpoint.TableState) {}, false, false},
		"not swept, dual writes":   {time.Minute, func(state *checkpoint.TableState) { state.Base = 6 }, false, true},
		"raised, with dual writes": {time.Minute, func(*checkpoint.TableState) {}, true, true},
	} {
		for _, room := range []int64{0, engine.SettleBytes} {
			playScene(t, func(s *scene) {
				s.Mapping, s.Late, s.room = twoRules(t), c.late, room
				s.change(c.change)
				s.shard("s", "")
				s.put("a")
				h := s.stream.shards["s"]
				h.changes = append(h.changes, cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(2), Time: s.world.Now(), Keys: h.changes[0].Keys, Old: h.changes[0].New})
				if c.raised {
					s.prepares()
					s.raisesAtTheLease()
				}
				s.follows(c.late + 20*time.Second)
				put := []string{"d"}
				if c.all {
					put = []string{"d", "e"}
				}
				exact := slices.DeleteFunc(s.wrote, func(w wrote) bool { return !w.exact })
				if len(exact) != 2 || !slices.Equal(deleted(exact[0].sent), put) || !slices.Equal(deleted(exact[1].sent), []string{"d", "e"}) {
					t.Errorf("%s, room of %d: a put removes %q of %+v", name, room, deleted(exact[0].sent), exact)
				}
			})
		}
	}
}

// raisesAtTheLease makes the generation that a lease gives another one than that which the worker
// saw when it looked.
func (s *scene) raisesAtTheLease() {
	s.store.OnRead = func(_ context.Context, prefix string) error {
		if strings.Contains(prefix, "/shard/") {
			s.store.OnRead = nil
			s.change(func(state *checkpoint.TableState) { state.Generation, state.Adopted, state.Base = 8, 8, 8 })
		}
		return nil
	}
}

// Cells are dated by the latest time that the shard has reached: DynamoDB's times run backwards at
// times, and a cell that is dated before an older one would be hidden by it. So it is for the next
// worker.
func TestCellTimesNeverGoBack(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		begun := s.world.Now()
		s.put("a", "b")
		s.stream.shards["s"].changes[0].Time = begun.Add(time.Hour)
		s.follows(10 * time.Second)
		s.parts = nil
		s.put("c")
		s.follows(10 * time.Second)
		for _, w := range s.wrote {
			for _, op := range w.sent.Ops {
				if op.Kind == sink.SetCell && op.Family == "d" && op.Timestamp != begun.Add(time.Hour).UnixMicro() {
					t.Errorf("change %d is dated %s", w.n, time.UnixMicro(op.Timestamp))
				}
			}
		}
		if row := s.row("s"); len(s.wrote) != 3 || !row.CellTime.Equal(begun.Add(time.Hour)) || !row.EventTime.Equal(begun.Add(time.Hour)) {
			t.Errorf("%+v, %d writes", row, len(s.wrote))
		}
	})
}

// What others look at while a shard is idle goes with the renewals of its lease: up to when it is
// applied, which a takeover is judged by, and when it was read. What a cutover looks for goes with
// the changes.
func TestWhatARowTellsMeanwhile(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.put("a")
		lags, pages := 0, 0
		s.Events.Lag = func(_ string, lag, headroom time.Duration) {
			if lags++; lag > 5*time.Second || headroom < cdc.Retention-20*time.Second {
				t.Errorf("after %s a lag of %s, a headroom of %s", s.took(), lag, headroom)
			}
		}
		s.Events.PageDone = func(string) { pages++ }
		s.after(time.Minute, func() {
			now := s.world.Now()
			row := s.row("s")
			if ago := now.Sub(row.AppliedTo); ago > 8*time.Second || now.Sub(row.ReadAt) > 8*time.Second || !row.CaughtUp || row.Owner != "w" {
				t.Errorf("applied up to %s ago, %+v", ago, row)
			}
			if row.Sighted.WrittenAt.IsZero() || row.Sighted.Written == "" || !row.Sighted.BehindAt.IsZero() {
				t.Errorf("a cutover sees %+v", row.Sighted)
			}
			s.put("late")
			s.stream.shards["s"].changes[1].Time = now.Add(-7 * time.Second)
		})
		s.follows(63 * time.Second)
		if row := s.row("s"); row.Sighted.BehindAt.IsZero() {
			t.Errorf("of a change that was read late a cutover sees %+v", row.Sighted)
		}
		if lags < 20 || pages < 50 {
			t.Errorf("%d lags, %d pages are told", lags, pages)
		}
	})
}

// published is a topic that takes all.
type published struct{ numbers []uint64 }

func (p *published) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	for _, m := range messages {
		if c, err := relay.Decode(m.Data); err == nil {
			p.numbers = append(p.numbers, c.Number)
		}
	}
	return make([]error, len(messages)), 0
}

// Changes are published once each, and numbered on and on, whoever reads the shard; they are
// written where the mode says so. That a shard has a position, and how many are numbered, is in its
// row within a second: what follows is judged by both.
func TestChangesArePublishedAndNumbered(t *testing.T) {
	for mode, writes := range map[checkpoint.Mode]int{checkpoint.Topic: 0, checkpoint.Both: 5} {
		playScene(t, func(s *scene) {
			topic := &published{}
			s.Mode, s.Topic = mode, topic
			s.change(func(state *checkpoint.TableState) { state.Apply = mode })
			s.shard("s", "")
			s.put("a", "b")
			s.after(100*time.Millisecond, func() {
				if row := s.row("s"); s.at() == 0 || !row.Announced.First.IsZero() {
					t.Errorf("%s: at %d, announced %+v", mode, s.at(), row.Announced)
				}
			})
			s.Timing.Poll = 100 * time.Millisecond
			s.after(8*time.Second, func() { s.put("c") })
			s.after(8300*time.Millisecond, func() { s.put("d") }) // too soon for a checkpoint of its own
			s.after(10500*time.Millisecond, func() {
				if row := s.row("s"); mode == checkpoint.Topic && (row.Applied != 4 || s.at() != 4) {
					t.Errorf("%s: %d of 4 are numbered, at %d", mode, row.Applied, s.at())
				}
			})
			s.follows(20 * time.Second)
			latest := s.world.Now()
			s.put("e")
			s.parts = nil
			s.follows(20 * time.Second)
			if row := s.row("s"); !slices.Equal(topic.numbers, []uint64{1, 2, 3, 4, 5}) || len(s.wrote) != writes || row.Applied != 5 || s.at() != 5 || !row.CellTime.Equal(latest.Truncate(time.Second)) {
				t.Errorf("%s: published %d, wrote %+v, %d at %d, cells of %s", mode, topic.numbers, s.wrote, row.Applied, s.at(), row.CellTime)
			}
		})
	}
}

// A worker whose first answer is that a shard is lost asks for the time before it declares that:
// its children are covered up to then.
func TestAGapHasItsTime(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Ledger = nil
		ledger, err := checkpoint.Open(s.ctx, s.store, "follows", checkpoint.Options{Worker: "w", ID: "l"})
		s.must(err)
		s.Ledger = ledger
		asked := &asked{scene: s}
		s.Database = asked
		s.shard("s", "")
		s.stream.fails = func(string) error {
			return &cdc.Error{Op: "GetShardIterator", Reason: cdc.NotFound, Err: errors.New("gone")}
		}
		s.follows(10 * time.Second)
		if row := s.row("s"); row.State != checkpoint.Gap || row.DoneAt.IsZero() || asked.times != 1 || s.state().Gaps[0].Reason == "" || s.state().Gaps[0].Shard != "s" {
			t.Errorf("%+v, asked %d times, %+v", row, asked.times, s.state().Gaps)
		}
	})
}

// asked is a database that tells the time.
type asked struct {
	engine.Database
	scene *scene
	times int
}

func (a *asked) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	a.times++
	return backfill.Description{At: task.Now(ctx)}, nil
}
