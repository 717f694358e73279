package admin

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Phases are the values of the phase label, in the order of a migration.
var Phases = []string{"prepare", "copy", "in_sync", "cutover", "done"}

// States are the values of the label of replicator_state. If several states apply, the first of
// them is reported.
var States = []string{"done", "cutover", "unknown", "paused", "needs_load", "stalled", "preparing", "copying", "sweeping", "parked", "differs", "catching_up", "in_sync"}

// ShardStates are the values of the label state, for shards.
var ShardStates = []string{"waiting", "reading", "done", "gap"}

// roles are the values of the label role of replicator_workers.
var roles = []string{"active", "standby", "idle"}

// Build identifies the running program.
type Build struct{ Version, Revision, GoVersion string }

// EventCounts holds the number of changes of each kind.
type EventCounts struct{ Inserts, Modifies, Removes int }

// Metrics are the metrics of the process, in their own Prometheus registry. It is safe for
// concurrent use. A series appears only with its first value. So an unknown value is missing, and
// not shown as zero.
type Metrics struct {
	registry   *prometheus.Registry
	registerer prometheus.Registerer           // adds the label pipeline
	gauges     map[string]*prometheus.GaugeVec // gauges of tables, by name
	// exemplars is set if observations may have exemplars, which only the OpenMetrics format has.
	exemplars bool

	phase          *prometheus.GaugeVec
	state          *prometheus.GaugeVec
	workers        *prometheus.GaugeVec
	cutover        *cutoverMetrics
	lag            *prometheus.GaugeVec
	clockOffset    *prometheus.GaugeVec
	shards         *prometheus.GaugeVec
	needsLoad      *prometheus.GaugeVec
	seeking        *prometheus.GaugeVec
	read           *prometheus.CounterVec
	applied        *prometheus.CounterVec
	ignored        *prometheus.CounterVec
	conflicts      *prometheus.HistogramVec
	copied         *prometheus.CounterVec
	compared       *prometheus.CounterVec
	mismatched     *prometheus.GaugeVec
	diverged       *prometheus.CounterVec
	estimated      *prometheus.GaugeVec
	writeDurations prometheus.Histogram
	writeErrors    *prometheus.CounterVec
	throttled      *prometheus.CounterVec
	leases         prometheus.Gauge
	published      *prometheus.CounterVec
	blocked        *prometheus.CounterVec
	behind         *prometheus.GaugeVec
	topicLag       *prometheus.GaugeVec
	topicHeadroom  *prometheus.GaugeVec
	deadLetter     *prometheus.GaugeVec
	notified       *prometheus.CounterVec
	receivers      *prometheus.GaugeVec
}

