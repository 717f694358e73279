package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Export is an export of the table to S3: a full export, or one window of an incremental export.
type Export struct {
	// Address is the location: a directory, or the s3:// or gs:// address of a folder. Every worker
	// must be able to open it.
	Address string `json:"address"`
	ARN     string `json:"arn"`
	// From is the beginning of a window, on the service's clock; zero for a full export.
	From time.Time `json:"from,omitzero"`
	// At is the time of the content, on the service's clock; for a window its end.
	At time.Time `json:"at"`
	// Files is the number of its data files; 0 if an older version recorded it.
	Files int `json:"files,omitempty"`
}

// MaxExports bounds the exports of one load, because the table's record names all of them.
const MaxExports = 64

// Exports returns the exports that the load copies, in order; none if it scans.
func (l Load) Exports() []Export {
	if l.Export.Address == "" {
		return nil
	}
	return append([]Export{l.Export}, l.Windows...)
}

// ExportARNs returns the ARNs of the load's exports, in order.
func (l Load) ExportARNs() []string {
	var arns []string
	for _, e := range l.Exports() {
		arns = append(arns, e.ARN)
	}
	return arns
}

// ImagesAt returns the time up to which the images of the load contain every change. It is the time
// of the load's export, the end of its last window, or the start of its scan.
func (l Load) ImagesAt() time.Time {
	if all := l.Exports(); len(all) > 0 {
		return all[len(all)-1].At
	}
	return l.StartedAt
}

// AskExport requests a load of the current generation from exports: a full one with the windows
// after it, or only windows. If a load is requested and not sealed yet, AskExport replaces its
// source.
func (s *TableState) AskExport(at time.Time, approved bool, exports ...Export) error {
	if n := len(exports); n < 1 || n > MaxExports {
		return s.refuse("request a load", fmt.Sprintf("it has %d exports", n), fmt.Sprintf("name at most %d, or request a newer full export", MaxExports))
	}
	if err := s.AskLoad(at, approved); err != nil {
		return err
	}
	named := make([]Export, len(exports))
	for i, e := range exports {
		e.At, e.From = e.At.UTC(), e.From.UTC()
		named[i] = e
	}
	s.Load.Export = named[0]
	if len(named) > 1 {
		s.Load.Windows = named[1:]
	}
	return nil
}

// AskExport requests a load of a table from exports.
func (l *Ledger) AskExport(ctx context.Context, source string, approved bool, exports ...Export) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.AskExport(at, approved, exports...) })
}

// AdmissibleExport returns nil if images of exports may be applied in the table's generation. The
// argument `at` is the time up to which the images contain every change. That is the time of a full
// export, or the end of the last window of a chain. A scan always begins after the generation was
// adopted, but an export may be older than the generation. The images of an older export lack
// changes that an earlier generation has applied or lost, and would undo the applied ones. If there
// was no gap yet, no change was applied in another generation. In that case the first reads of the
// roots decide. The row of a root is removed only when the time kept has passed since the shard's
// end. So a root without a row was first read before that time. The argument `now` is on the
// service's clock.
func AdmissibleExport(table TableState, shards []Shard, at, now time.Time, late time.Duration) error {
	never := func(why string) error {
		return &NotAdmissible{fmt.Sprintf("the export dates from %s, and %s", stampOf(at), why), false}
	}
	if table.GapCount > 0 && table.Adopted != table.Generation {
		return never("is too old for this generation, which has just begun")
	}
	// The first reads of the roots may still be awaited, but they cannot make the export newer.
	if table.GapCount > 0 && !table.AdoptedAt.IsZero() && at.Before(table.AdoptedAt.Add(Slack)) {
		return never("is too old for this generation, which began at " + stampOf(table.AdoptedAt))
	}
	if err := Admissible(table, shards, at, late); err != nil {
		return err
	}
	switch known := now.Add(Slack - kept - cdc.Retention); {
	case now.IsZero():
		return &NotAdmissible{"the service's time is not known yet", true}
	case at.After(now.Add(Slack)):
		return never("the time is only " + stampOf(now))
	case at.Before(table.Cut.Add(Slack)):
		return never("changes before " + stampOf(table.Cut.Add(Slack)) + " are not applied, because the table is followed only from then on")
	case table.GapCount == 0 && at.Before(known):
		return never("the stream's content when the table was first followed is known for three days only")
	case table.GapCount > 0 && table.AdoptedAt.IsZero():
		return &NotAdmissible{"the start of this generation is not known yet", true}
	}
	return nil
}
