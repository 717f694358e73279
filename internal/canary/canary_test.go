package canary

import (
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func keys(kinds ...attribute.Kind) (list []transform.KeyAttribute) {
	for i, kind := range kinds {
		list = append(list, transform.KeyAttribute{Name: []string{"pk", "sk"}[i], Type: kind})
	}
	return list
}

// schemas are all kinds of primary keys.
var schemas = [][]transform.KeyAttribute{
	keys(attribute.KindS), keys(attribute.KindN), keys(attribute.KindB), keys(attribute.KindS, attribute.KindN), keys(attribute.KindB, attribute.KindS), keys(attribute.KindN, attribute.KindN),
}

// Canaries are a function of ledger and table. Every worker knows each canary, for any schema, and
// none of another ledger or table. Each has its own key.
func TestCanariesAreKnownAgain(t *testing.T) {
	mine, again := New("ledger", "Orders"), New("ledger", "Orders")
	others := []*Set{New("other", "Orders"), New("ledger", "Parts")}
	for _, schema := range schemas {
		seen := map[string]bool{}
		for i := range 2000 {
			key := mine.Key(i, schema)
			if !again.Has(key) || !again.Has(mine.Item(i, schema, 3, "n"), schema[0].Name, schema[len(schema)-1].Name) {
				t.Fatalf("canary %d of schema %v is not known", i, schema)
			}
			for _, other := range others {
				if other.Has(key) {
					t.Fatalf("canary %d is known to another ledger or table", i)
				}
			}
			text, err := attribute.MarshalItem(key)
			if err != nil || seen[string(text)] {
				t.Fatalf("canary %d: %s, %v", i, text, err)
			}
			seen[string(text)] = true
		}
	}
}

// A canary's key has the kinds of the table's key schema. DynamoDB accepts no other.
func TestTheKeyOfACanaryFitsTheSchema(t *testing.T) {
	s := New("ledger", "Orders")
	for _, schema := range schemas {
		for _, k := range schema {
			if v, there := s.Key(3, schema).Get(k.Name); !there || v.Kind() != k.Type || len(s.Key(3, schema).Attributes()) != len(schema) {
				t.Errorf("schema %v: %s has kind %v", schema, k.Name, v.Kind())
			}
		}
	}
}

// An item is a canary only if every attribute of its key is a canary's.
func TestDataIsNoCanary(t *testing.T) {
	s, schema := New("l", "T"), keys(attribute.KindS, attribute.KindS)
	own, _ := s.Key(7, schema).Get("pk")
	pair := func(pk, sk attribute.Value) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: pk}, {Name: "sk", Value: sk}})
	}
	data := attribute.String("data")
	for name, c := range map[string]struct {
		item attribute.Item
		key  []string
		want bool
	}{
		"index alone":   {pair(own, attribute.String("replicator-canary-00007-")), nil, false},
		"another hash":  {pair(own, attribute.String(strings.Replace(own.Text(), "-00007-", "-00008-", 1))), nil, false},
		"no index":      {pair(own, attribute.String("replicator-canary-7")), nil, false},
		"none":          {attribute.Item{}, nil, false},
		"none, by key":  {attribute.Item{}, []string{"pk"}, false},
		"both":          {pair(own, own), nil, true},
		"first":         {pair(own, data), nil, false},
		"second":        {pair(data, own), nil, false},
		"first by key":  {pair(own, data), []string{"pk"}, true},
		"second by key": {pair(own, data), []string{"pk", "sk"}, false},
		"not there":     {pair(own, own), []string{"id"}, false},
	} {
		if got := s.Has(c.item, c.key...); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A canary names its round and its number, and each write of it is another item. Items without
// these values, or with wrong ones, are not canaries.
func TestWhichCanary(t *testing.T) {
	s, schema := New("l", "T"), keys(attribute.KindS)
	for _, i := range []int{0, 1, Most - 1} {
		if round, which := Which(cdc.Change{New: s.Item(i, schema, 4_000_000_000, "x")}); round != 4_000_000_000 || which != i {
			t.Errorf("canary %d is %d of round %d", i, which, round)
		}
	}
	if one, two := s.Item(3, schema, 1, "a"), s.Item(3, schema, 1, "b"); one.Equal(two) || !one.Equal(s.Item(3, schema, 1, "a")) {
		t.Error("two writes of a canary are the same item")
	}
	number := func(text string) attribute.Value {
		v, err := attribute.Number(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, pair := range [][2]attribute.Value{{number("1"), number("20000")}, {number("-1"), number("1")}, {number("1.5"), number("1")}, {number("4294967296"), number("1")}, {number("1"), number("0.5")}} {
		item := attribute.NewItem([]attribute.Attribute{{Name: "replicator_cutover", Value: pair[0]}, {Name: "replicator_canary", Value: pair[1]}})
		if round, which := Which(cdc.Change{New: item}); round != 0 || which != 0 {
			t.Errorf("%s and %s are canary %d of round %d", pair[0].Text(), pair[1].Text(), which, round)
		}
	}
	for _, name := range []string{"replicator_cutover", "replicator_canary"} { // one without the other
		item := attribute.NewItem([]attribute.Attribute{{Name: name, Value: number("1")}})
		if round, which := Which(cdc.Change{New: item}); round != 0 || which != 0 {
			t.Errorf("%s alone is canary %d of round %d", name, which, round)
		}
	}
	if round, _ := Which(cdc.Change{Old: s.Item(1, schema, 2, "x"), Event: cdc.Remove}); round != 0 {
		t.Error("a removal is of a round")
	}
}

// Without its canaries, a page keeps all other changes in order.
func TestStrip(t *testing.T) {
	s, schema := New("l", "T"), keys(attribute.KindS)
	data := func(pk string) cdc.Change {
		return cdc.Change{Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})}
	}
	ours := func(i int) cdc.Change { return cdc.Change{Keys: s.Key(i, schema)} }
	for name, c := range map[string]struct {
		changes []cdc.Change
		kept    string
		removed int
	}{
		"empty": {nil, "", 0}, "none": {[]cdc.Change{data("a"), data("b")}, "a b", 0}, "all": {[]cdc.Change{ours(0), ours(1)}, "", 2},
		"between": {[]cdc.Change{ours(0), data("a"), ours(1), data("b"), ours(2)}, "a b", 3},
	} {
		p := s.Strip(cdc.Page{Changes: slices.Clone(c.changes), Next: "n"})
		var kept []string
		for _, change := range p.Changes {
			pk, _ := change.Keys.Get("pk")
			kept = append(kept, pk.Text())
		}
		if strings.Join(kept, " ") != c.kept || len(p.Canaries) != c.removed || p.Next != "n" {
			t.Errorf("%s: kept %v, %d canaries", name, kept, len(p.Canaries))
		}
	}
}

// Workers of other versions must know the canaries of this one, so their keys and members never
// change.
func TestTheCanariesAreThoseOfOtherVersions(t *testing.T) {
	s := New("ledger", "Orders")
	for _, c := range []struct {
		kinds []attribute.Kind
		i     int
		want  string
	}{
		{[]attribute.Kind{attribute.KindS, attribute.KindN}, 7, `{"pk":{"S":"replicator-canary-00007-b9e2bcda09ea9c94ffd4e35d67667da9"},"replicator_canary":{"N":"7"},"replicator_cutover":{"N":"3"},"replicator_nonce":{"S":"once"},"sk":{"N":"157528835879185287124203397981000071"}}`},
		{[]attribute.Kind{attribute.KindB}, Most - 1, `{"pk":{"B":"cmVwbGljYXRvci1jYW5hcnktMTk5OTktOWJhZjkwOWVlYTJjZDhmMDA1YWZhODQ0MWUwYTg1YTE="},"replicator_canary":{"N":"19999"},"replicator_cutover":{"N":"3"},"replicator_nonce":{"S":"once"}}`},
	} {
		text, err := attribute.MarshalItem(s.Item(c.i, keys(c.kinds...), 3, "once"))
		if err != nil || string(text) != c.want {
			t.Errorf("canary %d: %s, %v", c.i, text, err)
		}
	}
	if s.Has(s.Key(Most, keys(attribute.KindS))) || s.Has(s.Key(Most, keys(attribute.KindN))) {
		t.Error("a number above the last canary is one")
	}
	if !s.Has(s.Key(Most-1, keys(attribute.KindS))) || !s.Has(s.Key(Most-1, keys(attribute.KindN))) || Most != 20_000 {
		t.Error("the last canary is not known")
	}
}
