package transform

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// evaluate returns the text of a template for attribute a.
func evaluate(t *testing.T, text string, v attribute.Value) (string, error) {
	t.Helper()
	parsed, err := ParseTemplate(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	c := &compiler{spec: &Spec{}, m: &Mapping{}}
	it := item("a", v)
	if v.Kind() == attribute.KindNone {
		it = item("other", attribute.Null())
	}
	b, err := appendParts(nil, c.parts(parsed, "the row key", at{}, "row_key"), it)
	return string(b), err
}

func TestFunctions(t *testing.T) {
	s, n, b := attribute.String, number, attribute.Binary
	for _, c := range []struct {
		template string
		value    attribute.Value
		want     string // "!" and a part of the reason if it cannot be mapped
	}{
		{"{a | after('VIDEO#')}", s("VIDEO#42"), "42"},
		{"{a | after('#')}", s("a#b#c"), "b#c"},
		{"{a | after('#')}", s("abc"), `!after: the value does not contain "#"`},
		{"{a | before('#')}", s("VIDEO#42#x"), "VIDEO"},
		{"{a | before('#')}", s("VIDEO"), "!before"},
		{"{a | part('#', 1)}", s("VIDEO#42"), "42"},
		{"{a | part('#', 0)}", s("VIDEO"), "VIDEO"},
		{"{a | part('#', 2)}", s("VIDEO#42"), "!no part 2"},
		{"{a | pad(6)}", n("17"), "000017"},
		{"{a | pad(6)}", n("17.0"), "000017"},
		{"{a | pad(6)}", s("17"), "000017"},
		{"{a | pad(6)}", n("0"), "000000"},
		{"{a | pad(2)}", n("170"), "!a number of 3 digits does not fit"},
		{"{a | pad(6)}", n("-17"), "!whole number from 0 up"},
		{"{a | pad(6)}", n("1.5"), "!whole number"},
		{"{a | pad(6)}", s("017"), "!without leading zeros"},
		{"{a | pad(6)}", s("x"), "!whole number"},
		{"{a | pad(38)}", n(strings.Repeat("9", 38)), strings.Repeat("9", 38)},
		{"{a | sortable}", n("-3.5"), "049864~"},
		{"{a | sortable}", n("3.5"), "250135-"},
		{"{a | sortable}", n("0"), "1"},
		{"{a | sortable}", n("0.00123"), "2498123-"},
		{"{a | sortable}", n("1e125"), "26261-"},
		{"{a | sortable}", n("1e-130"), "23711-"},
		{"{a | sortable}", s("1.50"), "!as DynamoDB writes it"},
		{"{a | sortable}", s("x"), "!needs a number"},
		{"{a | newest_first(13)}", n("1795170000000"), "8204829999999"},
		{"{a | newest_first(3)}", n("0"), "999"},
		{"{a | reverse_domain}", s("video.example.com"), "com.example.video"},
		{"{a | reverse_domain}", s("localhost"), "localhost"},
		{"{a | reverse}", n("1200"), "0021"},
		{"{a | reverse}", n("-1.5"), "5.1-"},
		{"{a | reverse}", s("aé😀"), "😀éa"},
		{"{a | reverse}", b([]byte{1, 2}), "!needs text or a number"},
		{"{a | google_utility}", s("a#%"), "a#%"},
		{"{a | google_utility}", n("0.00000012"), "1.2E-7"},
		{"{a | google_utility}", b([]byte{0, 255}), "QVA4PQ=="},
		{"{a | salt(16)}", s("dev-7"), "02"},
		{"{a | salt(2)}", s("dev-7"), "0"},
		{"{a | hash(4)}", s("a"), "ca97"},
		{"{a | lower}", s("ÀB"), "àb"},
		{"{a | upper}", s("àb"), "ÀB"},
		{"{a | lower}", b([]byte("AB")), "!not B"},
		{"{a | date('yyyyMM')}", s("2015-02-03T04:05:06Z"), "201502"},
		{"{a | date('yyyy-MM-dd HH:mm:ss.SSS')}", n("1795170000"), "2026-11-20 10:20:00.000"},
		{"{a | date('yyyyMMddHHmmssSSS')}", n("1795170000123"), "20261120102000123"},
		{"{a | date('SSS')}", n("1795170000.5"), "500"},
		{"{a | date('dd')}", s("2015-02-03T23:30:00-02:00"), "04"},
		{"{a | date('yyyy')}", s("2015-02-03"), "2015"},
		{"{a | date('yyyy')}", s("yesterday"), "!ISO 8601"},
		{"{a | date('yyyy')}", n("1e30"), "!ISO 8601"},
		{"{a | epoch_ms}", s("2026-11-20T09:40:00.5Z"), "1795167600500"},
		{"{a | epoch_ms}", n("32503680000"), "32503680000000"}, // the year 3000 in seconds
		{"{a | epoch_ms}", n("99999999999"), "99999999999000"},
		{"{a | epoch_ms}", n("100000000000"), "100000000000"}, // the year 1973 in milliseconds
		{"{a | epoch_ms}", n("-1.25"), "-1250"},               // before 1970 a fraction counts backwards
		{"{a | epoch_ms}", n("-0.5"), "-500"},
		{"{a | epoch_ms | newest_first(13)}", n("1795170000"), "8204829999999"},
		{"{a | hex}", b([]byte{0, 0xff}), "00ff"},
		{"{a | default('none')}", attribute.Value{}, "none"},
		{"{a | lower | default('none') | upper}", attribute.Value{}, "NONE"},
		{"{a | default('none') | upper}", s("x"), "X"},
		{"{a | pad(4) | default('none')}", attribute.Value{}, "none"}, // the functions before it do not apply to the default
		{"{a}", attribute.Value{}, `!attribute "a" of the row key is missing`},
		{"{a}", attribute.Bool(true), "!must be S, N or B"},
		{"{a | pad(3)}", attribute.Bool(true), "!must be S, N or B"},
		{"x{a}#{a}y", s("p#%"), "xp%23%25#p#%y"},
		{"{a | raw}#{a}", s("p#"), "p##p#"},
		{"{a}--{a}", s("p-q"), "p%2Dq--p-q"},
		{"{a}A-{a}", s("pA-"), "pA%2DA-pA-"},
		{"{{{a}}}", s("p"), "{p}"},
		{"{'a'}", s("p"), "p"},
		{"{ a |lower|upper }", s("p"), "P"},
	} {
		got, err := evaluate(t, c.template, c.value)
		if reason, refused := strings.CutPrefix(c.want, "!"); refused {
			var u *Unmappable
			if !errors.As(err, &u) || !strings.Contains(u.Reason, reason) {
				t.Errorf("%s: %q, %v", c.template, got, err)
			}
			if c.value.Kind() == attribute.KindS && len(c.value.Text()) > 2 && err != nil && strings.Contains(err.Error(), c.value.Text()) {
				t.Errorf("H65: %s: the reason holds data: %v", c.template, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q, want %q: %v", c.template, got, c.want, err)
		}
	}
}

// drawNumber draws numbers of up to 38 digits, some with equal beginnings, some far apart.
func drawNumber(t *rapid.T, label string) string {
	text := rapid.StringMatching(`-?[0-9]{0,3}[0-2]{1,16}(\.[0-2]{1,19})?(e-?[0-9]{1,2})?`).Draw(t, label)
	v, err := attribute.Number(text)
	if err != nil {
		return "0"
	}
	return v.Text()
}

// Rows of numbers sort as the numbers do, and different numbers never share a row, whatever follows
// in the row key.
func TestSortableKeepsTheOrderOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawNumber(t, "a"), drawNumber(t, "b")
		x, y := new(big.Rat), new(big.Rat)
		x.SetString(a)
		y.SetString(b)
		m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: []KeyAttribute{{"n", attribute.KindN}, {"s", attribute.KindS}}, Families: families("d"),
			Rules: []Rule{{Writes: []Write{{RowKey: template("{n | sortable}#{s}")}}}}})
		if err != nil {
			t.Fatal(err)
		}
		row := func(n, s string) string {
			key, err := m.Row(item("n", number(n), "s", attribute.String(s)))
			if err != nil {
				t.Fatal(n, err)
			}
			return key
		}
		first := row(a, rapid.SampledFrom([]string{"", "!", "9", "~~"}).Draw(t, "s"))
		second := row(b, rapid.SampledFrom([]string{"", "!", "9", "~~"}).Draw(t, "s"))
		if order := x.Cmp(y); order != 0 && order != strings.Compare(first, second) {
			t.Fatalf("%s is to %s as %d, and %q to %q as %d", a, b, order, first, second, strings.Compare(first, second))
		}
		newest, err := ParseTemplate("{n | newest_first(38)}")
		if err != nil {
			t.Fatal(err)
		}
		c := &compiler{spec: &Spec{}, m: &Mapping{}}
		parts := c.parts(newest, "", at{}, "")
		p, errP := appendParts(nil, parts, item("n", number(a)))
		q, errQ := appendParts(nil, parts, item("n", number(b)))
		if errP == nil && errQ == nil && x.Cmp(y) != -strings.Compare(string(p), string(q)) {
			t.Fatalf("newest_first: %s, %s", a, b)
		}
	})
}

