package follow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// writtenDown is a recheck that writes down what it is asked.
type writtenDown struct {
	s      *scene
	said   []string
	state  checkpoint.Rechecked
	news   bool
	notify func()
	end    context.CancelFunc
}

func (w *writtenDown) say(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

func (w *writtenDown) Turn(number uint32, at cdc.SequenceNumber, since time.Time) {
	w.state, w.news = checkpoint.Rechecked{Verify: number, Since: since, To: at, Through: at}, true
	w.say("turn %d at %d", number, at1(at))
	if since.IsZero() {
		w.said[len(w.said)-1] += " from the start"
	}
}

func at1(at cdc.SequenceNumber) int {
	if at.IsZero() {
		return 0
	}
	return number(at)
}

func (w *writtenDown) Resume(state checkpoint.Rechecked, at cdc.SequenceNumber) func() {
	w.state = state
	w.say("resume from %d to %d", number(state.To), number(at))
	return func() { w.say("complete") }
}

func (w *writtenDown) Take(b *transform.Batch) func(ctx context.Context, to cdc.SequenceNumber) {
	var rows []string
	for i := range b.Rows {
		rows = append(rows, b.Rows[i].Row)
	}
	slices.Sort(rows)
	return func(ctx context.Context, to cdc.SequenceNumber) {
		w.say("%s to %d after %s", strings.Join(rows, ""), number(to), (task.Mono(ctx) - w.s.began).Round(time.Second))
		w.state.To, w.state.Through, w.news = to, to, true
	}
}

func (w *writtenDown) Again(_ context.Context, b *transform.Batch) {
	for i := range b.Rows {
		w.say("again %s", b.Rows[i].Row)
	}
}

func (w *writtenDown) Number() uint32              { return w.state.Verify }
func (w *writtenDown) State() checkpoint.Rechecked { return w.state }
func (w *writtenDown) Lose(why string)             { w.state = checkpoint.Rechecked{Lost: why} }
func (w *writtenDown) Notify(f func())             { w.notify = f }
func (w *writtenDown) Finish(engine.Lifecycle)     { w.say("finish") }

func (w *writtenDown) News() bool {
	news := w.news
	w.news = false
	return news
}

func (w *writtenDown) Run(life engine.Lifecycle) error {
	ctx, cancel := context.WithCancel(life.Work)
	w.end = cancel
	w.say("run")
	_ = task.Sleep(ctx, 72*time.Hour)
	return nil
}

func (w *writtenDown) End() {
	if w.end != nil {
		w.end()
	}
}

// rechecked plays a worker with one shard and gives what its recheck was asked.
func (s *scene) rechecked(lasts time.Duration, number uint32) *writtenDown {
	s.Helper()
	w := &writtenDown{s: s}
	s.rechecks = func() Recheck { return w }
	s.prepares()
	s.table.Recheck.Set(number)
	s.follows(lasts)
	return w
}

func (w *writtenDown) expect(want ...string) {
	w.s.Helper()
	if !slices.Equal(w.said, want) {
		w.s.Errorf("asked:\n%s\nwant:\n%s", strings.Join(w.said, "\n"), strings.Join(want, "\n"))
	}
}

// A recheck begins when the table's record asks for it, and learns of every page that was asserted.
// The shard's row says at once that it began, and how far it has come.
func TestARecheckBeginsWhenItIsAskedFor(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.put("a", "b")
		s.stream.size = 10
		s.after(5*time.Second, func() { s.table.Recheck.Set(3) })
		s.after(8*time.Second, func() {
			if got := s.row("s").Rechecked; got.Verify != 3 || number(got.To) != 2 || got.Since.IsZero() {
				t.Errorf("the row says %+v", got)
			}
			s.put("c", "d")
		})
		s.rechecked(15*time.Second, 0).expect("ab to 2 after 0s", "turn 3 at 2", "run", "cd to 4 after 8s")
		if got := s.row("s").Rechecked; got.Verify != 3 || number(got.Through) != 4 {
			t.Errorf("in the end the row says %+v", got)
		}
	})
}

// A shard whose changes are all rechecked has no beginning in between.
func TestARecheckFromTheStartOfAShard(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.after(2*time.Second, func() { s.put("a") })
		s.rechecked(10*time.Second, 3).expect("turn 3 at 0 from the start", "run", "a to 1 after 2s")
		if got := s.row("s").Rechecked; got.Verify != 3 || !got.Since.IsZero() {
			t.Errorf("the row says %+v", got)
		}
	})
}

