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
// position is how many lines of a file of the part are durable. It is for one part at a time, whose
// file it keeps open between two pages; Close ends that.
type Exported struct {
	Steps []exports.Step
	// Group is how many files of a step a part has at most; 0 is one.
	Group int
	// Verify reads each file once before it is read, from its beginning or from a position, so that no
	// item is written of a file that is not whole, or another.
	Verify bool

	reader *exports.Reader
	index  int // of the part
	file   int // in the part
}

// GroupOf is how many files a part of a load has at most that copies exports of so many files each:
// every worker looks at the rows of all parts in the ledger.
func GroupOf(files []int) int {
	for group := 1; ; group++ {
		parts, most := 0, 0
		for _, n := range files {
			parts, most = parts+PartsOfFiles(n, group), max(most, n)
		}
		if parts <= maxParts || group >= most {
			return group
		}
	}
}

// PartsOfFiles is how many parts so many files of an export are. One without files is a part too.
func PartsOfFiles(files, group int) int { return max(1, (files+group-1)/group) }

// partsOf is how many parts a load of the exports has.
func partsOf(steps []exports.Step, group int) int {
	n := 0
	for _, s := range steps {
		n += PartsOfFiles(len(s.Files), group)
	}
	return n
}

// filesOf are the files that a part of such a load has: of a step, from one by its index in there up
// to, and without, another. False if there is no such part.
func filesOf(steps []exports.Step, group, part int) (step exports.Step, from, to int, ok bool) {
	for _, s := range steps {
		n := PartsOfFiles(len(s.Files), group)
		if part >= 0 && part < n {
			return s, part * group, min((part+1)*group, len(s.Files)), true
		}
		part -= n
	}
	return exports.Step{}, 0, 0, false
}

// exportPosition is behind a line of a file, both counted from 0 within the part.
type exportPosition struct {
	File int   `json:"file,omitempty"`
	Line int64 `json:"line"`
}

// Read gives the page behind a line. The last page of a part is empty.
func (e *Exported) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	group := max(1, e.Group)
	var at exportPosition
	if after != nil && (json.Unmarshal(after, &at) != nil || at.Line < 0 || at.File < 0 || at == (exportPosition{})) {
		return Page{}, fmt.Errorf("%w: the position of part %d is no line", ErrProgress, index)
	}
	if all := partsOf(e.Steps, group); total != all || index < 0 || index >= total {
		return Page{}, fmt.Errorf("%w: part %d of %d of exports of %d", ErrProgress, index, total, all)
	}
	step, from, to, _ := filesOf(e.Steps, group, index)
	for ; from+at.File < to; at = (exportPosition{File: at.File + 1}) {
		page, err := e.page(ctx, step, index, from, at, limit)
		if err != nil {
			return Page{}, errors.Join(err, e.Close()) // the next attempt opens it anew
		}
		if page.size() > 0 {
			return page, nil
		}
	}
	return Page{}, e.Close()
}

// page reads on in a file of a part whose first file is From. At the end of the file it is empty.
func (e *Exported) page(ctx context.Context, step exports.Step, index, from int, at exportPosition, limit int) (Page, error) {
	if e.reader == nil || e.index != index || e.file != at.File || e.reader.Line() != at.Line {
		if err := e.open(ctx, step, from+at.File, at.Line); err != nil {
			return Page{}, err
		}
		e.index, e.file = index, at.File
	}
	if limit <= 0 || limit > exportItems {
		limit = exportItems
	}
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
		return page, nil
	}
	var err error
	page.Next, err = json.Marshal(exportPosition{at.File, e.reader.Line()})
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
func (e *Exported) open(ctx context.Context, step exports.Step, file int, line int64) error {
	if err := e.Close(); err != nil {
		return err
	}
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
			err = fmt.Errorf("%w: file %d has no line %d", ErrProgress, file, line)
		}
		return errors.Join(err, r.Close())
	}
	e.reader = r
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
