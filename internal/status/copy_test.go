package status

import (
	"testing"
	"time"
)

// The duration of a copy is omitted if its begin and its end have different clocks.
func TestHowLongACopyTook(t *testing.T) {
	for took, want := range map[time.Duration]string{8 * time.Minute: "done (8m00s)", 0: "done (0.0s)", -8 * time.Minute: "done"} {
		began, ended := noon, noon.Add(took)
		if got := (copyStatus{State: copyDone, Started: &began, Done: &ended}).String(); got != want {
			t.Errorf("%s: %q, want %q", took, got, want)
		}
	}
	for n, want := range map[int]string{1: "1 row of a sample differs", 2: "2 rows of a sample differ"} {
		if got := (&verifyStatus{Sampled: &sampledStatus{Differing: n}}).text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
