package conformance

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// The conditions of a configuration against the filters of a service: random conditions over random items go to the service as the
// FilterExpression of a Scan, and are evaluated here as ParseWhen reads them. Both must choose the same items, or both refuse the
// condition. The draws are the same in every run.

const (
	evaluatedItems = 64
	// evaluatedConditions is how many a case draws.
	evaluatedConditions = 300
)

// sampled is a value in the service's notation and in that of a configuration.
type sampled struct {
	kind       string
	json, when string
}

// draw makes values, paths and conditions. With each condition it collects the placeholders that the request needs.
type draw struct {
	*rand.Rand
	names, values map[string]string
}

// drawing begins a case's draws.
func drawing(seed uint64) *draw { return &draw{Rand: rand.New(rand.NewPCG(seed, 9))} }

func one[T any](d *draw, list ...T) T { return list[d.IntN(len(list))] }

var (
	scalarKinds = []string{"S", "N", "B", "BOOL", "NULL"}
	allKinds    = append(slices.Clone(scalarKinds), "SS", "NS", "BS", "L", "M")
	someTexts   = []string{"", "a", "ab", "abc", "b", "B", "é", "é𝄞", "1", "a\"'\\\n", "`"}
	// Numbers that are equal in other words, negative ones, and those at the ends of what DynamoDB holds.
	someNumbers = []string{"0", "-0", "1", "1.0", "10", "1e1", "9", "-1", "-1.00", "-10", "0.5", "5e-1", "99999999999999999999999999999999999999",
		"99999999999999999999999999999999999998", "-99999999999999999999999999999999999999", "1e-130", "-1e-130", "9.9e125", "-9.9e125"}
	someBinaries = []string{"", "a", "ab", "\x00", "\xff", "a\x80"}
)

// value draws a value of one of the kinds, or of any.
func (d *draw) value(depth int, kinds ...string) sampled {
	if len(kinds) == 0 {
		kinds = allKinds
		if depth == 0 {
			kinds = scalarKinds
		}
	}
	v := sampled{kind: one(d, kinds...)}
	body := ""
	switch v.kind {
	case "S":
		text := one(d, someTexts...)
		body, v.when = quoted(text), literal(text)
	case "N":
		v.when = one(d, someNumbers...)
		body = quoted(v.when)
	case "B":
		body = quoted(base64.StdEncoding.EncodeToString([]byte(one(d, someBinaries...))))
		v.when = "b64" + body
	case "BOOL":
		body = strconv.FormatBool(d.IntN(2) == 0)
		v.when = body
	case "NULL":
		body, v.when = "true", "null"
	default:
		body, v.when = d.collection(v.kind, depth)
	}
	v.json = fmt.Sprintf(`{%q:%s}`, v.kind, body)
	return v
}

// collection draws the members of a set, list or map.
func (d *draw) collection(kind string, depth int) (body, when string) {
	var bodies, whens []string
	switch kind {
	case "L":
		for range d.IntN(3) {
			v := d.value(depth - 1)
			bodies, whens = append(bodies, v.json), append(whens, v.when)
		}
		return "[" + strings.Join(bodies, ",") + "]", "[" + strings.Join(whens, ", ") + "]"
	case "M":
		for _, name := range []string{"a", "b"} {
			if d.IntN(2) == 0 {
				v := d.value(depth - 1)
				bodies, whens = append(bodies, fmt.Sprintf("%q:%s", name, v.json)), append(whens, fmt.Sprintf("%q: %s", name, v.when))
			}
		}
		return "{" + strings.Join(bodies, ",") + "}", "{" + strings.Join(whens, ", ") + "}"
	case "SS":
		for _, i := range d.Perm(4)[:1+d.IntN(2)] {
			text := someTexts[1+i]
			bodies, whens = append(bodies, quoted(text)), append(whens, literal(text))
		}
	case "NS":
		for _, i := range d.Perm(4)[:1+d.IntN(2)] {
			spelling := one(d, [][]string{{"1", "1.0"}, {"10", "1e1"}, {"-1", "-1.00"}, {"0.5"}}[i]...)
			bodies, whens = append(bodies, quoted(spelling)), append(whens, spelling)
		}
	case "BS":
		for _, i := range d.Perm(4)[:1+d.IntN(2)] {
			text := quoted(base64.StdEncoding.EncodeToString([]byte(someBinaries[1+i])))
			bodies, whens = append(bodies, text), append(whens, "b64"+text)
		}
	}
	return "[" + strings.Join(bodies, ",") + "]", "<<" + strings.Join(whens, ", ") + ">>"
}

// quoted is a text in JSON.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // of plain text
	}
	return string(b)
}