// NewMetrics registers every metric, and the metrics of the Go runtime and the process. Each series
// has the label pipeline: the name in the configuration. So one Prometheus can watch several
// pipelines, whatever its jobs are called.
func NewMetrics(pipeline string, build Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), gauges: map[string]*prometheus.GaugeVec{}}
	m.registerer = prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": pipeline}, m.registry)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	const table = "source_table"
	gauge("replicator_build_info", "Always 1; the labels name the running program.", "version", "revision", "goversion").
		WithLabelValues(build.Version, build.Revision, build.GoVersion).Set(1)
	m.phase = gauge("replicator_migration_phase", "1 for the migration's current phase, 0 for the others.", "phase")
	m.state = gauge("replicator_state", "1 for the migration's current state, 0 for the others.", "state")
	m.workers = gauge("replicator_workers", "Workers that answer, according to the ledger, by role: active, standby for a lease, or idle after a cutover.", "role")
	m.cutover = newCutoverMetrics(gauge)
	for _, g := range Gauges {
		m.gauges[g.Name] = gauge(g.Name, g.Help, table)
	}
	m.lag = gauge("replicator_source_lag_seconds",
		"Age of the last applied change while unread changes remain, otherwise the time since the last empty page. The largest value of the shards that this process reads.", table)
	m.clockOffset = gauge("replicator_clock_offset_seconds",
		"How far this host's clock is ahead of DynamoDB's, according to the Date header of the last answer.")
	m.shards = gauge("replicator_source_shards", "Shards in the ledger by state.", table, "state")
	m.needsLoad = gauge("replicator_needs_load",
		"1 after changes were lost or the mapping was changed, until the table is loaded and swept. Otherwise 0.", table)
	m.seeking = gauge("replicator_discovery_failing", "1 while tables of patterns cannot be listed or described, so that new tables are not followed. 0 after a complete listing.")
	m.read = counter("replicator_changes_read_total", "Changes read from the stream.", table, "event")
	m.applied = counter("replicator_changes_applied_total", "Changes that were written to the target, rejected as stale, or parked.", table, "event")
	m.ignored = counter("replicator_items_ignored_total", "Items that a rule of the mapping ignores, in changes and in the copy.", table, "rule")
	m.conflicts = register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "replicator_dual_write_conflict_delay_seconds",
		Help: "Changes that were rejected because the application had already written a higher number, by the age of the change (dual_writes.version_attribute).",
		// The buckets range from the usual lag to an outage of hours.
		Buckets: []float64{.1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400},
	}, []string{table, "winner"}))
	m.compared = counter("replicator_verify_rows_compared_total", "Rows of the target that this process compared with their items.", table)
	m.mismatched = gauge("replicator_verify_mismatched_rows",
		"Rows known to differ from their items, until a later comparison finds them equal. Found by the last verify and by comparisons of recent changes.", table)
	m.diverged = counter("replicator_dual_write_differences_total",
		"Rows that this process found to differ by comparisons of recent changes (verify.sample), in tables with dual_writes. A row counts again only after it was equal.", table)
	m.copied = counter("replicator_backfill_items_copied_total", "Items that the load has written.", table)
	m.estimated = gauge("replicator_backfill_items_estimated", "Items in the source table, by DynamoDB's count, which is hours old.", table)
	m.writeDurations = register(m, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "replicator_target_write_duration_seconds", Help: "Duration of single write requests to the target.",
		// A guarded write within the region takes a few milliseconds. The smallest bucket is for
		// emulators. The largest bucket is for requests that reach their deadline.
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
	}))
	m.writeErrors = counter("replicator_target_write_errors_total", "Write requests to the target that failed, by gRPC status code.", "code")
	m.throttled = counter("replicator_throttled_seconds_total", "Time spent waiting for a limit.", "reason")
	m.leases = register(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: "replicator_leases_held", Help: "Shards whose lease this process holds."}))
	m.published = counter("replicator_relay_published_total", "Messages that the topic has accepted. A change that is read again is published again.", table)
	m.blocked = counter("replicator_relay_blocked_keys_total", "How often a failed publish blocked an ordering key (a bucket of a table's items) until it was resumed.", table)
	m.behind = gauge("replicator_relay_behind_messages", "Published messages that are not confirmed as applied, over all shards and appliers.", table)
	m.topicLag = gauge("replicator_relay_lag_seconds", "Age of the last change before the oldest message that is not confirmed as applied. 0 if all are.", table)
	m.topicHeadroom = gauge("replicator_relay_retention_headroom_seconds", "Minimum time left until the subscription drops messages that are not applied.", table)
	m.deadLetter = gauge("replicator_relay_dead_letter_messages", "Minimum number of messages in the dead-letter topic of the subscription.", table)
	m.notified = counter("replicator_notifications_total",
		"Calls of receivers of notifications by this process. The receiver is its number in notify.to, or heartbeat. outcome: sent, failed (is retried), refused (is not retried), dropped (not accepted within a day).", "receiver", "outcome")
	m.receivers = gauge("replicator_notification_receivers_failing",
		"Receivers of notifications that have failed for five minutes or have lost a notification, and have accepted none since. replicator status names them.")
	m.registerer.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func register[C prometheus.Collector](m *Metrics, c C) C {
	m.registerer.MustRegister(c)
	return c
}

// Handler serves the metrics in Prometheus' formats. It offers OpenMetrics only after
// ShowExemplars.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: m.exemplars})
}

