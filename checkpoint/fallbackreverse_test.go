package checkpoint_test

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A clean comparison ends the gap that it has seen, and no other.
func TestACleanComparisonEndsItsGap(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	gap := checkpoint.Fallback{Attempt: 1, State: checkpoint.FallbackGap, Reason: "lost", Since: at, From: at}
	following := checkpoint.Fallback{Attempt: 1, State: checkpoint.FallbackFollowing, From: at}
	later, moved, stopping, next := gap, gap, gap, gap
	later.Since, moved.From, stopping.State, next.Attempt = at.Add(time.Hour), at.Add(time.Hour), checkpoint.FallbackStopping, 2
	result := func(r checkpoint.ReverseResult) checkpoint.ReverseResult { r.EndedAt = at; return r }
	clean := result(checkpoint.ReverseResult{Rows: 3, Items: 3, Repaired: 1, Parked: 1, Unmapped: 1})
	for name, c := range map[string]struct {
		seen, now checkpoint.Fallback
		result    checkpoint.ReverseResult
		healed    bool
		kept      bool
	}{
		"clean":                        {gap, gap, clean, true, true},
		"an item is missing":           {gap, gap, result(checkpoint.ReverseResult{Missing: 1}), false, true},
		"an item is left":              {gap, gap, result(checkpoint.ReverseResult{Extra: 1}), false, true},
		"an item differs":              {gap, gap, result(checkpoint.ReverseResult{Different: 1}), false, true},
		"a row is unreadable":          {gap, gap, result(checkpoint.ReverseResult{Unreadable: 1}), false, true},
		"no result":                    {gap, gap, checkpoint.ReverseResult{Rows: 3}, false, true},
		"the gap is younger":           {following, gap, clean, false, true},
		"another gap":                  {gap, later, clean, false, true},
		"changes were lost again":      {gap, moved, clean, false, true},
		"the way back stops":           {gap, stopping, clean, false, true},
		"there is no gap":              {following, following, clean, false, true},
		"the gap of another cutover":   {gap, next, clean, false, false},
		"healed by another comparison": {gap, following, clean, false, true},
	} {
		ctx := t.Context()
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			_, err = ledger.UpdateFallback(ctx, "Orders", 0, func(f *checkpoint.Fallback) error {
				f.Attempt, f.State, f.Reason, f.Since, f.From = c.now.Attempt, c.now.State, c.now.Reason, c.now.Since, c.now.From
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		c.seen.Source = "Orders"
		_, healed, err := ledger.KeepReverse(ctx, c.seen, c.result)
		if err != nil || healed != c.healed {
			t.Errorf("%s: healed %v, %v", name, healed, err)
		}
		f, _, err := ledger.Fallback(ctx, "Orders")
		if err != nil || (f.Reverse == c.result) != c.kept {
			t.Errorf("%s: kept %+v, %v", name, f.Reverse, err)
		}
		want := c.now.State
		if c.healed {
			want = checkpoint.FallbackFollowing
		}
		if f.State != want || c.healed && (f.Reason != "" || !f.Since.IsZero() || !f.From.Equal(at)) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A suspect stays until the leader removes the record that it has read.
func TestSuspects(t *testing.T) {
	ctx := t.Context()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	suspects := func(source string, n int) []checkpoint.SuspectKey {
		t.Helper()
		all, err := ledger.FallbackSuspects(ctx, source)
		must(err)
		if len(all) != n {
			t.Fatalf("%d suspects of %s, want %d", len(all), source, n)
		}
		return all
	}
	must(ledger.SuspectFallback(ctx, "Orders", "a\x00", "b"))
	must(ledger.SuspectFallback(ctx, "Orders2", "a"))
	suspects("Orders2", 1)
	read := suspects("Orders", 2)
	must(ledger.SuspectFallback(ctx, "Orders", "b"))
	for _, s := range read {
		must(ledger.ClearSuspect(ctx, "Orders", s))
	}
	rest := suspects("Orders", 1)
	if string(rest[0].Key) != "b" {
		t.Errorf("the suspect that was written again is gone, and %q is left", rest[0].Key)
	}
	must(ledger.ClearSuspect(ctx, "Orders", rest[0]))
	suspects("Orders", 0)
}