// literal is a text in the language of a configuration.
func literal(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// evaluatedNames are the attributes of the items. Some need quotes in one of the languages.
var evaluatedNames = []string{"a", "b", "size", "with.dot", "in"}

// operand is a part of a condition in both notations.
type operand struct{ request, when string }

func (d *draw) literalOperand(v sampled) operand {
	placeholder := ":v" + strconv.Itoa(len(d.values))
	d.values[placeholder] = v.json
	return operand{placeholder, v.when}
}

func (d *draw) path() operand {
	var o operand
	add := func(name string) {
		placeholder := "#n" + strconv.Itoa(slices.Index(evaluatedNames, name))
		d.names[placeholder] = name
		o.request += placeholder
		if name == "with.dot" || name == "in" {
			name = "`" + name + "`"
		}
		o.when += name
	}
	add(one(d, evaluatedNames...))
	for range d.IntN(3) * d.IntN(2) {
		if d.IntN(2) == 0 {
			index := fmt.Sprintf("[%d]", d.IntN(3))
			o.request, o.when = o.request+index, o.when+index
			continue
		}
		o.request, o.when = o.request+".", o.when+"."
		add(one(d, evaluatedNames[:2]...))
	}
	return o
}

func (d *draw) size() operand {
	p := d.path()
	return operand{"size(" + p.request + ")", "size(" + p.when + ")"}
}

// subject draws what BETWEEN and IN are about.
func (d *draw) subject() operand {
	if d.IntN(2) == 0 {
		return d.size()
	}
	return d.path()
}

// any draws any operand; a literal is of one of the kinds.
func (d *draw) any(kinds ...string) operand {
	switch d.IntN(8) {
	case 0, 1, 2:
		return d.path()
	case 3:
		return d.size()
	}
	return d.literalOperand(d.value(1, kinds...))
}

// join writes one form with the operands put in for each %.
func join(form string, operands ...operand) operand {
	var o operand
	for i, part := range strings.Split(form, "%") {
		if i > 0 {
			o.request, o.when = o.request+operands[i-1].request, o.when+operands[i-1].when
		}
		o.request, o.when = o.request+part, o.when+part
	}
	return o
}

var ordered = []string{"S", "N", "B"}

func (d *draw) equality() operand {
	return join("% "+one(d, "=", "<>")+" %", d.path(), d.any())
}

func (d *draw) order() operand {
	sides := []operand{d.path(), d.any(ordered...)}
	if d.IntN(4) == 0 {
		slices.Reverse(sides)
	}
	return join("% "+one(d, "<", "<=", ">", ">=")+" %", sides...)
}

func (d *draw) between() operand {
	kind := one(d, ordered...)
	return join("% BETWEEN % AND %", d.subject(), d.any(kind), d.any(kind))
}

func (d *draw) membership() operand {
	return join("% IN (%, %, %)", d.subject(), d.any(), d.any(), d.any())
}

func (d *draw) existence() operand {
	return join(one(d, "attribute_exists(%)", "attribute_not_exists(%)"), d.path())
}

func (d *draw) ofType() operand {
	kind := one(d, allKinds...)
	return join("attribute_type(%, %)", d.path(), d.literalOperand(sampled{"S", `{"S":"` + kind + `"}`, `"` + kind + `"`}))
}

func (d *draw) beginning() operand {
	return join("begins_with(%, %)", d.path(), d.any("S", "B"))
}

func (d *draw) containing() operand {
	return join("contains(%, %)", d.path(), d.any())
}

// tree draws comparisons and functions of every kind, joined.
func (d *draw) tree() operand { return d.joined(3) }

func (d *draw) joined(depth int) operand {
	if depth == 0 || d.IntN(4) == 0 {
		return one(d, (*draw).equality, (*draw).order, (*draw).between, (*draw).membership, (*draw).existence, (*draw).ofType, (*draw).beginning, (*draw).containing)(d)
	}
	switch form := one(d, "NOT (%)", "(%) AND (%)", "(%) OR (%)", "NOT %", "% AND %", "% OR %"); {
	case strings.HasPrefix(form, "NOT"):
		return join(form, d.joined(depth-1))
	default:
		return join(form, d.joined(depth-1), d.joined(depth-1))
	}
}

// chosen looks whether the service chooses the same items as the evaluator under random conditions of a form. What the evaluator refuses
// is looked at by refused.
func (c *run) chosen(seed uint64, form func(*draw) operand) {
	items := c.evaluated(seed)
	d := drawing(seed + 1)
	agreed, matched := 0, 0
	for range evaluatedConditions {
		o, a := c.filtered(d, form)
		condition, err := expression.ParseWhen(o.when)
		switch {
		case err != nil:
			continue
		case a.code != "":
			c.differ("Scan fails: %s: %s", a.code, a.message)
			continue
		}
		var want []string
		for _, key := range slices.Sorted(maps.Keys(items)) {
			if condition.Match(items[key]) {
				want = append(want, key)
			}
		}
		if got := keysOf(a); !slices.Equal(got, want) {
			c.differ("%s", disagreement(got, want))
		}
		agreed, matched = agreed+1, matched+len(want)
	}
	c.about("")
	if agreed < evaluatedConditions/2 || matched == 0 || matched == agreed*len(items) {
		c.differ("of %d conditions, %d can be compared and choose %d items: too few to tell", evaluatedConditions, agreed, matched)
	}
}

// refused looks whether the service refuses what the evaluator refuses.
func (c *run) refused(seed uint64, form func(*draw) operand) {
	d := drawing(seed)
	refusals := 0
	for range evaluatedConditions {
		o, a := c.filtered(d, form)
		_, err := expression.ParseWhen(o.when)
		var wrong *expression.SyntaxError
		if !errors.As(err, &wrong) {
			continue
		}
		refusals++
		if a.code != validation {
			problem, _, _ := strings.Cut(wrong.Problem, "; ") // what follows names the operands
			c.about(problem)
			c.differ("Scan evaluates such a condition")
		}
	}
	c.about("")
	if refusals == 0 {
		c.differ("no condition is refused: too few to tell")
	}
}

// filtered draws a condition and scans with it.
func (c *run) filtered(d *draw, form func(*draw) operand) (operand, answer) {
	d.names, d.values = map[string]string{}, map[string]string{}
	o := form(d)
	c.about(o.when)
	request := with(`"TableName":"$evaluated"`, consistent, `"ProjectionExpression":"pk"`, `"FilterExpression":`+quoted(o.request), called(objectOf(d.names, quoted)))
	if len(d.values) > 0 {
		request = with(request, values(objectOf(d.values, func(v string) string { return v })))
	}
	return o, c.call("Scan", request)
}

// evaluated puts the items that a case's conditions choose from, and gives them by their keys.
func (c *run) evaluated(seed uint64) map[string]attribute.Item {
	d := drawing(seed)
	items := map[string]attribute.Item{}
	for i := range evaluatedItems {
		key := fmt.Sprintf("%02d", i)
		members := []string{fmt.Sprintf(`"pk":{"S":%q}`, key)}
		for _, name := range evaluatedNames {
			if d.IntN(6) > 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, d.value(2).json))
			}
		}
		text := strings.Join(members, ",")
		c.ok("PutItem", `"TableName":"$evaluated","Item":{`+text+`}`)
		item, err := attribute.UnmarshalItem([]byte("{" + text + "}"))
		if err != nil {
			panic(fmt.Sprintf("%s: %v", text, err)) // of our own making
		}
		items[key] = item
	}
	return items
}

