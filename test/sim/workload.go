package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// workload makes items for a mapping from its samples. They keep what the mapping needs, and all
// else varies. Sometimes they lack an attribute, or cannot be mapped.
type workload struct {
	*shape
	keys []itemKey
	// pool holds the values of the attributes that steer. There are few, so that items return to
	// earlier places, and share rows.
	pool map[string][]attribute.Value
}

// itemKey is the key of an item with the sample from which it was made.
type itemKey struct {
	attribute.Item
	sample int
}

// newWorkload draws about the given number of keys, which may be long.
func newWorkload(s *shape, rng *rand.Rand, keys int, long bool) *workload {
	w := &workload{shape: s, pool: map[string][]attribute.Value{}}
	for tries := 0; len(w.keys) < keys && tries < 40*keys; tries++ {
		at := rng.IntN(len(s.samples))
		key := s.mapping.Keys(s.samples[at])
		switch how := rng.IntN(10); {
		case how < 1:
			key = w.mixed(rng, key)
		case how < 4:
			key = w.varied(rng.IntN(6), key)
		case how < 5 && len(s.mapping.PrimaryKey) == 2:
			w.keys = append(w.keys, itemKey{key, at})
			key = shifted(s.mapping.PrimaryKey[0].Name, s.mapping.PrimaryKey[1].Name, key)
		}
		if long {
			key = lengthened(key)
		}
		// Only a few that are parked whatever they hold.
		if p := s.layout.place(w.as(key, at)); len(p.spots) > 0 || p.ignored || rng.IntN(8) == 0 {
			w.keys = append(w.keys, itemKey{key, at})
		}
	}
	for _, sample := range s.samples {
		for _, a := range sample.Attributes() {
			if s.steers[a.Name] {
				w.pool[a.Name] = append(w.pool[a.Name], a.Value, varied(rng.IntN(6), a.Value))
			}
		}
	}
	return w
}

// as returns a sample under another key.
func (w *workload) as(key attribute.Item, sample int) attribute.Item {
	list := slices.Clone(key.Attributes())
	for _, a := range w.samples[sample].Attributes() {
		if _, ok := key.Get(a.Name); !ok {
			list = append(list, a)
		}
	}
	return attribute.NewItem(list)
}

// mixed combines parts of two samples' keys.
func (w *workload) mixed(rng *rand.Rand, key attribute.Item) attribute.Item {
	other := w.mapping.Keys(w.samples[rng.IntN(len(w.samples))])
	list := slices.Clone(key.Attributes())
	i := rng.IntN(len(list))
	list[i] = other.Attributes()[i]
	return attribute.NewItem(list)
}

// lengthened makes the first part of a key long, if it is text.
func lengthened(key attribute.Item) attribute.Item {
	list := slices.Clone(key.Attributes())
	if list[0].Value.Kind() == attribute.KindS {
		list[0].Value = attribute.String(list[0].Value.Text() + longKey)
	}
	return attribute.NewItem(list)
}

// varied changes all parts of a key in the same way, so that equal values stay equal.
func (w *workload) varied(how int, key attribute.Item) attribute.Item {
	list := slices.Clone(key.Attributes())
	for i := range list {
		list[i].Value = varied(how, list[i].Value)
	}
	return attribute.NewItem(list)
}

// varied returns another value that is similar to the given one. Equal values change in the same
// way.
func varied(how int, v attribute.Value) attribute.Value {
	switch v.Kind() {
	case attribute.KindS:
		text := v.Text()
		body := strings.TrimRight(text, "0123456789")
		switch digits := text[len(body):]; {
		case digits != "" && how < 4:
			last := digits[len(digits)-1]
			return attribute.String(text[:len(text)-1] + string('0'+(last-'0'+byte(how)+1)%10))
		case digits != "" && how == 4:
			return attribute.String(text + "0")
		}
		return attribute.String(text + []string{"2", "#", "#2", "%23", ".b", "%"}[how])
	case attribute.KindN:
		if whole := len(v.Text()) < 16 && !strings.ContainsAny(v.Text(), ".-"); whole {
			var n int64
			_, _ = fmt.Sscan(v.Text(), &n)
			return number(fmt.Sprint(n + int64(how) - 2))
		}
		return number(v.Text() + map[bool]string{true: "5", false: ".5"}[strings.Contains(v.Text(), ".")])
	case attribute.KindB:
		return attribute.Binary([]byte(v.Text() + string(rune('a'+how))))
	case attribute.KindBOOL:
		return attribute.Bool(how%2 == 0)
	}
	return v
}

// shifted moves the delimiter between two parts of a key, so that both keys are the same text if
// delimiters are not escaped.
func shifted(first, second string, key attribute.Item) attribute.Item {
	a, _ := key.Get(first)
	b, _ := key.Get(second)
	if a.Kind() != attribute.KindS || b.Kind() != attribute.KindS {
		return key
	}
	head, rest, found := strings.Cut(b.Text(), "#")
	left, right := a.Text()+"#"+head, rest
	if i := strings.LastIndex(a.Text(), "#"); !found || rest == "" {
		if i < 1 {
			return key
		}
		left, right = a.Text()[:i], a.Text()[i+1:]+"#"+b.Text()
	}
	return attribute.NewItem([]attribute.Attribute{{Name: first, Value: attribute.String(left)}, {Name: second, Value: attribute.String(right)}})
}

func number(text string) attribute.Value {
	v, err := attribute.Number(text)
	if err != nil {
		panic(err)
	}
	return v
}

