package cdc

import (
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// must takes the value of a call that cannot fail in a test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// values draws values of every type, nested up to the given depth.
func values(depth int) *rapid.Generator[Value] {
	numbers := rapid.Custom(func(t *rapid.T) string {
		text := numberTexts().Filter(func(s string) bool { _, err := CanonicalNumber(s); return err == nil }).Draw(t, "number")
		return must(CanonicalNumber(text))
	})
	bytes := rapid.SliceOfN(rapid.Byte(), 0, 6)
	kinds := []*rapid.Generator[Value]{
		rapid.Map(rapid.String(), String),
		rapid.Map(numbers, func(s string) Value { return must(Number(s)) }),
		rapid.Map(bytes, Binary),
		rapid.Map(rapid.Bool(), Bool),
		rapid.Just(Null()),
		rapid.Map(rapid.SliceOfNDistinct(rapid.String(), 1, 4, rapid.ID[string]), StringSet),
		rapid.Map(rapid.SliceOfNDistinct(numbers, 1, 4, rapid.ID[string]), func(s []string) Value { return must(NumberSet(s)) }),
		rapid.Map(rapid.SliceOfNDistinct(bytes, 1, 4, func(b []byte) string { return string(b) }), BinarySet),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(attributes(0, depth-1), Map),
			rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), List))
	}
	return rapid.OneOf(kinds...)
}

func attributes(least, depth int) *rapid.Generator[[]Attribute] {
	return rapid.Custom(func(t *rapid.T) []Attribute {
		names := rapid.SliceOfNDistinct(rapid.String(), least, 4, rapid.ID[string]).Draw(t, "names")
		list := make([]Attribute, len(names))
		for i, name := range names {
			list[i] = Attribute{name, values(depth).Draw(t, fmt.Sprint("value ", i))}
		}
		return list
	})
}

func items(least int) *rapid.Generator[Item] { return rapid.Map(attributes(least, 3), NewItem) }

func changes() *rapid.Generator[Change] {
	return rapid.Custom(func(t *rapid.T) Change {
		return Change{
			Event:    Event(rapid.IntRange(int(Insert), int(Remove)).Draw(t, "event")),
			Sequence: must(ParseSequenceNumber(rapid.StringMatching(`[0-9]{0,40}`).Draw(t, "sequence"))),
			Time:     time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 0),
			Expired:  rapid.Bool().Draw(t, "expired"),
			Keys:     items(1).Draw(t, "keys"),
			Old:      items(0).Draw(t, "old"),
			New:      items(0).Draw(t, "new"),
		}
	})
}

func sameChange(a, b Change) bool {
	return a.Event == b.Event && a.Sequence == b.Sequence && a.Time.Equal(b.Time) && a.Expired == b.Expired &&
		a.Keys.Equal(b.Keys) && a.Old.Equal(b.Old) && a.New.Equal(b.New)
}
