package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// seen returns the status at a time: the table's coordinator, how far it lags, and how many changes
// were applied from its shards.
func seen(at time.Time, coordinator string, lag time.Duration, parked int, applied ...uint64) *status.Document {
	state := loadedTable()
	in := status.TableInput{Found: true, State: state, Parked: parked, Coordinator: status.CoordinatorInput{Owner: coordinator, Heartbeat: checkpoint.Heartbeat{WrittenAt: at}}}
	for i, n := range applied {
		s := checkpoint.Shard{Source: "Orders", ID: fmt.Sprint("s", i), Label: "L", State: checkpoint.Reading, Owner: "w", EventTime: at.Add(-lag), ReadAt: at, FirstRead: at.Add(-lag), Applied: n, Generation: 7}
		s.WrittenAt = at
		in.Shards = append(in.Shards, s)
	}
	l := &status.Input{Cfg: testConfig(), Tables: testConfig().Tables, Inputs: []status.TableInput{in}, Begun: true}
	return l.Judge(nothingSet, "", at)
}

// An hour has the highest lag, the least headroom and the changes since this process became the
// coordinator. The last reading determines state and parked items.
func TestAnHourOfATable(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	h := &history{}
	for _, m := range []*status.Document{
		seen(at(0), "other", time.Hour, 9, 1000), // not counted
		seen(at(5), "w", 4*time.Second, 3, 1000), // changes count from here
		seen(at(10), "w", 20*time.Second, 2, 1100),
		seen(at(15), "w", 2*time.Second, 1, 1150, 30), // another shard
		seen(at(20), "other", 5*time.Second, 1, 5000, 30),
		seen(at(25), "w", 5*time.Second, 1, 6000, 30), // changes count again from here
		seen(at(55), "w", 5*time.Second, 0, 6005, 30),
	} {
		if h.add(m, "w") {
			t.Errorf("at %s an hour has ended", m.At)
		}
	}
	if !h.add(seen(at(61), "w", 7*time.Second, 4, 6015, 30), "w") {
		t.Error("no hour has ended")
	}
	all := h.take(true)
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	ended, now := all[0], all[1]
	if !ended.from.Equal(noon) || *ended.Lag != 20 || *ended.Headroom != (24*time.Hour-20*time.Second).Seconds() || ended.Changes != 100+50+30+5 || ended.Parked != 0 || ended.State != "in_sync" || !ended.Until.Equal(at(55)) {
		t.Errorf("the hour that has ended: %+v, lag %v, headroom %v", ended, *ended.Lag, *ended.Headroom)
	}
	// Changes between the last reading of an hour and the first one of the next count in the next.
	if !now.from.Equal(at(60)) || *now.Lag != 7 || now.Changes != 10 || now.Parked != 4 || now.State != "parked" {
		t.Errorf("the current hour: %+v", now)
	}
	if rest := h.take(false); len(rest) != 0 {
		t.Errorf("written twice: %+v", rest)
	}
}

// A process that never was the coordinator has no summaries. Hours that cannot be written wait, and
// only so many of them.
func TestHoursWait(t *testing.T) {
	h := &history{}
	h.add(seen(noon, "other", 0, 0, 1), "w")
	if h.add(seen(noon.Add(time.Hour), "other", 0, 0, 2), "w") || len(h.take(true)) != 0 {
		t.Error("it summarizes a table of another coordinator")
	}
	h.add(seen(noon.Add(time.Hour), "w", 0, 0, 1), "w")
	h.add(seen(noon.Add(2*time.Hour), "w", 0, 0, 2), "w")
	fails := errors.New("denied")
	if err := h.write(t.Context(), false, func(context.Context, noted) error { return fails }); !errors.Is(err, fails) {
		t.Errorf("no error: %v", err)
	}
	var got []time.Time
	put := func(_ context.Context, n noted) error { got = append(got, n.from); return nil }
	if err := h.write(t.Context(), false, put); err != nil || len(got) != 1 || !got[0].Equal(noon.Add(time.Hour)) {
		t.Errorf("%v: %v", err, got)
	}
	h.ended = make([]noted, mostEnded+5)
	if h.add(seen(noon.Add(2*time.Hour), "w", 0, 0, 3), "w"); len(h.ended) != mostEnded {
		t.Errorf("%d hours wait", len(h.ended))
	}
}

// The ledger gets one row for each table and hour, and the current hour when the process ends. Without
// a ledger nothing is written.
func TestHoursAreRecorded(t *testing.T) {
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "test", checkpoint.Options{Worker: "w", ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{Options: Options{Config: testConfig(), Log: slog.New(slog.DiscardHandler)}, id: "w"}
	h := &history{}
	h.add(seen(noon, "w", time.Second, 0, 1), "w")
	h.add(seen(noon.Add(time.Hour), "w", time.Second, 0, 2), "w")
	w.record(t.Context(), h, true) // without a ledger
	w.ledger = ledger
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		all   bool
		hours int
	}{{false, 1}, {true, 2}, {true, 2}} {
		w.record(ended, h, c.all)
		if hours, err := ledger.History(t.Context(), "Orders", time.Time{}); err != nil || len(hours) != c.hours {
			t.Errorf("%v: %+v", err, hours)
		}
	}
}
