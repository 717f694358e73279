package itemfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// formats are common formats that are refused by name. A format is recognized by the first bytes of
// the file after decompression.
var formats = []struct{ magic, what, fix string }{
	{"$ion_1_0", ion, exportJSON},
	{"\xe0\x01\x00\xea", ion, exportJSON},
	{"\x1f\x8b", "it is compressed with gzip twice", "decompress it once: gzip -d"},
	{"PK\x03\x04", "it is a zip archive", "extract the file with the items, and give that"},
	{"\x28\xb5\x2f\xfd", "it is compressed with zstd", "decompress it: zstd -d"},
	{"BZh", "it is compressed with bzip2", "decompress it: bzip2 -d"},
	{"\xfd7zXZ\x00", "it is compressed with xz", "decompress it: xz -d"},
	{"PAR1", "it is Apache Parquet, not DynamoDB's JSON", exportJSON},
	{"Obj\x01", "it is Apache Avro, not DynamoDB's JSON", exportJSON},
}

const (
	ion        = "it is Amazon Ion, not DynamoDB's JSON"
	exportJSON = "export again in the other format: aws dynamodb export-table-to-point-in-time --export-format DYNAMODB_JSON"
)

// Text returns the text of a file as UTF-8 without a byte order mark. The file may be compressed
// with gzip, and may be UTF-16 or UTF-32. Text returns a *FormatError for a file in another known
// format. If the file is damaged, reads of the text return a *FormatError.
func Text(in io.Reader) (*bufio.Reader, error) {
	text := bufio.NewReader(in)
	if begins(text, "\x1f\x8b") {
		unpacked, err := gzip.NewReader(text)
		if err != nil {
			return nil, errors.New("it is damaged: it begins like a gzip file, but is not one")
		}
		text = bufio.NewReader(unpacked)
	}
	text = inUTF8(text)
	for _, f := range formats {
		if begins(text, f.magic) {
			return nil, &FormatError{f.what, f.fix}
		}
	}
	return text, nil
}

func begins(text *bufio.Reader, magic string) bool {
	head, _ := text.Peek(len(magic)) // a shorter file matches no format
	return string(head) == magic
}

// encodings are the encodings other than UTF-8. Each has its byte order mark, and the form of the
// first bytes of JSON without a mark. Longer marks come first. In a form, J is a character with
// which JSON may begin, and * is any byte. Source: https://www.rfc-editor.org/rfc/rfc4627#section-3
var encodings = []struct {
	mark, begin string
	name        string
	order       binary.ByteOrder
	width       int
}{
	{"\xff\xfe\x00\x00", "J\x00\x00\x00", "UTF-32", binary.LittleEndian, 4},
	{"\x00\x00\xfe\xff", "\x00\x00\x00J", "UTF-32", binary.BigEndian, 4},
	{"\xff\xfe", "J\x00*\x00", "UTF-16", binary.LittleEndian, 2},
	{"\xfe\xff", "\x00J\x00*", "UTF-16", binary.BigEndian, 2},
}

const byteOrderMark = "\xef\xbb\xbf" // in UTF-8

// inUTF8 decodes text in another Unicode encoding, and removes the byte order mark.
func inUTF8(text *bufio.Reader) *bufio.Reader {
	if begins(text, byteOrderMark) {
		_, _ = text.Discard(len(byteOrderMark)) // cannot fail: these bytes were peeked
		return text
	}
	head, _ := text.Peek(4) // a shorter file is UTF-8 or has a mark
	for _, e := range encodings {
		marked := bytes.HasPrefix(head, []byte(e.mark))
		if marked {
			_, _ = text.Discard(len(e.mark))
		}
		if marked || looksLike(head, e.begin) {
			return bufio.NewReader(&decoder{in: text, name: e.name, order: e.order, width: e.width})
		}
	}
	return text
}

func looksLike(head []byte, begin string) bool {
	if len(head) < len(begin) {
		return false
	}
	for i, c := range []byte(begin) {
		switch {
		case c == 'J' && strings.IndexByte("{[ \t\r\n", head[i]) < 0, c == '*' && head[i] == 0, c == 0 && head[i] != 0:
			return false
		}
	}
	return true
}

// decoder reads UTF-16 or UTF-32 as UTF-8. Incomplete characters are errors, because a replacement
// character would change the item.
type decoder struct {
	in    *bufio.Reader
	name  string
	order binary.ByteOrder
	width int    // bytes of a code unit
	ready []byte // bytes that are decoded but not yet read
	err   error  // the error that ended the text, kept because readers may call Read again
}

func (d *decoder) Read(p []byte) (n int, _ error) {
	for n < len(p) && d.err == nil {
		if len(d.ready) == 0 {
			var r rune
			if r, d.err = d.character(); d.err == nil {
				d.ready = utf8.AppendRune(d.ready, r)
			}
		}
		copied := copy(p[n:], d.ready)
		n, d.ready = n+copied, d.ready[copied:]
	}
	return n, d.err
}

func (d *decoder) character() (rune, error) {
	r, err := d.unit()
	if err != nil {
		return 0, err
	}
	if d.width == 2 && utf16.IsSurrogate(r) {
		low, err := d.unit()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, d.damaged()
		}
	}
	if !utf8.ValidRune(r) {
		return 0, d.damaged()
	}
	return r, nil
}

func (d *decoder) unit() (rune, error) {
	var b [4]byte
	if _, err := io.ReadFull(d.in, b[:d.width]); err != nil {
		return 0, err
	}
	if d.width == 2 {
		return rune(d.order.Uint16(b[:])), nil
	}
	return rune(d.order.Uint32(b[:])), nil
}

func (d *decoder) damaged() error {
	return &FormatError{fmt.Sprintf("it is damaged: it begins as %s, but contains invalid text", d.name), "write the file again, in UTF-8"}
}

// jsonText reads JSON and removes byte order marks between values, which occur in joined files. In
// strings, byte order marks are data and are kept. For a NUL byte it returns a *FormatError.
type jsonText struct {
	in              *bufio.Reader
	quoted, escaped bool // whether the position is in a string, and after a backslash
}

func (j *jsonText) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c, err := j.in.ReadByte()
		switch {
		case err != nil:
			return n, err
		case c == 0:
			_ = j.in.UnreadByte() // readers may call Read again
			return n, &FormatError{"it contains a NUL byte, so it is damaged or has another format", "write the file again, in UTF-8"}
		case !j.quoted && c == byteOrderMark[0] && begins(j.in, byteOrderMark[1:]):
			_, _ = j.in.Discard(len(byteOrderMark) - 1) // cannot fail: these bytes were peeked
			continue
		case j.escaped:
			j.escaped = false
		case j.quoted && c == '\\':
			j.escaped = true
		case c == '"':
			j.quoted = !j.quoted
		}
		p[n] = c
		n++
	}
	return n, nil
}
