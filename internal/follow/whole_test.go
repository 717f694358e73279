package follow

import (
	"reflect"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// The whole progress after a page. Times never go back, and whatever a page does not show stays.
func TestTheWholeProgressOfAPage(t *testing.T) {
	event, read, sent := settlesAt, settlesAt.Add(time.Minute), settlesAt.Add(2*time.Minute)
	was := checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(5)}, FirstRead: event.Add(-time.Hour), EventTime: event.Add(-time.Minute), CellTime: event.Add(time.Hour),
		Applied: 40, Shown: checkpoint.Shown{Rate: 3}, AppliedTo: event, CaughtUp: true}
	page := cdc.Page{At: read, Changes: []cdc.Change{{Sequence: cdc.SequenceOf(6), Time: event}, {Sequence: cdc.SequenceOf(8), Time: event.Add(-time.Hour)}}}
	want := was
	want.Position.After, want.EventTime, want.Applied, want.ReadAt, want.CaughtUp = cdc.SequenceOf(8), event, 42, sent, false
	if got := Advance(was, page, event, sent); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	want = was
	want.ReadAt = sent
	if got := Advance(was, cdc.Page{At: read}, time.Time{}, sent); !reflect.DeepEqual(got, want) {
		t.Errorf("an empty page: %+v\nwant %+v", got, want)
	}
}

// A cutover sees the latest write of the application, and its item. A removal by TTL is no write,
// and an earlier write hides no later one. A page is behind if its last change is older than the
// bound, beside the second that change times may lose.
func TestWhatACutoverSeesOfAPage(t *testing.T) {
	m, at, bound := enginetest.OrdersMapping(t), settlesAt, 5*time.Second
	hash := func(key string) string { return sink.HashOf(m.ItemKey(enginetest.Keyed(key))) }
	change := func(key string, after time.Duration, expired bool) cdc.Change {
		return cdc.Change{Keys: enginetest.Keyed(key), Time: at.Add(after), Expired: expired}
	}
	for name, c := range map[string]struct {
		changes []cdc.Change
		read    time.Duration
		written string
		after   time.Duration
		behind  bool
	}{
		"two writes":                 {[]cdc.Change{change("a", 1, false), change("b", 2, false)}, time.Second, "b", 2, false},
		"the earlier one comes last": {[]cdc.Change{change("a", 2, false), change("b", 1, false)}, time.Second, "a", 2, false},
		"of one moment":              {[]cdc.Change{change("a", 2, false), change("b", 2, false)}, time.Second, "a", 2, false},
		"an expiry":                  {[]cdc.Change{change("a", 1, false), change("b", 2, true)}, time.Second, "a", 1, false},
		"only an expiry, late":       {[]cdc.Change{change("a", 1, true)}, time.Minute, "before", -1, true},
		"an older write":             {[]cdc.Change{change("a", -2, false)}, time.Second, "before", -1, false},
		"at the bound":               {[]cdc.Change{change("a", 0, false)}, bound + time.Second, "a", 0, false},
		"beyond the bound":           {[]cdc.Change{change("a", 0, false)}, bound + time.Second + 1, "a", 0, true},
		"the last one is in time":    {[]cdc.Change{change("a", -time.Hour, false), change("b", 0, false)}, bound, "b", 0, false},
		"an empty page":              {nil, time.Hour, "before", -1, false},
	} {
		var p checkpoint.Progress
		p.Applied, p.CaughtUp = 7, true
		p.Cutover.WrittenAt, p.Cutover.Written = at.Add(-1), hash("before")
		want := p
		want.Cutover.WrittenAt, want.Cutover.Written = at.Add(c.after), hash(c.written)
		page := cdc.Page{At: at.Add(c.read), Changes: c.changes}
		if c.behind {
			want.Cutover.BehindAt = page.At
		}
		if sight(&p, m, page, bound); !reflect.DeepEqual(p, want) {
			t.Errorf("%s: %+v\nwant %+v", name, p.Cutover, want.Cutover)
		}
	}
}

// The whole progress of a settler: the position of what is settled, with what was read beside it.
// Once nothing waits, it is what was read.
func TestTheWholeProgressOfASettler(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Late = time.Minute
		w := s.settler()
		settled, read := upTo(3), upTo(9)
		read.ReadAt, read.Rate, read.CaughtUp = settlesAt.Add(time.Minute), 5, true
		read.EventTime, read.CellTime = settlesAt.Add(time.Second), settlesAt.Add(2*time.Second)
		settled.EventTime, settled.CellTime, settled.CaughtUp = settlesAt.Add(-time.Second), settlesAt.Add(-time.Second), true
		settled.FirstRead = time.Time{}
		w.settled, w.read, w.pending, w.ended = settled, read, 6, true
		w.queue = []appliedPage{{changes: 6, from: settled, to: read}}
		want := settled
		want.FirstRead, want.ReadAt, want.Rate, want.CaughtUp, want.Ended = read.FirstRead, read.ReadAt, read.Rate, false, true
		want.Settling = checkpoint.Settling{Changes: 6, EventTime: read.EventTime, CellTime: read.CellTime, CaughtUp: true}
		if got := w.progress(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		w.room = NewSettleRoom(0)
		w.queue[0].bytes = 30
		w.pop()
		want = read
		want.Ended = true
		if got := w.progress(); !reflect.DeepEqual(got, want) || w.pending != 0 || !w.dirty || w.room.take(31) || !w.room.take(30) {
			t.Errorf("after its only page: %+v\nwant %+v, %d wait, room of %d", got, want, w.pending, w.room.left)
		}
	})
}

// The room of settlers: what was taken is given back, and nothing beyond it is taken.
func TestRoomIsTakenOnce(t *testing.T) {
	r := NewSettleRoom(10)
	if r.take(11) || !r.take(10) || r.take(1) {
		t.Error("more is taken than there is")
	}
	if r.give(4); r.take(5) || !r.take(4) || r.take(1) {
		t.Error("more is given back than was taken")
	}
}

// A page goes to the appliers as it was folded where nothing is settled, and a settler that does
// not exist leaves the commit to its caller.
func TestWithoutASettler(t *testing.T) {
	var none *settler
	b := settledPage(1)
	if none.timestampedBatch(b) != b || none.add(t.Context(), b, 1, checkpoint.Progress{}, checkpoint.Progress{}, true) {
		t.Error("a page is settled without a settler")
	}
	if first := (&settler{}).timestampedBatch(b); first == b || len(first.Rows) != len(b.Rows) || !first.Rows[0].Timestamped {
		t.Errorf("the first application: %+v", first)
	}
	var r *rechecking
	r.turn(t.Context(), cdc.Position{})
	r.finish(engine.Lifecycle{})
	r.end()
	if r.news() || r.state() != (checkpoint.Rechecked{}) {
		t.Error("a recheck that does not exist has news")
	}
	r.take(b)(t.Context(), cdc.SequenceOf(1))
}
