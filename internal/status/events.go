package status

import (
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// happened returns the differences between two readings of the ledger, as events for
// /api/v1/events. Every process that reads the ledger returns the same events.
func happened(before, after *Document) []admin.Event {
	var events []admin.Event
	tables := map[string]*Table{}
	for i := range before.Tables {
		tables[before.Tables[i].Source] = &before.Tables[i]
	}
	if before.Phase != after.Phase {
		events = append(events, admin.Event{Kind: admin.EventPhase, Phase: after.Phase})
	}
	events = append(events, workersChanged(before.Workers, after.Workers)...)
	events = append(events, shardsChanged(before.Shards, after.Shards)...)
	for i := range after.Tables {
		t := &after.Tables[i]
		was := tables[t.Source]
		if was == nil && t.group != "" {
			events = append(events, admin.Event{Kind: admin.EventTableJoined, Table: t.Source})
		}
		if was == nil {
			was = &Table{Copy: copyStatus{State: copyNotStarted}}
		}
		events = append(events, tableChanged(was, t)...)
	}
	return events
}

func workersChanged(before, after []workerStatus) []admin.Event {
	var events []admin.Event
	silent := map[string]bool{} // silent workers in the earlier document
	for _, w := range before {
		silent[w.ID] = w.Silent
	}
	for _, w := range after {
		was, known := silent[w.ID]
		switch {
		case !known:
			events = append(events, admin.Event{Kind: admin.EventWorkerCame, Worker: w.ID})
		case w.Silent && !was:
			events = append(events, admin.Event{Kind: admin.EventWorkerSilent, Worker: w.ID})
		}
		delete(silent, w.ID)
	}
	for _, w := range before {
		if _, gone := silent[w.ID]; gone {
			events = append(events, admin.Event{Kind: admin.EventWorkerLeft, Worker: w.ID})
		}
	}
	return events
}

func shardsChanged(before, after []Shard) []admin.Event {
	var events []admin.Event
	type key struct{ source, stream, id string }
	states := make(map[key]string, len(before))
	for i := range before {
		s := &before[i]
		states[key{s.Source, s.Stream, s.ID}] = s.State
	}
	for i := range after {
		s := &after[i]
		was := states[key{s.Source, s.Stream, s.ID}]
		e := admin.Event{Table: s.Source, Shard: s.ID}
		if (was == "" || was == string(checkpoint.Waiting)) && (s.State == string(checkpoint.Reading) || s.State == string(checkpoint.Done)) {
			e.Kind = admin.EventShardStarted
			events = append(events, e)
		}
		if was != s.State && s.State == string(checkpoint.Done) {
			e.Kind = admin.EventShardDone
			events = append(events, e)
		}
	}
	return events
}

func tableChanged(was, t *Table) []admin.Event {
	var events []admin.Event
	add := func(e admin.Event) {
		e.Table = t.Source
		events = append(events, e)
	}
	if t.Gaps > was.Gaps && t.LastGap != nil {
		add(admin.Event{Kind: admin.EventGap, Shard: orEmpty(t.LastGap.Shard), Reason: t.LastGap.Reason})
	}
	if t.Generation != nil && (was.Generation == nil || *was.Generation != *t.Generation) {
		add(admin.Event{Kind: admin.EventGeneration, Generation: *t.Generation})
	}
	if t.Suspended != "" && t.Suspended != was.Suspended {
		add(admin.Event{Kind: admin.EventTableSetAside, Reason: t.Suspended})
	}
	if t.LoadNeeded && !was.LoadNeeded {
		add(admin.Event{Kind: admin.EventNeedsLoad, Reason: orEmpty(t.NeedsLoadReason)})
	}
	c := t.Copy
	switch {
	case c.State == copyRunning && was.Copy.State != copyRunning:
		add(admin.Event{Kind: admin.EventCopyStarted, Items: c.Items, Estimate: c.Estimate})
	case c.State == copyRunning && *c.Items != *was.Copy.Items:
		add(admin.Event{Kind: admin.EventCopyProgress, Items: c.Items, Estimate: c.Estimate})
	case c.State == copyDone && was.Copy.State != copyDone:
		add(admin.Event{Kind: admin.EventCopyDone, Items: c.Items})
	}
	if t.Parked != was.Parked {
		n := int64(t.Parked)
		add(admin.Event{Kind: admin.EventParked, Items: &n})
	}
	if n := t.Verify.sampled(); n != was.Verify.sampled() {
		add(admin.Event{Kind: admin.EventMismatch, Items: &n})
	}
	return events
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Coalesced sums up waits for limits. Short waits are frequent, so it reports at most one sum per
// table and limit in throttleEvery.
type Coalesced struct {
	mu    sync.Mutex
	spent map[[2]string]wait // waits by table and reason
}

type wait struct {
	told  time.Duration // time of the last report, on the monotonic clock
	spent time.Duration // total wait since the last report
}

const throttleEvery = 10 * time.Second

// Add records a wait. If a report is due, it returns the total wait since the last report.
func (c *Coalesced) Add(table, reason string, waited, now time.Duration) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spent == nil {
		c.spent = map[[2]string]wait{}
	}
	key := [2]string{table, reason}
	w, known := c.spent[key]
	if known && now-w.told < throttleEvery {
		w.spent += waited
		c.spent[key] = w
		return 0, false
	}
	c.spent[key] = wait{told: now}
	return w.spent + waited, true
}
