package checkpoint_test

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// The hours of a table are kept for a week. If the coordinator changed during an hour, the summaries
// are combined, and a repeated write counts no change twice.
func TestHistory(t *testing.T) {
	store := &checkpointtest.Memory{}
	open := func(worker string) *checkpoint.Ledger {
		l, err := checkpoint.Open(t.Context(), store, "acme", checkpoint.Options{Worker: worker, ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := open("a"), open("b")
	ten := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	note := func(l *checkpoint.Ledger, source string, from time.Time, p checkpoint.HourPart) {
		t.Helper()
		if err := l.NoteHour(t.Context(), source, from, p); err != nil {
			t.Fatal(err)
		}
	}
	hours := func(source string, since time.Time) []checkpoint.Hour {
		t.Helper()
		found, err := b.History(t.Context(), source, since)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	at := func(minute int) time.Time { return ten.Add(time.Duration(minute) * time.Minute) }
	first := checkpoint.HourPart{Until: at(20), Lag: new(3.0), Headroom: new(80000.0), Changes: 100, Parked: 1, State: "parked"}
	note(a, "Orders", ten, first)
	note(a, "Orders", ten, first) // repeated
	note(b, "Orders", ten, checkpoint.HourPart{Until: at(59), Lag: new(2.0), Headroom: new(70000.0), Changes: 11, State: "in_sync"})
	note(b, "Orders", ten.Add(time.Hour), checkpoint.HourPart{Until: at(119), State: "stalled"})
	note(b, "Orders.archive", ten, checkpoint.HourPart{Until: at(59), Changes: 7, State: "in_sync"})

	got := hours("Orders", ten)
	if len(got) != 2 || !got[0].From.Equal(ten) || *got[0].Lag != 3 || *got[0].Headroom != 70000 || got[0].Changes != 111 || got[0].Parked != 0 || got[0].State != "in_sync" || !got[0].Until.Equal(at(59)) {
		t.Errorf("%+v", got)
	}
	if got[1].Lag != nil || got[1].Headroom != nil || got[1].State != "stalled" {
		t.Errorf("an hour without figures: %+v", got[1])
	}
	if got := hours("Orders", ten.Add(time.Minute)); len(got) != 1 || got[0].State != "stalled" {
		t.Errorf("since a minute later: %+v", got)
	}
	if got := hours("Bills", ten); len(got) != 0 {
		t.Errorf("another table: %+v", got)
	}
	note(a, "Orders", ten.Add(checkpoint.HistoryFor), first)
	if got := hours("Orders", time.Time{}); len(got) != 3 {
		t.Errorf("a week later: %+v", got)
	}
	note(a, "Orders", ten.Add(checkpoint.HistoryFor+time.Hour), first)
	if got := hours("Orders", time.Time{}); len(got) != 3 || !got[0].From.Equal(ten.Add(time.Hour)) {
		t.Errorf("after more than a week: %+v", got)
	}
	if got := hours("Orders.archive", time.Time{}); len(got) != 1 {
		t.Errorf("hours of another table were removed: %+v", got)
	}
}
