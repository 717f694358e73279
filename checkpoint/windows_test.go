package checkpoint

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// TestH107_WindowsAloneMendTheStreamsGaps: windows repair only gaps of the stream, and only if they
// are known to begin early enough.
func TestH107_WindowsAloneMendTheStreamsGaps(t *testing.T) {
	lost := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		before time.Duration // how long the first window begins before the loss
		edit   func(s *TableState)
		mends  bool
	}{
		"just so":                  {before: 6 * time.Second, mends: true},
		"a second late":            {before: 5 * time.Second},
		"another kind":             {before: time.Hour, edit: func(s *TableState) { s.Kind = KindMappingChanged }},
		"of a former version":      {before: time.Hour, edit: func(s *TableState) { s.Kind = KindUnknown }},
		"what a sweep left":        {before: time.Hour, edit: func(s *TableState) { s.Kind = KindSweep }},
		"never loaded":             {before: time.Hour, edit: func(s *TableState) { s.Base = 0 }},
		"nothing lost":             {before: time.Hour, edit: func(s *TableState) { s.NeedsLoad = false }},
		"nobody knows since when":  {before: time.Hour, edit: func(s *TableState) { s.LostFrom = time.Time{} }},
		"windows that were broken": {before: time.Hour, edit: func(s *TableState) { broken(s, Export{From: lost.Add(-2 * time.Hour), At: lost}) }},
		"and begin there again":    {before: 2 * time.Hour, edit: func(s *TableState) { broken(s, Export{From: lost.Add(-2 * time.Hour), At: lost}) }, mends: true},
		"a chain that was broken": {before: time.Hour, edit: func(s *TableState) {
			broken(s, Export{At: lost.Add(-2 * time.Hour)}, Export{From: lost.Add(-2 * time.Hour), At: lost})
		}},
		"a full export": {before: time.Hour, edit: func(s *TableState) { broken(s, Export{At: lost.Add(-2 * time.Hour)}) }, mends: true},
	} {
		s := TableState{Source: "T", Generation: 7, Base: 5, NeedsLoad: true, Kind: KindStream, LostFrom: lost}
		if c.edit != nil {
			c.edit(&s)
		}
		var hole *NotAdmissible
		if err := MendsFrom(s, lost.Add(-c.before)); errors.As(err, &hole) == c.mends || hole != nil && hole.Yet {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken ends a load of exports by another gap: one of its windows may have removed rows that the
// next one writes again.
func broken(s *TableState, exports ...Export) {
	s.Load = Load{Generation: 7, Number: 1, Parts: 4, Export: exports[0], Windows: exports[1:]}
	noteGap(s, DeclaredGap{Kind: KindStream, Reason: "trimmed", Generation: 7, LostFrom: s.LostFrom.Add(time.Hour)})
}

// TestH90_BackupsThatWereOff: if point-in-time recovery was interrupted, nothing shows that windows
// hold every write.
func TestH90_BackupsThatWereOff(t *testing.T) {
	from := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for earliest, unbroken := range map[time.Time]bool{{}: false, from: true, from.Add(-time.Hour): true, from.Add(time.Second): false} {
		if err := Unbroken(earliest, from); (err == nil) != unbroken {
			t.Errorf("on since %s: %v", earliest, err)
		}
	}
}

// TestExportsOfALoadAreBounded: the table's record names them all, so their number is bounded.
func TestExportsOfALoadAreBounded(t *testing.T) {
	s := TableState{Source: "T", Generation: 1, Adopted: 1}
	var refused *LoadError
	for _, n := range []int{0, MaxExports + 1} {
		if err := s.AskExport(time.Now(), false, make([]Export, n)...); !errors.As(err, &refused) || s.Stage() != StageNone {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestWorkersOfBeforeStopAtLoadsFromExports: workers of an older version stop at such a load,
// because they would treat its parts as segments of a scan. They accept everything else.
func TestWorkersOfBeforeStopAtLoadsFromExports(t *testing.T) {
	l := &Ledger{worker: "w"}
	for want, load := range map[int]Load{2: {Generation: 1, Parts: 4}, 3: {Export: Export{Address: "s3://b/1"}}} {
		s := TableState{Source: "T", Load: load}
		var got struct{ Format int }
		if err := json.Unmarshal(l.stamp(&s.header, &s), &got); err != nil || got.Format != want {
			t.Errorf("format %d, want %d, %v", got.Format, want, err)
		}
	}
	asked := TableState{Source: "T", Load: Load{Request: ExportRequest{To: "s3://b"}}}
	if asked.written() != exportFormat {
		t.Error("a load that waits for its export is begun as a scan")
	}
	if replaced := (TableState{Former: []Former{{}}}); replaced.written() != exportFormat {
		t.Error("what only a former mapping wrote is left by who knows of none")
	}
}
