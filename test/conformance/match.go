package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// anything in a wanted document matches any value that is present.
const anything = "*"

// mismatch returns how an answer differs from the wanted document, or "". Sets have no order, and
// neither have the lists in unordered. With partial, objects may have additional members.
func mismatch(want, got any, partial bool) string { return differ("answer", want, got, partial) }

func differ(path string, want, got any, partial bool) string {
	if want == anything && got != nil {
		return ""
	}
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %s, not an object", path, brief(got))
		}
		return differMembers(path, want, members, partial)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s is %s, want %s", path, brief(got), brief(want))
		}
		for i := range want {
			if what := differ(fmt.Sprintf("%s[%d]", path, i), want[i], list[i], partial); what != "" {
				return what
			}
		}
		return ""
	case json.Number:
		number, ok := got.(json.Number)
		if ok && rational(want).Cmp(rational(number)) == 0 {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, want %s", path, brief(got), brief(want))
}

func differMembers(path string, want, got map[string]any, partial bool) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[name]
		if !ok {
			return fmt.Sprintf("%s has no %s", path, name)
		}
		wanted := want[name]
		if name == "SS" || name == "NS" || name == "BS" {
			wanted, value = sorted(wanted), sorted(value)
		}
		if what := differ(path+"."+name, wanted, value, partial); what != "" {
			return what
		}
	}
	if partial {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			return fmt.Sprintf("%s has a %s: %s", path, name, brief(got[name]))
		}
	}
	return ""
}

// sorted returns a list in the order of its members' texts.
func sorted(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	return list
}

func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return new(big.Rat)
	}
	return r
}

// text returns a value as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// brief returns the beginning of a value as JSON. The tested data is not confidential.
func brief(v any) string {
	const most = 160
	s := text(v)
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
