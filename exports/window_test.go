package exports

import (
	"testing"
	"time"
)

// Windows follow one another to the second, and the service accepts each of them.
func TestWindows(t *testing.T) {
	from := time.Date(2026, 11, 1, 0, 0, 7, 0, time.UTC)
	for span, want := range map[time.Duration]int{
		0: 0, leastWindow - time.Second: 0, leastWindow: 1, mostWindow - time.Second: 1, mostWindow: 1, mostWindow + time.Second: 2,
		3*mostWindow - time.Second: 3, 7*mostWindow - 5*time.Second: 7, 35 * mostWindow: 35, 35*mostWindow + time.Second: 36,
	} {
		got := Windows(from, from.Add(span))
		if len(got) != want {
			t.Errorf("%s: %d windows, want %d", span, len(got), want)
			continue
		}
		next := from
		for _, w := range got {
			if length := w.To.Sub(w.From); !w.From.Equal(next) || length < leastWindow || length > mostWindow || w.To.Nanosecond() != 0 {
				t.Errorf("%s: %s to %s after %s", span, w.From, w.To, next)
			}
			next = w.To
		}
		if want > 0 && !next.Equal(from.Add(span)) {
			t.Errorf("%s: they end at %s", span, next)
		}
		if end, n := NextEnd(from, from.Add(span)); want > 0 && (n != want || !end.Equal(got[0].To)) {
			t.Errorf("%s: the advice is %d windows, the first until %s", span, n, end)
		}
	}
	if at := Since(from, from.Add(time.Minute)); !at.Equal(from.Add(time.Minute - leastWindow)) {
		t.Errorf("a short time: %s", at)
	}
	if at := Since(from, from.Add(leastWindow)); !at.Equal(from) {
		t.Errorf("a time that is long enough: %s", at)
	}
}
