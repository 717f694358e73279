package worker

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// surveyEvery is how often what only the ledger knows is brought to the metrics.
const surveyEvery = 5 * time.Second

// stepSurvey fails while headroom and last poll are old, or missing.
const stepSurvey = "read the ledger for metrics (ReadRows)"

// survey brings to the metrics what the ledger knows of the migration as a whole, and forgets
// parked items that a later change has healed, until ctx ends. Every worker tells of all shards, so
// that those of a worker that stands still are seen through the others. While the ledger cannot be
// read, the last reading is judged anew: the headroom shrinks all the same.
func (w *Worker) survey(ctx context.Context, o *observer, parking *sink.Parking) {
	beside, wait := oneBeside()
	defer wait()
	var last status.Survey
	var beaten time.Duration // when this process last said that it runs; 0 before the first time
	teller := clock.Teller{Log: w.Log}
	defer func() { w.leave(ctx) }()
	for {
		every := surveyEvery
		if w.idling.Load() {
			every = idleEvery
		}
		next := task.Mono(ctx) + every
		o.outages.look(o.mono())
		if offset, known := w.source.ClockOffset(); known {
			o.metrics.ClockOffset(offset)
			teller.Tell(offset)
		}
		l, err := status.Read(ctx, w.Config, w.target, "")
		if err != nil && ctx.Err() == nil {
			o.retry("", stepSurvey, every, err)
		}
		if m, happened := last.Take(l, err, w.Console.Env, w.Hints, w.now(ctx)); m != nil {
			o.surveyed(m, happened)
			o.board.Show(m, err == nil, last.ReadAt())
			o.topical(m, w.retention)
			if now := task.Mono(ctx); err == nil && w.isStandby(m) && (beaten == 0 || now-beaten >= w.Config.State.Lease) {
				beaten = now
				w.beat(ctx)
			}
			if err == nil && m.AnyParked() && !m.Left() {
				beside(func() { w.resolve(ctx, parking) })
			}
		}
		if task.Sleep(ctx, next-task.Mono(ctx)) != nil {
			return
		}
	}
}

// isStandby reports whether this process has to say that it runs, because no lease says so.
// Appliers hold none, and are no standbys. A process that idles says so itself.
func (w *Worker) isStandby(m *status.Document) bool {
	return w.ledger != nil && !w.FromTopic && !w.idling.Load() && !m.Beats(w.id)
}

// surveyed brings a status to the metrics, and what happened since the last one to those who follow
// the events.
func (o *observer) surveyed(m *status.Document, happened []admin.Event) {
	for _, e := range happened {
		o.feed.Publish(e)
	}
	o.metrics.Phase(m.Phase)
	o.metrics.State(string(m.State))
	o.metrics.Cutover(m.CutoverFacts())
	for i := range m.Tables {
		t := &m.Tables[i]
		for _, c := range status.Columns {
			if c.Gauge.Name != "" {
				o.metrics.Gauge(c.Gauge, t.Source, c.Metric(t))
			}
		}
		o.health.Childless(t.Source, t.Childless)
		if t.LongGone {
			o.metrics.NotReading(t.Source)
		}
	}
}

// topical brings to the metrics how far tables are behind their topic, and what the subscription's
// retention leaves.
func (o *observer) topical(m *status.Document, retention time.Duration) {
	for _, t := range m.Tables {
		if t.Behind == nil || t.TopicLag == nil {
			o.metrics.NoTopic(t.Source)
			continue
		}
		o.metrics.Topic(t.Source, *t.Behind, time.Duration(*t.TopicLag*float64(time.Second)), retention, t.DeadLetter)
	}
}

// oneBeside returns how to run something beside the caller, unless the last such thing still runs,
// and how to wait for that one. A survey must not wait for a look after parked items: it reads the
// target, for as long as there are many of them or the target does not answer, and the headroom
// would stand still meanwhile.
func oneBeside() (run func(f func()), wait func()) {
	running := make(chan struct{}, 1)
	run = func(f func()) {
		select {
		case running <- struct{}{}:
			go func() {
				defer func() { <-running }()
				f()
			}()
		default:
		}
	}
	return run, func() { running <- struct{}{} }
}
