package worker

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// surveyAfter returns the interval for the given numbers of shards and workers. Every worker reads
// all shards in each survey. So in a large fleet surveys are less frequent, as the passes of
// assigners are.
func surveyAfter(shards, workers int, lease time.Duration) time.Duration {
	return engine.Timing{Pass: engine.SurveyEvery}.LookAfter(shards, workers, min(max(lease, engine.SurveyEvery), idleEvery))
}

// stepSurvey is the step that is shown as failing while the ledger cannot be read, so that the
// headroom and last poll are outdated.
const stepSurvey = "read the ledger for metrics (ReadRows)"

// survey copies the ledger's view of the whole migration to the metrics until ctx ends. It also
// removes the records of parked items that a later change has healed. Every worker reports all
// shards. So if a worker stalls, the others still report its shards. If the ledger cannot be read,
// it judges the last reading at the current time, so that the reported headroom still falls.
func (w *Worker) survey(ctx context.Context, o *observer, parking *sink.Parking) {
	beside, wait := oneBeside()
	defer wait()
	hours := &history{}
	besideHours, waitForHours := oneBeside()
	defer func() {
		waitForHours()
		w.record(ctx, hours, true)
	}()
	var last status.Survey
	// beaten is when this process last recorded itself in the ledger; 0 if it has not done so yet.
	var beaten time.Duration
	teller := clock.Teller{Log: w.Log}
	defer func() { w.leave(ctx) }()
	usual := engine.SurveyEvery
	for {
		every := usual
		if w.idling.Load() {
			every = idleEvery
		}
		next := task.Mono(ctx) + every
		o.outages.look(o.mono())
		if offset, known := w.source.ClockOffset(); known {
			o.metrics.ClockOffset(offset)
			teller.Tell(offset)
		}
		began := task.Mono(ctx)
		l, err := status.Read(ctx, w.Config, w.target, "")
		if err != nil && ctx.Err() == nil {
			o.retry("", stepSurvey, every, err)
		}
		if m, happened := last.Take(l, err, w.Console.Env, w.Hints, w.now(ctx)); m != nil {
			if err == nil {
				usual = surveyAfter(l.Rows(), len(m.Workers), w.Config.State.Lease)
				o.notices.Read(m, began)
			}
			o.surveyed(m, happened)
			o.board.Show(m, err == nil, last.ReadAt())
			o.topical(m, w.retention)
			if now := task.Mono(ctx); err == nil && w.isStandby(m) && (beaten == 0 || now-beaten >= w.Config.State.Lease) {
				beaten = now
				w.beat(ctx)
			}
			if err == nil && hours.add(m, w.id) {
				besideHours(func() { w.record(ctx, hours, false) })
			}
			if err == nil && m.AnyParked() {
				beside(func() { w.resolve(ctx, parking, m.Stays) })
			}
		}
		if task.Sleep(ctx, next-task.Mono(ctx)) != nil {
			return
		}
	}
}

// isStandby reports whether this process must record itself in the ledger because no lease shows
// that it runs. Appliers hold no lease and are not standbys. An idle process records itself by
// other means.
func (w *Worker) isStandby(m *status.Document) bool {
	return w.ledger != nil && !w.FromTopic && !w.idling.Load() && !m.Beats(w.id)
}

// surveyed copies a status to the metrics, and sends the events since the last status to
// subscribers.
func (o *observer) surveyed(m *status.Document, happened []admin.Event) {
	for _, e := range happened {
		o.feed.Publish(e)
	}
	o.metrics.Phase(m.Phase)
	o.metrics.State(string(m.State))
	o.metrics.Workers(m.WorkersByRole())
	o.metrics.Cutovers(m.CutoverFacts())
	o.metrics.ReceiversFailing(len(m.Receivers))
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

// topical copies two figures of tables to the metrics: the backlog in the topic, and the time that
// is left until the subscription drops messages.
func (o *observer) topical(m *status.Document, retention time.Duration) {
	for _, t := range m.Tables {
		if t.Behind == nil || t.TopicLag == nil {
			o.metrics.NoTopic(t.Source)
			continue
		}
		o.metrics.Topic(t.Source, *t.Behind, time.Duration(*t.TopicLag*float64(time.Second)), retention, t.DeadLetter)
	}
}

// oneBeside returns two functions. The first one, `run`, starts f concurrently, unless an earlier f
// is still running. The second one, `wait`, waits until f has ended. A survey uses them for the
// check of parked items. With many parked items, or if the target does not answer, that check may
// take long, and a survey must not wait for it.
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
