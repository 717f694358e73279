package expression_test

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// This file is a second evaluator, as simple as possible. It shares no code with the first, and
// works on plain Go values and on trees that the generator makes together with their text. Its
// rules come only from DynamoDB's documentation.

// Plain values: string, *big.Rat, []byte, bool, nil, []any, map[string]any, and naiveSet.
type naiveSet struct{ members []any }

// naiveOperand returns a value of an item, and false if there is none.
type naiveOperand struct {
	text  string
	value func(item map[string]any) (any, bool)
}

type naiveCondition struct {
	text  string
	holds func(item map[string]any) bool
}

var attributeNames = []string{"a", "b", "size", "with.dot", "in"}

// naiveValue draws a value, and returns it as text, as plain Go value and as attribute value.
func naiveValue(t *rapid.T, depth int) (text string, plain any, v attribute.Value) {
	kinds := []string{"S", "N", "B", "BOOL", "NULL", "SS", "NS", "L", "M"}
	if depth == 0 {
		kinds = kinds[:5]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "S":
		s := rapid.SampledFrom([]string{"", "a", "ab", "b", "é𝄞", "it's \"x\"\n", "`"}).Draw(t, "s")
		return fmt.Sprintf(`"%s"`, strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(s)), s, attribute.String(s)
	case "N":
		s := rapid.SampledFrom([]string{"0", "1", "2", "10", "9", "-1", "-10", "0.5", "1.0", "1e1", "12345678901234567890123456789012345678", "1e-130", "-9e125"}).Draw(t, "n")
		n, _ := new(big.Rat).SetString(s)
		v, err := attribute.Number(s)
		if err != nil {
			t.Fatal(err)
		}
		return s, n, v
	case "B":
		s := rapid.SampledFrom([]string{`""`, `"YQ=="`, `"YWI="`, `"/w=="`}).Draw(t, "b")
		raw := map[string][]byte{`""`: {}, `"YQ=="`: []byte("a"), `"YWI="`: []byte("ab"), `"/w=="`: {255}}[s]
		return "b64" + s, raw, attribute.Binary(raw)
	case "BOOL":
		truth := rapid.Bool().Draw(t, "truth")
		return fmt.Sprint(truth), truth, attribute.Bool(truth)
	case "NULL":
		return "null", nil, attribute.Null()
	case "SS":
		members := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 3, func(s string) string { return s }).Draw(t, "ss")
		set, texts := naiveSet{}, []string{}
		for _, m := range members {
			set.members, texts = append(set.members, m), append(texts, `'`+m+`'`)
		}
		return "<<" + strings.Join(texts, ",") + ">>", set, attribute.StringSet(members)
	case "NS":
		members := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "10"}), 1, 3, func(s string) string { return s }).Draw(t, "ns")
		set := naiveSet{}
		for _, m := range members {
			n, _ := new(big.Rat).SetString(m)
			set.members = append(set.members, n)
		}
		text := "<<" + strings.Join(members, ", ") + ">>"
		v, err := attribute.NumberSet(members)
		if err != nil {
			t.Fatal(err)
		}
		return text, set, v
	case "L":
		var texts []string
		list, values := []any{}, []attribute.Value{}
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			text, plain, v := naiveValue(t, depth-1)
			texts, list, values = append(texts, text), append(list, plain), append(values, v)
		}
		return "[" + strings.Join(texts, ", ") + "]", list, attribute.List(values)
	}
	var texts []string
	m, members := map[string]any{}, []attribute.Attribute{}
	for _, name := range []string{"b", "a"} {
		if rapid.Bool().Draw(t, "has "+name) {
			text, plain, v := naiveValue(t, depth-1)
			texts = append(texts, fmt.Sprintf("%q: %s", name, text))
			m[name], members = plain, append(members, attribute.Attribute{Name: name, Value: v})
		}
	}
	return "{" + strings.Join(texts, ", ") + "}", m, attribute.Map(members)
}

func naivePath(t *rapid.T) naiveOperand {
	steps := []any{rapid.SampledFrom(attributeNames).Draw(t, "name")}
	for range rapid.IntRange(0, 2).Draw(t, "steps") {
		if rapid.Bool().Draw(t, "is index") {
			steps = append(steps, rapid.IntRange(0, 2).Draw(t, "index"))
		} else {
			steps = append(steps, rapid.SampledFrom(attributeNames[:2]).Draw(t, "member"))
		}
	}
	text := ""
	for i, s := range steps {
		switch s := s.(type) {
		case int:
			text += fmt.Sprintf("[%d]", s)
		case string:
			if i > 0 {
				text += "."
			}
			if s == "with.dot" || s == "in" {
				s = "`" + s + "`"
			}
			text += s
		}
	}
	return naiveOperand{text, func(item map[string]any) (any, bool) {
		var v any = item
		for _, s := range steps {
			switch s := s.(type) {
			case string:
				m, ok := v.(map[string]any)
				if !ok {
					return nil, false
				}
				if v, ok = m[s]; !ok {
					return nil, false
				}
			case int:
				l, ok := v.([]any)
				if !ok || s >= len(l) {
					return nil, false
				}
				v = l[s]
			}
		}
		return v, true
	}}
}

