// Package timespan reads and writes durations.
package timespan

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var (
	days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]{1,6})?)d(.*)$`)
	// hours matches durations of time.ParseDuration. Parse reports a number with too many digits in
	// the same way as other invalid texts.
	hours = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+$`)
)

// ErrTooLong is returned for a duration that time.Duration cannot hold.
var ErrTooLong = errors.New("is too long")

// Parse parses a duration in Go's syntax, with an optional number of days in front: "15s", "1h30m",
// "14d", "1d12h", "1.5d". A day is 24 hours. Negative durations and numbers without a unit (other
// than 0) are refused.
func Parse(s string) (time.Duration, error) {
	var total time.Duration
	rest := s
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n > 100_000 { // 273 years; the maximum of time.Duration is 292
			return 0, fmt.Errorf("duration %q %w", s, ErrTooLong)
		}
		total = time.Duration(n * float64(day))
		if rest = m[2]; rest == "" {
			return total, nil
		}
	}
	if strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") {
		return 0, errors.New("a duration has no sign")
	}
	d, err := time.ParseDuration(rest)
	switch {
	case err == nil && total+d < total, err != nil && hours.MatchString(rest):
		return 0, fmt.Errorf("duration %q %w", s, ErrTooLong)
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	return total + d, nil
}

// Format is the inverse of Parse in the shortest form: whole days as "14d", and no zero units.
func Format(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return Spell(d)
}

// Spell formats a duration without zero units and without days: 24h, and neither 24h0m0s nor 1d.
func Spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
