package checkpoint

import (
	"context"
	"fmt"
	"time"

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
// them. Only in the first generation nothing was applied before: there the first reads of the roots
// decide, as long as no shard's row can have been removed. Now is on the service's clock.
func AdmissibleExport(table TableState, shards []Shard, at, now time.Time, late time.Duration) error {
	if err := Admissible(table, shards, at, late); err != nil {
		return err
	}
	adopted := table.AdoptedAt
	switch {
	case adopted.IsZero() || now.IsZero():
		return &NotAdmissible{"the service's time is not known yet", true}
	case at.After(now.Add(Slack)):
		return &NotAdmissible{"the export is of a time to come", false}
	case !at.Before(adopted.Add(Slack)):
		return nil
	case table.Generation > 1:
		return &NotAdmissible{fmt.Sprintf("the export is of %s, and shows nothing of what this generation rests on, which began at %s",
			at.UTC().Format(time.RFC3339), adopted.UTC().Format(time.RFC3339)), false}
	case now.Sub(adopted) > kept-Slack:
		return &NotAdmissible{fmt.Sprintf("the export is of before %s, when the table was followed first, and what the stream held then is no longer known",
			adopted.UTC().Format(time.RFC3339)), false}
	}
	return nil
}
