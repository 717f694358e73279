package follow

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// pace is a worker on one shard. It notes when pages are requested.
type pace struct {
	*stream
	size  int           // of a page at most
	takes time.Duration // to write a row
	near  bool          // whether a freeze is near
	asked []time.Duration
}

func (p *pace) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	p.asked = append(p.asked, p.took())
	return p.stream.Read(ctx, at)
}

// play puts changes at the given times. It returns how long each of them waited for its row.
func (p *pace) play(t *testing.T, lasts time.Duration, puts ...time.Duration) (waits []time.Duration) {
	t.Helper()
	playScene(t, func(s *scene) {
		p.stream, s.stream.size = s.stream, p.size
		s.shard("s", "")
		s.Open = func(string) cdc.Source { return p }
		s.answer = func(ctx context.Context, _ *sink.Request) error { return task.Sleep(ctx, p.takes) }
		for i, at := range puts {
			s.after(at, func() { s.put(fmt.Sprint(i)) })
		}
		s.prepares()
		s.table.Tracker.SetNear(p.near)
		s.follows(lasts)
		for _, w := range s.wrote {
			waits = append(waits, w.after-puts[w.n-1])
		}
		if len(waits) != len(puts) {
			t.Errorf("%d rows of %d changes", len(waits), len(puts))
		}
	})
	slices.Sort(waits)
	return waits
}

// reads returns how many pages were requested from one time to another.
func (p *pace) reads(from, to time.Duration) (n int) {
	for _, at := range p.asked {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// closest returns the least time between two requests.
func (p *pace) closest() time.Duration {
	least := time.Hour
	for i := 1; i < len(p.asked); i++ {
		least = min(least, p.asked[i]-p.asked[i-1])
	}
	return least
}

// every returns times from one to another.
func every(d, from, to time.Duration) (all []time.Duration) {
	for at := from; at < to; at += d {
		all = append(all, at)
	}
	return all
}

// A change of an active shard waits for the next of four requests a second, and no longer: half of
// the changes are durable within 150 ms. No request comes earlier, whether pages have changes or
// not.
func TestLagIsAPartOfASecond(t *testing.T) {
	for _, between := range []time.Duration{13, 47, 331, 2903} {
		p := pace{size: 1000, takes: 5 * time.Millisecond}
		waits := p.play(t, 2*time.Minute, every(between*time.Millisecond, time.Second, 100*time.Second)...)
		half, most := waits[len(waits)/2], waits[len(waits)*99/100]
		if half > 150*time.Millisecond || most > 300*time.Millisecond {
			t.Errorf("a change each %d ms waits %s, and one of hundred %s", between, half, most)
		}
		if n := p.reads(10*time.Second, 100*time.Second); n < 345 || n > 361 || p.closest() < 250*time.Millisecond {
			t.Errorf("a change each %d ms: %d requests in 90 s, and two within %s", between, n, p.closest())
		}
	}
}

// A backlog is read four pages a second, too. While a page is written, the next one is read, so
// that slow writes and reads do not add up.
func TestABacklogIsReadAtTheSamePace(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{time.Millisecond: 250 * time.Millisecond, 245 * time.Millisecond: 250 * time.Millisecond, 700 * time.Millisecond: 700 * time.Millisecond} {
		p := pace{size: 1, takes: takes}
		p.play(t, time.Minute, make([]time.Duration, 40)...)
		if took := p.asked[39] - p.asked[2]; took < 36*want || took > 38*want || p.closest() < 250*time.Millisecond {
			t.Errorf("a write takes %s: 37 pages in %s, and two within %s", takes, took, p.closest())
		}
	}
}

// A shard is active for ten seconds after a change. Then it is read every second, and after minutes
// every three seconds, which is what idle shards cost. Before a freeze every shard is active.
func TestAnIdleShardIsReadSeldom(t *testing.T) {
	const last = 20 * time.Second
	for near, want := range map[bool][]int{false: {40, 50, 86, 200}, true: {40, 200, 720, 2400}} {
		p := pace{size: 10, near: near}
		p.play(t, 21*time.Minute, last)
		times := []time.Duration{0, 10 * time.Second, time.Minute, 4 * time.Minute, 14 * time.Minute}
		for i, n := range want {
			from, to := last+times[i], last+times[i+1]
			if got := p.reads(from, to); got < n-2 || got > n+2 {
				t.Errorf("a freeze is near: %v; %d requests from %s to %s after a change, want %d", near, got, times[i], times[i+1], n)
			}
		}
	}
}
