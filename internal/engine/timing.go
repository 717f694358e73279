package engine

import (
	"time"
)

// Timing holds the periods of the loops. A zero field means its default.
type Timing struct {
	Poll      time.Duration // wait after an empty page of an idle shard; default 1 s
	Soon      time.Duration // wait after the first empty pages, from where it grows to Poll; default Poll
	Active    time.Duration // wait between two reads of a shard while a cutover needs them soon; default 250 ms
	Pass      time.Duration // between two passes over the ledger; default a third of the lease, at most 2 s
	List      time.Duration // between two complete listings, witness beats and descriptions; default 1 min
	Listed    time.Duration // how late a child shard may be listed; default 2 min
	Commit    time.Duration // at most one checkpoint of a shard in this time; default 1 s
	Grace     time.Duration // how long a clean stop may take to finish pages that were read; default 20 s
	Idle      time.Duration // Once: for how long an open shard must return empty pages; default 10 s
	IdlePages int           // Once: how many empty pages it must return; default 10
	Heed      time.Duration // between two looks at a cutover that asks processes to stop writing; default 250 ms
	Yield     time.Duration // how long the source may fail to answer before a lease is released to another worker; default four leases
}

const (
	// listEvery is the default of Timing.List.
	listEvery = time.Minute
	// GlanceTime bounds a call within a pass, because a pass must not wait for a service that does
	// not answer.
	GlanceTime = 5 * time.Second
)

func (t Timing) OrDefault(lease time.Duration) Timing {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&t.Poll, time.Second)
	or(&t.Soon, t.Poll)
	or(&t.Active, 250*time.Millisecond)
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
