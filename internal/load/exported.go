package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// exportReader reads the manifests of the exports that loads copy.
type exportReader struct {
	open func(ctx context.Context, address string) (*exports.Export, error) // nil: this worker reads none

	mu    sync.Mutex
	known []exports.Step // the last ones, which all parts of a load share
	of    []checkpoint.Export
}

// errNoExports is returned by a worker that was given no way to read exports.
var errNoExports = errors.New("this worker does not read exports")

// read gives the exports of a load, in their order. They must be those that were asked for: a folder
// may have been exchanged, or may be another one on this machine.
func (r *exportReader) read(ctx context.Context, load checkpoint.Load) ([]exports.Step, error) {
	wanted := load.Exports()
	r.mu.Lock()
	steps, of := r.known, r.of
	r.mu.Unlock()
	if !slices.Equal(of, wanted) {
		if r.open == nil {
			return nil, errNoExports
		}
		steps = nil
		for _, w := range wanted {
			e, err := r.open(ctx, w.Address)
			if err != nil {
				return nil, err
			}
			if e.ARN != w.ARN || !e.At.Equal(w.At) || !e.From.Equal(w.From) {
				return nil, &exports.Error{Place: w.Address, What: "it is not the export that was asked for", Fix: "put " + w.ARN + " there again, or ask for the load again"}
			}
			steps = append(steps, exports.Step{Export: e, Version: e.At})
		}
	}
	if n := backfill.Files(steps); load.Parts > 0 && load.Parts != n {
		return nil, &exports.Error{Place: load.Export.Address, What: fmt.Sprintf("the exports have %d files, and had %d when the load began", n, load.Parts),
			Fix: "put them there again as they were"}
	}
	r.mu.Lock()
	r.known, r.of = steps, wanted
	r.mu.Unlock()
	return steps, nil
}

// admits reports whether the load that is asked for has to wait before it may begin. The error says
// why it never may: exports that were asked for in vain stay asked for, and their trouble is shown,
// until somebody asks for others.
func (c *Conductor) admits(v engine.View, now time.Time) (yet bool, err error) {
	load := v.State.Load
	if load.Export.Address == "" {
		return checkpoint.Admissible(v.State, v.Shards, now, c.settings.late) != nil, nil
	}
	if load.MendsGap() {
		err = checkpoint.MendsFrom(v.State, load.Export.From)
	}
	if err == nil {
		err = checkpoint.AdmissibleExport(v.State, v.Shards, load.ImagesAt(), now, c.settings.late)
	}
	var hole *checkpoint.NotAdmissible
	if errors.As(err, &hole) && hole.Yet {
		return true, nil
	}
	return false, err
}

// planExport makes the plan that of the load's exports, if they are of this table, follow one
// another and are young enough.
func (c *Conductor) planExport(ctx context.Context, load checkpoint.Load, adopted time.Time, d backfill.Description, plan *checkpoint.Plan) error {
	steps, err := c.exports.read(ctx, load)
	if err != nil {
		return err
	}
	all := make([]*exports.Export, len(steps))
	for i, s := range steps {
		all[i] = s.Export
	}
	ordered, err := backfill.Chain(all, d, c.mapping, c.settings.late, load.MendsGap())
	if err != nil {
		return err
	}
	for i, s := range ordered {
		if s.ARN != steps[i].ARN {
			return &exports.Error{Place: load.Export.Address, What: "the exports were asked for in another order than that of their times", Fix: "ask for the load again"}
		}
	}
	if err := youngEnough(checkpoint.Aged(steps[0].Version, adopted), d.At, c.settings.imageAge/2); err != nil {
		return err
	}
	plan.Source, plan.ExportARNs, plan.Parts, plan.Estimate, plan.EstimateBytes = "export", load.ExportARNs(), backfill.Files(steps), 0, 0
	for _, s := range steps {
		plan.Estimate, plan.EstimateBytes = plan.Estimate+s.Items, plan.EstimateBytes+s.Bytes
	}
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
func (l *Loader) images(life engine.Lifecycle, state checkpoint.TableState, part int) (imageSource, error) {
	if state.Load.Export.Address == "" {
		return imageSource{backfill.Segments{Table: l.Source, Source: l.database}, time.Time{}, func() error { return nil }}, nil
	}
	var steps []exports.Step
	err := l.Retry(life, "read the export", func(ctx context.Context) (err error) { steps, err = l.exports.read(ctx, state.Load); return err })
	if err != nil {
		return imageSource{}, err
	}
	step, _, ok := backfill.FileOf(steps, part)
	if !ok {
		return imageSource{}, fmt.Errorf("%w: no file for part %d of the load", checkpoint.ErrConflict, part)
	}
	source := &backfill.Exported{Steps: steps, Verify: true}
	return imageSource{source, step.Version, source.Close}, nil
}

// pageOf is what a page of a load asks of the target. Whatever time to live the item of a window has,
// its image takes the place of an older one.
func (l *Loader) pageOf(state checkpoint.TableState, items []attribute.Item, changes []cdc.Change, readAt time.Time) transform.Batch {
	batch := transform.LoadWindow(l.mapping, changes, state.Generation)
	if len(changes) == 0 {
		batch = transform.Load(l.mapping, items, state.Generation, readAt)
	}
	if state.MayHoldOlderRows() {
		sink.OwnAll(l.mapping, &batch)
	}
	return batch
}
