package expression_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

const whenItem = `{"PK":{"S":"VIDEO#42"},"SK":{"S":"META"},"n":{"N":"5"},"big":{"N":"12345678901234567890123456789012345678"},
	"low":{"N":"-0.00000000000000000000000000000000000001"},"s":{"S":"tëxt"},"empty":{"S":""},"b":{"B":"AP8="},"t":{"BOOL":true},"f":{"BOOL":false},"z":{"NULL":true},
	"ss":{"SS":["a","b"]},"ns":{"NS":["1","2.5","1000"]},"bs":{"BS":["AP8=","AA=="]},"l":{"L":[{"S":"a"},{"N":"2"},{"M":{"c":{"S":"deep"}}}]},
	"m":{"M":{"x":{"N":"1"},"y.z":{"S":"dot"},"true":{"S":"yes"}}},"status":{"S":"new"},"size":{"N":"3"},"with.dot":{"S":"w"},"in":{"N":"7"},"quo` + "`" + `te":{"S":"q"}}`

// The results of operators and functions by DynamoDB's documentation: for present and absent
// attributes, equal and different types.
func TestWhenSemantics(t *testing.T) {
	it := parseItem(t, whenItem)
	for text, want := range map[string]bool{
		`begins_with(PK, "VIDEO#") AND SK = "META"`:  true,
		`begins_with(PK, 'VIDEO#') and SK <> 'META'`: false,
		// equality: type and value
		`n = 5`: true, `n = 5.0`: true, `n = 5e0`: true, `n = "5"`: false, `n <> "5"`: true, `n = n2`: false, `t = true`: true, `t = "true"`: false, `f = false`: true, `z = null`: true, `n = null`: false,
		`b = b64"AP8="`: true, `b = "AP8="`: false, `empty = ""`: true, `empty = null`: false, `s = "t\u00ebxt"`: true, `s = 'tëxt'`: true,
		`big = 12345678901234567890123456789012345678`: true, `big = 12345678901234567890123456789012345679`: false, `big < 12345678901234567890123456789012345679`: true,
		`low < 0`: true, `low > -0.0000000000000000000000000000000000001`: true, `low = -1E-38`: true,
		`ss = <<"b", "a">>`: true, `ss = <<"a">>`: false, `ss = ["a", "b"]`: false, `ns = <<1000, 1, 2.50>>`: true, `bs = <<b64"AA==", b64'AP8='>>`: true,
		`l[2] = {"c": "deep"}`: true, `m = {"y.z": "dot", "x": 1, "true": "yes"}`: true, `m = {"x": 1}`: false, `l = ["a", 2, {"c": "deep"}]`: true, `l = ["a", 2]`: false, `l = []`: false, `m = {}`: false,
		// order: within strings, numbers and binaries
		`n < 10`: true, `n < 9.5 AND n > 4.5`: true, `n >= 5 AND n <= 5`: true, `n < "9"`: false, `n > "1"`: false, `s > "t"`: true, `"a" < s`: true, `b > b64"AP4="`: true, `SK < "METAL"`: true, `t < n`: false, `t > n`: false, `ss < ss2`: false,
		// an absent attribute
		`gone = 1`: false, `gone <> 1`: true, `gone < 1`: false, `gone >= 1`: false, `NOT gone = 1`: true, `gone = gone2`: false, `gone <> gone2`: true, `gone BETWEEN 1 AND 2`: false, `gone IN (1)`: false,
		`begins_with(gone, "a")`: false, `contains(gone, "a")`: false, `size(gone) = 0`: false, `size(gone) <> 0`: true, `attribute_type(gone, "NULL")`: false, `gone = null`: false,
		`m.gone = 1`: false, `l[7] = 1`: false, `n.x = 1`: false, `n[0] = 1`: false, `m[0] = 1`: false, `l.a = 1`: false,
		// BETWEEN and IN
		`n BETWEEN 5 AND 5`: true, `n BETWEEN -1 AND 4.9`: false, `n BETWEEN n AND size`: false, `size BETWEEN 1 AND n`: true, `SK BETWEEN "A" AND "Z"`: true, `n BETWEEN "1" AND "9"`: false, `n BETWEEN 1 AND 9 AND t = true`: true,
		`n IN (4, "5", 5)`: true, `n IN ("5")`: false, `SK IN (PK, s)`: false, `"new" IN (status, s)`: true, `z IN (1, null)`: true,
		// logic
		`NOT n = 5 OR t = true`: true, `NOT (n = 5 OR t = true)`: false, `n = 1 AND n = 2 OR n = 5`: true, `n = 5 OR n = 1 AND n = 2`: true, `(n = 5 OR n = 1) AND n = 2`: false, `NOT NOT n = 5`: true, `((n = 5))`: true, `((n)) = (5)`: true,
		// functions
		`attribute_exists(n)`: true, `attribute_exists(gone)`: false, `attribute_exists(z)`: true, `attribute_not_exists(gone)`: true, `attribute_not_exists(n)`: false, `attribute_exists(l[2].c)`: true, `attribute_exists(m.x.y)`: false,
		`attribute_type(n, "N")`: true, `attribute_type(n, "S")`: false, `attribute_type(z, "NULL")`: true, `attribute_type(bs, 'BS')`: true, `attribute_type(m, "M")`: true, `attribute_type(l[0], "S")`: true,
		`begins_with(s, "të")`: true, `begins_with(n, s)`: false, `begins_with(b, b64"AA==")`: true, `begins_with(b, "")`: false, `begins_with(empty, "")`: true, `begins_with("META", SK)`: true,
		`contains(s, "ëx")`: true, `contains(s, 1)`: false, `contains(ss, "a")`: true, `contains(ss, "c")`: false, `contains(ns, 2.50)`: true, `contains(ns, "1")`: false, `contains(bs, b64"AA==")`: true, `contains(b, b64"/w==")`: true,
		`contains(l, 2)`: true, `contains(l, {"c": "deep"})`: true, `contains(l, "deep")`: false, `contains(m, "x")`: false, `contains(n, 5)`: false, `contains(ns, size(bs))`: false, `contains(ns, size("a"))`: true, `contains(l, size(ss))`: true,
		`size(s) = 4`: true, `size("é𝄞") = 3`: true, `size(b) = 2`: true, `size(ss) = 2`: true, `size(l) = 3`: true, `size(m) = 3`: true, `size(n) = 1`: false, `size(t) = 1`: false, `size(empty) = 0`: true, `size(l) > size(ss)`: true, `size(l) = size`: true,
		`size(l) BETWEEN 1 AND 3`: true, `3 IN (size(ss), size(l))`: true, `size(l) = "3"`: false, `size(l) < 3.5`: true, `size("four") = 4`: true,
		// names
		`status = "new"`: true, "`with.dot` = 'w'": true, "m.`y.z` = 'dot'": true, `m.true = "yes"`: true, "`in` = 7": true, "`quo\\`te` = \"q\"": true, "`n` = 5": true,
		"n\n=\t5 ": true,
	} {
		c, err := expression.ParseWhen(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Match(it); got != want {
			t.Errorf("%s is %v", text, got)
		}
		checkText(t, c, it)
	}
}

// checkText parses the printed form of a condition. It must print the same and mean the same.
func checkText(t testing.TB, c *expression.Condition, it attribute.Item) {
	t.Helper()
	again, err := expression.ParseWhen(c.Text())
	if err != nil {
		t.Fatalf("%s does not parse: %v", c.Text(), err)
	}
	if again.Text() != c.Text() || again.Match(it) != c.Match(it) {
		t.Errorf("%s becomes %s", c.Text(), again.Text())
	}
}

func TestWhenText(t *testing.T) {
	for text, want := range map[string]string{
		`((a=1)or(b=2 and not(c=3 or d=4)))`:                     `a = 1 OR b = 2 AND NOT (c = 3 OR d = 4)`,
		`(a = 1 OR b = 2) AND c in (1.50, "x")`:                  `(a = 1 OR b = 2) AND c IN (1.5, "x")`,
		"`and`.`x`[007] <> 'it\\'s \"so\"'":                      "`and`.x[7] <> \"it's \\\"so\\\"\"",
		`contains(a, <<2, 1>>) or attribute_not_exists(a.true)`:  "contains(a, <<1, 2>>) OR attribute_not_exists(a.`true`)",
		`a BETWEEN -1 AND size(b) AND attribute_type(c, "S")`:    `a BETWEEN -1 AND size(b) AND attribute_type(c, "S")`,
		`a = {"k": [null, false, b64"AA=="]} and b = "\n\u0001"`: `a = {"k": [null, false, b64"AA=="]} AND b = "\n\u0001"`,
	} {
		c, err := expression.ParseWhen(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if c.Text() != want {
			t.Errorf("%s prints as %s, want %s", text, c.Text(), want)
		}
	}
}

func TestWhenAttributes(t *testing.T) {
	c, err := expression.ParseWhen("a.b[0] = c OR size(`d.e`) > 1 AND attribute_exists(a) AND begins_with(f, 'x')")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Attributes(), " "); got != "a c d.e f" {
		t.Error(got)
	}
}

// Every error has its place, and a fix if one can be guessed.
func TestWhenErrors(t *testing.T) {
	for _, c := range []struct {
		text       string
		offset     int
		problem    string
		suggestion string
	}{
		{``, 0, "the condition is empty", "match every item"},
		{`  `, 2, "the condition is empty", ""},
		{`PK`, 2, "the condition ends where a comparison (=, <>,", ""},
		{`PK =`, 4, "the condition ends where an attribute or a value is expected", ""},
		{`PK = "a" AND`, 12, "the condition ends where an attribute or a value", ""},
		{`PK = "a" SK = "b"`, 9, `found "SK" where AND, OR or the end is expected`, ""},
		{`(PK = "a"`, 9, `the condition ends where ")" is expected`, ""},
		{`PK = "a")`, 8, `found ")" where AND, OR or the end`, ""},
		{`PK == "a"`, 3, `unknown operator "=="`, "equality is ="},
		{`PK != "a"`, 3, `unknown operator "!="`, "inequality is <>"},
		{`!PK = "a"`, 0, `unknown operator "!"`, "NOT"},
		{`a = 1 && b = 2`, 6, `unknown operator "&&"`, "AND"},
		{`a = 1 || b = 2`, 6, `unknown operator "||"`, "OR"},
		{`a = “x”`, 4, "unknown operator", "straight quotes"},
		{`a = :v`, 4, `found ":" where an attribute or a value is expected`, "instead of a placeholder"},
		{`#a = 1`, 0, `unknown operator "#"`, "the name itself"},
		{`a = "x`, 4, "never closed", `\"`},
		{"`a = 1", 0, "never closed", "\\`"},
		{"`` = 1", 0, "without a name", ""},
		{`a = "\q"`, 5, "unknown escape", `\\`},
		{`a = "\u12"`, 5, "unknown escape", ""},
		{`a = "\ud800"`, 5, "unknown escape", ""},
		{`a = 'it''s'`, 8, `found "'s'" where AND, OR or the end`, `\'`},
		{`a = 1x`, 4, `"1x" is not a DynamoDB number`, "quotes"},
		{`a = 123456789012345678901234567890123456789`, 4, "more than 38 significant digits", ""},
		{`a = 1e126`, 4, "magnitude", ""},
		{`d > 2024-01-01`, 8, `found "-01" where AND, OR`, "dates"},
		{`my-name = 1`, 2, `found "-" where a comparison`, "backquotes"},
		{`my-1 = 1`, 2, `found "-1" where a comparison`, "backquotes"},
		{`and = 1`, 0, `found "and" where an attribute or a value is expected`, "`and`"},
		{`a.in = 1`, 2, `found "in" where an attribute is expected`, "`in`"},
		{`a LIKE "x%"`, 2, `found "LIKE" where a comparison`, "begins_with"},
		{`a IS NULL`, 2, `found "IS" where a comparison`, "attribute_exists"},
		{`exists(a)`, 0, "Invalid function name; function: exists", ""},
		{`beginsWith(a, "x")`, 0, "Invalid function name; function: beginsWith", "did you mean begins_with?"},
		{`attribute_exist(a)`, 0, "Invalid function name", "did you mean attribute_exists?"},
		{`upper(a) = "X"`, 0, "Invalid function name", ""},
		{`contains(a)`, 0, "number of operands: 1", ""},
		{`begins_with(a, 1)`, 0, "operand type: N", ""},
		{`begins_with(a, "x") = true`, 0, "not allowed to be used this way", "NOT"},
		{`attribute_exists("a")`, 0, "requires a document path", ""},
		{`attribute_type(a, S)`, 0, "Incorrect operand type", `"S"`},
		{`attribute_type(a, "STRING")`, 0, "Invalid attribute type name", "the types are S,"},
		{`a < true`, 2, "operand type: BOOL", ""},
		{`a BETWEEN 2 AND 1`, 10, "upper bound to be greater", "exchange"},
		{`a BETWEEN 1 AND "2"`, 10, "same data type", ""},
		{`a BETWEEN 1 OR 2`, 12, `found "OR" where AND and the upper bound is expected`, ""},
		{`a = a`, 2, "must be distinct", ""},
		{`a IN 1`, 5, `found "1" where "(" is expected`, ""},
		{`a IN ()`, 6, `found ")" where an attribute or a value`, ""},
		{`a[x] = 1`, 2, `found "x" where the index of a list element is expected`, ""},
		{`a[1.5] = 1`, 2, `found "1.5" where the index`, ""},
		{`a = <<>>`, 4, "a set without members", ""},
		{`a = <<1, "x">>`, 4, "a set whose members are not all", "[ ]"},
		{`a = <<1, 1.0>>`, 4, "a set with a member twice", ""},
		{`a = {k: 1}`, 5, `found "k" where the name of a member, in quotes,`, ""},
		{`a = {"k": 1, "k": 2}`, 13, "a map with a member twice", ""},
		{`a = b64"?"`, 7, "not base64", ""},
		{"a = 1 ;", 6, `unexpected character ';'`, ""},
		{"a = \xff", 0, "not UTF-8", ""},
		{"a = 1 OR " + strings.Repeat("(", 400), 309, "too many nested", ""},
		{strings.Repeat("NOT ", 400) + "a = 1", 1200, "too many nested", ""},
		{"a = " + strings.Repeat("[", 400), 302, "too many nested", ""},
		{"a = \"" + strings.Repeat("x", 70000) + "\"", 65536, "too long", ""},
	} {
		_, err := expression.ParseWhen(c.text)
		var syntax *expression.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%.60q gives %v", c.text, err)
			continue
		}
		if syntax.Offset != c.offset || !strings.Contains(syntax.Problem, c.problem) || !strings.Contains(syntax.Suggestion, c.suggestion) {
			t.Errorf("%.60q gives %v; want offset %d, %q, %q", c.text, err, c.offset, c.problem, c.suggestion)
		}
	}
}

