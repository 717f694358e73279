package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dynamodb-bigtable/replicator/exports"
)

// Limits of a page of an export: about those of a page of a Scan.
const (
	exportItems = 1000
	exportBytes = 1 << 20
)

// Exported are the data files of a full export as the parts of a load: a position is how many lines
// of the file are durable. It is for one part at a time, whose file it keeps open between two
// pages; Close ends that.
type Exported struct {
	Export *exports.Export
	// Verify reads each file once before the first of its items, so that none is written of a file
	// that is not whole.
	Verify bool

	reader *exports.Reader
	index  int
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
	if total != len(e.Export.Files) || index < 0 || index >= total {
		return Page{}, fmt.Errorf("%w: file %d of %d of an export of %d", ErrProgress, index, total, len(e.Export.Files))
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
	var page Page
	before := e.reader.Unpacked()
	for len(page.Items) < limit && page.Bytes < exportBytes {
		record, err := e.reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, record.New)
		page.Bytes = e.reader.Unpacked() - before
	}
	if len(page.Items) == 0 {
		return page, e.Close()
	}
	var err error
	page.Next, err = json.Marshal(exportPosition{e.reader.Line()})
	return page, err
}

// open opens a file behind a line. Its first opening verifies it.
func (e *Exported) open(ctx context.Context, index int, line int64) error {
	if err := e.Close(); err != nil {
		return err
	}
	if e.Verify && line == 0 {
		r, err := e.Export.Open(ctx, index)
		if err != nil {
			return err
		}
		if err := errors.Join(r.Verify(), r.Close()); err != nil {
			return err
		}
	}
	r, err := e.Export.Open(ctx, index)
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
