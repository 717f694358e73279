package standing

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A trouble's duration is computed by its process's one clock, however wrong that is. A known
// offset is corrected, and a heartbeat from the future counts as written now.
func TestTheClockOfATrouble(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	const lasted, old = 4 * time.Minute, 5 * time.Second
	for name, c := range map[string]struct {
		skew, known time.Duration
		want        time.Duration // before now
	}{
		"right":               {0, 0, lasted + old},
		"ahead, known":        {10 * time.Minute, 10 * time.Minute, lasted + old},
		"behind, known":       {-10 * time.Minute, -10 * time.Minute, lasted + old},
		"ahead, not known":    {10 * time.Minute, 0, lasted},
		"ahead by less":       {30 * time.Second, 0, lasted},
		"behind, not known":   {-10 * time.Minute, 0, lasted + old + 10*time.Minute}, // it may be that old
		"a little, not known": {time.Second, 0, lasted + old - time.Second},
	} {
		written := now.Add(c.skew - old)
		b := checkpoint.Heartbeat{WrittenAt: written, Trouble: checkpoint.Trouble{Step: "read", Since: written.Add(-lasted)}, ClockOffset: c.known.Seconds()}
		if got := now.Sub(TroubleSince(b, now)); got != c.want {
			t.Errorf("%s: for %s, want %s", name, got, c.want)
		}
	}
	if got := TroubleSince(checkpoint.Heartbeat{WrittenAt: now}, now); !got.IsZero() {
		t.Errorf("without a trouble: since %s", got)
	}
	backwards := checkpoint.Heartbeat{WrittenAt: now, Trouble: checkpoint.Trouble{Since: now.Add(time.Hour)}}
	if got := TroubleSince(backwards, now); !got.Equal(now) {
		t.Errorf("a clock that was set back meanwhile: since %s", got)
	}
}