// FuzzWhen checks that no text makes parsing or evaluating panic, and that what a condition prints is that condition.
func FuzzWhen(f *testing.F) {
	for _, seed := range []string{
		`begins_with(PK, "VIDEO#") AND SK = 'META'`, `n BETWEEN -1.5 AND 1e3 OR NOT l[0].c IN (1, "x", null)`, "`with.dot`.`in`[3] <> b64\"AP8=\"",
		`contains(ss, "a") AND size(ns) >= 2`, `m = {"k": [1, <<"a">>]}`, `attribute_type(z, "NULL") AND attribute_not_exists(q)`, `a = "\u0041\n"`,
	} {
		f.Add(seed)
	}
	it := parseItem(f, whenItem)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := expression.ParseWhen(text)
		if err != nil {
			var syntax *expression.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) {
				t.Fatalf("%q gives %v", text, err)
			}
			return
		}
		if len(c.Text()) > 64<<10 {
			return // longer in its canonical form than a condition may be
		}
		checkText(t, c, it)
	})
}

// Matching runs for every rule and every change, so it must not allocate.
func TestMatchAllocatesNothing(t *testing.T) {
	it := parseItem(t, whenItem)
	for _, text := range benchmarkConditions {
		c, err := expression.ParseWhen(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { c.Match(it) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

var benchmarkConditions = []string{
	`begins_with(PK, "VIDEO#") AND SK = "META"`,
	`big < 12345678901234567890123456789012345679 AND low BETWEEN -1 AND 0`,
	`size(PK) >= 1000 OR size(l) IN (1, 2, 1000) OR l[2].c = "x" OR contains(ns, size(ss)) OR contains(l, "q") OR ss = <<"a">>`,
	`NOT (attribute_exists(gone) OR attribute_type(m, "L")) AND status <> "old"`,
}

func BenchmarkMatch(b *testing.B) {
	it := parseItem(b, whenItem)
	for _, text := range benchmarkConditions {
		c, err := expression.ParseWhen(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text[:12], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Match(it)
			}
		})
	}
}
