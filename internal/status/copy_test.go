package status

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
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

// Until its sweep is done, a fast load has its own reason, and status says what readers may see. A
// guarded load has neither.
func TestAFastLoadIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *checkpoint.Load)
		state  string
		mode   string
		shows  bool
	}{
		"fast copy":     {func(l *checkpoint.Load) { l.Fast, l.DoneAt = true, time.Time{} }, "copying", "fast", true},
		"fast sweep":    {func(l *checkpoint.Load) { l.Fast = true }, "sweeping", "fast", true},
		"swept":         {func(l *checkpoint.Load) { l.Fast, l.SweptAt = true, noon }, "in_sync", "fast", false},
		"guarded copy":  {func(l *checkpoint.Load) { l.DoneAt = time.Time{} }, "copying", "guarded", false},
		"guarded sweep": {func(*checkpoint.Load) {}, "sweeping", "guarded", false},
	} {
		in := followed()
		in.State.Load.Number, in.State.Load.Parts = 1, 1
		c.change(&in.State.Load)
		m := judged(in)
		table := &m.Tables[0]
		reason := table.Reason != nil && *table.Reason == "fast"
		if string(table.State) != c.state || reason != c.shows || *table.Copy.Mode != c.mode {
			t.Errorf("%s: %s, fast %t, mode %s", name, table.State, reason, *table.Copy.Mode)
		}
		if said := strings.Contains(m.Headline(), "removed items and attributes may show"); said != c.shows {
			t.Errorf("%s: %q", name, m.Headline())
		}
	}
}
