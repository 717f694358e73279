package cutover

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// The wait for a moment grows with the number of shards, because any of them may end. The figures are
// those of the design of the freeze, which drew histories at random.
func TestTheWaitForAMomentIsForetold(t *testing.T) {
	for _, c := range []struct {
		shards   int
		pause    time.Duration
		from, to time.Duration
	}{
		{0, 2 * time.Minute, 0, 0},
		{4, 2 * time.Minute, time.Second, 4 * time.Second},
		{64, 2 * time.Minute, 36 * time.Second, 41 * time.Second},
		{100, 2 * time.Minute, 62 * time.Second, 70 * time.Second},
		{400, 2 * time.Minute, 13 * time.Minute, 15 * time.Minute},
		{1000, 2 * time.Minute, 16 * time.Hour, 17 * time.Hour},
		{1000, time.Minute, 13 * time.Minute, 15 * time.Minute},
		{1000, 0, 0, 0}, // a freeze of that length is accepted
		{1 << 20, time.Hour, 365 * 24 * time.Hour, 365 * 24 * time.Hour},
	} {
		if got := untilMoment(c.shards, c.pause); got < c.from || got > c.to {
			t.Errorf("%d shards, %s: %s", c.shards, c.pause, got)
		}
	}
}

// A forecast takes what was measured. Otherwise it adds what the configuration demands.
func TestTheFreezeIsForetold(t *testing.T) {
	dual := checkpoint.CutoverPlan{FreezeAtMost: 68 * time.Second, UnlessQuiet: time.Minute}
	for name, c := range map[string]struct {
		plan     checkpoint.CutoverPlan
		shards   int
		measured time.Duration
		quiet    bool
		want     string // pieces of the lines
		not      string
	}{
		"nothing is known": {checkpoint.CutoverPlan{}, 4, 0, true, "about 5s (estimated; a rehearsal measures it)|abandoned within about 5s, and the next one begins up to 2m later", "quiet"},
		"measured":         {checkpoint.CutoverPlan{FenceFirst: true}, 4, 4300 * time.Millisecond, false, "about 4.3s (measured by the last attempt)", "estimated"},
		"dual writes":      {dual, 4, 0, false, "about 1m5s (estimated|answers quiet, the freeze lasts about 1m less", "measured by"},
		"they were waited": {dual, 4, 64 * time.Second, false, "about 1m4s (measured", "estimated"},
		"waited no more":   {dual, 4, 64 * time.Second, true, "about 5s (estimated|does not answer quiet, the freeze lasts about 1m longer", "measured by"},
		"quiet before":     {dual, 4, 6 * time.Second, true, "about 6s (measured", "estimated"},
		"quiet no more":    {dual, 4, 6 * time.Second, false, "about 1m5s (estimated", "measured by"},
		"quiet, to wait":   {dual, 500, 0, true, "expected wait for a moment", "1m5s"},
		"fence first":      {checkpoint.CutoverPlan{FenceFirst: true}, 4, 0, false, "about 40s (estimated", "measured by"},
		"fence unless":     {checkpoint.CutoverPlan{FenceFirst: true, FenceUnlessQuiet: true, FreezeAtMost: 43 * time.Second, UnlessQuiet: 35 * time.Second}, 4, 0, false, "about 40s (estimated", "measured by"},
		"quiet, no fence":  {checkpoint.CutoverPlan{FenceFirst: true, FenceUnlessQuiet: true, FreezeAtMost: 43 * time.Second, UnlessQuiet: 35 * time.Second}, 4, 0, true, "about 5s (estimated", "measured by"},
		"many shards":      {checkpoint.CutoverPlan{}, 500, 0, false, "expected wait for a moment|because 500 shards are open", "measured by"},
		"a long freeze":    {checkpoint.CutoverPlan{FreezeAtMost: 5 * time.Minute}, 500, 0, false, "expected freeze", "abandoned"},
	} {
		text := strings.Join(Foretell(c.plan, c.shards, c.measured, c.quiet).Lines(c.plan, c.shards), "\n")
		for piece := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(text, piece) {
				t.Errorf("%s: %q is not in\n%s", name, piece, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q is in\n%s", name, c.not, text)
		}
	}
}
