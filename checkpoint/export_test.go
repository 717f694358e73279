package checkpoint

import (
	"errors"
	"testing"
	"time"
)

// TestH33_AnExportJoinsTheStream: no change may lie between what an export shows and what is applied
// in the generation, nor may one that was applied before be undone by an older image.
func TestH33_AnExportJoinsTheStream(t *testing.T) {
	adopted := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	roots := []Shard{{ID: "a", Label: "L", FirstRead: adopted}}
	for name, c := range map[string]struct {
		generation uint32
		at, now    time.Duration // after the adoption
		unknown    bool
		refused    bool
		yet        bool
	}{
		"after the adoption":              {generation: 1, at: time.Hour, now: 2 * time.Hour},
		"within what the stream held":     {generation: 1, at: -23 * time.Hour, now: time.Hour},
		"before that":                     {generation: 1, at: -24 * time.Hour, now: time.Hour, refused: true},
		"and roots may be forgotten":      {generation: 1, at: -time.Hour, now: 48 * time.Hour, refused: true},
		"late, but of after the adoption": {generation: 1, at: time.Hour, now: 72 * time.Hour},
		"after a gap, of before it":       {generation: 2, at: -time.Hour, now: time.Hour, refused: true},
		"after a gap, just so":            {generation: 2, at: Slack - 1, now: time.Hour, refused: true},
		"after a gap":                     {generation: 2, at: Slack, now: time.Hour},
		"of a time to come":               {generation: 1, at: 2 * time.Hour, now: time.Hour, refused: true},
		"the time is not known":           {generation: 1, at: time.Hour, unknown: true, refused: true, yet: true},
	} {
		table := TableState{Source: "T", Label: "L", Generation: c.generation, Adopted: c.generation, AdoptedAt: adopted, Listed: 1}
		now := adopted.Add(c.now)
		if c.unknown {
			now = time.Time{}
		}
		err := AdmissibleExport(table, roots, adopted.Add(c.at), now, 0)
		var hole *NotAdmissible
		if errors.As(err, &hole) != c.refused || hole != nil && hole.Yet != c.yet {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAskExport: the load that is sealed is the one that was asked for, and a scan follows no export.
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
	plan.Source, plan.ExportARN = "export", e.ARN
	for range 2 { // the answer may be lost
		if err := s.SealLoad(plan); err != nil {
			t.Fatal(err)
		}
	}
	if s.Load.Export != e || s.Load.ImagesAt() != at || s.Load.StartedAt != plan.StartedAt {
		t.Errorf("%+v", s.Load)
	}
	if err := s.AskExport(at, false, e); !errors.As(err, &refused) {
		t.Error("a load is asked for while one is under way:", err)
	}
	s.ask(at, false)
	if s.Load.Export != (Export{}) || s.Load.ImagesAt() != s.Load.StartedAt {
		t.Error("the next load is of the export, too")
	}
}
