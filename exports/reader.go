package exports

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"
)

// MaxLine is the maximum length of a line, in bytes. An item has up to 400 KiB, as DynamoDB counts
// its size. As JSON it may be eight times as long, and a window's line has two images and the key.
const MaxLine = 16 << 20

// Reader reads the records of one data file in order. It must not be used concurrently.
type Reader struct {
	name     string
	file     File
	parse    func(line []byte) (Record, error)
	in       io.ReadCloser
	origin   *origin
	sum      hash.Hash
	packed   *bufio.Reader
	lines    *bufio.Reader
	long     []byte // a line that is too long for the buffer of lines
	n        int64  // number of lines read
	unpacked int64  // the uncompressed size of these lines, in bytes
	err      error  // error of the last read
}

// Open opens a data file; index is its index in Files.
func (e *Export) Open(ctx context.Context, index int) (*Reader, error) {
	f := e.Files[index]
	in, err := e.store.Open(ctx, f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Place: f.Name, What: "there is no such file, but the manifest lists it", Fix: again}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name, err)
	}
	r := &Reader{name: f.Name, file: f, parse: ParseItem, in: in, origin: &origin{in: in}, sum: md5.New()}
	if e.Incremental {
		r.parse = ParseChange
	}
	r.packed = bufio.NewReaderSize(io.TeeReader(r.origin, r.sum), 64<<10)
	unpacked, err := gzip.NewReader(r.packed)
	switch {
	case err == io.EOF && r.origin.err == nil && f.Items == 0:
		r.lines = bufio.NewReader(strings.NewReader("")) // the file of an empty partition may have no bytes
	case err != nil:
		return nil, errors.Join(r.damaged(err), in.Close())
	default:
		r.lines = bufio.NewReaderSize(unpacked, 64<<10)
	}
	return r, nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.in.Close() }

// Line returns how many lines were read or skipped.
func (r *Reader) Line() int64 { return r.n }

// Unpacked returns the uncompressed size of the lines read or skipped, in bytes.
func (r *Reader) Unpacked() int64 { return r.unpacked }

// Next returns the next record. After the last record the error is io.EOF if the file matches its
// manifest, and *Error if it does not (E2). After an error the Reader returns no further records.
func (r *Reader) Next() (Record, error) {
	line, err := r.line()
	if err != nil {
		return Record{}, err
	}
	record, err := r.parse(line)
	if err != nil {
		r.err = &Error{Place: r.name, Line: r.n, What: "the line cannot be read", Fix: again, Err: err}
		return Record{}, r.err
	}
	return record, nil
}

// Skip skips lines without parsing them. The error is io.EOF if the file has fewer lines.
func (r *Reader) Skip(lines int64) error {
	for ; lines > 0; lines-- {
		if _, err := r.line(); err != nil {
			return err
		}
	}
	return nil
}

// Verify reads the rest of the file. Nil means that the file matches its manifest.
func (r *Reader) Verify() error {
	for {
		if _, err := r.line(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// line returns the next line without its line end. The line is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	line, err := r.whole()
	if err == nil {
		r.n++
		r.unpacked += int64(len(line)) + 1
		if r.n > r.file.Items {
			err = r.fault("the file has more records than the %d of the manifest", r.file.Items)
		}
	}
	r.err = err
	return line, err
}

func (r *Reader) whole() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			if len(r.long)+len(part) > MaxLine {
				return nil, &Error{Place: r.name, Line: r.n + 1, What: fmt.Sprintf("the line has more than %d MiB, which no item needs", MaxLine>>20), Fix: again}
			}
			r.long = append(r.long, part...)
			continue
		case err == io.EOF && len(part)+len(r.long) == 0:
			return nil, r.end()
		case err != nil && err != io.EOF:
			return nil, r.damaged(err)
		case err == nil:
			part = part[:len(part)-1]
		}
		if len(r.long) == 0 {
			return part, nil
		}
		r.long = append(r.long, part...)
		return r.long, nil
	}
}

// end compares a file that was read to its end with the manifest (E2).
func (r *Reader) end() error {
	if _, err := io.Copy(io.Discard, r.packed); err != nil {
		return r.damaged(err)
	}
	switch {
	case [16]byte(r.sum.Sum(nil)) != r.file.MD5:
		return r.fault("its MD5 differs from the manifest: the file was changed or replaced")
	case r.n != r.file.Items:
		return r.fault("the file has %d records, but the manifest counts %d", r.n, r.file.Items)
	}
	return io.EOF
}

func (r *Reader) fault(format string, args ...any) error {
	return &Error{Place: r.name, What: fmt.Sprintf(format, args...), Fix: again}
}

// damaged returns why the file cannot be decompressed. Either the store failed, or the content is
// invalid.
func (r *Reader) damaged(err error) error {
	if r.origin.err != nil {
		return fmt.Errorf("read %s: %w", r.name, r.origin.err)
	}
	what := "the file is damaged"
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		what = "the file is cut short"
	}
	e := &Error{Place: r.name, What: what, Fix: again}
	if r.lines != nil {
		e.Line = r.n + 1
	}
	return e
}