func naiveAnyOperand(t *rapid.T) naiveOperand {
	switch rapid.IntRange(0, 4).Draw(t, "operand") {
	case 0, 1:
		return naivePath(t)
	case 2:
		inner := naivePath(t)
		return naiveOperand{"size(" + inner.text + ")", func(item map[string]any) (any, bool) {
			v, found := inner.value(item)
			if !found {
				return nil, false
			}
			n := -1
			switch v := v.(type) {
			case string:
				n = len(utf16.Encode([]rune(v)))
			case []byte:
				n = len(v)
			case []any:
				n = len(v)
			case map[string]any:
				n = len(v)
			case naiveSet:
				n = len(v.members)
			}
			return big.NewRat(int64(n), 1), n >= 0
		}}
	}
	text, plain, _ := naiveValue(t, 1)
	return naiveOperand{text, func(map[string]any) (any, bool) { return plain, true }}
}

func naiveEqual(a, b any) bool {
	switch a := a.(type) {
	case *big.Rat:
		n, ok := b.(*big.Rat)
		return ok && a.Cmp(n) == 0
	case []byte:
		o, ok := b.([]byte)
		return ok && bytes.Equal(a, o)
	case []any:
		o, ok := b.([]any)
		return ok && slices.EqualFunc(a, o, naiveEqual)
	case naiveSet:
		o, ok := b.(naiveSet)
		if !ok || len(a.members) != len(o.members) {
			return false
		}
		for _, m := range a.members {
			if !slices.ContainsFunc(o.members, func(x any) bool { return naiveEqual(m, x) }) {
				return false
			}
		}
		return true
	case map[string]any:
		o, ok := b.(map[string]any)
		if !ok || len(a) != len(o) {
			return false
		}
		for name, v := range a {
			if other, found := o[name]; !found || !naiveEqual(v, other) {
				return false
			}
		}
		return true
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && a == b
}

// naiveOrder returns -1, 0 or 1, and false for values without an order.
func naiveOrder(a, b any) (int, bool) {
	switch a := a.(type) {
	case *big.Rat:
		if n, ok := b.(*big.Rat); ok {
			return a.Cmp(n), true
		}
	case string:
		if s, ok := b.(string); ok {
			return strings.Compare(a, s), true
		}
	case []byte:
		if s, ok := b.([]byte); ok {
			return bytes.Compare(a, s), true
		}
	}
	return 0, false
}

func naiveComparison(op string, a, b naiveOperand) func(map[string]any) bool {
	return func(item map[string]any) bool {
		x, found := a.value(item)
		y, alsoFound := b.value(item)
		if !found || !alsoFound {
			return op == "<>"
		}
		switch op {
		case "=":
			return naiveEqual(x, y)
		case "<>":
			return !naiveEqual(x, y)
		}
		order, ordered := naiveOrder(x, y)
		return ordered && (order < 0 && op[0] == '<' || order > 0 && op[0] == '>' || order == 0 && len(op) == 2)
	}
}

var naiveTypes = map[string]func(any) bool{
	"S": func(v any) bool { _, ok := v.(string); return ok }, "N": func(v any) bool { _, ok := v.(*big.Rat); return ok },
	"B": func(v any) bool { _, ok := v.([]byte); return ok }, "NULL": func(v any) bool { return v == nil },
	"L": func(v any) bool { _, ok := v.([]any); return ok }, "M": func(v any) bool { _, ok := v.(map[string]any); return ok },
}

func naiveLeaf(t *rapid.T) naiveCondition {
	switch rapid.IntRange(0, 6).Draw(t, "leaf") {
	case 0:
		target := naivePath(t)
		return naiveCondition{"attribute_exists(" + target.text + ")", func(item map[string]any) bool { _, found := target.value(item); return found }}
	case 1:
		target := naivePath(t)
		return naiveCondition{"attribute_not_exists(" + target.text + ")", func(item map[string]any) bool { _, found := target.value(item); return !found }}
	case 2:
		target := naivePath(t)
		name := rapid.SampledFrom([]string{"S", "N", "B", "NULL", "L", "M"}).Draw(t, "type")
		return naiveCondition{fmt.Sprintf("attribute_type(%s, %q)", target.text, name), func(item map[string]any) bool {
			v, found := target.value(item)
			return found && naiveTypes[name](v)
		}}
	case 3:
		a, b := naivePath(t), naiveAnyOperand(t)
		return naiveCondition{"begins_with(" + a.text + ", " + b.text + ")", func(item map[string]any) bool {
			x, _ := a.value(item)
			y, found := b.value(item)
			if s, ok := x.(string); ok && found {
				prefix, ok := y.(string)
				return ok && strings.HasPrefix(s, prefix)
			}
			s, ok := x.([]byte)
			prefix, also := y.([]byte)
			return ok && also && bytes.HasPrefix(s, prefix)
		}}
	case 4:
		a, b := naivePath(t), naiveAnyOperand(t)
		return naiveCondition{"contains(" + a.text + ", " + b.text + ")", func(item map[string]any) bool {
			x, found := a.value(item)
			y, alsoFound := b.value(item)
			if !found || !alsoFound {
				return false
			}
			switch x := x.(type) {
			case string:
				part, ok := y.(string)
				return ok && strings.Contains(x, part)
			case []byte:
				part, ok := y.([]byte)
				return ok && bytes.Contains(x, part)
			case []any:
				return slices.ContainsFunc(x, func(e any) bool { return naiveEqual(e, y) })
			case naiveSet:
				return slices.ContainsFunc(x.members, func(e any) bool { return naiveEqual(e, y) })
			}
			return false
		}}
	case 5:
		v, low, high := naiveAnyOperand(t), naiveAnyOperand(t), naiveAnyOperand(t)
		return naiveCondition{v.text + " BETWEEN " + low.text + " AND " + high.text, func(item map[string]any) bool {
			return naiveComparison(">=", v, low)(item) && naiveComparison("<=", v, high)(item)
		}}
	}
	if rapid.Bool().Draw(t, "in") {
		v, a, b := naiveAnyOperand(t), naiveAnyOperand(t), naiveAnyOperand(t)
		return naiveCondition{v.text + " IN (" + a.text + ", " + b.text + ")", func(item map[string]any) bool {
			return naiveComparison("=", v, a)(item) || naiveComparison("=", v, b)(item)
		}}
	}
	op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "operator")
	a, b := naiveAnyOperand(t), naiveAnyOperand(t)
	return naiveCondition{a.text + " " + op + " " + b.text, naiveComparison(op, a, b)}
}

