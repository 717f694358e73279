package exports

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// MaxLine is the maximum length of a line, in bytes. An item has up to 400 KiB, as DynamoDB counts
// its size. As JSON it may be eight times as long, and a window's line has two images and the key.
const MaxLine = 16 << 20

// blockBytes is the size of the blocks in which a file is read. The items of a block share memory.
const blockBytes = 128 << 10

// Reader reads the records of one data file in order. It must not be used concurrently.
type Reader struct {
	name   string
	file   File
	lines  *lineParser
	record func(members, error) (Record, error)
	in     io.ReadCloser
	origin *origin
	sum    hash.Hash
	packed *bufio.Reader

	unpacked io.Reader
	failed   error  // the error of unpacked, which may come before all of block is read
	block    []byte // uncompressed bytes
	next     int    // position of the next line in block
	whole    int    // end of the last line that is whole
	text     int    // position in block at which the text of lines begins; -1 if lines has no text

	n    int64 // number of lines read
	size int64 // the uncompressed size of these lines, in bytes
	err  error // error of the last read
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
	r := &Reader{name: f.Name, file: f, in: in, origin: &origin{in: in}, sum: md5.New(), text: -1}
	if r.lines, r.record = newLineParser(itemNames), parseItem; e.Incremental {
		r.lines, r.record = newLineParser(memberNames[:]), parseChange
	}
	r.packed = bufio.NewReaderSize(io.TeeReader(r.origin, r.sum), 64<<10)
	unpacked, err := gzip.NewReader(r.packed)
	switch {
	case err == io.EOF && r.origin.err == nil && f.Items == 0:
		r.unpacked = strings.NewReader("") // the file of an empty partition may have no bytes
	case err != nil:
		return nil, errors.Join(r.damaged(err), in.Close())
	default:
		r.unpacked = unpacked
	}
	return r, nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.in.Close() }

// Line returns how many lines were read or skipped.
func (r *Reader) Line() int64 { return r.n }

// Unpacked returns the uncompressed size of the lines read or skipped, in bytes.
func (r *Reader) Unpacked() int64 { return r.size }

// Next returns the next record. After the last record the error is io.EOF if the file matches its
// manifest, and *Error if it does not (E2). After an error the Reader returns no further records.
func (r *Reader) Next() (Record, error) {
	from, to, err := r.line()
	if err != nil {
		return Record{}, err
	}
	record, err := r.record(r.parse(from, to))
	if err != nil {
		r.err = &Error{Place: r.name, Line: r.n, What: "the line cannot be read", Fix: again, Err: err}
		return Record{}, r.err
	}
	return record, nil
}

// parse parses a line, by its positions in the block.
func (r *Reader) parse(from, to int) (members, error) {
	if r.text < 0 {
		r.text = from
		r.lines.scanner.Reset(string(r.block[from:r.whole])) // a copy, because the items keep referring to it
	}
	if r.lines.read() && r.lines.scanner.EndAt(to-r.text) {
		return r.lines.found, nil
	}
	r.text = -1
	r.lines.scanner = attribute.Scanner{} // it must not be used after such a line
	return r.lines.strictly(r.block[from:to])
}

// Skip skips lines without parsing them. The error is io.EOF if the file has fewer lines.
func (r *Reader) Skip(lines int64) error {
	for r.text = -1; lines > 0; lines-- {
		if _, _, err := r.line(); err != nil {
			return err
		}
	}
	return nil
}

// Checksum reads the rest of the compressed file without decompressing it, which takes a fraction of
// the time of Verify. Nil means that the file is the one that the manifest describes. Its records are
// not counted. The Reader returns no records afterwards.
func (r *Reader) Checksum() error {
	if r.err == nil {
		if r.err = r.checksum(); r.err == nil {
			r.err = io.EOF
			return nil
		}
	}
	return r.err
}

// Verify reads the rest of the file. Nil means that the file matches its manifest.
func (r *Reader) Verify() error {
	for r.text = -1; ; {
		if _, _, err := r.line(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// line returns the next line without its line end, as positions in the block. They are valid until
// the next call.
func (r *Reader) line() (from, to int, err error) {
	if r.err != nil {
		return 0, 0, r.err
	}
	for r.next == r.whole {
		if r.err = r.fill(); r.err != nil {
			return 0, 0, r.err
		}
	}
	from, to = r.next, r.whole
	if n := bytes.IndexByte(r.block[from:to], '\n'); n >= 0 {
		to, r.next = from+n, from+n+1
	} else {
		r.next = to // the last line may have no line end
	}
	if to-from > MaxLine {
		r.err = r.tooLong()
		return 0, 0, r.err
	}
	r.n++
	r.size += int64(to-from) + 1
	if r.n > r.file.Items {
		r.err = r.fault("the file has more records than the %d of the manifest", r.file.Items)
	}
	return from, to, r.err
}

// fill replaces the block, all of whose whole lines were read, by one with at least one whole line.
func (r *Reader) fill() error {
	block := r.block[:0]
	if cap(block) != blockBytes && len(r.block)-r.whole < blockBytes {
		block = make([]byte, 0, blockBytes)
	}
	r.block = append(block, r.block[r.whole:]...)
	r.next, r.whole, r.text = 0, 0, -1
	for searched := 0; r.whole == 0; searched = len(r.block) {
		if len(r.block) == cap(r.block) {
			if len(r.block) > MaxLine {
				return r.tooLong()
			}
			r.block = slices.Grow(r.block, len(r.block))
		}
		for len(r.block) < cap(r.block) && r.failed == nil {
			var n int
			n, r.failed = r.unpacked.Read(r.block[len(r.block):cap(r.block)])
			r.block = r.block[:len(r.block)+n]
		}
		r.whole = searched + bytes.LastIndexByte(r.block[searched:], '\n') + 1
		switch {
		case r.failed == io.EOF && len(r.block) > 0:
			r.whole = len(r.block)
		case r.failed == io.EOF:
			return r.end()
		case r.failed != nil && r.whole == searched:
			return r.damaged(r.failed)
		case r.whole == searched:
			r.whole = 0
		}
	}
	return nil
}

func (r *Reader) tooLong() error {
	return &Error{Place: r.name, Line: r.n + 1, What: fmt.Sprintf("the line has more than %d MiB, which no item needs", MaxLine>>20), Fix: again}
}

// end compares a file that was read to its end with the manifest (E2).
func (r *Reader) end() error {
	if err := r.checksum(); err != nil {
		return err
	}
	if r.n != r.file.Items {
		return r.fault("the file has %d records, but the manifest counts %d", r.n, r.file.Items)
	}
	return io.EOF
}

// checksum reads the rest of the compressed file, and compares its checksum with the manifest.
func (r *Reader) checksum() error {
	if _, err := io.Copy(io.Discard, r.packed); err != nil {
		return r.damaged(err)
	}
	if [16]byte(r.sum.Sum(nil)) != r.file.MD5 {
		return r.fault("its MD5 differs from the manifest: the file was changed or replaced")
	}
	return nil
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
	if r.unpacked != nil {
		e.Line = r.n + 1
	}
	return e
}
