package checkpoint

import (
	"errors"
	"testing"
	"time"
)

// TestH33_AnExportJoinsTheStream: no change may be missing between the images of an export and the
// changes that the generation applies. No older image may undo an applied change.
func TestH33_AnExportJoinsTheStream(t *testing.T) {
	adopted := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	roots := []Shard{{ID: "a", Label: "L", FirstRead: adopted}}
	for name, c := range map[string]struct {
		at, now time.Duration // since the adoption
		gap     bool          // the generation began with one
		edit    func(table *TableState)
		refused bool
		yet     bool
	}{
		"after the beginning":             {at: time.Hour, now: 2 * time.Hour},
		"within what the stream held":     {at: -23 * time.Hour, now: time.Hour},
		"before that":                     {at: -24 * time.Hour, now: time.Hour, refused: true},
		"and roots may be forgotten":      {at: -time.Hour, now: 72 * time.Hour, refused: true},
		"they may not yet":                {at: -time.Hour, now: 70 * time.Hour},
		"not followed before":             {at: -time.Hour, now: time.Hour, edit: func(t *TableState) { t.Cut = adopted.Add(-time.Hour) }, refused: true},
		"followed before":                 {at: -time.Hour, now: time.Hour, edit: func(t *TableState) { t.Since = adopted.Add(-time.Hour) }},
		"after a gap, of before it":       {at: -time.Hour, now: time.Hour, gap: true, refused: true},
		"after a gap, just so":            {at: Slack - 1, now: time.Hour, gap: true, refused: true},
		"after a gap":                     {at: Slack, now: time.Hour, gap: true},
		"long after a gap":                {at: Slack, now: 100 * time.Hour, gap: true},
		"of a time to come":               {at: 2 * time.Hour, now: time.Hour, refused: true},
		"the time is not known":           {at: time.Hour, now: -1, refused: true, yet: true},
		"nor was it then":                 {at: time.Hour, now: time.Hour, gap: true, edit: func(t *TableState) { t.AdoptedAt = time.Time{} }, refused: true, yet: true},
		"the generation only begins":      {at: time.Hour, now: time.Hour, gap: true, edit: func(t *TableState) { t.Adopted-- }, refused: true},
		"the first one only begins":       {at: time.Hour, now: time.Hour, edit: func(t *TableState) { t.Adopted-- }, refused: true, yet: true},
		"nothing was read from the start": {at: time.Hour, now: time.Hour, edit: func(t *TableState) { t.Listed = 0 }, refused: true, yet: true},
	} {
		table := TableState{Source: "T", Label: "L", Generation: 7, Adopted: 7, Listed: 7}
		if c.gap {
			table.GapCount, table.AdoptedAt = 1, adopted
		}
		if c.edit != nil {
			c.edit(&table)
		}
		now := adopted.Add(c.now)
		if c.now < 0 {
			now = time.Time{}
		}
		err := AdmissibleExport(table, roots, adopted.Add(c.at), now, 0)
		var hole *NotAdmissible
		if errors.As(err, &hole) != c.refused || hole != nil && hole.Yet != c.yet {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAskExport: the load that is sealed is the requested one, and a scan after it copies no
// export.
func TestAskExport(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	s := TableState{Source: "T", Generation: 1, Adopted: 1}
	e := Export{Address: "s3://b/AWSDynamoDB/1", ARN: "arn:1", At: at}
	plan := Plan{Generation: 1, Number: 1, Parts: 3, Source: "scan", StartedAt: at.Add(time.Hour)}
	if err := s.AskLoad(at, false); err != nil {
		t.Fatal(err)
	}
	if err := s.AskExport(at, false, e); err != nil { // not sealed yet
		t.Fatal(err)
	}
	var refused *LoadError
	if err := s.SealLoad(plan); !errors.As(err, &refused) || !refused.Yet {
		t.Error("a scan is sealed where an export was asked for:", err)
	}
	plan.Source, plan.ExportARNs = "export", []string{e.ARN}
	for range 2 { // the answer may be lost
		if err := s.SealLoad(plan); err != nil {
			t.Fatal(err)
		}
	}
	if s.Load.Export != e || s.Load.ImagesAt() != at || s.Load.StartedAt != plan.StartedAt {
		t.Errorf("%+v", s.Load)
	}
	if err := s.AskExport(at, false, e); !errors.As(err, &refused) {
		t.Error("a load is asked for while a load is running:", err)
	}
	s.ask(at, false)
	if s.Load.Export != (Export{}) || s.Load.ImagesAt() != s.Load.StartedAt {
		t.Error("the next load is of the export, too")
	}
}
