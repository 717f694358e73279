package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// utilitySpec returns the mapping of the preset google-migration-utility for a table with this
// partition key.
func utilitySpec(key KeyAttribute, as Encoding) Spec {
	rule := Rule{Writes: []Write{{Columns: []ColumnRule{{Attribute: "*", To: UtilityFamily, As: as}}}}}
	if as == AsGoogleUtility {
		rule.Writes[0].RowKey = UtilityRowKey(key)
	}
	return Spec{Source: "T", Table: "t", PrimaryKey: []KeyAttribute{key}, Families: []Family{{Name: UtilityFamily}}, Rules: []Rule{rule}}
}

// rowText returns an item's row as text, with its columns in order.
func rowText(t *testing.T, spec Spec, item attribute.Item) string {
	t.Helper()
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	row, err := m.Row(item)
	if err != nil {
		return err.Error()
	}
	cells, err := m.Cells(item, 1000)
	if err != nil {
		return err.Error()
	}
	lines := []string{fmt.Sprintf("row %q\n", row)}
	for _, c := range cells {
		lines = append(lines, fmt.Sprintf("  %s:%s %q\n", c.Family, c.Qualifier, c.Value))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "")
}

// TestUtility compares with the utility's own output for the same lines of an export. This package
// did not make the file of cells: it comes from the utility's conversion (Gson 2.10.1, Java 17).
func TestUtility(t *testing.T) {
	items, err := os.ReadFile("testdata/utility/items.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/utility/cells.txt")
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Split(strings.TrimPrefix(string(want), "row "), "\nrow ")
	for i, line := range bytes.Split(bytes.TrimSpace(items), []byte("\n")) {
		var export struct{ Item json.RawMessage }
		if err := json.Unmarshal(line, &export); err != nil {
			t.Fatal(err)
		}
		item, err := attribute.UnmarshalItem(export.Item)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := item.Get("id")
		lines := strings.Split(strings.TrimSuffix("row "+wanted[i], "\n"), "\n")
		slices.Sort(lines[1:]) // the order of columns does not matter
		if diff := cmp.Diff(strings.Join(lines, "\n")+"\n", rowText(t, utilitySpec(KeyAttribute{"id", id.Kind()}, AsGoogleUtility), item)); diff != "" {
			t.Error(diff)
		}
	}
	if len(wanted) < 10 {
		t.Error(len(wanted))
	}
}

