package cdc

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// MaxSequenceDigits is the maximum number of digits of a sequence number of DynamoDB Streams.
// Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamRecord.html (21
// to 40 digits).
const MaxSequenceDigits = 40

// ErrSequenceNumber is returned for text that is not a sequence number.
var ErrSequenceNumber = errors.New("not a sequence number")

// SequenceNumber is the place of a change in its shard: a decimal number of up to 40 digits.
// Compare numbers of one shard as numbers, never as text: 99 comes before 100. The order of numbers
// from different shards is not documented, so nothing relies on it. The zero value comes before
// every number.
//
// A SequenceNumber keeps the service's text, because the service expects the same text back. Some
// implementations pad numbers with zeros to 21 digits, the minimum of GetShardIterator. Other
// implementations neither pad their numbers nor accept padded numbers. Use Compare to check whether
// two numbers are equal, because == also compares the padding. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetShardIterator.html
type SequenceNumber struct{ text string } // "" is none

// ParseSequenceNumber reads decimal text. Empty text is the zero value.
func ParseSequenceNumber(text string) (SequenceNumber, error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return SequenceNumber{}, fmt.Errorf("%w: character %d of %d is not a digit", ErrSequenceNumber, i+1, len(text))
		}
	}
	s := SequenceNumber{text}
	if n := len(s.digits()); n > MaxSequenceDigits {
		return SequenceNumber{}, fmt.Errorf("%w: it has %d digits, but at most %d are allowed", ErrSequenceNumber, n, MaxSequenceDigits)
	}
	return s, nil
}

// SequenceOf returns the sequence number with the given value. Loads use it to rank images by the
// second in which they were read.
func SequenceOf(n uint64) SequenceNumber { return SequenceNumber{fmt.Sprint(n)} }

// IsZero reports whether s is the zero value, which has no number.
func (s SequenceNumber) IsZero() bool { return s.text == "" }

// digits returns the number without leading zeros; "" if there is none.
func (s SequenceNumber) digits() string {
	if digits := strings.TrimLeft(s.text, "0"); digits != "" || s.text == "" {
		return digits
	}
	return "0"
}

// Compare compares numerically; the zero value comes first.
func (s SequenceNumber) Compare(o SequenceNumber) int {
	a, b := s.digits(), o.digits()
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// String returns the number as the service wrote it; "" if there is none.
func (s SequenceNumber) String() string { return s.text }

// AppendPadded appends the number padded to 40 digits, so that bytes sort like numbers.
func (s SequenceNumber) AppendPadded(b []byte) []byte {
	digits := s.digits()
	for range MaxSequenceDigits - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

// MarshalText returns the number as text, the form in stored records.
func (s SequenceNumber) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *SequenceNumber) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSequenceNumber(string(b))
	return err
}