// ShowExemplars makes Handler offer the OpenMetrics format, which shows exemplars. It must be called
// before Handler. Without exemplars the format stays the text format, because OpenMetrics writes the
// bounds of buckets differently: a Prometheus of version 2 would store le="1.0" beside le="1".
func (m *Metrics) ShowExemplars() { m.exemplars = true }

// Gatherer returns the registry, to export the metrics under the same names elsewhere.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Phase sets the migration's phase, one of Phases.
func (m *Metrics) Phase(phase string) {
	for _, p := range Phases {
		m.phase.WithLabelValues(p).Set(one(p == phase))
	}
}

// State sets the migration's state, one of States.
func (m *Metrics) State(state string) {
	for _, s := range States {
		m.state.WithLabelValues(s).Set(one(s == state))
	}
}

// Workers sets how many workers have each role. Roles that are missing from the map count as 0.
func (m *Metrics) Workers(byRole map[string]int) {
	for _, role := range roles {
		m.workers.WithLabelValues(role).Set(float64(byRole[role]))
	}
}

// Cutovers sets the metrics of the cutovers of all groups.
func (m *Metrics) Cutovers(all []Cutover) {
	for _, c := range all {
		m.cutover.set(c)
	}
}

// Lag sets a table's lag: the largest lag of the shards that this process reads.
func (m *Metrics) Lag(table string, lag time.Duration) {
	m.lag.WithLabelValues(table).Set(lag.Seconds())
}

// ClockOffset sets how far this host's clock is ahead of the source's.
func (m *Metrics) ClockOffset(d time.Duration) { m.clockOffset.WithLabelValues().Set(d.Seconds()) }

// Gauge sets a gauge of a table, one of Gauges. A nil value is unknown, so it removes the series.
func (m *Metrics) Gauge(g Gauge, table string, value *float64) {
	if value == nil {
		m.gauges[g.Name].DeleteLabelValues(table)
		return
	}
	m.gauges[g.Name].WithLabelValues(table).Set(*value)
}

// NotReading removes the lag of a table if this process no longer reads any of the table's shards.
// Otherwise a standby would keep reporting its last figure. That would raise alarms about a table
// that another process reads without problems.
func (m *Metrics) NotReading(table string) { m.lag.DeleteLabelValues(table) }

// Left removes the series of all tables that the process reports itself, because the application has
// moved to the target. No process reads the tables any longer, so their last figures would raise false
// alarms.
func (m *Metrics) Left() {
	for _, gauge := range []*prometheus.GaugeVec{m.lag, m.shards, m.needsLoad, m.mismatched, m.estimated, m.seeking, m.behind, m.topicLag, m.topicHeadroom, m.deadLetter} {
		gauge.Reset()
	}
}

// Shards sets how many shards of a table are in each state. States that are missing from the map
// count as 0.
func (m *Metrics) Shards(table string, states map[string]int) {
	for _, state := range ShardStates {
		m.shards.WithLabelValues(table, state).Set(float64(states[state]))
	}
}

// LoadNeeded sets whether a table needs a load before it can be in sync again.
func (m *Metrics) LoadNeeded(table string, needs bool) {
	m.needsLoad.WithLabelValues(table).Set(one(needs))
}

// Sought reports a search for tables that match the patterns, and whether the search was complete.
func (m *Metrics) Sought(whole bool) { m.seeking.WithLabelValues().Set(one(!whole)) }

// Read counts changes read from a table's stream.
func (m *Metrics) Read(table string, n EventCounts) { count(m.read, table, n) }

// Applied counts changes that are durable.
func (m *Metrics) Applied(table string, n EventCounts) { count(m.applied, table, n) }

// Ignored counts items that a rule of the mapping ignores.
func (m *Metrics) Ignored(table, rule string, items int) {
	m.ignored.WithLabelValues(table, rule).Add(float64(items))
}

// Overtaken counts a change whose row already held a newer write of the application. It also
// records the age of the change.
func (m *Metrics) Overtaken(table string, age time.Duration) {
	m.conflicts.WithLabelValues(table, "application").Observe(age.Seconds())
}

// Compared counts rows of a table that were compared with their items.
func (m *Metrics) Compared(table string, rows int64) {
	m.compared.WithLabelValues(table).Add(float64(max(0, rows)))
}