// Row keys of several parts are injective, whatever separates the parts.
func TestH37_TemplatesAreInjective(t *testing.T) {
	keys := []KeyAttribute{{"a", attribute.KindS}, {"b", attribute.KindS}}
	for _, text := range []string{"{a}#{b}", "{a}--{b}", "x{a}/{b}y", "{a}a{b}", "{b}|{a}", "{a | hex}#{b}", "{a | reverse_domain}.{b}", "{a | reverse}#{b | reverse}", "{a | google_utility}#{b}", "{c}#{a}#{b}", "{a | salt(16)}{a}#{b}", "{a}#x#{b}"} {
		m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: keys, Families: families("d"), Rules: []Rule{{Writes: []Write{{RowKey: template(text)}}}}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		t.Run(text, func(t *testing.T) {
			letters := rapid.StringOfN(rapid.SampledFrom([]rune("#%-/a|.2x")), 0, 5, -1)
			rapid.Check(t, func(t *rapid.T) {
				draw := func() attribute.Item {
					return item("a", attribute.String(letters.Draw(t, "a")), "b", attribute.String(letters.Draw(t, "b")), "c", attribute.String(letters.Draw(t, "c")))
				}
				x, y := draw(), draw()
				rowX, errX := m.Row(x)
				rowY, errY := m.Row(y)
				if errX == nil && errY == nil && rowX == rowY && !m.Keys(x).Equal(m.Keys(y)) {
					t.Fatalf("two items in row %q", rowX)
				}
			})
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{":                        "at byte 0: a placeholder is not closed",
		"x{PK":                     "at byte 1: a placeholder is not closed",
		"x}":                       "at byte 1: a } without a {",
		"{}":                       "at byte 0: a placeholder has no name",
		"{ }":                      "at byte 0: a placeholder has no name",
		"{'' | salt(4)}":           "at byte 0: a placeholder has no name",
		"x#{$''}":                  "at byte 2: a placeholder has no name",
		"{ | salt(4)}":             "at byte 0: a placeholder has no name",
		"{PK | nope}":              `at byte 6: "nope" is not a function`,
		"{PK | pad}":               "at byte 6: pad needs 1 arguments, not 0",
		"{PK | pad(0)}":            "at byte 6: pad needs a number from 1 to 38",
		"{PK | pad('x')}":          "at byte 6: pad needs a number from 1 to 38",
		"{PK | after(3)}":          "at byte 6: after needs text in single quotes",
		"{PK | after('')}":         "at byte 6: after needs text in single quotes",
		"{PK | after('x)}":         "at byte 12: a quote is not closed",
		"{PK | after('x'}":         "at byte 15: arguments are not closed",
		"{PK | lower('x')}":        "at byte 6: lower needs 0 arguments, not 1",
		"{PK | date('YYYY')}":      "at byte 6: a date pattern may have only yyyy MM dd HH mm ss SSS, and characters that are neither letters nor digits",
		"{PK | part('#', x)}":      "at byte 16: expected an argument",
		"{PK}00{SK}":               `at byte 4: "00" cannot be a delimiter, because escaped values contain it`,
		"{PK | lower upper}":       "at byte 12: expected | or }",
		"{'PK}":                    "at byte 1: a quote is not closed",
		"{PK | salt(1)}":           "at byte 6: salt needs a number from 2 to 1000000",
		"{PK | salt(99999999999)}": "at byte 6: salt needs a number from 2 to 1000000",
	} {
		_, err := ParseTemplate(text)
		var e *TemplateError
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseTemplate(f *testing.F) {
	for _, text := range []string{"{PK}", "{tenantId}#{PK | after('VIDEO#')}", "{$k}#{$y}{$m}#{r | pad(6)}#{h | reverse_domain}", "{{}}", "{'a|b'}", "{a | part('#', 1) | default('')}", "{ PK |salt( 16 )}{{x}}{'it''s'|after('''')}{$'k'}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseTemplate(text)
		if err != nil {
			var e *TemplateError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		// The canonical form is parsed as the same template, and is its own canonical form.
		again, err := ParseTemplate(parsed.Canonical())
		if err != nil || again.Canonical() != parsed.Canonical() || len(again.parts) != len(parsed.parts) {
			t.Fatalf("%q, written %q: %v", text, parsed.Canonical(), err)
		}
		for i, p := range parsed.parts {
			q := again.parts[i]
			if p.Literal != q.Literal || p.Attribute != q.Attribute || p.Capture != q.Capture || p.escaped != q.escaped || !slices.Equal(p.Calls, q.Calls) {
				t.Fatalf("%q, written %q", text, parsed.Canonical())
			}
		}
		c := &compiler{spec: &Spec{}, m: &Mapping{}}
		_, _ = appendParts(nil, c.parts(parsed, "", at{}, ""), item("PK", attribute.String("VIDEO#1")))
	})
}

// A power of ten has one digit more than the number before it, so lengths, carries and limits
// change between the two.
func TestRowKeysAtPowersOfTen(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for k := range 38 {
		power, before := "1"+zeros[:k], nines[:k] // 10^k, and the number before it
		cases := [][3]string{
			{"pad(38)", power, zeros[:37-k] + power},
			{"newest_first(38)", power, nines[:37-k] + "8" + nines[:k]},
			{fmt.Sprintf("pad(%d)", k+1), power, power},
			{fmt.Sprintf("newest_first(%d)", k+1), power, "8" + nines[:k]},
		}
		if k > 0 {
			cases = append(cases, [][3]string{
				{"pad(38)", before, zeros[:38-k] + before},
				{"newest_first(38)", before, nines[:38-k] + zeros[:k]},
				{fmt.Sprintf("pad(%d)", k), before, before},
				{fmt.Sprintf("newest_first(%d)", k), before, zeros[:k]},
				{fmt.Sprintf("pad(%d)", k), power, ""},
				{fmt.Sprintf("newest_first(%d)", k), power, ""},
			}...)
		}
		for _, c := range cases {
			got, err := evaluate(t, "{a | "+c[0]+"}", number(c[1]))
			if refused := c[2] == ""; refused != (err != nil) || got != c[2] {
				t.Errorf("%s of %s: %q, want %q: %v", c[0], c[1], got, c[2], err)
			}
		}
	}
	// The largest salt is one below the number of salts, and all have its width.
	for salts, width := range map[int]int{9: 1, 10: 1, 11: 2, 99: 2, 100: 2, 101: 3, 999: 3, 1000: 3, 1001: 4, 1_000_000: 6} {
		if got, err := evaluate(t, fmt.Sprintf("{a | salt(%d)}", salts), number("7")); err != nil || len(got) != width {
			t.Errorf("salt(%d): %q, %v", salts, got, err)
		}
	}
}

// The form of sortable around every power of ten that DynamoDB can hold, from 1E-130 to 1E+125,
// with both signs.
func TestSortableAtPowersOfTen(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for k := -130; k <= 126; k++ {
		var cases [][2]string
		if k < 126 {
			cases = append(cases, [][2]string{
				{fmt.Sprintf("1e%d", k), fmt.Sprintf("2%03d1-", 501+k)},
				{fmt.Sprintf("-1e%d", k), fmt.Sprintf("0%03d8~", 498-k)},
			}...)
		}
		if k > -130 {
			before := fmt.Sprintf("%se%d", nines, k-38) // the closest number with 38 digits
			cases = append(cases, [][2]string{
				{before, fmt.Sprintf("2%03d%s-", 500+k, nines)},
				{"-" + before, fmt.Sprintf("0%03d%s~", 499-k, zeros)},
			}...)
		}
		for _, c := range cases {
			if got, err := evaluate(t, "{a | sortable}", number(c[0])); err != nil || got != c[1] {
				t.Errorf("%s: %q, want %q: %v", c[0], got, c[1], err)
			}
		}
	}
}

// Text that sortable does not write is not taken for a number.
func TestUnsortable(t *testing.T) {
	for text, want := range map[string]string{"1": "0", "25021-": "10", "25012~": "", "25010": "", "2501-": "", "0498876~": "-1.23", "2x015-": "", "25012x-": "", "36301-": "", "26301-": "", "": ""} {
		got, ok := unsortable(text)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, n := range []string{"1", "-1", "0.001", "-12.5", "120", "9.9999999999999999999999999999999999999e125", "-1e-130"} {
		v, err := sortable(scalar{attribute.KindN, number(n).Text()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := unsortable(v.text); !ok || got != number(n).Text() {
			t.Errorf("%s: %s", n, fmt.Sprint(got, ok))
		}
	}
}
