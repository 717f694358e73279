package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
)

// exportReader reads the manifests of the exports that loads copy.
type exportReader struct {
	open func(ctx context.Context, address string) (*exports.Export, error) // nil: this worker reads none

	mu    sync.Mutex
	known *exports.Export // the last one, which all parts of a load share
	place string
}

// errNoExports is returned by a worker that was given no way to read exports.
var errNoExports = errors.New("this worker does not read exports")

// read gives the export of a load. It must be the one that was asked for: a folder may have been
// exchanged, or may be another one on this machine.
func (r *exportReader) read(ctx context.Context, load checkpoint.Load) (*exports.Export, error) {
	wanted := load.Export
	r.mu.Lock()
	e, place := r.known, r.place
	r.mu.Unlock()
	if e == nil || place != wanted.Address || e.ARN != wanted.ARN {
		if r.open == nil {
			return nil, errNoExports
		}
		var err error
		if e, err = r.open(ctx, wanted.Address); err != nil {
			return nil, err
		}
	}
	if e.ARN != wanted.ARN || load.Parts > 0 && load.Parts != len(e.Files) {
		return nil, &exports.Error{Place: wanted.Address, What: "it is not the export that was asked for", Fix: "put " + wanted.ARN + " there again"}
	}
	r.mu.Lock()
	r.known, r.place = e, wanted.Address
	r.mu.Unlock()
	return e, nil
}

// admits reports whether the load that is asked for has to wait before it may begin. The error says
// why it never may: an export that was asked for in vain stays asked for, and its trouble is shown,
// until somebody asks for another one.
func (c *conductor) admits(v view, now time.Time) (yet bool, err error) {
	e := v.state.Load.Export
	if e.Address == "" {
		return checkpoint.Admissible(v.state, v.shards, now, c.settings.late) != nil, nil
	}
	err = checkpoint.AdmissibleExport(v.state, v.shards, e.At, now, c.settings.late)
	var hole *checkpoint.NotAdmissible
	if errors.As(err, &hole) && hole.Yet {
		return true, nil
	}
	return false, err
}

// planExport makes the plan that of the load's export, if that is one of this table and young
// enough.
func (c *conductor) planExport(ctx context.Context, load checkpoint.Load, d backfill.Description, plan *checkpoint.Plan) error {
	e, err := c.exports.read(ctx, load)
	if err != nil {
		return err
	}
	if _, err := exports.Chain([]*exports.Export{e}, exports.Wanted{TableARN: d.ARN, TableID: d.ID}); err != nil {
		return err
	}
	if !e.At.Equal(load.Export.At) {
		return &exports.Error{Place: load.Export.Address, What: "it is of another time than the export that was asked for", Fix: "ask for the load again"}
	}
	if err := youngEnough(e.At, d.At, c.settings.imageAge/2); err != nil {
		return err
	}
	plan.Source, plan.ExportARN, plan.Parts = "export", e.ARN, len(e.Files)
	plan.Estimate, plan.EstimateBytes = e.Items, e.Bytes
	return nil
}

// youngEnough refuses images that are older than removed rows are remembered: a removed item would
// come back, or the writer would put the image aside (H105). An age of 0 is no limit.
func youngEnough(at, now time.Time, most time.Duration) error {
	if age := now.Sub(at); most > 0 && age > most {
		return fmt.Errorf("the export is %s old, and images of loads may be %s old at the most: ask for a new one", age.Round(time.Hour), most)
	}
	return nil
}

// imageSource is where a part of a copy is read, and as of when.
type imageSource struct {
	backfill.PartSource
	at    time.Time // of all images; zero: each page has its own
	close func() error
}

// images opens what a part of the load copies.
func (l *loader) images(life lifecycle, state checkpoint.TableState) (imageSource, error) {
	if state.Load.Export.Address == "" {
		return imageSource{backfill.Segments{Table: l.source, Source: l.database}, time.Time{}, func() error { return nil }}, nil
	}
	var e *exports.Export
	err := l.retry(life, "read the export", func(ctx context.Context) (err error) { e, err = l.exports.read(ctx, state.Load); return err })
	if err != nil {
		return imageSource{}, err
	}
	source := &backfill.Exported{Export: e, Verify: true}
	return imageSource{source, e.At, source.Close}, nil
}
