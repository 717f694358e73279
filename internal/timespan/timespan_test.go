package timespan

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		in        string
		want      time.Duration
		formatted string
	}{
		{"14d", 14 * day, "14d"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"1.5d", 36 * time.Hour, "36h"},
		{"15s", 15 * time.Second, "15s"},
		{"90s", 90 * time.Second, "1m30s"},
		{"60m", time.Hour, "1h"},
		{"24h", day, "1d"},
		{"1h0m5s", time.Hour + 5*time.Second, "1h0m5s"},
		{"1d500ms", day + 500*time.Millisecond, "24h0m0.5s"},
		{"0", 0, "0s"},
		{"0d", 0, "0s"},
		{"10m", 10 * time.Minute, "10m"},
	} {
		got, err := Parse(c.in)
		if err != nil || got != c.want || Format(got) != c.formatted {
			t.Errorf("%s: %v (%s), %v, want %v (%s)", c.in, got, Format(got), err, c.want, c.formatted)
		}
		if again, err := Parse(Format(got)); err != nil || again != got {
			t.Errorf("%s does not survive its own form %s", c.in, Format(got))
		}
	}
	for _, in := range []string{"", "d", "15", "-1s", "-1d", "1d-1h", "1d+1h", "+5s", "1w", "12h1d", "1d1d", "200000d", "999999d", "100000d999999999h", "1e3s", "1 d", " 1d", "∞"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("%q is accepted as %v", in, got)
		}
	}
}

func TestSpell(t *testing.T) {
	for want, d := range map[string]time.Duration{"24h": 24 * time.Hour, "23h50m": 23*time.Hour + 50*time.Minute, "1m": time.Minute, "10s": 10 * time.Second, "0s": 0} {
		if got := Spell(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
