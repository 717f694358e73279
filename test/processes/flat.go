package processes

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// sample holds a worker process's resources at one moment, from its own metrics.
type sample struct {
	at     time.Duration // since the beginning
	values [measures]float64
}

// measure is a resource that must not grow without limit, or a value that explains the use of one.
type measure int

const (
	resident measure = iota
	heap
	goroutines
	descriptors
	leases // not judged, but used to adjust the others: any worker may hold a shard, and each shard needs resources
	measures
)

// measured defines how each measure is read and judged.
var measured = [measures]struct {
	name, metric string
	unit         float64 // divisor for printing
	// allowance is the growth that is always accepted, because leases and garbage come and go.
	allowance float64
}{
	resident:    {"rss MB", "process_resident_memory_bytes", 1 << 20, 24},
	heap:        {"heap MB", "go_memstats_heap_inuse_bytes", 1 << 20, 12},
	goroutines:  {"goroutines", "go_goroutines", 1, 40},
	descriptors: {"descriptors", "process_open_fds", 1, 12},
	leases:      {"leases", "replicator_leases_held", 1, 0},
}

// share is the growth that is accepted relative to the first level, if that exceeds the allowance.
const share = 0.15

// trend describes one measure of one worker over time.
type trend struct {
	first, last float64 // medians of the first and last quarter, adjusted to an equal number of leases
	growth      float64 // over all samples, from the median of all slopes (Theil and Sen)
	most        float64
	flat        bool
}

// least is the number of samples that a verdict needs.
const least = 16

// judge reports whether a measure grows: both its level and its trend must grow by more than a
// share and an allowance. Samples are in order of time, without the warm-up.
func judge(samples []sample, m measure) (trend, bool) {
	n := len(samples)
	if n < least {
		return trend{}, false
	}
	values := atEqualLeases(samples, m)
	t := trend{first: median(values[:n/4]), last: median(values[n-n/4:]), most: slices.Max(values)}
	t.growth = slope(samples, values) * (samples[n-1].at - samples[0].at).Hours()
	allowed := math.Max(measured[m].allowance, share*t.first)
	t.flat = t.last-t.first <= allowed || t.growth <= allowed
	return t, true
}

// atEqualLeases adjusts the values of a measure to the average number of leases. The cost of a
// lease is the median of the steps in which the number of leases changed, because nothing else can
// have grown much between two samples.
func atEqualLeases(samples []sample, m measure) []float64 {
	values := make([]float64, len(samples))
	var steps []float64
	average := 0.0
	for i, s := range samples {
		values[i] = s.values[m] / measured[m].unit
		average += s.values[leases] / float64(len(samples))
		if i > 0 {
			if step := s.values[leases] - samples[i-1].values[leases]; step != 0 {
				steps = append(steps, (values[i]-values[i-1])/step)
			}
		}
	}
	each := max(0, median(steps))
	for i, s := range samples {
		values[i] -= each * (s.values[leases] - average)
	}
	return values
}

// mostSlopes bounds the samples whose pairs are all compared.
const mostSlopes = 600

// slope returns the median slope per hour of all pairs of samples.
func slope(samples []sample, values []float64) float64 {
	step := 1 + len(samples)/mostSlopes
	var slopes []float64
	for i := 0; i < len(samples); i += step {
		for j := i + step; j < len(samples); j += step {
			if hours := (samples[j].at - samples[i].at).Hours(); hours > 0 {
				slopes = append(slopes, (values[j]-values[i])/hours)
			}
		}
	}
	return median(slopes)
}

// median returns 0 if there are no values. It does not change their order.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// String describes a trend in a line.
func (t trend) String() string {
	verdict := "flat"
	if !t.flat {
		verdict = "GROWS"
	}
	return fmt.Sprintf("%s: first quarter %.0f, last quarter %.0f, trend %+.1f, most %.0f", verdict, t.first, t.last, t.growth, t.most)
}