// A worker that acquires the shard reads again what the former one had applied and not rechecked.
func TestARecheckIsResumed(t *testing.T) {
	for _, c := range []struct {
		verify, asked uint32
		want          []string
	}{
		{3, 3, []string{"resume from 2 to 4", "run", "again c", "again d", "complete", "e to 5 after 0s"}},
		{2, 3, []string{"turn 3 at 4", "run", "e to 5 after 0s"}}, // another one
		{3, 0, []string{"e to 5 after 0s"}},                       // it is over
	} {
		playScene(t, func(s *scene) {
			s.change(func(state *checkpoint.TableState) { state.Recheck.Verify = c.asked })
			s.shard("s", "", func(row *checkpoint.Shard) {
				row.Position, row.FirstRead = cdc.SequenceOf(4), s.world.Now()
				row.Rechecked = checkpoint.Rechecked{Verify: c.verify, Since: s.world.Now(), To: cdc.SequenceOf(2), Through: cdc.SequenceOf(3)}
			})
			s.put("a", "b", "c", "d", "e")
			w := s.rechecked(10*time.Second, c.asked)
			slices.SortStableFunc(w.said, func(a, b string) int { // the tasks run side by side
				return strings.Compare(kindOf(a), kindOf(b))
			})
			slices.SortStableFunc(c.want, func(a, b string) int { return strings.Compare(kindOf(a), kindOf(b)) })
			w.expect(c.want...)
		})
	}
}

func kindOf(said string) string { return strings.Fields(said)[0] }

// If the changes to read again are gone from the stream, the recheck is lost, and the shard's row
// says so.
func TestARecheckIsLostWithTheStream(t *testing.T) {
	playScene(t, func(s *scene) {
		s.change(func(state *checkpoint.TableState) { state.Recheck.Verify = 3 })
		s.shard("s", "", func(row *checkpoint.Shard) {
			row.Position, row.FirstRead = cdc.SequenceOf(4), s.world.Now()
			row.Rechecked = checkpoint.Rechecked{Verify: 3, To: cdc.SequenceOf(1), Through: cdc.SequenceOf(1)}
		})
		s.put("a", "b", "c", "d", "e")
		s.stream.trimmed = 3
		s.rechecked(10*time.Second, 3)
		if got := s.row("s"); got.Rechecked.Verify != 0 || !strings.Contains(got.Rechecked.Lost, "no longer in the stream") || number(got.Position) != 5 {
			t.Errorf("the row says %+v at %s", got.Rechecked, got.Position)
		}
	})
}

// While the application writes the target too, a page is rechecked after it was asserted exactly. The
// row says at once that all is rechecked.
func TestARecheckFollowsTheExactAssertion(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Spec.Late = 10 * time.Second
		s.shard("s", "")
		s.put("a")
		s.rechecked(30*time.Second, 3).expect("turn 3 at 0 from the start", "run", "a to 1 after 10s")
		if got := s.row("s").Rechecked; number(got.Through) != 1 {
			t.Errorf("the row says %+v", got)
		}
	})
}

// A shard is done when its rows are rechecked.
func TestARecheckEndsWithItsShard(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Second} {
		playScene(t, func(s *scene) {
			s.Spec.Late = late
			s.shard("s", "")
			s.put("a")
			s.stream.shards["s"].closed = true
			w := s.rechecked(20*time.Second, 3)
			if n := len(w.said); n < 2 || w.said[n-1] != "finish" || s.row("s").State != checkpoint.Done || number(s.row("s").Rechecked.Through) != 1 {
				t.Errorf("asked %q, the row says %s, %+v", w.said, s.row("s").State, s.row("s").Rechecked)
			}
		})
	}
}

// Where appliers write, no reader can know what is written.
func TestNoRecheckInModeTopic(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Mode = checkpoint.Topic
		began := false
		s.rechecks = func() Recheck { began = true; return &writtenDown{s: s} }
		s.prepares()
		s.parts.follower.Mode = checkpoint.Topic
		g := task.NewGroup(s.ctx, 0)
		if s.parts.follower.startRecheck(g, engine.Until(s.ctx), nil, &checkpoint.TableState{}) != nil || began {
			t.Error("a recheck began")
		}
	})
}