// Diverged counts rows of a table with dual writes that were found to differ.
func (m *Metrics) Diverged(table string, rows int64) {
	m.diverged.WithLabelValues(table).Add(float64(rows))
}

// Mismatched sets how many rows of a table are known to differ.
func (m *Metrics) Mismatched(table string, rows int64) {
	m.mismatched.WithLabelValues(table).Set(float64(rows))
}

// Copied counts items that the load of a table has copied durably.
func (m *Metrics) Copied(table string, items int64) {
	m.copied.WithLabelValues(table).Add(float64(items))
}

// Estimated sets how many items a table has.
func (m *Metrics) Estimated(table string, items int64) {
	m.estimated.WithLabelValues(table).Set(float64(items))
}

// Exemplar names a recorded span, in hexadecimal digits. The zero value names none.
type Exemplar struct{ Trace, Span string }

// Written observes the duration of one write request, successful or not. The exemplar is the span
// to which the request belongs.
func (m *Metrics) Written(took time.Duration, of Exemplar) {
	observer, can := m.writeDurations.(prometheus.ExemplarObserver)
	if !can || of.Trace == "" {
		m.writeDurations.Observe(took.Seconds())
		return
	}
	observer.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": of.Trace, "span_id": of.Span})
}

// WriteFailed counts a failed write request; code is the name of its gRPC status code.
func (m *Metrics) WriteFailed(code string) { m.writeErrors.WithLabelValues(code).Inc() }

// Throttled counts the time that was spent waiting because of a limit. The reason must be one of a
// few fixed words of the program, never variable text.
func (m *Metrics) Throttled(reason string, waited time.Duration) {
	m.throttled.WithLabelValues(reason).Add(max(0, waited).Seconds())
}

// Published counts messages of a table that are durable in the topic. The argument `blocked` counts
// ordering keys that a failed publish had blocked.
func (m *Metrics) Published(table string, messages, blocked int) {
	m.published.WithLabelValues(table).Add(float64(messages))
	m.blocked.WithLabelValues(table).Add(float64(blocked))
}

// Topic sets how far a table is behind its topic. The argument `behind` is a number of messages,
// and lag the age of the oldest one. The argument `retention` is the time until the subscription
// drops the oldest message; 0 if unknown. The argument `dead` is the number of messages in the
// dead-letter topic.
func (m *Metrics) Topic(table string, behind uint64, lag, retention time.Duration, dead int) {
	m.behind.WithLabelValues(table).Set(float64(behind))
	m.topicLag.WithLabelValues(table).Set(lag.Seconds())
	m.deadLetter.WithLabelValues(table).Set(float64(dead))
	if retention > 0 {
		m.topicHeadroom.WithLabelValues(table).Set((retention - lag).Seconds())
	}
}

// NoTopic removes the series of Topic, for a table that is not applied from a topic.
func (m *Metrics) NoTopic(table string) {
	for _, gauge := range []*prometheus.GaugeVec{m.behind, m.topicLag, m.topicHeadroom, m.deadLetter} {
		gauge.DeleteLabelValues(table)
	}
}

// Notified counts a call of a receiver of notifications.
func (m *Metrics) Notified(receiver, outcome string) {
	m.notified.WithLabelValues(receiver, outcome).Inc()
}

// ReceiversFailing sets how many receivers of notifications the status shows as failing.
func (m *Metrics) ReceiversFailing(n int) { m.receivers.WithLabelValues().Set(float64(n)) }

// LeaseTaken counts a newly held lease.
func (m *Metrics) LeaseTaken() { m.leases.Inc() }

// LeaseLeft is the inverse of LeaseTaken.
func (m *Metrics) LeaseLeft() { m.leases.Dec() }

func count(counter *prometheus.CounterVec, table string, n EventCounts) {
	counter.WithLabelValues(table, "insert").Add(float64(n.Inserts))
	counter.WithLabelValues(table, "modify").Add(float64(n.Modifies))
	counter.WithLabelValues(table, "remove").Add(float64(n.Removes))
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
