package attribute

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// The bounds of a DynamoDB number: 38 significant digits, magnitudes from 1E-130 to 9.99…E+125, and zero.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html#HowItWorks.DataTypes.Number
const (
	maxSignificantDigits = 38
	minMagnitude         = -130 // the power of ten of the first significant digit
	maxMagnitude         = 125
)

// The longest canonical text is "-0." with 129 zeros and 38 digits. Text that is parsed may be
// padded with zeros or have an exponent. Its length is bounded, because the cost of parsing grows
// with the length.
const (
	maxCanonicalLength = 3 + 129 + maxSignificantDigits
	maxNumberLength    = 1024
)

// ErrNumber is returned for text that is not a number that DynamoDB can hold. The wrapping error
// says what is wrong but does not contain the digits. A well-formed number beyond DynamoDB's limits
// gives one of the three errors below. Each of them wraps ErrNumber.
var ErrNumber = errors.New("not a DynamoDB number")

// The ways in which a number can exceed DynamoDB's limits.
var (
	ErrNumberDigits    = fmt.Errorf("%w: more than %d significant digits", ErrNumber, maxSignificantDigits)
	ErrNumberOverflow  = fmt.Errorf("%w: its magnitude is not below 1E%d", ErrNumber, maxMagnitude+1)
	ErrNumberUnderflow = fmt.Errorf("%w: its magnitude is below 1E%d", ErrNumber, minMagnitude)
)

// CanonicalNumber returns the only canonical text of a number's value. That text is plain decimal,
// without exponent, plus sign, leading or trailing zeros, or a negative zero. DynamoDB itself
// returns this form. Text from other sources (exports, other services, tests) is converted to it.
// Canonical text is returned unchanged and without allocation.
func CanonicalNumber(text string) (string, error) {
	if isCanonical(text) {
		return text, nil
	}
	number, err := parseNumber(text)
	if err != nil {
		return "", err
	}
	var buffer [maxCanonicalLength]byte
	plain := number.appendPlain(buffer[:0])
	if string(plain) == text { // long canonical text, which isCanonical does not check
		return text, nil
	}
	return string(plain), nil
}

// isCanonical reports whether short text is canonical. Text of more than 38 characters may exceed
// the number of digits or the range, so it takes the slow path.
func isCanonical(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > maxSignificantDigits || text == "-0" {
		return false
	}
	point := -1
	for i := range len(digits) {
		switch c := digits[i]; {
		case c == '.' && point < 0 && i > 0:
			point = i
		case c < '0' || c > '9':
			return false
		}
	}
	if digits[0] == '0' && len(digits) > 1 && point != 1 {
		return false
	}
	last := digits[len(digits)-1]
	return point < 0 || last != '0' && last != '.'
}

// decimal is a parsed number: 0.d1d2d3… times ten to the power of point. Its digits neither begin
// nor end with a zero. A decimal without digits is zero.
type decimal struct {
	negative bool
	digits   [maxSignificantDigits]byte
	count    int
	point    int
}

func parseNumber(text string) (decimal, error) {
	if len(text) > maxNumberLength {
		return decimal{}, fmt.Errorf("%w: %d characters", ErrNumber, len(text))
	}
	var d decimal
	rest := text
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		d.negative = rest[0] == '-'
		rest = rest[1:]
	}
	significand, exponentText, hasExponent := rest, "", false
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		significand, exponentText, hasExponent = rest[:i], rest[i+1:], true
	}
	if err := d.readSignificand(significand, len(text)); err != nil {
		return decimal{}, err
	}
	if hasExponent {
		exponent, err := parseExponent(exponentText)
		if err != nil {
			return decimal{}, err
		}
		d.point += exponent
	}
	if d.count == 0 {
		return decimal{}, nil // zero, regardless of its sign and exponent
	}
	switch magnitude := d.point - 1; {
	case magnitude > maxMagnitude:
		return decimal{}, ErrNumberOverflow
	case magnitude < minMagnitude:
		return decimal{}, ErrNumberUnderflow
	}
	return d, nil
}

// readSignificand reads digits with at most one point among them. Zeros count as significant only once a digit follows.
func (d *decimal) readSignificand(text string, length int) error {
	seen, fraction, zeros := 0, false, 0
	for i := range len(text) {
		c := text[i]
		if c == '.' && !fraction {
			fraction = true
			continue
		}
		if c < '0' || c > '9' {
			return fmt.Errorf("%w: unexpected character in text of %d characters", ErrNumber, length)
		}
		seen++
		if c == '0' {
			if d.count > 0 {
				zeros++
			}
			if d.count > 0 && !fraction {
				d.point++
			} else if d.count == 0 && fraction {
				d.point--
			}
			continue
		}
		if d.count+zeros >= maxSignificantDigits {
			return ErrNumberDigits
		}
		for ; zeros > 0; zeros-- {
			d.digits[d.count] = '0'
			d.count++
		}
		d.digits[d.count] = c
		d.count++
		if !fraction {
			d.point++
		}
	}
	if seen == 0 {
		return fmt.Errorf("%w: no digits in text of %d characters", ErrNumber, length)
	}
	return nil
}

// parseExponent reads a signed integer. It is capped at a bound that no valid number reaches. The
// range check then rejects the number, unless the number is zero.
func parseExponent(text string) (int, error) {
	const bound = 1 << 20
	digits, sign := text, 1
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		if digits[0] == '-' {
			sign = -1
		}
		digits = digits[1:]
	}
	if digits == "" {
		return 0, fmt.Errorf("%w: its exponent has no digits", ErrNumber)
	}
	n := 0
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, fmt.Errorf("%w: its exponent is not an integer", ErrNumber)
		}
		n = min(n*10+int(digits[i]-'0'), bound)
	}
	return sign * n, nil
}

// appendPlain appends the canonical text.
func (d *decimal) appendPlain(b []byte) []byte {
	if d.count == 0 {
		return append(b, '0')
	}
	if d.negative {
		b = append(b, '-')
	}
	digits := d.digits[:d.count]
	switch {
	case d.point <= 0:
		b = append(b, "0."...)
		for range -d.point {
			b = append(b, '0')
		}
		return append(b, digits...)
	case d.point >= d.count:
		b = append(b, digits...)
		for range d.point - d.count {
			b = append(b, '0')
		}
		return b
	default:
		b = append(b, digits[:d.point]...)
		b = append(b, '.')
		return append(b, digits[d.point:]...)
	}
}

// CompareNumbers orders two canonical numbers by value. For text that is not canonical the result
// is meaningless.
func CompareNumbers(a, b string) int {
	magnitudeA, negativeA := strings.CutPrefix(a, "-")
	magnitudeB, negativeB := strings.CutPrefix(b, "-")
	switch {
	case negativeA && negativeB:
		return compareMagnitudes(magnitudeB, magnitudeA)
	case negativeA:
		return -1
	case negativeB:
		return 1
	}
	return compareMagnitudes(magnitudeA, magnitudeB)
}

func compareMagnitudes(a, b string) int {
	wholeA, fractionA, _ := strings.Cut(a, ".")
	wholeB, fractionB, _ := strings.Cut(b, ".")
	// Without leading zeros, the number with the longer whole part is larger. Without trailing
	// zeros, fractions compare as text.
	if c := cmp.Compare(len(wholeA), len(wholeB)); c != 0 {
		return c
	}
	if c := strings.Compare(wholeA, wholeB); c != 0 {
		return c
	}
	return strings.Compare(fractionA, fractionB)
}