// item returns an image of the item with that key. Write is a unique number.
func (w *workload) item(rng *rand.Rand, key itemKey, write int) attribute.Item {
	sample := w.samples[key.sample]
	if rng.IntN(6) == 0 {
		sample = w.samples[rng.IntN(len(w.samples))]
	}
	list := slices.Clone(key.Attributes())
	add := func(a attribute.Attribute) {
		if !slices.ContainsFunc(list, func(b attribute.Attribute) bool { return a.Name == b.Name }) {
			list = append(list, a)
		}
	}
	if w.ttl != "" {
		if v, ok := expiry(rng, write); ok {
			add(attribute.Attribute{Name: w.ttl, Value: v})
		}
	}
	for _, a := range sample.Attributes() {
		if a.Name == w.ttl {
			continue
		}
		switch how := rng.IntN(24); {
		case how == 0 || w.steers[a.Name] && how == 1: // absent
			continue
		case w.steers[a.Name] && how < 14:
			pool := w.pool[a.Name]
			a.Value = pool[rng.IntN(len(pool))]
		case w.steers[a.Name]:
		case how == 2 && rng.IntN(3) == 0:
			a.Value = another(a.Value)
		case how < 16:
			a.Value = changed(rng, a.Value, write)
		}
		add(a)
	}
	if rng.IntN(6) == 0 {
		other := w.samples[rng.IntN(len(w.samples))].Attributes()
		if a := other[rng.IntN(len(other))]; a.Name != w.ttl {
			add(a)
		}
	}
	if rng.IntN(3) == 0 {
		add(attribute.Attribute{Name: "n", Value: attribute.String(fmt.Sprint(write))})
	}
	return attribute.NewItem(list)
}

// textOf returns the name of a text attribute that does not decide where the item goes.
func (w *workload) textOf(rng *rand.Rand, item attribute.Item) string {
	names := []string{"bad"}
	for _, a := range item.Attributes() {
		if isKey := slices.ContainsFunc(w.mapping.PrimaryKey, func(k transform.KeyAttribute) bool { return k.Name == a.Name }); !isKey && !w.steers[a.Name] && a.Value.Kind() == attribute.KindS {
			names = append(names, a.Name)
		}
	}
	return names[rng.IntN(len(names))]
}

// expiry returns a time to live: within a day or a year of the run, long past, or none.
func expiry(rng *rand.Rand, write int) (attribute.Value, bool) {
	switch rng.IntN(9) {
	case 0:
		return attribute.Value{}, false
	case 8: // in milliseconds, before the epoch, in a very distant future, and beyond any clock
		return number([]string{"1793500000000", "-1793500000", "253402300798", "253402300799", "1e20", "99999999999999999999999999999999999999"}[write%6]), true
	case 1:
		return number("5"), true
	case 2:
		return attribute.String("soon"), true
	case 3:
		return number(fmt.Sprint(simEpoch.Unix()+int64(rng.IntN(365*24))*3600, ".5")), true
	}
	return number(fmt.Sprint(simEpoch.Add(time.Duration(rng.IntN(48))*time.Hour).Unix() + int64(write))), true
}

// another returns a value of another type.
func another(v attribute.Value) attribute.Value {
	if v.Kind() == attribute.KindS {
		return attribute.List([]attribute.Value{v, attribute.Null()})
	}
	return attribute.String("another type")
}

// changed returns a value of the same type, usually a unique one.
func changed(rng *rand.Rand, v attribute.Value, write int) attribute.Value {
	switch v.Kind() {
	case attribute.KindS:
		text := fmt.Sprintf([]string{"v%d", "v%d", "a#b%%%d", "\u00fc\"%d"}[rng.IntN(4)], write)
		if write%64 == 0 {
			text += strings.Repeat(" and more", 300)
		}
		return attribute.String(text)
	case attribute.KindN:
		return number(fmt.Sprintf([]string{"%d", "-%d", "%d000", "%d"}[rng.IntN(4)], write))
	case attribute.KindB:
		b := []byte{byte(write), byte(write >> 8), 0xff}
		if write%16 == 0 {
			b = bytes.Repeat(b, 700)
		}
		return attribute.Binary(b)
	case attribute.KindBOOL:
		return attribute.Bool(rng.IntN(2) == 0)
	case attribute.KindSS, attribute.KindNS, attribute.KindBS:
		return changedSet(rng, v, write)
	case attribute.KindL:
		var elements []attribute.Value
		for _, e := range v.Elements() {
			if rng.IntN(3) > 0 {
				elements = append(elements, changed(rng, e, write))
			}
		}
		if rng.IntN(2) == 0 {
			elements = append(elements, attribute.String(fmt.Sprint("e", rng.IntN(3))))
		}
		return attribute.List(elements)
	case attribute.KindM:
		var members []attribute.Attribute
		for _, m := range v.Members() {
			if rng.IntN(4) > 0 {
				members = append(members, attribute.Attribute{Name: m.Name, Value: changed(rng, m.Value, write)})
			}
		}
		if rng.IntN(3) == 0 {
			members = append(members, attribute.Attribute{Name: fmt.Sprint("m.", rng.IntN(2)), Value: attribute.String(fmt.Sprint(write))})
		}
		return attribute.Map(members)
	}
	return v
}

func changedSet(rng *rand.Rand, v attribute.Value, write int) attribute.Value {
	texts := []string{fmt.Sprint(rng.IntN(4)), fmt.Sprint(write)}[rng.IntN(2):]
	for _, e := range v.Elements() {
		if rng.IntN(2) == 0 && !slices.Contains(texts, e.Text()) && utf8.ValidString(e.Text()) {
			texts = append(texts, e.Text())
		}
	}
	set, err := attribute.SetOf(v.Kind(), slices.Compact(texts))
	if err != nil {
		return v
	}
	return set
}
