package fallback

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// Timings are the durations of the way back. The zero value of each stands for its default. Tests
// with services that have a signature window of seconds scale all of them.
type Timings struct {
	// Clocks is how far the clocks of the source's servers may differ; default 60 s. Execution is
	// the longest time between the admission of a request and its execution; default 90 s. Spare is
	// added to both; default 30 s.
	Clocks, Execution, Spare time.Duration
	// Before is how much earlier than the witness's heartbeat reading begins; default 1 min.
	Before time.Duration
	// Unused is how long a continuation waits for its neighbours; default 2 min.
	Unused time.Duration
	// Proof is the highest age of a proof with which a look may begin; default 5 s.
	Proof time.Duration
	// Save is the time between two writes of the checkpoints; default 1 s.
	Save time.Duration
	// Retry is the first wait before a key is looked at again after a refusal; default 100 ms. It
	// doubles up to a hundred times its value.
	Retry time.Duration
	// Heartbeat is how often the service must report on a partition without changes; default 5 s.
	Heartbeat time.Duration
	// Poll is the time between two reads of a shard of the source's stream; default 1 s. Listing is
	// the time between two listings of its shards; default 1 min.
	Poll, Listing time.Duration
	// Suspects is the time between two reads of the rows that a comparison suspects; default 2 s.
	Suspects time.Duration
	// Ages are the ages of the signatures with which the signature window is measured; default
	// defaultAges.
	Ages Ages
	// Lookback is how long before now a check begins to read the change stream; default 2 min. The
	// workers write the witness row once in this time. Seen is how long the check waits for that row;
	// default 30 s. Kept is how long the change stream must keep its records; default 3 d.
	Lookback, Seen, Kept time.Duration
	// Carried is how long after the freeze of a rollback every change must have reached the source;
	// default 60 s. The watermarks of the change stream are estimates.
	Carried time.Duration
	// Call is the longest duration of one request; default 10 s.
	Call time.Duration
}

func (t Timings) orDefault() Timings {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&t.Clocks, time.Minute)
	or(&t.Execution, 90*time.Second)
	or(&t.Spare, 30*time.Second)
	or(&t.Before, time.Minute)
	or(&t.Unused, 2*time.Minute)
	or(&t.Proof, 5*time.Second)
	or(&t.Save, time.Second)
	or(&t.Retry, 100*time.Millisecond)
	or(&t.Heartbeat, 5*time.Second)
	or(&t.Poll, time.Second)
	or(&t.Listing, time.Minute)
	or(&t.Suspects, 2*time.Second)
	if t.Ages == (Ages{}) {
		t.Ages = defaultAges
	}
	or(&t.Lookback, 2*time.Minute)
	or(&t.Seen, 30*time.Second)
	or(&t.Kept, sink.LeastChangesKept)
	or(&t.Carried, time.Minute)
	or(&t.Call, 10*time.Second)
	return t
}

// Wait returns W: how long after its signature a request may still change an item, if the source
// accepts signatures of the given age.
func (t Timings) Wait(window time.Duration) time.Duration {
	t = t.orDefault()
	return window + t.Clocks + t.Execution + t.Spare
}

// scaledTimings returns the timings for a test service that accepts signatures for the given time,
// which is a few seconds. What is a minute or more by default takes two fifths of that time.
func scaledTimings(window time.Duration) Timings {
	short := window * 2 / 5
	return Timings{Clocks: short / 4, Execution: short / 2, Spare: short / 4, Before: short, Unused: short, Heartbeat: window / 10, Save: window / 25, Poll: window / 25, Listing: short,
		Ages: Ages{window * 4 / 5, window * 6 / 5, window * 16 / 5}, Lookback: 4 * short, Carried: short}
}
