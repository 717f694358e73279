package fallback

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// mark is a position in a partition. Records before it wait until their keys are settled.
type mark struct {
	track     *track
	token     string
	watermark time.Time
	waiting   int
}

// track is the order of the positions that were read in one partition, and that are not saved yet.
type track struct{ marks []*mark }

// settled returns the last position before which no record waits, and removes it and all earlier
// positions. It returns nil if there is no such position.
func (t *track) settled() (last *mark) {
	for len(t.marks) > 0 && t.marks[0].waiting == 0 {
		last, t.marks = t.marks[0], t.marks[1:]
	}
	return last
}

// entry is a key that is not settled.
type entry struct {
	looking bool
	tries   int           // looks without success since the last record
	after   time.Duration // monotonic time before which the key is not looked at
	doubt   time.Time     // time of the source until which a request may still be executed
	marks   []*mark       // records that the current or the next look settles
	later   []*mark       // records that arrived during the current look
}

// hand holds the keys that may differ. Each key is looked at by one task at a time.
type hand struct {
	mu      sync.Mutex
	entries map[string]*entry
	ready   []string // keys to be looked at, in the order of their arrival
	resting map[string]bool
	roused  time.Duration // when the resting keys were last examined
	news    task.Wakeup   // signalled when a key becomes ready
	room    task.Wakeup   // signalled when a key is settled
	most    int           // number of keys above which reading waits
}

func newHand(most int) *hand {
	return &hand{entries: map[string]*entry{}, resting: map[string]bool{}, most: most}
}

// record adds a position to a track. If the position belongs to a change, key is the row key, and
// the position waits for it. Otherwise key is nil.
func (h *hand) record(t *track, token string, watermark time.Time, key *string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &mark{track: t, token: token, watermark: watermark}
	if key != nil {
		h.dirty(*key, m)
	}
	if n := len(t.marks); m.waiting == 0 && n > 0 && t.marks[n-1].waiting == 0 {
		*t.marks[n-1] = *m
		return
	}
	t.marks = append(t.marks, m)
}

// Dirty adds a key for which no position waits.
func (h *hand) Dirty(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dirty(key, nil)
}

func (h *hand) dirty(key string, m *mark) {
	e := h.entries[key]
	if e == nil {
		e = &entry{}
		h.entries[key] = e
		h.ready = append(h.ready, key)
		h.news.Signal()
	}
	waits := &e.marks
	if e.looking {
		// The look may have read the row before this change. A mark makes another look necessary,
		// even if no position waits.
		waits = &e.later
		if m == nil {
			m = &mark{}
		}
	}
	// An earlier position of the same partition that waits for the same look is enough: no later
	// position passes it.
	if m == nil || slices.ContainsFunc(*waits, func(other *mark) bool { return other.track == m.track }) {
		return
	}
	m.waiting++
	*waits = append(*waits, m)
}

// full reports whether so many keys are in hand that reading must wait.
func (h *hand) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries) >= h.most
}

// doubt returns the time until which some request may still be executed; zero if there is none.
func (h *hand) doubt() (until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		if e.doubt.After(until) {
			until = e.doubt
		}
	}
	return until
}

// looking reports whether a look is under way.
func (h *hand) looking() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		if e.looking {
			return true
		}
	}
	return false
}

// rousing is the time between two examinations of the resting keys.
const rousing = 50 * time.Millisecond

// take returns a key to look at, and marks it as looked at. The arguments are the monotonic time and
// the time of the source. A key in doubt is not looked at (F3): the request would change what was
// read.
func (h *hand) take(mono time.Duration, now time.Time) (key string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if mono-h.roused >= rousing {
		h.roused = mono
		for _, key := range slices.Sorted(maps.Keys(h.resting)) {
			if e := h.entries[key]; e.after <= mono && !e.doubt.After(now) {
				delete(h.resting, key)
				h.ready = append(h.ready, key)
			}
		}
	}
	if len(h.ready) == 0 {
		return "", false
	}
	key, h.ready = h.ready[0], h.ready[1:]
	h.entries[key].looking = true
	return key, true
}

// settle ends a look that found item and row equal, or that parked the key (F4). Records that
// arrived since the look began need another look.
func (h *hand) settle(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entries[key]
	for _, m := range e.marks {
		m.waiting--
	}
	if len(e.later) == 0 {
		delete(h.entries, key)
		h.room.Signal()
		return
	}
	*e = entry{marks: e.later}
	h.ready = append(h.ready, key)
	h.news.Signal()
}

// again ends a look that did not settle the key. The key is not looked at before the monotonic time
// `after`, and not before the time `doubt` of the source if that is not zero.
func (h *hand) again(key string, after time.Duration, doubt time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entries[key]
	e.looking, e.after, e.doubt, e.tries = false, after, doubt, e.tries+1
	e.marks, e.later = append(e.marks, e.later...), nil
	if after == 0 && doubt.IsZero() {
		h.ready = append(h.ready, key)
		h.news.Signal()
		return
	}
	h.resting[key] = true
}

// tries returns how often a key was looked at without success.
func (h *hand) tries(key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entries[key].tries
}