// objectOf are the members of an object, sorted by name.
func objectOf(members map[string]string, value func(string) string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, fmt.Sprintf("%q:%s", name, value(members[name])))
	}
	return strings.Join(list, ",")
}

// keysOf are the keys of the items of an answer, sorted.
func keysOf(a answer) []string {
	var keys []string
	for _, item := range list(a.document, "Items") {
		key, _ := at(item, "pk", "S").(string)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// disagreement says which items are chosen by one side alone.
func disagreement(got, want []string) string {
	without := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(key string) bool { return slices.Contains(other, key) })
	}
	return fmt.Sprintf("chosen by the service alone %v, by the evaluator alone %v", without(got, want), without(want, got))
}

var evaluatorCases = []Case{
	{"evaluator/equality", conditions, func(c *run) { c.chosen(100, (*draw).equality) }},
	{"evaluator/order", conditions, func(c *run) { c.chosen(200, (*draw).order) }},
	{"evaluator/BETWEEN", conditions, func(c *run) { c.chosen(300, (*draw).between) }},
	{"evaluator/IN", conditions, func(c *run) { c.chosen(400, (*draw).membership) }},
	{"evaluator/existence", conditions, func(c *run) { c.chosen(500, (*draw).existence) }},
	{"evaluator/attribute_type", conditions, func(c *run) { c.chosen(600, (*draw).ofType) }},
	{"evaluator/begins_with", conditions, func(c *run) { c.chosen(700, (*draw).beginning) }},
	{"evaluator/contains", conditions, func(c *run) { c.chosen(800, (*draw).containing) }},
	{"evaluator/AND, OR and NOT", conditions, func(c *run) { c.chosen(900, (*draw).tree) }},
	{"evaluator/refusals", conditions, func(c *run) { c.refused(1000, (*draw).tree) }},
}
