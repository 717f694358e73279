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

// dirtySet holds the keys whose items and rows may differ. Each key is looked at by one task at a time.
type dirtySet struct {
	mu       sync.Mutex
	entries  map[string]*entry
	ready    []string // keys to be looked at, in the order of their arrival
	resting  map[string]bool
	examined time.Duration // when the resting keys were last examined
	news     task.Wakeup   // signalled when a key becomes ready
	room     task.Wakeup   // signalled when a key is settled
}

// mostKeys is the number of keys above which reading waits.
const mostKeys = 20_000

func newDirtySet() *dirtySet {
	return &dirtySet{entries: map[string]*entry{}, resting: map[string]bool{}}
}

// record adds a position to a track. If the position belongs to a change, key is the row key, and
// the position waits for it. Otherwise key is nil.
func (d *dirtySet) record(t *track, token string, watermark time.Time, key *string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &mark{track: t, token: token, watermark: watermark}
	if key != nil {
		d.add(*key, m)
	}
	if n := len(t.marks); m.waiting == 0 && n > 0 && t.marks[n-1].waiting == 0 {
		*t.marks[n-1] = *m
		return
	}
	t.marks = append(t.marks, m)
}

// add adds a key, and lets a position wait for it. The caller holds mu.
func (d *dirtySet) add(key string, m *mark) {
	e := d.entries[key]
	if e == nil {
		e = &entry{}
		d.entries[key] = e
		d.ready = append(d.ready, key)
		d.news.Signal()
	}
	waits := &e.marks
	if e.looking {
		waits = &e.later // the look may have read the row before this change
	}
	// An earlier position of the same partition that waits for the same look is enough: no later
	// position passes it.
	if slices.ContainsFunc(*waits, func(other *mark) bool { return other.track == m.track }) {
		return
	}
	m.waiting++
	*waits = append(*waits, m)
}

// full reports whether so many keys are in the set that reading must wait.
func (d *dirtySet) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries) >= mostKeys
}

// doubt returns the time until which some request may still be executed; zero if there is none.
func (d *dirtySet) doubt() (until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.doubt.After(until) {
			until = e.doubt
		}
	}
	return until
}

// sizes returns the number of keys in the set, and how many of them have a request whose outcome is
// unknown.
func (d *dirtySet) sizes() (dirty, doubts int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if !e.doubt.IsZero() {
			doubts++
		}
	}
	return len(d.entries), doubts
}

// looking reports whether a look is under way.
func (d *dirtySet) looking() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.looking {
			return true
		}
	}
	return false
}

// examineEvery is the time between two examinations of the resting keys.
const examineEvery = 50 * time.Millisecond

// take returns a key to look at, and marks it as looked at. The arguments are the monotonic time and
// the time of the source. A key in doubt is not looked at (F3): the request would change what was
// read.
func (d *dirtySet) take(mono time.Duration, now time.Time) (key string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if mono-d.examined >= examineEvery {
		d.examined = mono
		for _, key := range slices.Sorted(maps.Keys(d.resting)) {
			if e := d.entries[key]; e.after <= mono && !e.doubt.After(now) {
				delete(d.resting, key)
				d.ready = append(d.ready, key)
			}
		}
	}
	if len(d.ready) == 0 {
		return "", false
	}
	key, d.ready = d.ready[0], d.ready[1:]
	d.entries[key].looking = true
	return key, true
}

// settle ends a look that found item and row equal, or that parked the key (F4). Records that
// arrived since the look began need another look.
func (d *dirtySet) settle(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[key]
	for _, m := range e.marks {
		m.waiting--
	}
	if len(e.later) == 0 {
		delete(d.entries, key)
		d.room.Signal()
		return
	}
	*e = entry{marks: e.later}
	d.ready = append(d.ready, key)
	d.news.Signal()
}

// again ends a look that did not settle the key. The key is not looked at before the monotonic time
// `after`, and not before the time `doubt` of the source if that is not zero.
func (d *dirtySet) again(key string, after time.Duration, doubt time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[key]
	e.looking, e.after, e.doubt, e.tries = false, after, doubt, e.tries+1
	e.marks, e.later = append(e.marks, e.later...), nil
	if after == 0 && doubt.IsZero() {
		d.ready = append(d.ready, key)
		d.news.Signal()
		return
	}
	d.resting[key] = true
}

// tries returns how often a key was looked at without success.
func (d *dirtySet) tries(key string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entries[key].tries
}