// A value that the utility loses or cannot write is parked, or written with all its digits.
func TestBeyondTheUtility(t *testing.T) {
	spec := utilitySpec(KeyAttribute{"id", attribute.KindS}, AsGoogleUtility)
	inner := attribute.Map([]attribute.Attribute{{Name: "b", Value: attribute.String("member")}})
	for want, i := range map[string]attribute.Item{
		"cannot be mapped: two values take the same column of family cf1": item("id", attribute.String("x"), "a.b", attribute.String("attribute"), "a", inner),
		"row \"x\"\n  cf1:n \"100000000000000000000\"\n":                  item("id", attribute.String("x"), "n", number("1e20")),
		"row \"x\"\n  cf1:n \"[9.5,-100000000000000000000]\"\n":           item("id", attribute.String("x"), "n", mustSet("9.5", "-1e20")),
		"row \"x\"\n": item("id", attribute.String("x"), "m", attribute.Map(nil)),
		"cannot be mapped: attribute \"l\": text that is not valid UTF-8 has no JSON form": item("id", attribute.String("x"), "l", attribute.List([]attribute.Value{attribute.String("\xff")})),
	} {
		if got := rowText(t, spec, i); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// Each member of a map gets a column, whatever the attribute. Names never collide, and nothing is
// lost.
func TestFlattened(t *testing.T) {
	spec := utilitySpec(KeyAttribute{"id", attribute.KindS}, AsFlattened)
	got := rowText(t, spec, item("id", attribute.String("x"), "a.b", attribute.String("attribute"), "a", attribute.Map([]attribute.Attribute{{Name: "b", Value: attribute.String("member")},
		{Name: "c.%", Value: attribute.Map([]attribute.Attribute{{Name: "d", Value: attribute.Null()}, {Name: "e", Value: attribute.Map(nil)}})}}),
		"m", attribute.Map(nil), "photo", attribute.Binary([]byte{0, 255}), "l", attribute.List([]attribute.Value{attribute.Binary([]byte{0, 255}), number("0.0000001")}), "n", number("1e20")))
	want := `row "x"
  cf1:a%2Eb "attribute"
  cf1:a.b "member"
  cf1:a.c%2E%25.d "null"
  cf1:a.c%2E%25.e "{}"
  cf1:id "x"
  cf1:l "[\"AP8=\",0.0000001]"
  cf1:m "{}"
  cf1:n "100000000000000000000"
  cf1:photo "AP8="
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A column that a rule names belongs to its attribute. Another attribute is refused only if it has
// exactly that column, not for a similar name.
func TestColumnsOfRulesBesideThoseOfAll(t *testing.T) {
	one := attribute.Map([]attribute.Attribute{{Name: "y", Value: attribute.String("1")}})
	for _, c := range []struct {
		as     Encoding
		column string // the rule's column for foo
		name   string // another attribute
		value  attribute.Value
		met    bool
	}{
		{AsFlattened, "x.y", "x.y", attribute.Null(), false}, // its column is x%2Ey
		{AsFlattened, "x%2Ey", "x.y", attribute.Null(), true},
		{AsFlattened, "x%2Ey", "x%2Ey", attribute.Null(), false}, // x%252Ey
		{AsFlattened, "x%252Ey", "x%2Ey", attribute.Null(), true},
		{AsFlattened, "x", "x", attribute.Null(), true},
		{AsFlattened, "x", "x", one, false}, // x.y
		{AsFlattened, "x", "x", attribute.Map(nil), true},
		{AsGoogleUtility, "x.y", "x.y", attribute.Null(), true},
		{AsGoogleUtility, "x", "x", attribute.Map(nil), false}, // nothing is written for it
		{AsGoogleUtility, "x", "x", one, false},
		{AsDefault, "x.y", "x.y", attribute.Null(), true},
		{AsDefault, "x", "x", one, true},
	} {
		m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"), Rules: []Rule{{Writes: []Write{{
			RowKey: template("{PK}"), Columns: []ColumnRule{{Attribute: "*", To: "d", As: c.as}, {Attribute: "foo", To: "d:" + c.column}}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Cells(item("PK", attribute.String("p"), c.name, c.value), 0); (err != nil) != c.met {
			t.Errorf("%s, foo is %s beside %s: %v", c.as, c.column, c.name, err)
		}
		if _, err := m.Cells(item("PK", attribute.String("p"), c.name, c.value, "foo", attribute.Null()), 0); (err != nil) != c.met {
			t.Errorf("%s, foo is %s and there, beside %s: %v", c.as, c.column, c.name, err)
		}
	}
	// Columns of members are known only with the item: a collision with the rule's column is found
	// if the item has both.
	m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"), Rules: []Rule{{Writes: []Write{{
		Columns: []ColumnRule{{Attribute: "*", To: "d", As: AsFlattened}, {Attribute: "foo", To: "d:x.y"}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Cells(item("PK", attribute.String("p"), "x", one, "foo", attribute.Null()), 0); err == nil {
		t.Error("two values of one column")
	}
}

// An encoding for all attributes is refused for a single one. The utility's row keys consist of one
// attribute.
func TestUtilityRules(t *testing.T) {
	key := KeyAttribute{"id", attribute.KindN}
	spec := utilitySpec(key, AsGoogleUtility)
	if text := UtilityRowKey(key).String(); text != "{id | google_utility}" {
		t.Error(text)
	}
	if parsed, err := ParseTemplate(UtilityRowKey(KeyAttribute{"a b", attribute.KindB}).String()); err != nil || len(parsed.Parts()) != 1 || parsed.Parts()[0].Attribute != "a b" {
		t.Error(parsed, err)
	}
	spec.Rules[0].Writes[0].Columns = append(spec.Rules[0].Writes[0].Columns, ColumnRule{Attribute: "a", To: UtilityFamily, As: AsGoogleUtility})
	if found := Check(spec); len(found) != 1 || !strings.Contains(found[0].What, `google_utility works only with "*"`) {
		t.Error(found)
	}
	spec = utilitySpec(key, AsGoogleUtility)
	spec.PrimaryKey = compositeKey
	spec.Rules[0].Writes[0].RowKey = template("{PK}")
	if found := Check(spec); len(found) != 1 || found[0].Problem != NotInjective {
		t.Error(found)
	}
	// No attribute is the whole row key, so all are columns.
	spec.Rules[0].Writes[0].RowKey = template("{PK}#{SK}")
	if got := rowText(t, spec, item("PK", attribute.String("p"), "SK", attribute.String("s"))); got != "row \"p#s\"\n  cf1:PK \"p\"\n  cf1:SK \"s\"\n" {
		t.Error(got)
	}
}

// A Java table doubles at the 13th, 25th and 49th member and, while it has fewer than 64 buckets,
// at the ninth member of one bucket. A name of one character hashes to its code point: of 16
// buckets the first holds 16, of 32 buckets the seventeenth. The orders are those of Java 17's
// HashSet.
func TestUtilityOrderAsTheTableGrows(t *testing.T) {
	upTo := func(n rune) (list []rune) {
		for r := rune(1); r <= n; r++ {
			list = append(list, r)
		}
		return list
	}
	for name, want := range map[string][]rune{
		"12 members in 16 buckets": append([]rune{16}, upTo(11)...),
		"13 members in 32":         append(upTo(12), 16),
		"24 members in 32":         append([]rune{32}, upTo(23)...),
		"25 members in 64":         append(upTo(24), 32),
		"48 members in 64":         append([]rune{64}, upTo(47)...),
		"49 members in 128":        append(upTo(48), 64),
		"96 members in 128":        append([]rune{128}, upTo(95)...),
		"97 members in 256":        append(upTo(96), 128),
		"eight in one of 16":       {0, 16, 32, 48, 64, 80, 96, 112, 1},
		"nine in one of 16":        {0, 32, 64, 96, 128, 1, 16, 48, 80, 112},
		// The hash of 😀 is 0x1B0D63. Its upper half is mixed into the lower: 0x63 xor 0x1B is 0x78,
		// in bucket 8 and not 3.
		"upper half of a hash": {'e', '😀'},
		"one bucket":           {'1', 'A', 'Q', 'a', 'q'},
	} {
		var members []string
		for _, r := range want {
			members = append(members, string(r))
		}
		sorted := slices.Sorted(slices.Values(members))
		if got := utilityOrder(sorted, stringHash); !slices.Equal(got, members) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, members)
		}
	}
}

// The hashes of Java's String: s[0]·31^(n-1) + … + s[n-1] over UTF-16; of its Long: the xor of both
// halves; of its BigDecimal: 31 times the hash of the digits plus the number of digits behind the
// point.
func TestJavaHashes(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "a": 97, "ab": 97*31 + 98, "Aa": 2112, "BB": 2112, "hello": 99162322, "Hello, World!": 1498789909, "polygenelubricants": -2147483648,
		"ü": 0xFC, "漢": 0x6F22, "😀": 0xD83D*31 + 0xDE00, "a😀": (97*31+0xD83D)*31 + 0xDE00,
	} {
		if got := int32(stringHash(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int32{
		"0": 0, "1": 1, "-1": 0, "-2": 1, "4294967295": -1, "4294967296": 1, "4294967297": 0, "-4294967296": -1,
		"9223372036854775807": -2147483648, "-9223372036854775808": -2147483648,
		"0.5": 5*31 + 1, "-0.5": -5*31 + 1, "3.25": 325*31 + 2, "0.0000001": 1*31 + 7,
		"429496729.6": (1*31+0)*31 + 1, "-429496729.6": -(1*31+0)*31 + 1, // the digits are 2^32: the upper half is one, the lower zero
		"1844674407370955161.6": (1*31*31)*31 + 1, "-1844674407370955161.6": -(1*31*31)*31 + 1, // and 2^64
	} {
		if got := int32(numberHash(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
