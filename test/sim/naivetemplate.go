package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// naivePart is a literal or a placeholder of a template.
type naivePart struct {
	literal, attribute string
	calls              []naiveCall
	escaped            string // the character that is percent-encoded besides %
}

type naiveCall struct{ name, argument, second string }

var (
	naivePlaceholder = regexp.MustCompile(`\{(\$?)([^|{}]+?)\s*((?:\|[^{}]*)?)\}`)
	naiveFunction    = regexp.MustCompile(`^\s*([a-z_]+)\s*(?:\(\s*(?:'([^']*)'|(\d+))?\s*,?\s*(\d+)?\s*\))?\s*$`)
	// naiveFixed are the functions whose text tells where it ends.
	naiveFixed = []string{"pad", "sortable", "newest_first", "salt", "hash", "date"}
)

// naiveTemplate reads a template without braces, quoted names or bars in its literals.
func naiveTemplate(text string, captures map[string]string) []naivePart {
	var parts []naivePart
	for text != "" {
		at := naivePlaceholder.FindStringSubmatchIndex(text)
		if at == nil {
			at = []int{len(text), len(text), 0, 0, 0, 0, 0, 0}
		}
		if at[0] > 0 {
			parts = append(parts, naivePart{literal: text[:at[0]]})
		}
		if at[0] < len(text) {
			p := naivePart{attribute: strings.TrimSpace(text[at[4]:at[5]])}
			if text[at[2]:at[3]] == "$" {
				p.literal, p.attribute = captures[p.attribute], "$"
			}
			for _, call := range strings.Split(text[at[6]:at[7]], "|")[1:] {
				f := naiveFunction.FindStringSubmatch(call)
				p.calls = append(p.calls, naiveCall{f[1], f[2] + f[3], f[4]})
			}
			parts = append(parts, p)
		}
		text = text[at[1]:]
	}
	last := len(parts) - 1
	for last >= 0 && parts[last].attribute == "" {
		last--
	}
	for i := range parts {
		p := &parts[i]
		if i >= last || p.attribute == "" || parts[i+1].attribute != "" || p.ends() {
			continue
		}
		// One character of the delimiter that percent-encoding does not use.
		p.escaped = string(strings.Trim(parts[i+1].literal, "%0123456789ABCDEF")[0])
	}
	for i := range parts {
		if p := &parts[i]; p.attribute == "$" {
			*p = naivePart{literal: naiveEscape(p.literal, p.escaped)}
		}
	}
	return parts
}

// ends reports whether the part is not escaped for what it is.
func (p *naivePart) ends() bool {
	for i, c := range p.calls {
		if c.name == "raw" || i == len(p.calls)-1 && slices.Contains(naiveFixed, c.name) {
			return true
		}
	}
	return false
}

func naiveEscape(text, marker string) string {
	if marker == "" {
		return text
	}
	text = strings.ReplaceAll(text, "%", "%25")
	return strings.ReplaceAll(text, marker, fmt.Sprintf("%%%02X", marker[0]))
}

// naiveText is what a template makes of an item.
func naiveText(parts []naivePart, item attribute.Item) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		if p.attribute == "" {
			b.WriteString(p.literal)
			continue
		}
		v, ok := item.Get(p.attribute)
		kind, text, calls := v.Kind(), v.Text(), p.calls
		if !ok {
			i := slices.IndexFunc(calls, func(c naiveCall) bool { return c.name == "default" })
			if i < 0 {
				return "", errNaive
			}
			kind, text, calls = attribute.KindS, calls[i].argument, calls[i+1:]
		}
		if kind != attribute.KindS && kind != attribute.KindN && kind != attribute.KindB {
			return "", errNaive
		}
		for _, c := range calls {
			if text, ok = c.apply(kind, text); !ok {
				return "", errNaive
			}
			if kind == attribute.KindN && c.name != "default" && c.name != "epoch_ms" && c.name != "raw" {
				kind = attribute.KindS
			} else if c.name == "epoch_ms" {
				kind = attribute.KindN
			}
		}
		b.WriteString(naiveEscape(text, p.escaped))
	}
	return b.String(), nil
}

