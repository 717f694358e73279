package checkpoint

import (
	"errors"
	"testing"
	"time"
)

// fastPlan is the plan of a fast load.
func fastPlan(at time.Time) Plan {
	return Plan{Generation: 2, Number: 1, Parts: 3, Source: "scan", StartedAt: at, CellTime: at.Add(-50 * time.Hour), Numbers: map[string]uint64{"t": 5}}
}

// H142: only the first load of a table that replicator made may be fast, in mode direct, without a
// gap, another mapping or an incremental export.
func TestH142_WhenTheRecordRefusesAFastLoad(t *testing.T) {
	fresh := TableState{Source: "T", Generation: 2, Adopted: 2, MadeByUs: true, Load: Load{AskedAt: time.Unix(1, 0)}}
	if why := fresh.RefusesFast(); why != "" {
		t.Errorf("a first load: %s", why)
	}
	running := fresh
	running.Load = Load{Generation: 2, Number: 1, Parts: 3, Fast: true}
	if why := running.RefusesFast(); why != "" {
		t.Errorf("a fast load that runs: %s", why)
	}
	for name, change := range map[string]func(s *TableState){
		"a table of others":     func(s *TableState) { s.MadeByUs = false },
		"a swept generation":    func(s *TableState) { s.Base = 1 },
		"a former load":         func(s *TableState) { s.Load.Number = 1 },
		"a former generation":   func(s *TableState) { s.Load.Before = 1 },
		"a gap":                 func(s *TableState) { s.GapCount = 1 },
		"a needed load":         func(s *TableState) { s.NeedsLoad = true },
		"a topic":               func(s *TableState) { s.Apply = Topic },
		"a topic beside":        func(s *TableState) { s.Apply = Both },
		"an incremental export": func(s *TableState) { s.Load.Export.From = time.Unix(1, 0) },
		"windows":               func(s *TableState) { s.Load.Windows = []Export{{}} },
		"a former mapping":      func(s *TableState) { s.Former = []Former{{}} },
	} {
		s := fresh
		change(&s)
		if s.RefusesFast() == "" {
			t.Errorf("%s: may be fast", name)
		}
		before := s.Load
		if err := s.SealLoad(fastPlan(time.Unix(9000, 0))); err == nil || s.Load.Fast {
			t.Errorf("%s: sealed as %+v, was %+v", name, s.Load, before)
		}
	}
}

// H142: the cells of a fast load are earlier than every change that is ever applied: by two days
// than the first read of any root.
func TestH142_TheTimeOfAFastLoadsCells(t *testing.T) {
	read := time.Date(2026, 11, 1, 12, 0, 0, 1_234_567, time.UTC)
	table := TableState{Label: "L"}
	if _, known := FastTime(table, []Shard{{Label: "L", ID: "a"}}); known {
		t.Error("before the first read the time is known")
	}
	shards := []Shard{{Label: "L", ID: "a", FirstRead: read.Add(time.Hour)}, {Label: "L", ID: "b", FirstRead: read},
		{Label: "L", ID: "c", Parent: "b", FirstRead: read.Add(-time.Hour)}, {Label: "K", ID: "d", FirstRead: read.Add(-time.Hour)}}
	if at, known := FastTime(table, shards); !known || !at.Equal(time.Date(2026, 10, 30, 12, 0, 0, 1_000_000, time.UTC)) {
		t.Errorf("%s, %t", at, known)
	}
}

// H142: a fast load is sealed with its time and numbers, always needs its sweep, and leaves the table
// unloaded until then. Its record cannot be read by an older program.
func TestH142_AFastLoadEndsWithItsSweep(t *testing.T) {
	at := time.Unix(9000, 0).UTC()
	s := TableState{Source: "T", Generation: 2, Adopted: 2, MadeByUs: true, AdoptedAt: at, Load: Load{AskedAt: at, Mode: FastLoad}}
	plan := fastPlan(at)
	if err := s.SealLoad(plan); err != nil || !s.Load.Fast || !s.Load.CellTime.Equal(plan.CellTime) || s.Load.Mode != FastLoad || s.Load.Numbers["t"] != 5 {
		t.Fatalf("%v: %+v", err, s.Load)
	}
	if err := s.SealLoad(plan); err != nil {
		t.Errorf("sealed again: %v", err)
	}
	if s.written() != fastFormat || (&Target{CopiedAt: at}).written() != fastFormat || (&Target{Recorded: true}).written() != groupFormat {
		t.Error("an older program can read the records")
	}
	if !s.Copying() || s.Loaded() || s.NeedsNoSweep() {
		t.Error("while it copies")
	}
	if err := s.CompleteCopy(2, 1, Sums{Total: 3, Done: 3}, at); err != nil || s.Base == 2 || s.Stage() != StageSweeping || !s.Copying() || s.Loaded() {
		t.Errorf("after the copy: %v, %s, base %d", err, s.Stage(), s.Base)
	}
	if pass, due := s.NextPass(); !due || pass != 1 {
		t.Errorf("pass %d is due: %t", pass, due)
	}
	if err := s.BeginSweep(2, 1, 1, []SweepRange{{Table: "t"}}, at); err != nil {
		t.Fatal(err)
	}
	if err := s.CompletePass(2, 1, 1, Sums{Total: 1, Done: 1}, at); err != nil || s.Base != 2 || s.Copying() || !s.Loaded() {
		t.Errorf("after the sweep: %v, base %d", err, s.Base)
	}
	var refused *LoadError
	if err := s.AskLoad(at, false); !errors.As(err, &refused) {
		t.Errorf("another load of the generation: %v", err)
	}
}

// H142: a fast load must end before tombstones of its generation may be collected.
func TestH142_AFastLoadHasATimeLimit(t *testing.T) {
	at := time.Unix(9000, 0).UTC()
	fast := TableState{AdoptedAt: at, Load: Load{Fast: true, Number: 4}}
	if got := fast.FastUntil(12 * time.Hour); !got.Equal(at.Add(12 * time.Hour)) {
		t.Error(got)
	}
	guarded, unknown := TableState{AdoptedAt: at}, TableState{Load: fast.Load}
	if !guarded.FastUntil(time.Hour).IsZero() || !unknown.FastUntil(time.Hour).IsZero() || !fast.FastUntil(0).IsZero() {
		t.Error("a limit without a reason")
	}
	unadopted := unknown // its begin is unknown, and that of its load is not
	if unadopted.Load.StartedAt = at; !unadopted.FastUntil(time.Hour).Equal(at.Add(time.Hour)) {
		t.Error("a load without a limit, although its tombstones may be collected")
	}
	if gap := fast.NotFast("why"); gap.Kind != KindAskedFor || gap.Reason != "the fast load 4 ended early: why" {
		t.Errorf("%+v", gap)
	}
}

// Every program of this version removes markers, and so does one without a version.
func TestProgramsThatRemoveMarkers(t *testing.T) {
	for name, c := range map[string]struct {
		beat   Heartbeat
		copies bool
	}{
		"of this version": {Heartbeat{Holder: About{Version: "2"}, Reads: Format}, true},
		"before":          {Heartbeat{Holder: About{Version: "1"}, Reads: groupFormat}, false},
		"not a release":   {Heartbeat{}, true},
	} {
		if c.beat.Copies() != c.copies || !c.beat.Records() {
			t.Errorf("%s: removes them %t, records %t", name, c.beat.Copies(), c.beat.Records())
		}
	}
}
