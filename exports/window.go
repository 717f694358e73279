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
	if earliest := to.Add(-leastWindow); from.After(earliest) {
		from = earliest
	}
	if _, n := NextEnd(from, to); n > 1 {
		return fmt.Sprintf("request %d incremental exports that follow one another from %s to %s, of 15 minutes to 24 hours each", n, stamp(from), stamp(to))
	}
	return fmt.Sprintf("request an incremental export from %s to %s", stamp(from), stamp(to))
}