// apply is one function of a value; false if it does not take it.
func (c naiveCall) apply(kind attribute.Kind, text string) (string, bool) {
	number, _ := strconv.Atoi(c.argument)
	switch c.name {
	case "after":
		_, rest, found := strings.Cut(text, c.argument)
		return rest, found
	case "before":
		head, _, found := strings.Cut(text, c.argument)
		return head, found
	case "part":
		list := strings.Split(text, c.argument)
		n, _ := strconv.Atoi(c.second)
		if n >= len(list) {
			return "", false
		}
		return list[n], true
	case "pad":
		return naivePad(kind, text, number)
	case "newest_first":
		padded, ok := naivePad(kind, text, number)
		if !ok {
			return "", false
		}
		value, _ := new(big.Int).SetString(padded, 10)
		nines := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(number)), nil)
		return fmt.Sprintf("%0*s", number, nines.Sub(nines, big.NewInt(1)).Sub(nines, value)), true
	case "sortable":
		return naiveSortable(kind, text)
	case "reverse_domain":
		list := strings.Split(text, ".")
		slices.Reverse(list)
		return strings.Join(list, "."), true
	case "reverse":
		characters := []rune(text)
		slices.Reverse(characters)
		return string(characters), kind != attribute.KindB
	case "salt":
		sum := sha256.Sum256([]byte(text))
		bucket := new(big.Int).Mod(new(big.Int).SetBytes(sum[:8]), big.NewInt(int64(number)))
		return fmt.Sprintf("%0*s", len(fmt.Sprint(number-1)), bucket), true
	case "hash":
		return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:number], true
	case "lower":
		return strings.ToLower(text), kind != attribute.KindB
	case "upper":
		return strings.ToUpper(text), kind != attribute.KindB
	case "hex":
		return hex.EncodeToString([]byte(text)), true
	case "default", "raw":
		return text, true
	case "date", "epoch_ms":
		at, ok := naiveInstant(kind, text)
		if c.name == "epoch_ms" {
			return fmt.Sprint(at.UnixMilli()), ok
		}
		layout := strings.NewReplacer("yyyy", "2006", "MM", "01", "dd", "02", "HH", "15", "mm", "04", "ss", "05").Replace(c.argument)
		return at.Format(layout), ok
	}
	panic("sim: the naive mapping does not know " + c.name)
}

var naiveWhole = regexp.MustCompile(`^(0|[1-9]\d*)$`)

func naivePad(kind attribute.Kind, text string, width int) (string, bool) {
	if kind == attribute.KindB || !naiveWhole.MatchString(text) || len(text) > width {
		return "", false
	}
	return strings.Repeat("0", width-len(text)) + text, true
}

// naiveSortable: a sign, the power of ten, the digits, and an end that sorts before all digits or, with the complements of a negative number,
// behind them.
func naiveSortable(kind attribute.Kind, text string) (string, bool) {
	if kind != attribute.KindN {
		return "", false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok || value.Sign() == 0 {
		return "1", ok
	}
	power, size := 0, new(big.Rat).Abs(value)
	ten, one := big.NewRat(10, 1), big.NewRat(1, 1)
	for ; size.Cmp(one) >= 0; power++ {
		size.Quo(size, ten)
	}
	for ; new(big.Rat).Mul(size, ten).Cmp(one) < 0; power-- {
		size.Mul(size, ten)
	}
	digits := fmt.Sprintf("%03d", power+500) + strings.TrimRight(strings.TrimPrefix(size.FloatString(40), "0."), "0")
	if value.Sign() > 0 {
		return "2" + digits + "-", true
	}
	complement := strings.NewReplacer("0", "9", "1", "8", "2", "7", "3", "6", "4", "5", "5", "4", "6", "3", "7", "2", "8", "1", "9", "0")
	return "0" + complement.Replace(digits) + "~", true
}

func naiveInstant(kind attribute.Kind, text string) (time.Time, bool) {
	if kind == attribute.KindS {
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02", "20060102T150405Z", "20060102"} {
			if at, err := time.Parse(layout, text); err == nil {
				return at.UTC(), true
			}
		}
	}
	number, ok := new(big.Rat).SetString(text)
	if !ok || kind == attribute.KindB || !naiveNumber.MatchString(text) {
		return time.Time{}, false
	}
	millis := new(big.Rat).Mul(number, big.NewRat(1000, 1))
	if number.Cmp(big.NewRat(100_000_000_000, 1)) >= 0 {
		millis = number
	}
	whole := new(big.Int).Quo(millis.Num(), millis.Denom())
	at := time.UnixMilli(whole.Int64()).UTC()
	return at, whole.IsInt64() && at.Year() >= 1 && at.Year() <= 9999
}

var naiveNumber = regexp.MustCompile(`^-?\d+(\.\d*)?$`)
