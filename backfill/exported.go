package backfill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Limits of a page of an export, similar to the limits of a page of a Scan.
const (
	exportItems = 1000
	exportBytes = 1 << 20
)

// Exported reads the data files of a load's exports, step by step. A part of the load has some of
// these files. A position counts the lines of a file that are durable. An Exported reads one part
// at a time. It keeps the part's file open between two pages, until Close.
type Exported struct {
	Steps []exports.Step
	// Group is the maximum number of files of a step in a part; 0 means one.
	Group int
	// Verify makes Exported check each whole file once, before it is read from its beginning or
	// from a position. So no item is written from a file that is incomplete or was replaced.
	Verify bool

	reader *exports.Reader
	index  int // the index of the part
	file   int // the file's index in the part
}

const (
	// leastFileParts is enough to keep several workers busy with a small export of many files.
	leastFileParts = 64
	// mostPartBytes is about ten minutes of work. Beyond maxParts of this size, an export has more
	// parts, up to mostFileParts.
	mostPartBytes = 12 << 30
	mostFileParts = 4096
)

// GroupOf returns the maximum number of files in a part. The argument `files` has the number of
// files of each export of the load, and `bytes` is the uncompressed size of all; 0 if it is unknown.
// The result keeps the number of parts low, because every worker reads the rows of all parts in the
// ledger. Only a huge export has more than maxParts.
func GroupOf(files []int, bytes int64) int {
	wanted := int64(maxParts)
	if bytes > 0 {
		wanted = min(max(bytes/partBytes, leastFileParts), maxParts)
		wanted = max(wanted, min(bytes/mostPartBytes, mostFileParts))
	}
	return smallestGroup(files, int(wanted))
}

// GroupFor returns the group with which a load of the files has exactly so many parts; false if
// there is none. It is the smallest such group, which GroupOf of any version chooses.
func GroupFor(files []int, parts int) (group int, ok bool) {
	group = smallestGroup(files, parts)
	return group, partsWith(files, group) == parts
}

// smallestGroup returns the smallest group that gives at most so many parts, or one part for each
// export if no group does.
func smallestGroup(files []int, parts int) int {
	most := slices.Max(append([]int{1}, files...))
	return 1 + sort.Search(most-1, func(i int) bool { return partsWith(files, i+1) <= parts })
}

// partsWith returns the number of parts of a load of exports with so many files.
func partsWith(files []int, group int) (parts int) {
	for _, n := range files {
		parts += PartsOfFiles(n, group)
	}
	return parts
}

// PartsOfFiles returns the number of parts for an export with the given number of files. An export
// without files is one part.
func PartsOfFiles(files, group int) int { return max(1, (files+group-1)/group) }

// partsOf returns the number of parts in a load of the exports.
func partsOf(steps []exports.Step, group int) int {
	n := 0
	for _, s := range steps {
		n += PartsOfFiles(len(s.Files), group)
	}
	return n
}

// filesOf returns the files of a part of such a load. They are the files of the step from the index
// `from` up to, but not including, the index `to`. The result `ok` is false if there is no such
// part.
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

// exportPosition is a position after a line of a file. File and line are counted from 0 within the
// part.
type exportPosition struct {
	File int   `json:"file,omitempty"`
	Line int64 `json:"line"`
}

// Read returns the page after a line. The last page of a part is empty.
func (e *Exported) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	group := max(1, e.Group)
	var at exportPosition
	if after != nil && (json.Unmarshal(after, &at) != nil || at.Line < 0 || at.File < 0 || at == (exportPosition{})) {
		return Page{}, fmt.Errorf("%w: the position of part %d is not a line", ErrProgress, index)
	}
	if all := partsOf(e.Steps, group); total != all || index < 0 || index >= total {
		return Page{}, fmt.Errorf("%w: part %d of %d of exports of %d", ErrProgress, index, total, all)
	}
	step, from, to, _ := filesOf(e.Steps, group, index)
	for ; from+at.File < to; at = (exportPosition{File: at.File + 1}) {
		page, err := e.page(ctx, step, index, from, at, limit)
		if err != nil {
			return Page{}, errors.Join(err, e.Close()) // the next attempt opens the file again
		}
		if page.size() > 0 {
			return page, nil
		}
	}
	return Page{}, e.Close()
}

// page reads the next page of a file. The argument `from` is the index of the first file of the
// part. At the end of the file the page is empty.
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

// changed returns a line of a window as a change. In a window without old images it is not known
// whether the item existed before.
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

// open opens a file at the position after a line. It verifies the file at each opening. Without
// this check, the lines of a replacement would be taken for the remaining lines of the first file.
func (e *Exported) open(ctx context.Context, step exports.Step, file int, line int64) error {
	if err := e.Close(); err != nil {
		return err
	}
	if e.Verify {
		if err := verify(ctx, step, file); err != nil {
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

// verify reads a whole file before its first item is used. A file whose checksum matches is the one
// that the service wrote, so only a file that does not match is also decompressed. That shows the
// line at which it is damaged.
func verify(ctx context.Context, step exports.Step, file int) error {
	var fault *exports.Error
	err := with(ctx, step, file, (*exports.Reader).Checksum)
	if errors.As(err, &fault) {
		err = cmp.Or(with(ctx, step, file, (*exports.Reader).Verify), err)
	}
	return err
}

// with opens a file, and closes it after the work.
func with(ctx context.Context, step exports.Step, file int, work func(*exports.Reader) error) error {
	r, err := step.Open(ctx, file)
	if err != nil {
		return err
	}
	return errors.Join(work(r), r.Close())
}

// Close closes the open file, if there is one.
func (e *Exported) Close() error {
	r := e.reader
	e.reader = nil
	if r == nil {
		return nil
	}
	return r.Close()
}
