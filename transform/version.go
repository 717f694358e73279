package transform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// VersionSize is the length of a version in bytes: generation, hop, sequence number and count at
// fixed widths of 8, 6, 40 and 4 digits, separated by dots.
const VersionSize = 8 + 1 + 6 + 1 + cdc.MaxSequenceDigits + 1 + 4

// Limits of the fields.
const (
	MaxGeneration = 99_999_999
	MaxHop        = 999_999
	MaxCount      = 9_999
	// LoadHop ranks images of a load below every change of a stream in the same generation.
	LoadHop = 0
)

// These are the counts of an image's writes. The first write under dual writes has count 0.
const (
	CountTimestamped = 0
	CountExact       = 1
)

// ErrVersion is returned for text that is not a version.
var ErrVersion = errors.New("not a version")

// Version ranks an image in the history of its item. It is (generation, hop, sequence number,
// count) as fixed-width ASCII, so the order of the bytes is the order of the history, and an
// operator can read it. These four fields are its position. The version rises strictly along the
// records of one item: by sequence number within a shard, by hop from parent to child, and by
// generation across every break of the stream. If the application ranks its writes (Rank), the rank
// precedes the position.
type Version string

// NewVersion builds a version. Fields out of range are a programming error, and NewVersion panics.
// A version that wraps around would let an old image win.
func NewVersion(generation, hop uint32, sequence cdc.SequenceNumber, count uint16) Version {
	if generation > MaxGeneration || hop > MaxHop || count > MaxCount {
		panic(fmt.Sprintf("transform: version field out of range: generation %d, hop %d, count %d", generation, hop, count))
	}
	b := make([]byte, 0, VersionSize)
	b = appendPadded(b, uint64(generation), 8)
	b = append(b, '.')
	b = appendPadded(b, uint64(hop), 6)
	b = append(b, '.')
	b = sequence.AppendPadded(b)
	b = append(b, '.')
	b = appendPadded(b, uint64(count), 4)
	return Version(b)
}

func appendPadded(b []byte, n uint64, width int) []byte {
	start := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := start + width - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// ParseVersion checks the form of stored text.
func ParseVersion(text string) (Version, error) {
	if strings.HasPrefix(text, "n") {
		return parseOrdered(text)
	}
	return parsePosition(text)
}

func parseOrdered(text string) (Version, error) {
	if len(text) != orderSize+VersionSize || text[orderSize-1] != '.' || text[orderSize-3] != '.' || text[orderSize-2] != '0' && text[orderSize-2] != '1' ||
		strings.Trim(text[1:1+numberDigits], "0123456789") != "" {
		return "", fmt.Errorf("%w: %d bytes, which begin with n", ErrVersion, len(text))
	}
	_, err := parsePosition(text[orderSize:])
	return Version(text), err
}

func parsePosition(text string) (Version, error) {
	if len(text) != VersionSize || text[8] != '.' || text[15] != '.' || text[56] != '.' {
		return "", fmt.Errorf("%w: %d bytes", ErrVersion, len(text))
	}
	for i := range len(text) {
		if i == 8 || i == 15 || i == 56 {
			continue
		}
		if text[i] < '0' || text[i] > '9' {
			return "", fmt.Errorf("%w: byte %d is not a digit", ErrVersion, i)
		}
	}
	return Version(text), nil
}

// Generation returns the first field of the position.
func (v Version) Generation() uint32 { return v.field(0, 8) }

// Hop returns the second field.
func (v Version) Hop() uint32 { return v.field(9, 15) }

// Sequence returns the third field. Its leading zeros come from the version's fixed width, not from
// the service.
func (v Version) Sequence() cdc.SequenceNumber {
	v = v.Position()
	s, err := cdc.ParseSequenceNumber(strings.TrimLeft(string(v[16:55]), "0") + string(v[55]))
	if err != nil {
		panic("transform: " + err.Error())
	}
	return s
}

// Count returns the last field.
func (v Version) Count() uint16 { return uint16(v.field(57, 61)) }

// WithoutCount returns the lowest version of the same image, which has count zero. The empty
// version stays empty.
func (v Version) WithoutCount() Version {
	if v == "" {
		return ""
	}
	return v.WithCount(CountTimestamped)
}

// WithCount returns the version with another count, at most MaxCount.
func (v Version) WithCount(count uint16) Version {
	return v[:len(v)-4] + Version(appendPadded(nil, uint64(count), 4))
}

func (v Version) field(from, to int) uint32 {
	n, err := strconv.ParseUint(string(v.Position()[from:to]), 10, 32)
	if err != nil {
		panic("transform: malformed version") // versions are built by NewVersion or checked by ParseVersion
	}
	return uint32(n)
}
