package transform

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Function is a function of row key and column templates.
type Function struct {
	Name    string
	Example string // a call with a typical argument
	Meaning string // one line
	Order   Order  // how it changes the order of values

	takesText, takesNumber bool
	low, high              int // the bounds of the number
	check                  func(Call) string

	// selfDelimiting: the end of the text follows from the text itself.
	selfDelimiting bool
	// injective: different values give different texts. prefixed: different values that begin with
	// the argument give different texts.
	injective, prefixed bool
	apply               func(v scalar, c *Call) (scalar, error)
}

// Order says how the results of a function sort as bytes. Rows sort in the same way. The order is
// that of a placeholder's last function.
type Order uint8

// The orders. Pad, sortable and newest_first order numbers by value. All other functions, and
// placeholders without a function, order values by their bytes and numbers by their text.
const (
	OrderLost     Order = iota // in no reliable order
	OrderKept                  // in the order of the values; after, before and part: in the order of the extracted pieces
	OrderReversed              // the largest first
)

// String returns "kept", "reversed" or "lost".
func (o Order) String() string { return [...]string{"lost", "kept", "reversed"}[o] }

// scalar is a value on its way through the functions of a placeholder.
type scalar struct {
	kind attribute.Kind // S, N or B
	text string
}

// errFunction explains why a function rejects a value. It holds no item data.
type errFunction string

func (e errFunction) Error() string { return string(e) }

func refuse(format string, args ...any) (scalar, error) {
	return scalar{}, errFunction(fmt.Sprintf(format, args...))
}

// functions holds all functions by name.
var functions = func() map[string]*Function {
	byName := make(map[string]*Function, len(functionList))
	for i := range functionList {
		byName[functionList[i].Name] = &functionList[i]
	}
	return byName
}()

// Functions returns all functions of templates, in the order of the reference.
func Functions() []Function { return slices.Clone(functionList) }

// functionNames returns the names of all functions, in the order of the reference.
func functionNames() []string {
	names := make([]string, len(functionList))
	for i := range functionList {
		names[i] = functionList[i].Name
	}
	return names
}

var functionList = []Function{
	{Name: "after", Example: "after('VIDEO#')", Meaning: "what follows the first occurrence of the text; the item is parked if the value does not contain it",
		takesText: true, prefixed: true, Order: OrderKept, apply: after},
	{Name: "before", Example: "before('#')", Meaning: "what precedes the first occurrence of the text; the item is parked if the value does not contain it",
		takesText: true, Order: OrderKept, apply: before},
	{Name: "part", Example: "part('#', 1)", Meaning: "the part with that number, from 0, of a value split at the text",
		takesText: true, takesNumber: true, low: 0, high: 1000, Order: OrderKept, apply: nthPart},
	{Name: "pad", Example: "pad(6)", Meaning: "a whole number, padded with leading zeros to that many digits; the item is parked if the number is longer or negative",
		takesNumber: true, low: 1, high: 38, selfDelimiting: true, injective: true, Order: OrderKept, apply: pad},
	{Name: "sortable", Example: "sortable", Meaning: "text that sorts like the number, for every number that DynamoDB can hold",
		selfDelimiting: true, injective: true, Order: OrderKept, apply: sortable},
	{Name: "newest_first", Example: "newest_first(13)", Meaning: "the whole number subtracted from that many nines, so that larger numbers sort first",
		takesNumber: true, low: 1, high: 38, selfDelimiting: true, injective: true, Order: OrderReversed, apply: newestFirst},
	{Name: "reverse_domain", Example: "reverse_domain", Meaning: "the parts between dots in reverse order: com.example.video",
		injective: true, apply: reverseDomain},
	{Name: "reverse", Example: "reverse", Meaning: "the characters in reverse order, so that sequential numbers spread over all tablets", injective: true, apply: reverse},
	{Name: "salt", Example: "salt(16)", Meaning: "the first 8 bytes of the value's SHA-256 as a big-endian number, modulo that many, with leading zeros",
		takesNumber: true, low: 2, high: 1_000_000, selfDelimiting: true, apply: salt},
	{Name: "hash", Example: "hash(4)", Meaning: "that many leading hexadecimal digits of the value's SHA-256",
		takesNumber: true, low: 1, high: 64, selfDelimiting: true, apply: hash},
	{Name: "lower", Example: "lower", Meaning: "in lower case", apply: textFunction(strings.ToLower)},
	{Name: "upper", Example: "upper", Meaning: "in upper case", apply: textFunction(strings.ToUpper)},
	{Name: "date", Example: "date('yyyyMM')", Meaning: "the UTC date of an ISO 8601 text or of epoch seconds or milliseconds; of yyyy MM dd HH mm ss SSS",
		takesText: true, check: checkDate, selfDelimiting: true, apply: date},
	{Name: "epoch_ms", Example: "epoch_ms", Meaning: "milliseconds since 1970 of an ISO 8601 text or of epoch seconds or milliseconds", apply: epochMillis},
	{Name: "hex", Example: "hex", Meaning: "the bytes as hexadecimal digits", injective: true, Order: OrderKept, apply: hexadecimal},
	{Name: "default", Example: "default('none')", Meaning: "the text if the attribute is missing", takesText: true, injective: true, apply: identity},
	{Name: utilityFunction, Example: utilityFunction, Meaning: "a row key as Google's migration utility writes it: B is base64 twice, and fractions below a millionth have an exponent",
		injective: true, apply: utilityText},
	{Name: "raw", Example: "raw", Meaning: "not escaped", injective: true, Order: OrderKept, apply: identity},
}

