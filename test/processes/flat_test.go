package processes

import (
	"testing"
	"time"
)

// series returns samples of one measure, ten seconds apart.
func series(n int, at func(i int) float64) []sample {
	out := make([]sample, n)
	for i := range out {
		out[i].at = time.Duration(i) * 10 * time.Second
		out[i].values[resident] = at(i) * measured[resident].unit
	}
	return out
}

// A judge that overlooks growth proves nothing, and one that reports noise is soon ignored.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		at   func(i int) float64
		flat bool
	}{
		"constant":              {func(int) float64 { return 80 }, true},
		"saw of a collector":    {func(i int) float64 { return 80 + float64(i%7)*10 }, true},
		"a single peak":         {func(i int) float64 { return 80 + map[bool]float64{true: 500}[i == 300] }, true},
		"within the allowance":  {func(i int) float64 { return 80 + float64(i)*20/360 }, true},
		"a leak":                {func(i int) float64 { return 80 + float64(i)*60/360 }, false},
		"a leak in steps":       {func(i int) float64 { return 80 + float64(i/90)*20 }, false},
		"a leak under the saw":  {func(i int) float64 { return 80 + float64(i%7)*10 + float64(i)*60/360 }, false},
		"a little of very much": {func(i int) float64 { return 1000 + float64(i)*100/360 }, true},
		"shrinking":             {func(i int) float64 { return 200 - float64(i)/4 }, true},
	} {
		got, ok := judge(series(360, c.at), resident)
		if !ok || got.flat != c.flat {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, ok := judge(series(least-1, func(int) float64 { return 1 }), resident); ok {
		t.Error("too few samples were judged")
	}
}

// Leases that move between workers are not growth, and must not hide it.
func TestJudgeTakesLeasesIntoAccount(t *testing.T) {
	for name, c := range map[string]struct {
		held func(i int) float64
		leak float64 // goroutines leaked in the whole run
		flat bool
	}{
		"once, for good":        {func(i int) float64 { return map[bool]float64{true: 16}[i > 200] }, 0, true},
		"to and fro":            {func(i int) float64 { return float64(i / 30 % 2 * 14) }, 0, true},
		"never":                 {func(int) float64 { return 7 }, 0, true},
		"a leak beside":         {func(i int) float64 { return float64(i / 30 % 2 * 14) }, 100, false},
		"a leak while they go":  {func(i int) float64 { return map[bool]float64{true: 16}[i < 200] }, 100, false},
		"a leak and no changes": {func(int) float64 { return 7 }, 100, false},
	} {
		samples := make([]sample, 360)
		for i := range samples {
			samples[i].at = time.Duration(i) * 10 * time.Second
			samples[i].values[leases] = c.held(i)
			samples[i].values[goroutines] = 55 + 5*c.held(i) + float64(i%3) + c.leak*float64(i)/360
		}
		if got, ok := judge(samples, goroutines); !ok || got.flat != c.flat {
			t.Errorf("%s: %v", name, got)
		}
	}
}
