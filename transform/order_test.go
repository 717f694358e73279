package transform

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// orderCase tests the promised order of a function: values that it accepts, and their order.
type orderCase struct {
	template string // the function is the last one of its placeholder
	draw     func(t *rapid.T, label string) attribute.Value
	compare  func(a, b attribute.Value) int
}

// byValue orders numbers, with its own arithmetic.
func byValue(a, b attribute.Value) int {
	x, _ := new(big.Rat).SetString(a.Text())
	y, _ := new(big.Rat).SetString(b.Text())
	return x.Cmp(y)
}

func byBytes(a, b attribute.Value) int { return strings.Compare(a.Text(), b.Text()) }

// drawWhole draws whole numbers from 0 with up to 38 digits, many of which have equal beginnings.
func drawWhole(t *rapid.T, label string) attribute.Value {
	return number(rapid.StringMatching(`[0-9]{1,2}|[19]0{0,36}[0-9]|9{37,38}|[0-9]{1,38}`).Draw(t, label))
}

// drawAny draws any number that DynamoDB can hold.
func drawAny(t *rapid.T, label string) attribute.Value {
	text := rapid.OneOf(
		rapid.StringMatching(`-?[12](\.[059]{1,2})?`),
		rapid.StringMatching(`-?[0-9]{1,3}(\.[0-9]{1,3})?`),
		rapid.StringMatching(`-?[1-9][0-9]{37}`),
		rapid.StringMatching(`-?[19][0-9]?e(-1[0-2][0-9]|-[0-9]{1,2}|[0-9]{1,2}|1[01][0-9]|12[0-4])`),
		rapid.StringMatching(`-?9{19}\.[09]{18}[0-9]`),
		rapid.SampledFrom([]string{"0", "1e-130", "-1e-130", "9.9999999999999999999999999999999999999e125", "-9.9999999999999999999999999999999999999e125"}),
	).Draw(t, label)
	return number(text)
}

var letters = rapid.StringOfN(rapid.SampledFrom([]rune("#%-/a|.2xé\x01\U0001f600")), 0, 6, -1)

func drawLetters(prefix string) func(*rapid.T, string) attribute.Value {
	return func(t *rapid.T, label string) attribute.Value {
		return attribute.String(prefix + letters.Draw(t, label))
	}
}

// drawBytes draws binaries with any bytes.
func drawBytes(t *rapid.T, label string) attribute.Value {
	return attribute.Binary(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, '#', '%', 'a', 0x7f, 0x80, 0xff}), 0, 6).Draw(t, label))
}

// cut orders values by the part that the function cuts out of them.
func cut(part func(text string) string) func(a, b attribute.Value) int {
	return func(a, b attribute.Value) int { return strings.Compare(part(a.Text()), part(b.Text())) }
}

// orderCases are the functions that promise an order, by name.
var orderCases = map[string][]orderCase{
	"after": {{"{v | after('K#')}", drawLetters("K#"), byBytes}},
	"before": {{"{v | before('#')}", func(t *rapid.T, label string) attribute.Value {
		return attribute.String(letters.Draw(t, label) + "#" + letters.Draw(t, "rest"))
	},
		cut(func(text string) string { return strings.Split(text, "#")[0] })}},
	"part": {{"{v | part('#', 1)}", func(t *rapid.T, label string) attribute.Value {
		return attribute.String("x#" + letters.Draw(t, label) + "#" + letters.Draw(t, "rest"))
	},
		cut(func(text string) string { return strings.Split(text, "#")[1] })}},
	"pad":          {{"{v | pad(38)}", drawWhole, byValue}, {"{v | pad(38)}{s}", drawWhole, byValue}},
	"sortable":     {{"{v | sortable}", drawAny, byValue}, {"{v | sortable}{s}", drawAny, byValue}, {"{v | sortable}#{s}", drawAny, byValue}},
	"newest_first": {{"{v | newest_first(38)}", drawWhole, byValue}, {"{v | newest_first(38)}{s}", drawWhole, byValue}},
	"hex":          {{"{v | hex}", drawLetters(""), byBytes}, {"{v | hex}", drawBytes, byBytes}},
	"raw":          {{"{v | raw}", drawLetters(""), byBytes}, {"{v | raw}", drawBytes, byBytes}},
	// No function, in the last part of a key: rows of one partition sort as DynamoDB sorts the
	// items.
	"": {{"p#{v}", drawLetters(""), byBytes}, {"p#{v}", drawBytes, byBytes}, {"{v}", drawBytes, byBytes}},
}

// Every function keeps the order that it promises, for any two values. If the text shows its own
// end, that also holds for any continuation of the row key.
func TestFunctionsKeepTheOrderThatTheyPromise(t *testing.T) {
	promised := []Function{{Order: OrderKept}}
	for _, f := range Functions() {
		if f.Order != OrderLost {
			promised = append(promised, f)
		} else if len(orderCases[f.Name]) > 0 {
			t.Errorf("%s promises no order", f.Name)
		}
	}
	for _, f := range promised {
		if len(orderCases[f.Name]) == 0 {
			t.Errorf("the order of %s is not tested", f.Name)
		}
		for _, o := range orderCases[f.Name] {
			c := &compiler{spec: &Spec{}, m: &Mapping{}}
			parts := c.parts(template(o.template), "the row key", at{}, "row_key")
			t.Run(o.template, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					var values []attribute.Value
					var rows []string
					for range 10 {
						v := o.draw(t, "value")
						follows := rapid.SampledFrom([]string{"", "!", "#", "5", "~~", "\x00"}).Draw(t, "what follows")
						row, err := appendParts(nil, parts, item("v", v, "s", attribute.String(follows)))
						if err != nil {
							t.Fatal(err)
						}
						values, rows = append(values, v), append(rows, string(row))
					}
					for i, a := range values {
						for j, b := range values[:i] {
							want := o.compare(a, b)
							if f.Order == OrderReversed {
								want = -want
							}
							if want != 0 && strings.Compare(rows[i], rows[j]) != want {
								t.Fatalf("%s and %s: %d, their rows %q and %q", a.Text(), b.Text(), want, rows[i], rows[j])
							}
						}
					}
				})
			})
		}
	}
}