func identity(v scalar, _ *Call) (scalar, error) { return v, nil }

func textFunction(f func(string) string) func(scalar, *Call) (scalar, error) {
	return func(v scalar, _ *Call) (scalar, error) {
		if v.kind == attribute.KindB {
			return refuse("needs text or a number, not B")
		}
		return scalar{attribute.KindS, f(v.text)}, nil
	}
}

func after(v scalar, c *Call) (scalar, error) {
	_, rest, found := strings.Cut(v.text, c.Text)
	if !found {
		return refuse("the value does not contain %q", c.Text)
	}
	return scalar{textual(v.kind), rest}, nil
}

func before(v scalar, c *Call) (scalar, error) {
	head, _, found := strings.Cut(v.text, c.Text)
	if !found {
		return refuse("the value does not contain %q", c.Text)
	}
	return scalar{textual(v.kind), head}, nil
}

func nthPart(v scalar, c *Call) (scalar, error) {
	rest := v.text
	for range c.Number {
		var found bool
		if _, rest, found = strings.Cut(rest, c.Text); !found {
			return refuse("the value has no part %d between %q", c.Number, c.Text)
		}
	}
	head, _, _ := strings.Cut(rest, c.Text)
	return scalar{textual(v.kind), head}, nil
}

// whole returns the canonical digits of a whole number that is not negative. It rejects text with
// leading zeros, because 7 and 07 are different texts and would become the same number.
func whole(v scalar) (string, error) {
	digits := v.text
	switch {
	case v.kind == attribute.KindB:
		return "", errFunction("needs a number, not B")
	case digits == "" || strings.Trim(digits, "0123456789") != "":
		return "", errFunction("needs a whole number from 0 up")
	case len(digits) > 1 && digits[0] == '0':
		return "", errFunction("needs a number without leading zeros")
	}
	return digits, nil
}

const zeros = "00000000000000000000000000000000000000"

func pad(v scalar, c *Call) (scalar, error) {
	digits, err := whole(v)
	if err != nil {
		return scalar{}, err
	}
	if len(digits) > c.Number {
		return refuse("a number of %d digits does not fit", len(digits))
	}
	return scalar{attribute.KindS, zeros[:c.Number-len(digits)] + digits}, nil
}

func newestFirst(v scalar, c *Call) (scalar, error) {
	padded, err := pad(v, c)
	if err != nil {
		return scalar{}, err
	}
	return scalar{attribute.KindS, complement(padded.text)}, nil
}

// complement replaces each digit d by 9-d.
func complement(digits string) string {
	b := []byte(digits)
	for i := range b {
		b[i] = '0' + '9' - b[i]
	}
	return string(b)
}