func naiveTree(t *rapid.T, depth int) naiveCondition {
	if depth == 0 || rapid.IntRange(0, 2).Draw(t, "node") == 0 {
		return naiveLeaf(t)
	}
	a := naiveTree(t, depth-1)
	switch rapid.IntRange(0, 2).Draw(t, "connective") {
	case 0:
		return naiveCondition{"NOT (" + a.text + ")", func(item map[string]any) bool { return !a.holds(item) }}
	case 1:
		b := naiveTree(t, depth-1)
		return naiveCondition{"(" + a.text + ") AND (" + b.text + ")", func(item map[string]any) bool { return a.holds(item) && b.holds(item) }}
	}
	b := naiveTree(t, depth-1)
	return naiveCondition{"(" + a.text + ") OR (" + b.text + ")", func(item map[string]any) bool { return a.holds(item) || b.holds(item) }}
}

// asRequested parses a condition with placeholders, all of which it must use.
func asRequested(p expression.Placeholders) (*expression.Condition, error) {
	// Empty maps must be absent.
	if len(p.Names) == 0 {
		p.Names = nil
	}
	if len(p.Values) == 0 {
		p.Values = nil
	}
	b, err := expression.NewBindings(p.Names, p.Values)
	if err != nil {
		return nil, err
	}
	c, err := expression.ParseCondition("FilterExpression", p.Text, b)
	if err != nil {
		return nil, err
	}
	return c, b.CheckUsed()
}

func TestTheEvaluatorAgreesWithASecondOne(t *testing.T) {
	accepted, matched := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		plain, attributes := map[string]any{}, []attribute.Attribute{}
		for _, name := range attributeNames {
			if rapid.IntRange(0, 4).Draw(t, "present") > 0 {
				_, p, v := naiveValue(t, 3)
				plain[name], attributes = p, append(attributes, attribute.Attribute{Name: name, Value: v})
			}
		}
		it := attribute.NewItem(attributes)
		want := naiveTree(t, 2)
		c, err := expression.ParseWhen(want.text)
		if err != nil {
			return // a literal of a type that the operator never accepts; TestWhenErrors has those
		}
		accepted++
		if want.holds(plain) {
			matched++
		}
		if c.Match(it) != want.holds(plain) {
			t.Fatalf("%s of %v is %t", want.text, plain, c.Match(it))
		}
		again, err := expression.ParseWhen(c.Text())
		if err != nil || again.Match(it) != c.Match(it) || again.Text() != c.Text() {
			t.Fatalf("%s prints as %s: %v", want.text, c.Text(), err)
		}
		requested, err := asRequested(expression.WithPlaceholders(c))
		if err != nil || requested.Match(it) != c.Match(it) || requested.Text() != c.Text() {
			t.Fatalf("%s in a request: %v", want.text, err)
		}
	})
	if matched == 0 || matched == accepted {
		t.Errorf("of %d conditions accepted, %d match: too few to tell", accepted, matched)
	}
}
