package item

import (
	"errors"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Messages are DynamoDB's own words.
const (
	msgNotNumeric = "The parameter cannot be converted to a numeric value"
	msgTooPrecise = "Attempting to store more than 38 significant digits in a Number"
	msgOverflow   = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	msgUnderflow  = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
)

// invalidNumber turns the error of an N into DynamoDB's words.
func invalidNumber(err error) error {
	switch {
	case errors.Is(err, attribute.ErrNumberDigits):
		return invalid(msgTooPrecise)
	case errors.Is(err, attribute.ErrNumberOverflow):
		return invalid(msgOverflow)
	case errors.Is(err, attribute.ErrNumberUnderflow):
		return invalid(msgUnderflow)
	}
	return invalid(msgNotNumeric)
}

// NumberSortKey encodes a canonical number in bytes. The bytes sort like the values, and equal
// values have equal bytes.
func NumberSortKey(text string) []byte {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	// This is the power of ten of the first significant digit.
	exponent := len(whole) - 1
	if whole == "0" {
		significant := strings.TrimLeft(fraction, "0")
		if significant == "" {
			return []byte{0x80}
		}
		exponent = len(significant) - len(fraction) - 1
		whole, fraction = "", significant
	}
	const least = -130 // the least exponent of a number
	key := make([]byte, 0, len(whole)+len(fraction)+4)
	key = append(key, 0xff, byte((exponent-least)>>8), byte(exponent-least))
	for _, part := range []string{whole, fraction} {
		for i := range len(part) {
			key = append(key, part[i]-'0'+1)
		}
	}
	for len(key) > 3 && key[len(key)-1] == 1 { // remove trailing zeros
		key = key[:len(key)-1]
	}
	key = append(key, 0)
	if negative {
		for i := range key {
			key[i] = ^key[i]
		}
	}
	return key
}
