package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Limits of a page of an export: about those of a page of a Scan.
const (
	exportItems = 1000
	exportBytes = 1 << 20
)

// Exported are the data files of the exports of a load, one step after the other, as its parts: a
// position is how many lines of the file are durable. It is for one part at a time, whose file it
// keeps open between two pages; Close ends that.
type Exported struct {
	Steps []exports.Step
	// Verify reads each file once before it is read, from its beginning or from a position, so that no
	// item is written of a file that is not whole, or another.
	Verify bool

	reader *exports.Reader
	index  int
}

// filesOf is how many parts a load of the exports has.
func filesOf(steps []exports.Step) int {
	n := 0
	for _, s := range steps {
		n += len(s.Files)
	}
	return n
}

// fileOf is the file that a part of such a load is: that of a step by its index in there. False if
// there is none.
func fileOf(steps []exports.Step, part int) (step exports.Step, file int, ok bool) {
	for _, s := range steps {
		if part >= 0 && part < len(s.Files) {
			return s, part, true
		}
		part -= len(s.Files)
	}
	return exports.Step{}, 0, false
}

type exportPosition struct {
	Line int64 `json:"line"`
}

// Read gives the page behind a line. The last page of a file is empty.
func (e *Exported) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	var from exportPosition
	if after != nil && (json.Unmarshal(after, &from) != nil || from.Line < 1) {
		return Page{}, fmt.Errorf("%w: the position of file %d is no line", ErrProgress, index)
	}
	if all := filesOf(e.Steps); total != all || index < 0 || index >= total {
		return Page{}, fmt.Errorf("%w: file %d of %d of exports of %d", ErrProgress, index, total, all)
	}
	page, err := e.page(ctx, index, from.Line, limit)
	if err != nil {
		return Page{}, errors.Join(err, e.Close()) // the next attempt opens it anew
	}
	return page, nil
}

func (e *Exported) page(ctx context.Context, index int, line int64, limit int) (Page, error) {
	if e.reader == nil || e.index != index || e.reader.Line() != line {
		if err := e.open(ctx, index, line); err != nil {
			return Page{}, err
		}
	}
	if limit <= 0 || limit > exportItems {
		limit = exportItems
	}
	step, _, _ := fileOf(e.Steps, index)
	var page Page
	before := e.reader.Unpacked()
	for page.size() < limit && page.Bytes < exportBytes {
		record, err := e.reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Page{}, err
		}
		if step.Incremental {
			page.Changes = append(page.Changes, changed(step, record))
		} else {
			page.Items = append(page.Items, record.New)
		}
		page.Bytes = e.reader.Unpacked() - before
	}
	if page.size() == 0 {
		return page, e.Close()
	}
	var err error
	page.Next, err = json.Marshal(exportPosition{e.reader.Line()})
	return page, err
}

// changed is a line of a window as a change. Of a window without old images it is a change of an item
// of which nobody knows whether it was there before.
func changed(step exports.Step, r exports.Record) cdc.Change {
	c := cdc.Change{Event: cdc.Modify, Sequence: transform.LoadVersion(0, step.Version).Sequence(), Time: r.Written, Keys: r.Keys, Old: r.Old, New: r.New}
	switch {
	case !r.New.Exists():
		c.Event = cdc.Remove
	case !r.Old.Exists() && step.View == exports.ViewNewAndOld:
		c.Event = cdc.Insert
	}
	return c
}

// open opens a file behind a line. Each opening verifies the file before: another may lie there by
// now, whose lines would be taken for those that are left of this one.
func (e *Exported) open(ctx context.Context, index int, line int64) error {
	if err := e.Close(); err != nil {
		return err
	}
	step, file, _ := fileOf(e.Steps, index)
	if e.Verify {
		r, err := step.Open(ctx, file)
		if err != nil {
			return err
		}
		if err := errors.Join(r.Verify(), r.Close()); err != nil {
			return err
		}
	}
	r, err := step.Open(ctx, file)
	if err != nil {
		return err
	}
	if err := r.Skip(line); err != nil {
		if err == io.EOF {
			err = fmt.Errorf("%w: file %d has no line %d", ErrProgress, index, line)
		}
		return errors.Join(err, r.Close())
	}
	e.reader, e.index = r, index
	return nil
}

// Close closes the file that is open, if one is.
func (e *Exported) Close() error {
	r := e.reader
	e.reader = nil
	if r == nil {
		return nil
	}
	return r.Close()
}
