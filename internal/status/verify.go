package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// verifyStatus is the comparison of a table with its target: the running verify, and the result of
// the last one.
type verifyStatus struct {
	State string `json:"state"` // never, running, paused, done or ended
	// Verdict is the result in words. If there is no result, Verdict and the members below are
	// null.
	Verdict   *string    `json:"verdict"`
	Clean     *bool      `json:"clean"`
	Stale     *bool      `json:"stale"`     // the result is more than a day old
	Differing *int64     `json:"differing"` // number of rows that differ
	Sample    *float64   `json:"sample"`    // the share of the items that was compared; null if all were
	Since     *time.Time `json:"since"`     // only changes since this time were compared; null for all
	EndedAt   *time.Time `json:"ended_at"`
	// Sampled is the comparison of recently applied changes; null if there was none.
	Sampled *sampledStatus `json:"sampled"`
}

// sampledStatus is the result of the comparison of samples of recently applied items.
type sampledStatus struct {
	At        time.Time `json:"at"`        // time of the last comparison
	Compared  int64     `json:"compared"`  // number of compared rows since the beginning
	Differing int       `json:"differing"` // number of rows that differed when they were last compared
}

// verifyOf returns the state of a table's verify; nil before the first.
func verifyOf(s checkpoint.TableState, now time.Time) *verifyStatus {
	state := comparison.StateOf(s)
	if state == comparison.StateNever && s.Sampled.At.IsZero() {
		return nil
	}
	v, r := &verifyStatus{State: state}, s.Verify.Result
	if at := s.Sampled.At; !at.IsZero() {
		v.Sampled = &sampledStatus{at, s.Sampled.Compared, s.Sampled.Differing}
	}
	if !r.Known() {
		return v
	}
	verdict, clean, stale, differing := r.Verdict(now), r.Clean(), r.Stale(now), r.Differing()
	v.Verdict, v.Clean, v.Stale, v.Differing, v.EndedAt = &verdict, &clean, &stale, &differing, &r.EndedAt
	if r.Sample > 0 {
		v.Sample = &r.Sample
	}
	if !r.Since.IsZero() {
		v.Since = &r.Since
	}
	return v
}

// sampled returns the number of rows that are known to differ, according to comparisons of samples.
func (v *verifyStatus) sampled() int64 {
	if v == nil || v.Sampled == nil {
		return 0
	}
	return int64(v.Sampled.Differing)
}

// text returns the text of the verify's cell in the status text.
func (v *verifyStatus) text() string {
	switch {
	case v == nil:
		return "-"
	case v.Sampled != nil && v.Sampled.Differing > 0:
		return terminal.RowsDiffer(v.Sampled.Differing, "a sample")
	case v.State == comparison.StateNever:
		return "a sample is clean"
	case v.State == comparison.StateRunning, v.State == comparison.StatePaused, v.Verdict == nil:
		return v.State
	}
	return *v.Verdict
}

// worse returns the result that an operator must see first: rows that differ come first, then a
// missing or old result, then a running verify.
func (v *verifyStatus) worse(o *verifyStatus) *verifyStatus {
	rank := func(v *verifyStatus) int {
		switch {
		case v != nil && (v.Clean != nil && !*v.Clean || v.Sampled != nil && v.Sampled.Differing > 0):
			return 4
		case v == nil || v.Verdict == nil:
			return 3
		case *v.Stale:
			return 2
		case v.State != comparison.StateDone:
			return 1
		}
		return 0
	}
	if rank(o) > rank(v) {
		return o
	}
	return v
}
