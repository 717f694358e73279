package checkpoint

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// An application that writes the target may write late for changes of an earlier generation. Its
// writes are waited for from the adoption on. Before the first gap there is no earlier generation.
func TestALoadWaitsForLateWrites(t *testing.T) {
	adopted := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	const late = 5 * time.Minute
	for name, c := range map[string]struct {
		late    time.Duration
		start   time.Duration // after the adoption
		gaps    int
		unknown bool // when the generation was adopted
		ok      bool
	}{
		"no application writes":             {0, 0, 1, false, true},
		"too early":                         {late, late - time.Second, 1, false, false},
		"just so":                           {late, late, 1, false, true},
		"too early in the first generation": {late, late - time.Second, 0, false, false},
		"the adoption is unknown":           {late, time.Hour, 1, true, false},
		"unknown in the first generation":   {late, time.Hour, 0, true, true},
		"unknown, and no application":       {0, time.Hour, 1, true, true},
	} {
		table := TableState{Source: "T", Label: "L", Generation: 7, Adopted: 7, Listed: 7, AdoptedAt: adopted, GapCount: c.gaps}
		if c.unknown {
			table.AdoptedAt = time.Time{}
		}
		err := Admissible(table, nil, adopted.Add(c.start), c.late)
		var hole *NotAdmissible
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &hole) || !hole.Yet) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Images from before the first read of the stream must not be older than the stream. If the rows of
// all roots are gone, that was checked when the load began, and only a load that runs may rely on
// it.
func TestALoadThatOutlivesTheRoots(t *testing.T) {
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	running := Load{Generation: 7, Parts: 1, StartedAt: began}
	over, planned, before := running, running, running
	over.DoneAt, planned.StartedAt, before.Generation = began, time.Time{}, 6
	for name, c := range map[string]struct {
		load Load
		ok   bool
	}{"it runs": {running, true}, "it is over": {over, false}, "it has not begun": {planned, false}, "one of an earlier generation": {before, false}, "none": {Load{}, false}} {
		table := TableState{Source: "T", Label: "L", Generation: 7, Adopted: 7, Listed: 7, EnabledAt: began, Load: c.load}
		var hole *NotAdmissible
		if err := Admissible(table, nil, began.Add(-time.Hour), 0); (err == nil) != c.ok || err != nil && (!errors.As(err, &hole) || hole.Yet) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An export may be dated a little ahead of the time that was heard last, and no more.
func TestAnExportThatIsDatedAhead(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	table := TableState{Source: "T", Label: "L", Generation: 7, Adopted: 7, Listed: 7}
	for ahead, ok := range map[time.Duration]bool{Slack: true, Slack + 1: false} {
		if err := AdmissibleExport(table, nil, now.Add(ahead), now, 0); (err == nil) != ok {
			t.Errorf("%s: %v", ahead, err)
		}
	}
}

// An attempt is the same only with the same number, generation and time. Another attempt, and a
// failure, discard the export of the attempt before.
func TestWhatAnAttemptDiscards(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	begun := func() TableState {
		s := TableState{Source: "T", Generation: 7, Adopted: 7}
		if err := errors.Join(s.RequestExport(at, false, ExportRequest{To: "s3://b"}), s.BeginExport(1, 7, at), s.AcceptExport(1, "arn"),
			s.FinishExport(1, Export{Address: "s3://b/1", ARN: "arn", At: at})); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, c := range map[string]struct {
		step func(s *TableState) error
		ok   bool
		kept bool
	}{
		"the same":           {func(s *TableState) error { return s.BeginExport(1, 7, at) }, true, true},
		"of another time":    {func(s *TableState) error { return s.BeginExport(1, 7, at.Add(time.Second)) }, false, true},
		"another attempt":    {func(s *TableState) error { return s.BeginExport(2, 7, at.Add(time.Hour)) }, true, false},
		"it failed":          {func(s *TableState) error { return s.FailExport(1, "no") }, true, false},
		"another one failed": {func(s *TableState) error { return s.FailExport(2, "no") }, false, true},
	} {
		s := begun()
		if err := c.step(&s); (err == nil) != c.ok || (s.Load.Export != Export{}) != c.kept {
			t.Errorf("%s: %v, %+v", name, err, s.Load)
		}
	}
}

// A loss during a load of windows that is not complete begins as early as those windows. A gap that
// ended a generation before the base needs no load.
func TestWhatALossNeeds(t *testing.T) {
	lost := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	windows := Load{Generation: 7, Parts: 1, Export: Export{Address: "w", From: lost.Add(-3 * time.Hour), At: lost}}
	for name, c := range map[string]struct {
		base uint32
		want time.Time
	}{
		"windows that are not complete": {6, lost.Add(-3*time.Hour + windowMargin)},
		"windows that are":              {7, lost},
	} {
		s := TableState{Source: "T", Generation: 7, Base: c.base, Load: windows}
		noteGap(&s, DeclaredGap{Kind: KindStream, Reason: "trimmed", Generation: 7, LostFrom: lost})
		if !s.LostFrom.Equal(c.want) || !s.NeedsLoad {
			t.Errorf("%s: %s", name, s.LostFrom)
		}
	}
	for gap, needs := range map[uint32]bool{5: false, 6: true, 7: true} {
		s := TableState{Source: "T", Generation: 7, Base: 6}
		noteGap(&s, DeclaredGap{Kind: KindTargetLost, Reason: "r", Generation: gap})
		if s.NeedsLoad != needs || s.GapCount != 1 {
			t.Errorf("a gap that ended generation %d: %+v", gap, s)
		}
	}
}

// Two losses together are of the wider kind.
func TestWidenedKinds(t *testing.T) {
	for _, c := range []struct{ first, second, want GapKind }{
		{"", KindStream, KindStream}, {KindStream, "", KindStream}, {KindStream, KindStream, KindStream}, {KindStream, KindSweep, KindSweep},
		{KindSweep, KindStream, KindSweep}, {KindTargetLost, KindSweep, KindTargetLost}, {KindTargetLost, KindMappingChanged, KindMappingChanged},
		{KindMappingChanged, KindTargetLost, KindMappingChanged}, {KindAskedFor, "", KindAskedFor},
	} {
		if got := c.first.widen(c.second); got != c.want {
			t.Errorf("%q and %q: %q, want %q", c.first, c.second, got, c.want)
		}
	}
}

// Rows of every generation between the loss of a ledger and the next raise may be of the lost
// ledger, however many gaps ended the same generation. Generations of forgotten gaps are kept, each
// once.
func TestGenerationsOfALostLedger(t *testing.T) {
	s := TableState{Generation: 9, Gaps: []DeclaredGap{{Kind: KindLedgerLost, Generation: 5}, {Kind: KindStream, Shard: "a", Generation: 5}}}
	for generation, had := range map[uint32]bool{4: true, 5: true, 7: true, 8: true, 9: true, 10: false} {
		if s.HadGeneration(generation) != had {
			t.Errorf("generation %d: %v", generation, !had)
		}
	}
	s = TableState{Generation: 3}
	for n := range 3 * keptGaps {
		noteGap(&s, DeclaredGap{Kind: KindTargetLost, Reason: fmt.Sprint(n), Generation: 3})
	}
	if len(s.Gaps) != keptGaps || len(s.Earlier) != 1 || s.GapCount != 3*keptGaps {
		t.Errorf("%d gaps are listed, of %d; earlier generations %v", len(s.Gaps), s.GapCount, s.Earlier)
	}
	for n := range uint32(keptGenerations + 2*keptGaps) {
		noteGap(&s, DeclaredGap{Kind: KindTargetLost, Generation: 4 + n})
	}
	if len(s.Earlier) != keptGenerations || s.HadGeneration(4) || !s.HadGeneration(keptGenerations) {
		t.Errorf("%d earlier generations, from %d on", len(s.Earlier), s.Earlier[0])
	}
}
