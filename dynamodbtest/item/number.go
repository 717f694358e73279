package item

import (
	"fmt"
	"math/big"
	"strings"
)

// Bounds of the Number type ("Naming rules and data types", section Number):
// 38 significant digits, magnitudes from 1E-130 to 9.99…E+125, and zero.
const (
	maxDigits   = 38
	maxExponent = 125
	minExponent = -130
)

// Messages are DynamoDB's own words.
const (
	msgNotNumeric = "The parameter cannot be converted to a numeric value"
	msgTooPrecise = "Attempting to store more than 38 significant digits in a Number"
	msgOverflow   = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	msgUnderflow  = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
)

// decimal is a number as sign, significant digits without leading or trailing
// zeros, and the power of ten of the first digit: -0.0120 is {true, "12", -2}.
// Zero has no digits and no sign.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// CanonicalNumber returns the text DynamoDB gives back for a number: plain
// decimal, no exponent, no leading or trailing zeros, no plus sign, no minus
// zero. It returns a ValidationError for text that is not a number, has more than
// 38 significant digits, or lies outside the magnitudes DynamoDB stores.
func CanonicalNumber(text string) (string, error) {
	d, err := parseDecimal(text)
	if err != nil {
		return "", err
	}
	if err := d.check(); err != nil {
		return "", err
	}
	return d.String(), nil
}

// parseDecimal reads an optional sign, digits with an optional point, and an
// optional exponent. Like the service, it accepts ".5" and "5.".
func parseDecimal(text string) (decimal, error) {
	var d decimal
	rest := text
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		d.negative = rest[0] == '-'
		rest = rest[1:]
	}
	mantissa, expText, hasExp := cutExponent(rest)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if !allDigits(whole) || !allDigits(fraction) || len(whole)+len(fraction) == 0 {
		return decimal{}, invalid(msgNotNumeric)
	}
	exp := 0
	if hasExp {
		var err error
		if exp, err = parseExponent(expText); err != nil {
			return decimal{}, err
		}
	}
	digits := whole + fraction
	significant := strings.TrimLeft(digits, "0")
	if significant == "" {
		return decimal{}, nil
	}
	leading := len(digits) - len(significant)
	d.exponent = len(whole) - leading - 1 + exp
	d.digits = strings.TrimRight(significant, "0")
	return d, nil
}

func cutExponent(text string) (mantissa, exponent string, found bool) {
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// parseExponent saturates far outside the supported range, so that an exponent of
// a million digits is an overflow and not a wrap-around.
func parseExponent(text string) (int, error) {
	negative := false
	if text != "" && (text[0] == '+' || text[0] == '-') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if text == "" || !allDigits(text) {
		return 0, invalid(msgNotNumeric)
	}
	const saturated = 1 << 40
	n := 0
	for i := range len(text) {
		n = min(n*10+int(text[i]-'0'), saturated)
	}
	if negative {
		n = -n
	}
	return n, nil
}

func allDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

func (d decimal) check() error {
	switch {
	case d.digits == "":
		return nil
	case d.exponent > maxExponent:
		return invalid(msgOverflow)
	case d.exponent < minExponent:
		return invalid(msgUnderflow)
	case len(d.digits) > maxDigits:
		return invalid(msgTooPrecise)
	}
	return nil
}

// String is the canonical text.
func (d decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	var b strings.Builder
	if d.negative {
		b.WriteByte('-')
	}
	switch {
	case d.exponent < 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -d.exponent-1))
		b.WriteString(d.digits)
	case d.exponent >= len(d.digits)-1:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", d.exponent-len(d.digits)+1))
	default:
		b.WriteString(d.digits[:d.exponent+1])
		b.WriteByte('.')
		b.WriteString(d.digits[d.exponent+1:])
	}
	return b.String()
}

// canonical splits text that CanonicalNumber made; such text always parses.
func canonical(text string) decimal {
	d, err := parseDecimal(text)
	if err != nil {
		panic("item: not a canonical number")
	}
	return d
}

// numberSize is the stored size in bytes: one byte for two significant digits,
// one more, and one for a minus sign ("Item sizes and formats" calls it
// approximate).
func numberSize(text string) int {
	d := canonical(text)
	size := (len(d.digits)+1)/2 + 1
	if d.negative {
		size++
	}
	return size
}

// CompareNumbers orders two canonical numbers by value: -1, 0 or 1.
func CompareNumbers(a, b string) int {
	return strings.Compare(string(NumberSortKey(a)), string(NumberSortKey(b)))
}

// NumberSortKey encodes a canonical number so that the order of the bytes is the
// order of the values, and equal values have equal bytes.
func NumberSortKey(text string) []byte {
	d := canonical(text)
	if d.digits == "" {
		return []byte{0x80}
	}
	key := make([]byte, 0, len(d.digits)+4)
	exponent := d.exponent - minExponent
	key = append(key, 0xff, byte(exponent>>8), byte(exponent))
	for i := range len(d.digits) {
		key = append(key, d.digits[i]-'0'+1)
	}
	key = append(key, 0)
	if d.negative {
		for i := range key {
			key[i] = ^key[i]
		}
	}
	return key
}

// AddNumbers returns the exact sum of two canonical numbers, as canonical text. A
// sum that DynamoDB cannot store exactly is a ValidationError; the service calls it an
// overflow even where precision is what is missing.
func AddNumbers(a, b string) (string, error) {
	return combine(a, b, (*big.Int).Add)
}

// SubtractNumbers returns the exact difference a − b, under the rules of AddNumbers.
func SubtractNumbers(a, b string) (string, error) {
	return combine(a, b, (*big.Int).Sub)
}

func combine(a, b string, op func(z, x, y *big.Int) *big.Int) (string, error) {
	x, y := canonical(a), canonical(b)
	scale := min(x.lowest(), y.lowest())
	sum := op(new(big.Int), x.scaled(scale), y.scaled(scale))
	d, err := parseDecimal(fmt.Sprintf("%se%d", sum.String(), scale))
	if err != nil {
		return "", err
	}
	if len(d.digits) > maxDigits {
		return "", invalid(msgOverflow)
	}
	return d.String(), d.check()
}

// lowest is the power of ten of the last significant digit.
func (d decimal) lowest() int { return d.exponent - len(d.digits) + 1 }

// scaled is the value divided by ten to the power scale, which must not exceed lowest.
func (d decimal) scaled(scale int) *big.Int {
	n := new(big.Int)
	if d.digits == "" {
		return n
	}
	n.SetString(d.digits+strings.Repeat("0", d.lowest()-scale), 10)
	if d.negative {
		n.Neg(n)
	}
	return n
}
