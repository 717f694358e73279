package backfill

import (
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	const estimate = 1_000_000
	var m Meter
	expect := func(rate float64, eta time.Duration) {
		t.Helper()
		if m.Rate() != rate || m.ETA(estimate) != eta {
			t.Fatalf("rate %v, ETA %s; not %v, %s", m.Rate(), m.ETA(estimate), rate, eta)
		}
	}
	expect(-1, 0)
	at := time.Hour
	m.Add(at, 5000) // resumed: these do not belong to this run
	expect(-1, 0)
	m.Add(at+500*time.Millisecond, 5050)
	expect(-1, 0)
	m.Add(at+time.Second, 5100)
	expect(100, 0)
	// A minute has passed, but not one per cent is copied.
	m.Add(at+61*time.Second, 9999)
	expect(float64(9999-5000)/61, 0)
	m.Add(at+100*time.Second, 15_000)
	expect(100, 9850*time.Second)
	// Only the last five minutes count.
	for s := 101; s <= 1000; s++ {
		m.Add(at+time.Duration(s)*time.Second, 15_000+int64(s-100)*1000)
	}
	expect(1000, 85*time.Second)
	if len(m.samples) > 310 {
		t.Errorf("%d samples are kept", len(m.samples))
	}
	// Nothing moves: no ETA rather than an endless one.
	for s := 1001; s <= 1400; s++ {
		m.Add(at+time.Duration(s)*time.Second, 915_000)
	}
	expect(0, 0)
	// More items than estimated.
	m.Add(at+1401*time.Second, 1_000_001)
	if m.ETA(estimate) != 0 || m.Rate() <= 0 {
		t.Errorf("ETA %s", m.ETA(estimate))
	}
	// A meter that is called many times a second keeps no more samples.
	var busy Meter
	for i := range 100_000 {
		busy.Add(time.Duration(i)*10*time.Millisecond, int64(i))
	}
	if len(busy.samples) > 310 || busy.Rate() < 99.99 || busy.Rate() > 100.01 {
		t.Errorf("%d samples, %v/s", len(busy.samples), busy.Rate())
	}
}

// Unknown values are not shown: no ETA from too few items, and no 100 per cent before the end.
func TestETAAndPercent(t *testing.T) {
	for name, c := range map[string]struct {
		items, estimate int64
		rate            float64
		running         time.Duration
		eta             time.Duration
		known           bool
	}{
		"half":                  {500, 1000, 10, time.Hour, 50 * time.Second, true},
		"a minute, a hundredth": {10, 1000, 10, time.Minute, 99 * time.Second, true},
		"before a minute":       {500, 1000, 10, time.Minute - 1, 0, false},
		"before a hundredth":    {9, 1000, 10, time.Hour, 0, false},
		"nothing moves":         {500, 1000, 0, time.Hour, 0, false},
		"its rate is unknown":   {500, 1000, -1, time.Hour, 0, false},
		"as many as estimated":  {1000, 1000, 10, time.Hour, 0, false},
		"more than estimated":   {1001, 1000, 10, time.Hour, 0, false},
		"no estimate":           {500, 0, 10, time.Hour, 0, false},
		"longer than matters":   {1 << 40, 1 << 41, 0.001, time.Hour, 0, false},
	} {
		if eta, known := ETA(c.items, c.estimate, c.rate, c.running); eta != c.eta || known != c.known {
			t.Errorf("%s: %s, %v", name, eta, known)
		}
	}
	for _, c := range []struct {
		items, estimate int64
		done            bool
		percent         int
		known           bool
	}{
		{0, 1000, false, 0, true}, {299, 1000, false, 29, true}, {999, 1000, false, 99, true}, {1000, 1000, false, 99, true}, {5000, 1000, false, 99, true},
		{1, 0, false, 0, false}, {900, 1000, true, 100, true}, {0, 0, true, 100, true},
	} {
		if percent, known := Percent(c.items, c.estimate, c.done); percent != c.percent || known != c.known {
			t.Errorf("%+v: %d%%, %v", c, percent, known)
		}
	}
}
