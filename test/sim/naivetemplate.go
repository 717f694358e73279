package sim

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// naivePart is a literal or a placeholder of a template.
type naivePart struct {
	literal, attribute string
	calls              []naiveCall
	escaped            string // the character that is percent-encoded in addition to %
}

type naiveCall struct{ name, argument string }

var (
	naivePlaceholder = regexp.MustCompile(`\{([^|{}]+?)\s*((?:\|[^{}]*)?)\}`)
	naiveFunction    = regexp.MustCompile(`^\s*([a-z_]+)\s*(?:\(\s*(?:'([^']*)'|(\d+))?\s*\))?\s*$`)
	// naiveFunctions lists the functions that the naive mapping supports. Package transform tests
	// the others.
	naiveFunctions = []string{"after", "before", "default", "hex", "lower", "pad", "raw", "upper"}
)

// naiveTemplate reads a template without braces, quoted names or bars in its literals.
func naiveTemplate(text string) []naivePart {
	var parts []naivePart
	for text != "" {
		at := naivePlaceholder.FindStringSubmatchIndex(text)
		if at == nil {
			at = []int{len(text), len(text), 0, 0, 0, 0}
		}
		if at[0] > 0 {
			parts = append(parts, naivePart{literal: text[:at[0]]})
		}
		if at[0] < len(text) {
			p := naivePart{attribute: strings.TrimSpace(text[at[2]:at[3]])}
			for _, call := range strings.Split(text[at[4]:at[5]], "|")[1:] {
				f := naiveFunction.FindStringSubmatch(call)
				p.calls = append(p.calls, naiveCall{f[1], f[2] + f[3]})
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
		// This is one character of the delimiter that percent-encoding does not use.
		p.escaped = string(strings.Trim(parts[i+1].literal, "%0123456789ABCDEF")[0])
	}
	return parts
}

// ends reports whether the part is not escaped: its end is recognisable, or it must stay as it is.
func (p *naivePart) ends() bool {
	for i, c := range p.calls {
		if c.name == "raw" || i == len(p.calls)-1 && c.name == "pad" {
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

// naiveText applies a template to an item.
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
			if kind == attribute.KindN && c.name != "default" && c.name != "raw" {
				kind = attribute.KindS
			}
		}
		b.WriteString(naiveEscape(text, p.escaped))
	}
	return b.String(), nil
}

// apply applies one function to a value; it returns false if the function does not accept it.
func (c naiveCall) apply(kind attribute.Kind, text string) (string, bool) {
	number, _ := strconv.Atoi(c.argument)
	switch c.name {
	case "after":
		_, rest, found := strings.Cut(text, c.argument)
		return rest, found
	case "before":
		head, _, found := strings.Cut(text, c.argument)
		return head, found
	case "pad":
		return naivePad(kind, text, number)
	case "lower":
		return strings.ToLower(text), kind != attribute.KindB
	case "upper":
		return strings.ToUpper(text), kind != attribute.KindB
	case "hex":
		return hex.EncodeToString([]byte(text)), true
	case "default", "raw":
		return text, true
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
