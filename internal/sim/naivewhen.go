package sim

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// naiveWhen reads a condition, as DynamoDB's developer guide has them (Expressions.OperatorsAndFunctions), and gives a function of an item: a second
// evaluator, so that a rule that package expression decides wrongly is not believed. It knows what the mappings need.
func naiveWhen(text string) func(attribute.Item) bool {
	p := &naiveParser{words: naiveWord.FindAllString(text, -1)}
	holds := p.or()
	if len(p.words) > 0 {
		panic(fmt.Sprintf("sim: the naive conditions do not know %q of %q", p.words, text))
	}
	return holds
}

var naiveWord = regexp.MustCompile(`"[^"]*"|-?[\w.]+(?:\[\d+\])?|<=|>=|<>|[=<>(),]`)

type naiveParser struct{ words []string }

// take takes the next word if it is the given one.
func (p *naiveParser) take(word string) bool {
	if len(p.words) == 0 || !strings.EqualFold(p.words[0], word) {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *naiveParser) next() string {
	word := p.words[0]
	p.words = p.words[1:]
	return word
}

func (p *naiveParser) or() func(attribute.Item) bool {
	left := p.and()
	if !p.take("OR") {
		return left
	}
	right := p.or()
	return func(it attribute.Item) bool { return left(it) || right(it) }
}

func (p *naiveParser) and() func(attribute.Item) bool {
	left := p.single()
	if !p.take("AND") {
		return left
	}
	right := p.and()
	return func(it attribute.Item) bool { return left(it) && right(it) }
}

func (p *naiveParser) single() func(attribute.Item) bool {
	switch {
	case p.take("NOT"):
		inner := p.single()
		return func(it attribute.Item) bool { return !inner(it) }
	case p.take("("):
		inner := p.or()
		p.take(")")
		return inner
	case len(p.words) > 1 && p.words[1] == "(" && p.words[0] != "size":
		return p.function()
	}
	left := p.operand()
	switch op := p.next(); strings.ToUpper(op) {
	case "BETWEEN":
		low := p.operand()
		p.take("AND")
		high := p.operand()
		return func(it attribute.Item) bool {
			return naiveRelates(">=", left(it), low(it)) && naiveRelates("<=", left(it), high(it))
		}
	case "IN":
		list := p.arguments()
		return func(it attribute.Item) bool {
			return slices.ContainsFunc(list, func(o naiveOperand) bool { return naiveRelates("=", left(it), o(it)) })
		}
	default:
		right := p.operand()
		return func(it attribute.Item) bool { return naiveRelates(op, left(it), right(it)) }
	}
}

// naiveOperand is a value of an item; nil if it is not there.
type naiveOperand func(attribute.Item) *attribute.Value

func (p *naiveParser) arguments() (list []naiveOperand) {
	p.take("(")
	for !p.take(")") {
		list = append(list, p.operand())
		p.take(",")
	}
	return list
}

func (p *naiveParser) function() func(attribute.Item) bool {
	name, list := p.next(), p.arguments()
	first, second := list[0], list[len(list)-1]
	return func(it attribute.Item) bool {
		a, b := first(it), second(it)
		switch {
		case name == "attribute_not_exists":
			return a == nil
		case a == nil || b == nil:
			return false
		}
		switch name {
		case "attribute_exists":
			return true
		case "attribute_type":
			return a.Kind().String() == b.Text()
		case "begins_with":
			return naiveIsText(a, b) && strings.HasPrefix(a.Text(), b.Text())
		case "contains":
			return naiveIsText(a, b) && strings.Contains(a.Text(), b.Text()) ||
				a.Kind() != attribute.KindM && slices.ContainsFunc(a.Elements(), func(e attribute.Value) bool { return naiveRelates("=", &e, b) })
		}
		panic("sim: the naive conditions do not know " + name)
	}
}

func naiveIsText(a, b *attribute.Value) bool {
	return a.Kind() == b.Kind() && (a.Kind() == attribute.KindS || a.Kind() == attribute.KindB)
}

var naiveStep = regexp.MustCompile(`[^.\[\]]+`)

func (p *naiveParser) operand() naiveOperand {
	word := p.next()
	constant := func(v attribute.Value) naiveOperand { return func(attribute.Item) *attribute.Value { return &v } }
	switch {
	case word == "size":
		of := p.arguments()[0]
		return func(it attribute.Item) *attribute.Value { return naiveSize(of(it)) }
	case word[0] == '"':
		return constant(attribute.String(strings.Trim(word, `"`)))
	case word == "true" || word == "false":
		return constant(attribute.Bool(word == "true"))
	case strings.ContainsAny(word[:1], "-0123456789"):
		return constant(number(word))
	}
	steps := naiveStep.FindAllString(word, -1)
	return func(it attribute.Item) *attribute.Value {
		v, ok := it.Get(steps[0])
		for _, step := range steps[1:] {
			members, elements := v.Members(), v.Elements()
			i, err := strconv.Atoi(step)
			switch {
			case !ok:
			case err == nil:
				if ok = v.Kind() == attribute.KindL && i < len(elements); ok {
					v = elements[i]
				}
			default:
				i = slices.IndexFunc(members, func(a attribute.Attribute) bool { return a.Name == step })
				if ok = v.Kind() == attribute.KindM && i >= 0; ok {
					v = members[i].Value
				}
			}
		}
		if !ok {
			return nil
		}
		return &v
	}
}

func naiveSize(v *attribute.Value) *attribute.Value {
	if v == nil {
		return nil
	}
	n := 0
	switch v.Kind() {
	case attribute.KindS:
		n = len(utf16.Encode([]rune(v.Text())))
	case attribute.KindB:
		n = len(v.Text())
	case attribute.KindM:
		n = len(v.Members())
	case attribute.KindL, attribute.KindSS, attribute.KindNS, attribute.KindBS:
		n = len(v.Elements())
	default:
		return nil
	}
	size := number(strconv.Itoa(n))
	return &size
}

func naiveRelates(op string, a, b *attribute.Value) bool {
	if a == nil || b == nil {
		return op == "<>"
	}
	equal := naiveMarshal(naiveDynamo(*a)) == naiveMarshal(naiveDynamo(*b)) // nothing of the mappings compares sets
	order := 0
	switch {
	case a.Kind() != b.Kind():
	case a.Kind() == attribute.KindN:
		x, _ := new(big.Rat).SetString(a.Text())
		y, _ := new(big.Rat).SetString(b.Text())
		order = x.Cmp(y)
		equal = order == 0
	case naiveIsText(a, b):
		order = strings.Compare(a.Text(), b.Text())
	}
	switch op {
	case "=":
		return equal
	case "<>":
		return !equal
	}
	ordered := a.Kind() == b.Kind() && (a.Kind() == attribute.KindN || naiveIsText(a, b))
	return ordered && (order < 0 && op[0] == '<' || order > 0 && op[0] == '>' || order == 0 && len(op) == 2)
}
