package expression_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

func parseItem(t testing.TB, text string) attribute.Item {
	t.Helper()
	it, err := attribute.UnmarshalItem([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return it
}

func marshal(t testing.TB, it attribute.Item) string {
	t.Helper()
	text, err := attribute.MarshalItem(it)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bindings parses placeholders from {"#name":"name"} and {":value":{"S":"x"}}; both may be empty
// text.
func bindings(t testing.TB, names, values string) *expression.Bindings {
	t.Helper()
	var n map[string]string
	if names != "" {
		if err := json.Unmarshal([]byte(names), &n); err != nil {
			t.Fatal(err)
		}
	}
	var v map[string]attribute.Value
	if values != "" {
		v = map[string]attribute.Value{}
		for _, a := range parseItem(t, values).Attributes() {
			v[a.Name] = a.Value
		}
	}
	b, err := expression.NewBindings(n, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const someItem = `{"n":{"N":"5"},"s":{"S":"text"},"l":{"L":[{"S":"a"},{"S":"b"},{"S":"c"}]},` +
	`"m":{"M":{"x":{"N":"1"},"deep":{"M":{"y":{"S":"z"}}},"parts":{"L":[{"M":{"k":{"S":"v"}}}]}}},` +
	`"ss":{"SS":["a","b"]},"ns":{"NS":["1","2"]}}`

const someValues = `{":one":{"N":"1"},":s":{"S":"new"},":l":{"L":[{"S":"x"}]},":ss":{"SS":["b","c"]},":ns":{"NS":["2.0","3"]},":map":{"M":{"k":{"S":"v"}}}}`

func TestUpdateApply(t *testing.T) {
	cases := []struct{ name, text, attribute, want string }{
		{"set replaces", "SET s = :s", "s", `{"S":"new"}`},
		{"set creates", "set brand_new = :s", "brand_new", `{"S":"new"}`},
		{"set copies", "SET c = m.deep.y", "c", `{"S":"z"}`},
		{"plus", "SET n = n + :one", "n", `{"N":"6"}`},
		{"minus", "SET n = :one - n", "n", `{"N":"-4"}`},
		{"parentheses", "SET n = (n - :one)", "n", `{"N":"4"}`},
		{"if_not_exists absent", "SET q = if_not_exists(q, :one) + :one", "q", `{"N":"2"}`},
		{"if_not_exists present", "SET q = if_not_exists(n, :one)", "q", `{"N":"5"}`},
		{"list_append", "SET l = list_append(:l, l)", "l", `{"L":[{"S":"x"},{"S":"a"},{"S":"b"},{"S":"c"}]}`},
		{"list_append to nothing", "SET q = list_append(if_not_exists(q, :l), :l)", "q", `{"L":[{"S":"x"},{"S":"x"}]}`},
		{"list element", "SET l[1] = :s", "l", `{"L":[{"S":"a"},{"S":"new"},{"S":"c"}]}`},
		{"beyond the end appends", "SET l[9] = :one, l[7] = :s", "l", `{"L":[{"S":"a"},{"S":"b"},{"S":"c"},{"S":"new"},{"N":"1"}]}`},
		{"operands see the item as it was", "SET n = :one, m.x = n", "m", `{"M":{"deep":{"M":{"y":{"S":"z"}}},"parts":{"L":[{"M":{"k":{"S":"v"}}}]},"x":{"N":"5"}}}`},
		{"nested", "SET m.parts[0].k = :one REMOVE m.deep", "m", `{"M":{"parts":{"L":[{"M":{"k":{"N":"1"}}}]},"x":{"N":"1"}}}`},
		{"remove", "REMOVE s", "s", ""},
		{"remove elements by their first indexes", "REMOVE l[0], l[2]", "l", `{"L":[{"S":"b"}]}`},
		{"set and remove elements", "REMOVE l[0] SET l[1] = :s", "l", `{"L":[{"S":"new"},{"S":"c"}]}`},
		{"remove beyond the end", "REMOVE l[9]", "l", `{"L":[{"S":"a"},{"S":"b"},{"S":"c"}]}`},
		{"remove what is not there", "REMOVE nothing", "nothing", ""},
		{"add number", "ADD n :one", "n", `{"N":"6"}`},
		{"add creates", "ADD q :one", "q", `{"N":"1"}`},
		{"add to set", "ADD ss :ss", "ss", `{"SS":["a","b","c"]}`},
		{"add to numbers by value", "ADD ns :ns", "ns", `{"NS":["1","2","3"]}`},
		{"add nested", "ADD m.x :one", "m", `{"M":{"deep":{"M":{"y":{"S":"z"}}},"parts":{"L":[{"M":{"k":{"S":"v"}}}]},"x":{"N":"2"}}}`},
		{"delete from set", "DELETE ss :ss", "ss", `{"SS":["a"]}`},
		{"delete from numbers by value", "DELETE ns :ns", "ns", `{"NS":["1"]}`},
		{"delete from nothing", "DELETE q :ss", "q", ""},
		{"all sections", "ADD n :one DELETE ss :ss SET s = :s REMOVE ns", "ss", `{"SS":["a"]}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			it := parseItem(t, someItem)
			before := marshal(t, it)
			u, err := expression.ParseUpdate(c.text, bindings(t, "", someValues))
			if err != nil {
				t.Fatal(err)
			}
			got, err := u.Apply(it)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			if v, found := got.Get(c.attribute); found {
				text = marshal(t, attribute.NewItem([]attribute.Attribute{{Name: "v", Value: v}}))
				text = text[len(`{"v":`) : len(text)-1]
			}
			if text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			if marshal(t, it) != before {
				t.Error("the original item changed")
			}
		})
	}
}

func TestDeletingTheLastMemberRemovesTheSet(t *testing.T) {
	u, err := expression.ParseUpdate("DELETE ss :all", bindings(t, "", `{":all":{"SS":["a","b","c"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := u.Apply(parseItem(t, someItem))
	if _, found := got.Get("ss"); found || err != nil {
		t.Errorf("the empty set is there: %v", err)
	}
}

func TestUpdatePlaceholders(t *testing.T) {
	b := bindings(t, `{"#a":"with.dot","#b":"size"}`, `{":v":{"S":"x"}}`)
	u, err := expression.ParseUpdate("SET #a = :v, #b = #a", b)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.CheckUsed(); err != nil {
		t.Error(err)
	}
	got, err := u.Apply(parseItem(t, `{"with.dot":{"S":"old"}}`))
	if err != nil || marshal(t, got) != `{"size":{"S":"old"},"with.dot":{"S":"x"}}` {
		t.Errorf("got %s, %v", marshal(t, got), err)
	}
}

func TestUpdateParseErrors(t *testing.T) {
	cases := map[string]string{
		"":                                    "can not be empty",
		"SET":                                 "Syntax error",
		"SET a":                               "Syntax error",
		"SET a = ":                            "Syntax error",
		"SET a = :s,":                         "Syntax error",
		"PUT a = :s":                          "Syntax error",
		"SET a = :s SET b = :s":               `The "SET" section can only be used once`,
		"SET a = :missing":                    "value used in expression is not defined; attribute value: :missing",
		"SET #missing = :s":                   "name used in the document path is not defined; attribute name: #missing",
		"SET name = :s":                       "reserved keyword: name",
		"SET a = :s, a.b = :s":                "overlap",
		"SET a = :s REMOVE a":                 "overlap",
		"SET a[0] = :s, a.b = :s":             "conflict",
		"SET a = nofunc(a)":                   "Invalid function name; function: nofunc",
		"SET a = :s + :one":                   "operand type: S",
		"SET a = list_append(a, :one)":        "operand type: N",
		"ADD a :s":                            "operand type: STRING",
		"DELETE a :one":                       "operand type: NUMBER",
		"ADD a b":                             "Syntax error",
		"REMOVE a b":                          "Syntax error",
		"SET a.[0] = :s":                      "Syntax error",
		"SET a[x] = :s":                       "Syntax error",
		"SET a = :s ; REMOVE b":               "Syntax error",
		"SET : = :s":                          "Syntax error",
		"REMOVE " + strings.Repeat("x", 5000): "size has exceeded",
		"SET a = " + strings.Repeat("(", 400) + ":s" + strings.Repeat(")", 400): "too many nested",
	}
	for text, want := range cases {
		_, err := expression.ParseUpdate(text, bindings(t, "", someValues))
		var invalid *expression.Error
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Message, want) {
			t.Errorf("%.40q gives %v, want %q", text, err, want)
		}
	}
}

func TestUpdateApplyErrors(t *testing.T) {
	cases := map[string]string{
		"SET a = q":                  "refers to an attribute that does not exist",
		"SET a = q + :one":           "refers to an attribute that does not exist",
		"SET a = s + :one":           "incorrect data type",
		"SET a = list_append(s, :l)": "incorrect data type",
		"SET q.r = :s":               "document path provided in the update expression is invalid",
		"SET s.r = :s":               "document path provided in the update expression is invalid",
		"SET s[0] = :s":              "document path provided in the update expression is invalid",
		"SET l[9].x = :s":            "document path provided in the update expression is invalid",
		"REMOVE q.r":                 "document path provided in the update expression is invalid",
		"ADD s :one":                 "incorrect data type",
		"ADD ss :ns":                 "incorrect data type",
		"DELETE n :ss":               "incorrect data type",
	}
	for text, want := range cases {
		u, err := expression.ParseUpdate(text, bindings(t, "", someValues))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := u.Apply(parseItem(t, someItem)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
}

func TestBindings(t *testing.T) {
	v := map[string]attribute.Value{":a": attribute.Bool(true)}
	cases := []struct {
		names  map[string]string
		values map[string]attribute.Value
		want   string
	}{
		{map[string]string{}, nil, "ExpressionAttributeNames must not be empty"},
		{nil, map[string]attribute.Value{}, "ExpressionAttributeValues must not be empty"},
		{map[string]string{"a": "b"}, nil, "ExpressionAttributeNames contains invalid key"},
		{map[string]string{"#": "b"}, nil, "ExpressionAttributeNames contains invalid key"},
		{nil, map[string]attribute.Value{"#a": v[":a"]}, "ExpressionAttributeValues contains invalid key"},
		{nil, map[string]attribute.Value{":a-b": v[":a"]}, "ExpressionAttributeValues contains invalid key"},
	}
	for _, c := range cases {
		if _, err := expression.NewBindings(c.names, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	b, err := expression.NewBindings(map[string]string{"#n": "n", "#used": "u"}, v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := expression.ParseUpdate("REMOVE #used", b); err != nil {
		t.Fatal(err)
	}
	if err := b.CheckUsed(); err == nil || !strings.Contains(err.Error(), "unused in expressions: keys: {#n}") {
		t.Errorf("got %v", err)
	}
}

// FuzzUpdate checks that no text makes parsing or applying panic, and that the result is an item.
func FuzzUpdate(f *testing.F) {
	for _, seed := range []string{"SET a = :s", "REMOVE l[0], m.x ADD n :one", "SET l[3] = list_append(l, if_not_exists(q, :l))", "DELETE ss :ss SET m.parts[0].k = (n + :one)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := expression.ParseUpdate(text, bindings(t, "", someValues))
		if err != nil {
			return
		}
		got, err := u.Apply(parseItem(t, someItem))
		if err != nil {
			return
		}
		again, err := attribute.UnmarshalItem([]byte(marshal(t, got)))
		if err != nil || !again.Equal(got) {
			t.Fatalf("%q makes no item: %v", text, err)
		}
	})
}
