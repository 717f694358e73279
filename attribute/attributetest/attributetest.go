// Package attributetest draws items and values for property tests.
package attributetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Must returns the value of a call that cannot fail in a test.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// EveryType returns an item with each of the ten types and cases that are easily confused.
func EveryType() attribute.Item {
	return attribute.NewItem([]attribute.Attribute{
		{Name: "s", Value: attribute.String("<&>\"\\\n\u2028ü")}, {Name: "n", Value: Must(attribute.Number("1e39"))},
		{Name: "b", Value: attribute.Binary([]byte{0, 255})}, {Name: "t", Value: attribute.Bool(true)}, {Name: "f", Value: attribute.Bool(false)},
		{Name: "z", Value: attribute.Null()},
		{Name: "m", Value: attribute.Map([]attribute.Attribute{{Name: "y", Value: attribute.String("")}, {Name: "x", Value: attribute.List(nil)}})},
		{Name: "l", Value: attribute.List([]attribute.Value{attribute.String("a"), attribute.Map(nil)})},
		{Name: "ss", Value: attribute.StringSet([]string{"b", "a", ""})}, {Name: "ns", Value: Must(attribute.NumberSet([]string{"10", "9", "-1.50"}))},
		{Name: "bs", Value: attribute.BinarySet([][]byte{{2}, {1}})},
	})
}

// NumberTexts draws texts of numbers in every notation that DynamoDB accepts, mostly within its
// range.
func NumberTexts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		whole := rapid.StringMatching(`0{0,3}[0-9]{0,20}`).Draw(t, "whole")
		fraction := rapid.StringMatching(`[0-9]{0,18}0{0,3}`).Draw(t, "fraction")
		if whole == "" && fraction == "" {
			whole = "0"
		}
		text := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "sign") + whole
		if fraction != "" || rapid.Bool().Draw(t, "point") {
			text += "." + fraction
		}
		if rapid.Bool().Draw(t, "scaled") {
			text += fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"e", "E", "e+", "e-"}).Draw(t, "e"), rapid.IntRange(0, 140).Draw(t, "exponent"))
		}
		return text
	})
}

// values draws values of every type, nested up to the given depth.
func values(depth int) *rapid.Generator[attribute.Value] {
	numbers := rapid.Custom(func(t *rapid.T) string {
		valid := NumberTexts().Filter(func(s string) bool { _, err := attribute.CanonicalNumber(s); return err == nil })
		return Must(attribute.CanonicalNumber(valid.Draw(t, "number")))
	})
	bytes := rapid.SliceOfN(rapid.Byte(), 0, 6)
	kinds := []*rapid.Generator[attribute.Value]{
		rapid.Map(rapid.String(), attribute.String),
		rapid.Map(numbers, func(s string) attribute.Value { return Must(attribute.Number(s)) }),
		rapid.Map(bytes, attribute.Binary),
		rapid.Map(rapid.Bool(), attribute.Bool),
		rapid.Just(attribute.Null()),
		rapid.Map(rapid.SliceOfNDistinct(rapid.String(), 1, 4, rapid.ID[string]), attribute.StringSet),
		rapid.Map(rapid.SliceOfNDistinct(numbers, 1, 4, rapid.ID[string]), func(s []string) attribute.Value { return Must(attribute.NumberSet(s)) }),
		rapid.Map(rapid.SliceOfNDistinct(bytes, 1, 4, func(b []byte) string { return string(b) }), attribute.BinarySet),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(attributes(0, depth-1), attribute.Map),
			rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), attribute.List))
	}
	return rapid.OneOf(kinds...)
}

func attributes(least, depth int) *rapid.Generator[[]attribute.Attribute] {
	return rapid.Custom(func(t *rapid.T) []attribute.Attribute {
		names := rapid.SliceOfNDistinct(rapid.String(), least, 4, rapid.ID[string]).Draw(t, "names")
		list := make([]attribute.Attribute, len(names))
		for i, name := range names {
			list[i] = attribute.Attribute{Name: name, Value: values(depth).Draw(t, fmt.Sprint("value ", i))}
		}
		return list
	})
}

// Items draws items with at least the given number of attributes.
func Items(least int) *rapid.Generator[attribute.Item] {
	return rapid.Map(attributes(least, 3), attribute.NewItem)
}
