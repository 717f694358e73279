package cdc

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// MaxSequenceDigits is the longest sequence number DynamoDB Streams gives.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamRecord.html (21 to 40 digits).
const MaxSequenceDigits = 40

// ErrSequenceNumber is returned for text that is not a sequence number.
var ErrSequenceNumber = errors.New("not a sequence number")

// SequenceNumber is the place of a change in its shard: a decimal number of up to 40 digits. Numbers of one shard compare
// as numbers, never as text: 99 comes before 100. Whether numbers of different shards compare is not documented, so nothing
// rests on it. The zero value comes before every number.
type SequenceNumber struct{ digits string } // without leading zeros; "" is none

// ParseSequenceNumber reads decimal text. Empty text is the zero value.
func ParseSequenceNumber(text string) (SequenceNumber, error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return SequenceNumber{}, fmt.Errorf("%w: character %d of %d is not a digit", ErrSequenceNumber, i+1, len(text))
		}
	}
	digits := strings.TrimLeft(text, "0")
	if digits == "" && text != "" {
		digits = "0"
	}
	if len(digits) > MaxSequenceDigits {
		return SequenceNumber{}, fmt.Errorf("%w: %d digits, at most %d are known", ErrSequenceNumber, len(digits), MaxSequenceDigits)
	}
	return SequenceNumber{digits}, nil
}

// SequenceOf is the sequence number with the given value; loads use it to rank images by the second they were read.
func SequenceOf(n uint64) SequenceNumber { return SequenceNumber{fmt.Sprint(n)} }

// IsZero tells whether there is no number.
func (s SequenceNumber) IsZero() bool { return s.digits == "" }

// Compare orders numerically; no number comes first.
func (s SequenceNumber) Compare(o SequenceNumber) int {
	if c := cmp.Compare(len(s.digits), len(o.digits)); c != 0 {
		return c
	}
	return strings.Compare(s.digits, o.digits)
}

// String is the number as DynamoDB writes it, without leading zeros; "" if there is none.
func (s SequenceNumber) String() string { return s.digits }

// AppendPadded appends the number at the fixed width of 40 digits, so that bytes compare as numbers do.
func (s SequenceNumber) AppendPadded(b []byte) []byte {
	for range MaxSequenceDigits - len(s.digits) {
		b = append(b, '0')
	}
	return append(b, s.digits...)
}

// MarshalText and UnmarshalText keep numbers as text in stored records.
func (s SequenceNumber) MarshalText() ([]byte, error) { return []byte(s.digits), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *SequenceNumber) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSequenceNumber(string(b))
	return err
}
