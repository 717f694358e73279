package dynamodbtest

import (
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// history is the data of point-in-time recovery for a table. It has every image of every item since
// recovery was turned on, or since the recovery period began. The table's mu guards it.
type history struct {
	since time.Time
	days  int
	items map[string]*lifeline // by primaryKey.order
}

// lifeline is one item's images, oldest first.
type lifeline struct {
	key       primaryKey
	revisions []revision
}

// revision is the state of an item from a time on. A nil image means that the item did not exist.
type revision struct {
	at    time.Time
	image *stored
}

// remember starts a history with the existing items.
func (t *table) remember(now time.Time, days int) error {
	h := &history{since: now, days: days, items: map[string]*lifeline{}}
	var failed error
	t.items.ascend("", false, func(e entry) bool {
		it, err := item.Parse(e.item.wire)
		if err == nil {
			var key primaryKey
			if key, err = t.schema.ofItem(it); err == nil {
				h.items[e.key] = &lifeline{key, []revision{{now, e.item}}}
			}
		}
		failed = err
		return err == nil
	})
	if failed == nil {
		t.history = h
	}
	return failed
}

// add records a write, and drops images older than the recovery period.
func (h *history) add(c change, now time.Time) {
	l := h.items[c.key.order]
	if l == nil {
		if c.image == nil {
			return
		}
		l = &lifeline{key: c.key}
		h.items[c.key.order] = l
	}
	l.revisions = append(l.revisions, revision{now, c.image})
	first := h.first(now)
	for len(l.revisions) > 1 && !l.revisions[1].at.After(first) {
		l.revisions = l.revisions[1:]
	}
}

// first returns the earliest time that the history covers.
func (h *history) first(now time.Time) time.Time {
	if first := now.AddDate(0, 0, -h.days); first.After(h.since) {
		return first
	}
	return h.since
}

// last returns the latest time that can be restored. It is not before the history began.
func (h *history) last(now time.Time, lag time.Duration) time.Time {
	if last := now.Add(-lag); last.After(h.since) {
		return last
	}
	return h.since
}

// order returns the history's items in the order of a scan.
func (h *history) order() []*lifeline {
	var all []*lifeline
	for _, key := range slices.Sorted(maps.Keys(h.items)) {
		all = append(all, h.items[key])
	}
	return all
}

// at returns the item as it was at a time, after all writes up to that time.
func (l *lifeline) at(when time.Time) *stored {
	var image *stored
	for _, r := range l.revisions {
		if r.at.After(when) {
			break
		}
		image = r.image
	}
	return image
}

// within returns an item's images before a window and at its end. It also returns the time of the
// item's last write in the window. The result `changed` is false if the item was not written in the
// window, or exists neither before the window nor after it.
func (l *lifeline) within(from, to time.Time) (before, after *stored, last time.Time, changed bool) {
	for _, r := range l.revisions {
		switch {
		case r.at.Before(from):
			before, after = r.image, r.image
		case r.at.Before(to):
			after, last, changed = r.image, r.at, true
		}
	}
	return before, after, last, changed && (before != nil || after != nil)
}
