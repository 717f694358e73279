package forecast

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
		begins   time.Duration
		want     string // pieces of the lines
		not      string
	}{
		"nothing is known": {checkpoint.CutoverPlan{}, 4, 0, true, 0, "about 5s (estimated; a rehearsal measures it)|abandoned within about 5s, and the next one begins up to 2m later", "quiet"},
		"measured":         {checkpoint.CutoverPlan{FenceFirst: true}, 4, 4300 * time.Millisecond, false, 0, "about 4.3s (measured by the last attempt)", "estimated"},
		"dual writes":      {dual, 4, 0, false, 0, "about 1m5s (estimated|answers quiet, the freeze lasts about 1m less", "measured by"},
		"they were waited": {dual, 4, 64 * time.Second, false, 0, "about 1m4s (measured", "estimated"},
		"waited no more":   {dual, 4, 64 * time.Second, true, 0, "about 5s (estimated|does not answer quiet, the freeze lasts about 1m longer", "measured by"},
		"quiet before":     {dual, 4, 6 * time.Second, true, 0, "about 6s (measured", "estimated"},
		"quiet no more":    {dual, 4, 6 * time.Second, false, 0, "about 1m5s (estimated", "measured by"},
		"quiet, to wait":   {dual, 500, 0, true, 0, "expected wait for a moment", "1m5s"},
		"fence first":      {checkpoint.CutoverPlan{FenceFirst: true}, 4, 0, false, 0, "about 40s (estimated", "measured by"},
		"fence unless":     {checkpoint.CutoverPlan{FenceFirst: true, FenceUnlessQuiet: true, FreezeAtMost: 43 * time.Second, UnlessQuiet: 35 * time.Second}, 4, 0, false, 0, "about 40s (estimated", "measured by"},
		"quiet, no fence":  {checkpoint.CutoverPlan{FenceFirst: true, FenceUnlessQuiet: true, FreezeAtMost: 43 * time.Second, UnlessQuiet: 35 * time.Second}, 4, 0, true, 0, "about 5s (estimated", "measured by"},
		"many shards":      {checkpoint.CutoverPlan{}, 500, 0, false, 0, "expected wait for a moment|because 500 shards are open", "measured by"},
		"by policy":        {checkpoint.CutoverPlan{ByPolicy: true}, 4, 0, false, 0, "about 1m5s (estimated|policies takes at least 1m, without the time that they need", "measured by"},
		"by policy, known": {checkpoint.CutoverPlan{ByPolicy: true}, 4, 4 * time.Second, false, 12 * time.Second, "about 1m16s (measured|needed 12s to take effect the last time", "estimated"},
		"a long freeze":    {checkpoint.CutoverPlan{FreezeAtMost: 5 * time.Minute}, 500, 0, false, 0, "expected freeze", "abandoned"},
	} {
		text := strings.Join(Foretell(c.plan, c.shards, checkpoint.Cutover{Measured: c.measured, Denial: checkpoint.CutoverDenial{Begins: c.begins}}, c.quiet).Lines(c.plan, c.shards), "\n")
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

// A whole forecast: the freeze, the wait until a listing that is due is over, and what was
// promised.
func TestAWholeForecast(t *testing.T) {
	seconds := func(s int) time.Duration { return time.Duration(s) * time.Second }
	dual := checkpoint.CutoverPlan{FreezeAtMost: seconds(68), UnlessQuiet: time.Minute}
	fenced := checkpoint.CutoverPlan{FreezeAtMost: seconds(43), FenceFirst: true}
	unless := checkpoint.CutoverPlan{FreezeAtMost: seconds(43), FenceFirst: true, FenceUnlessQuiet: true, UnlessQuiet: seconds(35)}
	for name, c := range map[string]struct {
		plan     checkpoint.CutoverPlan
		measured time.Duration
		quiet    bool
		want     Forecast
		pause    time.Duration
	}{
		"defaults":             {checkpoint.CutoverPlan{}, 0, false, Forecast{Freeze: seconds(5)}, seconds(117)},
		"a promise of nothing": {checkpoint.CutoverPlan{}, 0, true, Forecast{Freeze: seconds(5)}, seconds(117)},
		"another bound":        {checkpoint.CutoverPlan{ListingBound: time.Minute}, seconds(3), false, Forecast{Freeze: seconds(3), Measured: true}, seconds(57)},
		"dual writes":          {dual, 0, false, Forecast{Freeze: seconds(65)}, seconds(57)},
		"quiet":                {dual, seconds(7), true, Forecast{Freeze: seconds(7), Quiet: true, Measured: true}, seconds(117)},
		"waited exactly":       {dual, time.Minute, false, Forecast{Freeze: time.Minute, Measured: true}, seconds(57)},
		"waited, now quiet":    {dual, time.Minute, true, Forecast{Freeze: seconds(5), Quiet: true}, seconds(117)},
		"fence first":          {fenced, 0, false, Forecast{Freeze: seconds(40)}, seconds(117)},
		"fence first, quiet":   {fenced, 0, true, Forecast{Freeze: seconds(40)}, seconds(117)},
		"fence unless quiet":   {unless, 0, false, Forecast{Freeze: seconds(40)}, seconds(117)},
		"quiet, so no fence":   {unless, 0, true, Forecast{Freeze: seconds(5), Quiet: true}, seconds(117)},
	} {
		c.want.Wait = untilMoment(100, c.pause)
		if got := Foretell(c.plan, 100, checkpoint.Cutover{Measured: c.measured}, c.quiet); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for wait, lines := range map[time.Duration]int{time.Minute: 2, time.Minute - 1: 1} {
		if got := (Forecast{Wait: wait}).Lines(checkpoint.CutoverPlan{FreezeAtMost: 2 * time.Minute}, 3); len(got) != lines {
			t.Errorf("a wait of %s: %q", wait, got)
		}
	}
	if got := (Forecast{Freeze: 4349 * time.Millisecond}).Lines(checkpoint.CutoverPlan{FreezeAtMost: time.Hour}, 3); !strings.Contains(got[0], "4.3s") {
		t.Errorf("%q", got)
	}
}