// The text of sortable has a digit for the sign, three digits for the power of ten, the digits, and
// an end mark. The mark sorts below all digits. The digits of negative numbers are complemented,
// and their mark sorts above all digits. So a number sorts before (or, if negative, after) all
// longer numbers that begin with its digits, regardless of what follows in the row key. The mark
// also shows where the text ends.
const (
	sortableNegative = '0'
	sortableZero     = "1"
	sortablePositive = '2'
	sortableBias     = 500 // DynamoDB's powers of ten are from -130 to 125
	endPositive      = '-'
	endNegative      = '~'
)

func sortable(v scalar, _ *Call) (scalar, error) {
	number, err := attribute.CanonicalNumber(v.text)
	if v.kind == attribute.KindB || err != nil {
		return refuse("needs a number")
	}
	if v.kind == attribute.KindS && number != v.text {
		return refuse("needs a number as DynamoDB writes it") // 1 and 1.0 are different texts, and would become the same number
	}
	if number == "0" {
		return scalar{attribute.KindS, sortableZero}, nil
	}
	digits, negative := strings.CutPrefix(number, "-")
	integer, fraction, _ := strings.Cut(digits, ".")
	power := len(integer)
	digits = integer + fraction
	significant := strings.TrimLeft(digits, "0")
	power -= len(digits) - len(significant)
	significant = strings.TrimRight(significant, "0")
	exponent := fmt.Sprintf("%03d", power+sortableBias)
	if negative {
		return scalar{attribute.KindS, string(sortableNegative) + complement(exponent) + complement(significant) + string(endNegative)}, nil
	}
	return scalar{attribute.KindS, string(sortablePositive) + exponent + significant + string(endPositive)}, nil
}

// unsortable is the inverse of sortable: it returns a number's canonical text; false if the text is
// not a result of sortable.
func unsortable(text string) (string, bool) {
	if text == sortableZero {
		return "0", true
	}
	const head = 4 // the sign and the power of ten
	if len(text) < head+2 {
		return "", false
	}
	power, digits, sign := text[1:head], text[head:len(text)-1], ""
	if strings.Trim(power+digits, "0123456789") != "" {
		return "", false
	}
	switch end := rune(text[len(text)-1]); {
	case text[0] == sortablePositive && end == endPositive:
	case text[0] == sortableNegative && end == endNegative:
		power, digits, sign = complement(power), complement(digits), "-"
	default:
		return "", false
	}
	n, _ := strconv.Atoi(power) // three digits
	v, err := attribute.Number(sign + "0." + digits + "e" + strconv.Itoa(n-sortableBias))
	return v.Text(), err == nil
}

func reverseDomain(v scalar, _ *Call) (scalar, error) {
	return scalar{textual(v.kind), domainReversed(v.text)}, nil
}

// domainReversed returns the labels of a domain in reverse order. It is its own inverse.
func domainReversed(text string) string {
	labels := strings.Split(text, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}

// reverse reverses characters, not bytes, so that the result is still text.
func reverse(v scalar, _ *Call) (scalar, error) {
	if v.kind == attribute.KindB || !utf8.ValidString(v.text) {
		return refuse("needs text or a number")
	}
	characters := []rune(v.text)
	slices.Reverse(characters)
	return scalar{attribute.KindS, string(characters)}, nil
}

func salt(v scalar, c *Call) (scalar, error) {
	sum := sha256.Sum256([]byte(v.text))
	bucket := strconv.FormatUint(binary.BigEndian.Uint64(sum[:8])%uint64(c.Number), 10)
	width := len(strconv.Itoa(c.Number - 1))
	return scalar{attribute.KindS, zeros[:width-len(bucket)] + bucket}, nil
}

func hash(v scalar, c *Call) (scalar, error) {
	sum := sha256.Sum256([]byte(v.text))
	return scalar{attribute.KindS, hex.EncodeToString(sum[:])[:c.Number]}, nil
}

func hexadecimal(v scalar, _ *Call) (scalar, error) {
	return scalar{attribute.KindS, hex.EncodeToString([]byte(v.text))}, nil
}

// textual returns the type of a piece of a value. A piece of bytes is bytes, and a piece of a
// number is text.
func textual(kind attribute.Kind) attribute.Kind {
	if kind == attribute.KindB {
		return attribute.KindB
	}
	return attribute.KindS
}
