package follow

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// H39: a page is due before its delay has passed only if the application promised that its writes
// for all changes of the page have ended. Later changes wait for the whole delay, and so does what
// is behind them. A removal by TTL is covered while the application certainly stayed frozen.
func TestH39_APromiseCoversEarlierChangesAlone(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	const now, late = time.Hour, time.Minute
	for name, c := range map[string]struct {
		quiet            checkpoint.Quiet
		written, expired time.Time
		due              bool
	}{
		"no promise":                    {checkpoint.Quiet{}, at(99), time.Time{}, false},
		"a change before it":            {checkpoint.Quiet{At: at(100), To: at(100)}, at(99), time.Time{}, true},
		"a change of its second":        {checkpoint.Quiet{At: at(100), To: at(100)}, at(100), time.Time{}, true},
		"a change after it":             {checkpoint.Quiet{At: at(100), To: at(100)}, at(101), time.Time{}, false},
		"a change while it was frozen":  {checkpoint.Quiet{At: at(100), To: at(105)}, at(101), time.Time{}, false},
		"a removal while it was frozen": {checkpoint.Quiet{At: at(100), To: at(105)}, at(99), at(104), true},
		"only a removal":                {checkpoint.Quiet{At: at(100), To: at(105)}, time.Time{}, at(104), true},
		"a removal after that":          {checkpoint.Quiet{At: at(100), To: at(105)}, at(99), at(106), false},
		"a removal without a promise":   {checkpoint.Quiet{}, time.Time{}, at(104), false},
	} {
		playScene(t, func(s *scene) {
			w := s.settler()
			w.tracker.SetQuiet(c.quiet)
			w.queue = []appliedPage{{due: now + late, written: c.written, expired: c.expired}, {due: now + late, written: at(1)}}
			if got := w.next(now, now); (got.front != nil) != c.due || got.front != nil && got.front != &w.queue[0] {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// While a freeze is near, a settler often looks for a promise. A canary that becomes settled is
// committed at once.
func TestASettlerHurriesForACutover(t *testing.T) {
	playScene(t, func(s *scene) {
		w := s.settler()
		w.queue = []appliedPage{{due: time.Hour, written: settlesAt}}
		w.tracker.SetNear(true)
		if got := w.next(0, 0); got.front != nil || got.wait != w.Timing.Soon {
			t.Errorf("%+v", got)
		}
		w.read = upTo(2)
		w.queue = []appliedPage{{to: upTo(1)}}
		if w.pop(); w.urgent {
			t.Error("a page without a canary is urgent")
		}
		w.queue = []appliedPage{{to: upTo(1)}}
		w.read.Cutover.See(4, 0)
		if w.pop(); !w.urgent {
			t.Error("the canary waits for a regular commit")
		}
	})
}

// A stretch of dropped pages is covered only if all of its pages are.
func TestAStretchHasTheTimesOfItsLatestPage(t *testing.T) {
	s := &settler{follower: &follower{Common: &engine.Common{}, late: time.Hour, room: NewSettleRoom(0)}}
	for _, n := range []int{5, 4, 9, 2} {
		s.hold(settledPage(n), 1, upTo(n), upTo(n+1), time.Minute)
	}
	if p := s.queue[1]; len(s.queue) != 2 || !p.written.Equal(time.Unix(9, 0)) || !p.expired.IsZero() {
		t.Errorf("%+v", s.queue)
	}
}
