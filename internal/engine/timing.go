package engine

import (
	"time"
)

// Timing holds the periods of the loops. A field of zero stands for its default.
type Timing struct {
	Poll time.Duration // time between two reads of an idle shard; default 1 s
	Soon time.Duration // time between two reads of an active shard; default 250 ms, at most Poll
	// Pass is the time between two passes over the ledger; default a third of the lease, at most 2
	// s.
	Pass time.Duration
	// List is the time between two complete listings, witness updates and descriptions; default 1
	// min.
	List   time.Duration
	Listed time.Duration // how late a child shard may be listed; default 2 min
	Commit time.Duration // minimum time between two checkpoints of a shard; default 1 s
	Grace  time.Duration // how long a clean stop may take to finish pages that were read; default 20 s
	// Idle, with Once, is how long an open shard must return only empty pages; default 10 s.
	Idle time.Duration
	// IdlePages, with Once, is how many consecutive empty pages an open shard must return; default
	// 10.
	IdlePages int
	// Heed is the time between two checks whether a cutover asks processes to stop writing; default
	// 250 ms.
	Heed  time.Duration
	Yield time.Duration // how long a worker keeps a lease while the source does not answer; default four times the lease
}

const (
	// listEvery is the default of Timing.List.
	listEvery = time.Minute
	// SurveyEvery is the time between two reads of all shards by each worker, for metrics and the
	// page. It is longer in a large fleet, and while a worker is idle.
	SurveyEvery = 5 * time.Second
	// GlanceTime is the timeout of a call within a pass. It is short, because a pass must not be
	// delayed by a service that does not answer.
	GlanceTime = 5 * time.Second
)

func (t Timing) OrDefault(lease time.Duration) Timing {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&t.Poll, time.Second)
	or(&t.Soon, min(t.Poll, 250*time.Millisecond))
	or(&t.Pass, min(2*time.Second, lease/3))
	or(&t.List, listEvery)
	or(&t.Listed, 2*time.Minute)
	or(&t.Commit, time.Second)
	or(&t.Grace, 20*time.Second)
	or(&t.Idle, 10*time.Second)
	or(&t.Heed, 250*time.Millisecond)
	or(&t.Yield, 4*lease)
	if t.IdlePages == 0 {
		t.IdlePages = 10
	}
	return t
}
