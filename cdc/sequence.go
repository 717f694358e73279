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
//
// It keeps the text that the service gave, because that is what the service takes back: some fill numbers up with zeros from the left, to the 21
// digits that GetShardIterator asks for at least, and others neither fill them up nor take them so. Only Compare tells whether two
// are one number; equal values are one number written alike.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetShardIterator.html
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
		return SequenceNumber{}, fmt.Errorf("%w: %d digits, at most %d are known", ErrSequenceNumber, n, MaxSequenceDigits)
	}
	return s, nil
}

// SequenceOf is the sequence number with the given value; loads use it to rank images by the second they were read.
func SequenceOf(n uint64) SequenceNumber { return SequenceNumber{fmt.Sprint(n)} }

// IsZero reports whether there is no number.
func (s SequenceNumber) IsZero() bool { return s.text == "" }

// digits are the number without leading zeros; "" if there is none.
func (s SequenceNumber) digits() string {
	if digits := strings.TrimLeft(s.text, "0"); digits != "" || s.text == "" {
		return digits
	}
	return "0"
}

// Compare orders numerically; no number comes first.
func (s SequenceNumber) Compare(o SequenceNumber) int {
	a, b := s.digits(), o.digits()
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// String is the number as the service wrote it; "" if there is none.
func (s SequenceNumber) String() string { return s.text }

// AppendPadded appends the number at the fixed width of 40 digits, so that bytes compare as numbers do.
func (s SequenceNumber) AppendPadded(b []byte) []byte {
	digits := s.digits()
	for range MaxSequenceDigits - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

// MarshalText and UnmarshalText keep numbers as text in stored records.
func (s SequenceNumber) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *SequenceNumber) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSequenceNumber(string(b))
	return err
}
