package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cutover holds the facts about a cutover that alerts need.
type Cutover struct {
	Group string // name of the group of tables
	Ready bool   // every gate is ready
	// Strays is the number of changes to the source that the target lacks. Unanswered is the number
	// of those that no operator has confirmed.
	Strays, Unanswered int
	// Frozen is how long the application's writes have been frozen so far, or 0 if writes are not
	// frozen. Limit is how long a try may freeze them. Lasted is how long the last freeze lasted; 0
	// during a freeze, and before the first one.
	Frozen, Limit, Lasted time.Duration
	// Driven reports whether a process is driving the cutover.
	Driven bool
	// Cancelling is the time since a cancel was requested, while the cutover has not ended yet;
	// else 0.
	Cancelling time.Duration
}

// cutoverMetrics are the metrics of the cutovers, by group.
type cutoverMetrics struct {
	ready, strays, unanswered, frozen, limit, lasted, driven, cancelling *prometheus.GaugeVec
}

func newCutoverMetrics(gauge func(name, help string, labels ...string) *prometheus.GaugeVec) *cutoverMetrics {
	return &cutoverMetrics{
		ready:      gauge("replicator_cutover_ready", "1 while every gate of a cutover is ready.", "group"),
		strays:     gauge("replicator_cutover_strays", "Changes in the source that the target lacks after a cutover, from late writers or a late tail of the stream.", "group"),
		unanswered: gauge("replicator_cutover_strays_unanswered", "Changes in the source that the target lacks, and that no operator has confirmed with finalize --strays-seen.", "group"),
		frozen:     gauge("replicator_cutover_frozen_seconds", "How long a cutover has frozen the application's writes. 0 if they are not frozen.", "group"),
		limit:      gauge("replicator_cutover_frozen_limit_seconds", "How long one cutover attempt may freeze the application's writes. 0 without a cutover.", "group"),
		lasted:     gauge("replicator_cutover_freeze_seconds", "How long the last freeze of a cutover lasted. 0 during a freeze, and before the first one.", "group"),
		driven:     gauge("replicator_cutover_driven", "1 while a process drives a cutover.", "group"),
		cancelling: gauge("replicator_cutover_cancelling_seconds", "How long a cancelled cutover has waited for the application's writes to resume. Otherwise 0.", "group"),
	}
}

// set sets the metrics of one group.
func (m *cutoverMetrics) set(c Cutover) {
	for gauge, value := range map[*prometheus.GaugeVec]float64{
		m.ready: one(c.Ready), m.strays: float64(c.Strays), m.unanswered: float64(c.Unanswered), m.driven: one(c.Driven),
		m.frozen: c.Frozen.Seconds(), m.limit: c.Limit.Seconds(), m.lasted: c.Lasted.Seconds(), m.cancelling: c.Cancelling.Seconds(),
	} {
		gauge.WithLabelValues(c.Group).Set(value)
	}
}
