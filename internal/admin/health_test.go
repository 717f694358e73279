package admin

import (
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func TestLive(t *testing.T) {
	for _, c := range []struct {
		name   string
		ticked time.Duration // after the start; negative: never
		now    time.Duration
		want   bool
	}{
		{"starting", -1, time.Second, true},
		{"never began", -1, liveWithin + 1, false},
		{"turns", time.Hour, time.Hour + time.Second, true},
		{"at the limit", time.Hour, time.Hour + liveWithin, true},
		{"stands still", time.Hour, time.Hour + liveWithin + 1, false},
	} {
		f := Facts{Started: start}
		if c.ticked >= 0 {
			f.Ticked = start.Add(c.ticked)
		}
		if v := live(f, start.Add(c.now)); v.OK() != c.want {
			t.Errorf("%s: %s", c.name, v)
		}
	}
}

func TestReady(t *testing.T) {
	now := start.Add(time.Hour)
	reading := TableFacts{Name: "Orders", Source: true, Shards: 3, Since: start, Polled: now.Add(-time.Second)}
	vary := func(change func(*Facts)) Facts {
		f := Facts{Started: start, Target: true, Looked: now.Add(-2 * time.Second), Tables: []TableFacts{reading, {Name: "Standby", Source: true}}}
		change(&f)
		return f
	}
	for _, c := range []struct {
		name string
		f    Facts
		want bool
	}{
		{"all is well", vary(func(*Facts) {}), true},
		{"target not reached", vary(func(f *Facts) { f.Target = false }), false},
		{"one source not reached", vary(func(f *Facts) { f.Tables[1].Source = false }), false},
		{"stopping", vary(func(f *Facts) { f.Stopping = true }), false},
		{"a standby that never polled", vary(func(f *Facts) { f.Tables = f.Tables[1:] }), true},
		{"a standby that polled long ago", vary(func(f *Facts) { f.Tables[0].Shards, f.Tables[0].Polled = 0, start }), true},
		{"polls fail", vary(func(f *Facts) { f.Tables[0].Polled = now.Add(-pollWithin - 1) }), false},
		{"polls at the limit", vary(func(f *Facts) { f.Tables[0].Polled = now.Add(-pollWithin) }), true},
		{"just taken over", vary(func(f *Facts) { f.Tables[0].Polled, f.Tables[0].Since = start, now }), true},
		{"taken over and never polled", vary(func(f *Facts) { f.Tables[0].Polled = time.Time{} }), false},
		{"the ledger was never read", vary(func(f *Facts) { f.Looked = time.Time{} }), false},
		{"the ledger cannot be read", vary(func(f *Facts) { f.Looked = now.Add(-lookWithin - 1) }), false},
		{"the target was away for half a minute", vary(func(f *Facts) { f.Looked = now.Add(-30*time.Second - 1) }), false},
		{"the target was away for less", vary(func(f *Facts) { f.Looked = now.Add(-30 * time.Second) }), true},
		{"a standby that cannot read the ledger", vary(func(f *Facts) { f.Tables, f.Looked = f.Tables[1:], now.Add(-lookWithin-1) }), false},
		{"a look at the limit", vary(func(f *Facts) { f.Looked = now.Add(-lookWithin) }), true},
		{"patterns that match no table yet", vary(func(f *Facts) { f.Tables, f.Looked = nil, time.Time{} }), true},
		{"a stream that waits to be listed", vary(func(f *Facts) { f.Tables[1].Unlisted = now.Add(-pollWithin) }), true},
		{"a stream that nobody lists", vary(func(f *Facts) { f.Tables[1].Unlisted = now.Add(-pollWithin - 1) }), false},
		{"tables of patterns cannot be looked for", vary(func(f *Facts) { f.Seeking = now.Add(-seekWithin) }), true},
		{"tables of patterns cannot be looked for all the time", vary(func(f *Facts) { f.Seeking = now.Add(-seekWithin - 1) }), false},
		{"idle, and nothing is followed", vary(func(f *Facts) {
			f.Idle, f.Looked, f.Seeking, f.Tables = true, now.Add(-idleLookWithin), now.Add(-time.Hour), []TableFacts{{Name: "Orders"}}
		}), true},
		{"idle from the start", Facts{Started: start, Idle: true, Looked: now}, true},
		{"idle, and the ledger is away", vary(func(f *Facts) { f.Idle, f.Looked = true, now.Add(-idleLookWithin-1) }), false},
		{"idle, and asked to end", vary(func(f *Facts) { f.Idle, f.Stopping = true, true }), false},
		// Only liveness depends on the process's loop.
		{"loop stands still", vary(func(f *Facts) { f.Ticked = start }), true},
	} {
		if v := Ready(c.f, now); v.OK() != c.want {
			t.Errorf("%s:\n%s", c.name, v)
		}
	}
}

func TestReportsBecomeFacts(t *testing.T) {
	now := start
	h := NewHealth(func() time.Time { return now }, "Orders", "Billing")
	step := func(want bool) {
		t.Helper()
		if v := Ready(h.Facts(), now); v.OK() != want {
			t.Fatalf("after %s:\n%s", now.Sub(start), v)
		}
	}
	step(false)
	h.TargetReached()
	h.SourceReached("Orders")
	step(false)
	h.SourceReached("Billing")
	step(false)
	h.Looked("Billing", false)
	step(true)
	now = now.Add(time.Hour)
	step(false) // a standby that can no longer read the ledger
	h.Looked("Billing", true)
	step(true) // a standby
	now = now.Add(pollWithin + 1)
	h.Looked("Billing", true)
	step(false) // of a stream that no worker lists
	h.Looked("Billing", false)
	step(true)
	h.Childless("Billing", now.Add(-time.Hour))
	step(false) // no worker reads the children of a shard
	h.Childless("Billing", time.Time{})
	h.Childless("of another process", now)
	step(true)
	h.Sought(false)
	now = now.Add(seekWithin)
	h.Looked("Billing", false)
	h.Sought(false)
	step(true)
	now = now.Add(1)
	step(false) // the search for tables of patterns fails
	h.Sought(true)
	step(true)
	h.ShardTaken("Orders")
	h.ShardTaken("Orders")
	now = now.Add(pollWithin)
	h.Looked("Orders", false)
	step(true)
	now = now.Add(1)
	step(false)
	h.ShardTaken("Orders") // acquiring a shard again is not progress of the held ones
	step(false)
	h.ShardLeft("Orders")
	step(false)
	h.Polled("Orders")
	step(true)
	now = now.Add(time.Hour)
	h.Looked("Orders", false)
	step(false)
	h.ShardLeft("Orders")
	step(false)
	h.ShardLeft("Orders")
	step(true)
	h.ShardLeft("Orders") // once too often
	h.ShardTaken("Orders")
	if f := h.Facts(); len(f.Tables) != 2 || f.Tables[0].Name != "Billing" || f.Tables[1].Shards != 1 || !f.Tables[1].Since.Equal(now) {
		t.Errorf("%+v", f)
	}
	h.Tick()
	if !live(h.Facts(), now).OK() || live(h.Facts(), now.Add(time.Hour)).OK() {
		t.Error("ticks are not seen")
	}
	h.Stopping()
	step(false)
}

// A process that cannot read the source releases its shards every minute, and acquires them again
// if no other worker does. That is not progress. If others acquire them, it is a standby.
func TestReadyWhileShardsAreGivenUp(t *testing.T) {
	now := start
	h := NewHealth(func() time.Time { return now }, "Orders")
	h.TargetReached()
	h.SourceReached("Orders")
	step := func(after time.Duration, want bool) {
		t.Helper()
		now = now.Add(after)
		h.Looked("Orders", false)
		if v := Ready(h.Facts(), now); v.OK() != want {
			t.Fatalf("after %s:\n%s", now.Sub(start), v)
		}
	}
	h.ShardTaken("Orders")
	h.Polled("Orders")
	step(time.Minute, true)
	h.ShardGivenUp("Orders")
	step(6*time.Second, true)
	h.ShardTaken("Orders")
	step(53*time.Second, true)
	step(2*time.Second, false)
	for range 5 {
		h.ShardGivenUp("Orders")
		step(6*time.Second, false)
		h.ShardTaken("Orders")
		step(time.Minute, false)
	}
	h.Polled("Orders")
	step(time.Second, true)
	h.ShardGivenUp("Orders")
	step(pollWithin-time.Second, true)
	step(2*time.Second, true) // others hold them
	step(time.Hour, true)
	h.ShardTaken("Orders")
	step(pollWithin, true)
	step(1, false)
}

func TestReportsFromManyTasks(t *testing.T) {
	h := NewHealth(time.Now, "Orders")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				h.ShardTaken("Orders")
				h.Polled("Orders")
				h.Tick()
				_ = h.Facts()
				h.ShardLeft("Orders")
			}
		})
	}
	wg.Wait()
	if n := h.Facts().Tables[0].Shards; n != 0 {
		t.Errorf("%d shards are left", n)
	}
}
