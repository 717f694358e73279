package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Export is a full export of the table to S3.
type Export struct {
	// Address is where it lies: a directory, s3:// or gs:// of its folder. Every worker opens it.
	Address string `json:"address"`
	ARN     string `json:"arn"`
	// At is the time that it shows, on the service's clock.
	At time.Time `json:"at"`
}

// ImagesAt is the time before which no image of the load was read: that of its export, or when it
// began.
func (l Load) ImagesAt() time.Time {
	if l.Export.Address != "" {
		return l.Export.At
	}
	return l.StartedAt
}

// AskExport asks for a load of the current generation from an export. One that is asked for and not
// sealed yet becomes that.
func (s *TableState) AskExport(at time.Time, approved bool, e Export) error {
	if err := s.AskLoad(at, approved); err != nil {
		return err
	}
	e.At = e.At.UTC()
	s.Load.Export = e
	return nil
}

// AskExport asks for a load of a table from an export.
func (l *Ledger) AskExport(ctx context.Context, source string, approved bool, e Export) (TableState, error) {
	at := task.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.AskExport(at, approved, e) })
}

// AdmissibleExport tells whether the images of an export may be applied in the table's generation. A
// scan begins after the generation was adopted; an export may show what was before. Then changes
// that a generation before has applied, or lost, are missing in its images, and would be undone by
// them. Only before the first gap nothing was applied in another generation: there the first reads
// of the roots decide. The row of a root may be removed, but not before kept has passed since its
// end, so that it was read for the first time earlier than that. Now is on the service's clock.
func AdmissibleExport(table TableState, shards []Shard, at, now time.Time, late time.Duration) error {
	never := func(why string) error {
		return &NotAdmissible{fmt.Sprintf("the export is of %s, and %s", at.UTC().Format(time.RFC3339), why), false}
	}
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if table.GapCount > 0 && table.Adopted != table.Generation {
		return never("shows nothing of what this generation rests on, which only begins")
	}
	if err := Admissible(table, shards, at, late); err != nil {
		return err
	}
	switch known := now.Add(Slack - kept - cdc.Retention); {
	case now.IsZero():
		return &NotAdmissible{"the service's time is not known yet", true}
	case at.After(now.Add(Slack)):
		return never("it is only " + text(now))
	case at.Before(table.Cut.Add(Slack)):
		return never("changes of before " + text(table.Cut.Add(Slack)) + " are not applied: the table is followed from then on")
	case table.GapCount == 0 && at.Before(known):
		return never("what the stream held when the table was followed first is known for three days only")
	case table.GapCount > 0 && at.Before(table.AdoptedAt.Add(Slack)):
		return never("shows nothing of what this generation rests on, which began at " + text(table.AdoptedAt))
	case table.GapCount > 0 && table.AdoptedAt.IsZero():
		return &NotAdmissible{"when this generation began is not known yet", true}
	}
	return nil
}
