package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// rejectedValue marks values that the target refuses.
const rejectedValue = "rejected "

// longName is an attribute name that cannot be a Bigtable qualifier. DynamoDB allows 64 KiB,
// Bigtable 16 KiB.
var longName = strings.Repeat("n", 17<<10)

// rejects reports whether the target refuses such values.
func rejects(_, _ string, writes []model.Mutation) bool {
	return slices.ContainsFunc(writes, func(w model.Mutation) bool { return strings.Contains(w.Value, rejectedValue) })
}

// fill creates the items that the table holds when the first worker starts. Some are older than the
// stream: only the load can bring them, and nothing repairs what it omits.
func (s *simulation) fill() {
	stream := s.Source.Stream()
	stream.Ended = true
	for range s.World.Rand().IntN(40) {
		s.write()
	}
	stream.Ended = false
	for range s.World.Rand().IntN(10) {
		s.write()
	}
}

// burst makes several changes at once: usually a few, sometimes many of one item within a second.
func (s *simulation) burst(e event) {
	n := 1 + int(e.long*e.long*12)
	for range n {
		s.write()
		if e.pick%3 > 0 && task.Sleep(s.ctx, s.World.UpTo(time.Second)) != nil {
			return
		}
	}
}

// write changes one item: it is put, changed, or removed.
func (s *simulation) write() {
	if s.work != nil {
		s.writeByRules()
		return
	}
	rng := s.World.Rand()
	key := s.plan.keyOf(rng.IntN(s.plan.keys))
	if rng.IntN(4) == 0 {
		s.Source.Delete(attribute.NewItem(key))
		return
	}
	s.written++
	value := fmt.Sprintf("v%d", s.written)
	if s.plan.moving && rng.IntN(2) == 0 {
		value = fmt.Sprintf("place%d", rng.IntN(3)) // back to an earlier place
	}
	attributes := append(key, attribute.Attribute{Name: "value", Value: attribute.String(value)}, attribute.Attribute{Name: "n", Value: attribute.String(fmt.Sprint(s.written))})
	if rng.IntN(3) == 0 {
		attributes = append(attributes, sampled(rng))
	}
	switch {
	case s.World.Chance(s.poisoned):
		s.World.Inject("poison item")
		attributes = append(attributes, attribute.Attribute{Name: longName, Value: attribute.String("x")})
	case s.World.Chance(s.rejected):
		attributes = append(attributes, attribute.Attribute{Name: "bad", Value: attribute.String(rejectedValue + value)})
	case rng.IntN(3) == 0: // an attribute that is sometimes absent
		attributes = append(attributes, attribute.Attribute{Name: fmt.Sprintf("extra%d", rng.IntN(3)), Value: attribute.String(value)})
	}
	s.Source.Put(attribute.NewItem(attributes))
}

// writeByRules is write for the items of a mapping.
func (s *simulation) writeByRules() {
	rng := s.World.Rand()
	key := s.work.keys[rng.IntN(len(s.work.keys))]
	if rng.IntN(4) == 0 {
		s.Source.Delete(key.Item)
		return
	}
	s.written++
	item := s.work.item(rng, key, s.written)
	switch {
	case s.World.Chance(s.poisoned):
		s.World.Inject("poison item")
		item = with(item, longName, attribute.String("x"))
	case s.World.Chance(s.rejected):
		item = with(item, s.work.textOf(rng, item), attribute.String(rejectedValue+fmt.Sprint(s.written)))
	}
	s.Source.Put(item)
}

// with returns an item with another value of an attribute.
func with(item attribute.Item, name string, v attribute.Value) attribute.Item {
	list := slices.DeleteFunc(slices.Clone(item.Attributes()), func(a attribute.Attribute) bool { return a.Name == name })
	return attribute.NewItem(append(list, attribute.Attribute{Name: name, Value: v}))
}

// samples returns values that the application's attributes may hold besides short text: every kind
// of DynamoDB value.
var samples = func() []attribute.Value {
	numbers, err := attribute.NumberSet([]string{"10", "9", "-1", "1.50"})
	if err != nil {
		panic(err)
	}
	named := func(name string, v attribute.Value) attribute.Attribute {
		return attribute.Attribute{Name: name, Value: v}
	}
	return []attribute.Value{
		attribute.String(""), attribute.String("null"), attribute.String("a \"b\"\n\\"), attribute.String("é 日本 😀"),
		number("0.00"), number("-12.50"), number("1e3"), number("1E-5"), number("-7E1"), number("12345678901234567890123456789012345678"),
		attribute.Binary(nil), attribute.Binary([]byte{0, 0xff, '\n'}), attribute.Bool(true), attribute.Bool(false), attribute.Null(), attribute.Map(nil), attribute.List(nil),
		attribute.Map([]attribute.Attribute{named("b", number("2.0")), named("a", attribute.String("<\t>")), named("B", attribute.Null())}),
		attribute.List([]attribute.Value{attribute.Binary([]byte("fo")), attribute.List([]attribute.Value{attribute.Bool(false)}), attribute.String("\x01"), attribute.Binary(bytes.Repeat([]byte("abc"), 700))}),
		attribute.StringSet([]string{"b", "a", "B"}), numbers, attribute.BinarySet([][]byte{{0xff}, {0}}),
	}
}()

// sampled returns an attribute with one of the samples.
func sampled(rng *rand.Rand) attribute.Attribute {
	n := rng.IntN(len(samples))
	return attribute.Attribute{Name: fmt.Sprintf("sample %d", n), Value: samples[n]}
}

// awkward lists primary keys that a careless row key would confuse.
var awkward = [][2]string{
	{"a", "b#c"}, {"a#b", "c"}, {"a%23b", "c"}, {"a%", "23b#c"}, {"a%25", "c"}, {"a#", "#c"}, {"a", "##c"}, {"a%2523b", "c"}, {"日", "本 "}, {"日 ", "本"},
	{"\x00", "\x00\x01"}, {"\x00\x01", "\x00"}, {"%", "#"}, {"#", "%"}, {"a/b", "c"}, {"a", "b/c"}, {"<", "\""},
}

// longKey makes keys longer than a program might assume to be sufficient.
var longKey = strings.Repeat("-0123456789abcdef", 16)

// keyOf returns the primary key of one of the application's items.
func (p *plan) keyOf(i int) []attribute.Attribute {
	key := [2]string{fmt.Sprintf("k%d", i), fmt.Sprintf("k%d", i)}
	if p.awkward {
		key = awkward[i%len(awkward)]
	}
	if p.long {
		key[0] += longKey
	}
	return []attribute.Attribute{{Name: "pk", Value: attribute.String(key[0])}, {Name: "sk", Value: attribute.String(key[1])}}
}
