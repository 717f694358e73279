package exports

import (
	"fmt"
	"time"
)

// The shortest and longest window of an incremental export. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.HowItWorks.html
const (
	leastWindow = 15 * time.Minute
	mostWindow  = 24 * time.Hour
)

// Window is the period of an incremental export. The end does not belong to it.
type Window struct{ From, To time.Time }

// Windows divides a time into windows that follow one another. Each begins and ends at a whole
// second, if the times do. There is none if the time is shorter than the shortest window.
func Windows(from, until time.Time) (all []Window) {
	span := until.Sub(from)
	if span < leastWindow {
		return nil
	}
	n := (span + mostWindow - 1) / mostWindow
	end := func(i time.Duration) time.Time { // no two ends are further apart than the longest window
		return from.Add((span / time.Second * i / n) * time.Second)
	}
	for i := range n - 1 {
		all = append(all, Window{end(i), end(i + 1)})
	}
	return append(all, Window{end(n - 1), until})
}

// Since returns the latest time at which windows up to the time `until` may begin so that they
// contain the time `from`.
func Since(from, until time.Time) time.Time {
	if earliest := until.Add(-leastWindow); from.After(earliest) {
		return earliest
	}
	return from
}

// NextEnd returns the end of a window that begins at the time `from` and ends at the time `until`
// or before. If that period needs several windows, it returns the end of the first window, and the
// number of windows.
func NextEnd(from, until time.Time) (end time.Time, windows int) {
	span := max(until.Sub(from), leastWindow)
	windows = int((span + mostWindow - 1) / mostWindow)
	return from.Add((span / time.Duration(windows)).Truncate(time.Second)), windows
}

// Request returns advice on which exports to request for all changes between two times. If these
// times are too close for a window, the window begins earlier.
func Request(from, to time.Time) string {
	from = Since(from, to)
	if _, n := NextEnd(from, to); n > 1 {
		return fmt.Sprintf("request %d incremental exports that follow one another from %s to %s, of 15 minutes to 24 hours each", n, stamp(from), stamp(to))
	}
	return fmt.Sprintf("request an incremental export from %s to %s", stamp(from), stamp(to))
}
