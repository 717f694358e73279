package backfill

import "time"

// Constants of the ETA.
const (
	// RateWindow is the time over which the rate is measured.
	RateWindow = 5 * time.Minute
	// etaAfter and etaShare say when an ETA is first reported: the load has run for etaAfter, and
	// has copied etaShare of the estimate.
	etaAfter = time.Minute
	etaShare = 0.01
	// etaAtMost is the longest ETA that is reported.
	etaAtMost = 1000 * 24 * time.Hour
)

// Meter measures the rate of one load. The zero value is ready. The caller gives the times, and
// they should be monotonic.
type Meter struct {
	began   bool
	start   sample
	samples []sample // about one sample a second; the first is the last one at or before the start of the window
}

type sample struct {
	at    time.Duration
	items int64
}

// Add records how many items are durable at a time. The caller must call Add in order of time. The
// first call starts the measurement. So items that were copied before a load resumed do not count
// for the rate.
func (m *Meter) Add(at time.Duration, items int64) {
	now := sample{at, items}
	if !m.began {
		m.began, m.start = true, now
	}
	n := len(m.samples)
	if n >= 2 && at-m.samples[n-2].at < time.Second {
		m.samples[n-1] = now // within a second, only the latest is kept
	} else {
		m.samples = append(m.samples, now)
	}
	old := 0
	for old+1 < len(m.samples) && m.samples[old+1].at <= at-RateWindow {
		old++
	}
	m.samples = m.samples[old:]
}

// Rate returns the items per second over the window, or since the start if that was later. It is
// negative until a second has been measured.
func (m *Meter) Rate() float64 {
	if len(m.samples) == 0 {
		return -1
	}
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	if last.at-first.at < time.Second {
		return -1
	}
	return float64(last.items-first.items) / (last.at - first.at).Seconds()
}

// ETA returns how long the rest of the estimate takes at the present rate; 0 if that is unknown.
func (m *Meter) ETA(estimate int64) time.Duration {
	if len(m.samples) == 0 {
		return 0
	}
	last := m.samples[len(m.samples)-1]
	eta, _ := ETA(last.items, estimate, m.Rate(), last.at-m.start.at)
	return eta
}

// ETA returns how long the rest of an estimate takes at rate items per second. The argument
// `running` is how long the load has run. The ETA is unknown in the first minute, and before one
// per cent is copied. It is also unknown at rate zero, and if more items were copied than
// estimated.
func ETA(items, estimate int64, rate float64, running time.Duration) (eta time.Duration, known bool) {
	if rate <= 0 || estimate <= 0 || running < etaAfter || float64(items) < etaShare*float64(estimate) || items >= estimate {
		return 0, false
	}
	seconds := float64(estimate-items) / rate
	if seconds > etaAtMost.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// Percent returns the copied share of an estimate, rounded down. It stays below 100 until the load
// is done. The copied items may exceed the estimate: the estimate is up to six hours old, and items
// that are read again count again. Without an estimate, the share is unknown.
func Percent(items, estimate int64, done bool) (percent int, known bool) {
	switch {
	case done:
		return 100, true
	case estimate <= 0:
		return 0, false
	}
	return min(99, int(float64(items)/float64(estimate)*100)), true
}
