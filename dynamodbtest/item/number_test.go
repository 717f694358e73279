package item_test

import (
	"bytes"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

func TestCanonicalNumber(t *testing.T) {
	cases := []struct{ in, want string }{
		{"0", "0"}, {"-0", "0"}, {"+0", "0"}, {"0.0", "0"}, {"00", "0"}, {"0e5", "0"}, {"0e-5", "0"}, {"-0.0e3", "0"}, {"0e999999999999999999999", "0"},
		{"1", "1"}, {"007", "7"}, {"001.23", "1.23"}, {"+3", "3"}, {"1.0", "1"}, {"1.10", "1.1"}, {"100.000", "100"},
		{"1e3", "1000"}, {"1E+3", "1000"}, {"-3e2", "-300"}, {"1.23e4", "12300"}, {"1e-3", "0.001"}, {"123e-2", "1.23"},
		{".5", "0.5"}, {"5.", "5"}, {"-.5", "-0.5"}, {"0.1e126", "1" + strings.Repeat("0", 125)},
		{"1e125", "1" + strings.Repeat("0", 125)},
		{"-1e-130", "-0." + strings.Repeat("0", 129) + "1"},
		{"9.9999999999999999999999999999999999999E+125", strings.Repeat("9", 38) + strings.Repeat("0", 88)},
		{"3.1415926535897932384626433832795028841", "3.1415926535897932384626433832795028841"},
		{"0." + strings.Repeat("0", 200) + "1e100", "0." + strings.Repeat("0", 100) + "1"},
		{"1" + strings.Repeat("0", 300) + "e-300", "1"},
	}
	for _, c := range cases {
		got, err := item.CanonicalNumber(c.in)
		if err != nil || got != c.want {
			t.Errorf("CanonicalNumber(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestCanonicalNumberRefused(t *testing.T) {
	cases := []struct{ in, want string }{
		{"", "numeric"}, {"+", "numeric"}, {".", "numeric"}, {"-.", "numeric"}, {"e5", "numeric"}, {"1e", "numeric"}, {"1e+", "numeric"}, {"1e1.5", "numeric"},
		{" 1", "numeric"}, {"1 ", "numeric"}, {"NaN", "numeric"}, {"-Infinity", "numeric"}, {"0x10", "numeric"}, {"1,000", "numeric"}, {"1.2.3", "numeric"}, {"--1", "numeric"}, {"١", "numeric"},
		{"1e126", "overflow"}, {"11e125", "overflow"}, {"-1e126", "overflow"}, {"1.0e100000000", "overflow"}, {"1e99999999999999999999999999", "overflow"},
		{"1e-131", "underflow"}, {"0.9e-130", "underflow"}, {"1e-99999999999999999999999999", "underflow"},
		{"3.14159265358979323846264338327950288419", "significant"}, {"314159265358979323846264338327950288419e30", "significant"},
	}
	for _, c := range cases {
		_, err := item.CanonicalNumber(c.in)
		var invalid *item.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Message, c.want) {
			t.Errorf("CanonicalNumber(%q) gives %v; want an error with %q", c.in, err, c.want)
		}
	}
}

var numberText = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// FuzzCanonicalNumber compares with math/big: the canonical text is the same number, has
// the canonical form, and is a fixed point.
func FuzzCanonicalNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0.00", "1e3", "12.340e-5", "9e125", "1e-130", "1e126", ".5", "5.", "+7", "x", "00012300"} {
		f.Add(seed)
	}
	form := regexp.MustCompile(`^(0|-?[1-9][0-9]*(\.[0-9]*[1-9])?|-?0\.[0-9]*[1-9])$`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 400 {
			return
		}
		got, err := item.CanonicalNumber(text)
		if err != nil {
			if got != "" {
				t.Fatalf("text beside an error: %q", got)
			}
			return
		}
		if !numberText.MatchString(text) {
			t.Fatalf("accepted %q", text)
		}
		if !form.MatchString(got) {
			t.Fatalf("CanonicalNumber(%q) = %q is not canonical", text, got)
		}
		if again, err := item.CanonicalNumber(got); err != nil || again != got {
			t.Fatalf("%q is not a fixed point: %q, %v", got, again, err)
		}
		value, ok := new(big.Rat).SetString(got)
		if !ok {
			t.Fatalf("math/big does not read %q", got)
		}
		// math/big refuses enormous exponents, which only a zero may have here.
		if want, ok := new(big.Rat).SetString(text); ok && want.Cmp(value) != 0 {
			t.Fatalf("CanonicalNumber(%q) = %q, another number", text, got)
		} else if !ok && got != "0" {
			t.Fatalf("CanonicalNumber(%q) = %q, which math/big cannot confirm", text, got)
		}
	})
}

// number draws any number that DynamoDB stores, in any of its spellings.
func number(t *rapid.T, label string) string {
	digits := rapid.StringMatching(`[0-9]{1,37}`).Draw(t, label+" digits")
	point := rapid.IntRange(0, len(digits)).Draw(t, label+" point")
	exponent := rapid.IntRange(-80, 80).Draw(t, label+" exponent")
	sign := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, label+" sign")
	text := sign + digits[:point] + "." + digits[point:] + "e" + big.NewInt(int64(exponent)).String()
	canonical, err := item.CanonicalNumber(text)
	if err != nil {
		t.Fatalf("CanonicalNumber(%q): %v", text, err)
	}
	return canonical
}

func rational(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("not a number: " + text)
	}
	return r
}

func TestNumberOrderIsNumeric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number(t, "a"), number(t, "b")
		want := rational(a).Cmp(rational(b))
		if got := item.CompareNumbers(a, b); got != want {
			t.Fatalf("CompareNumbers(%s, %s) = %d, want %d", a, b, got, want)
		}
		if got := bytes.Compare(item.NumberSortKey(a), item.NumberSortKey(b)); got != want {
			t.Fatalf("sort keys of %s and %s order %d, want %d", a, b, got, want)
		}
	})
}

func TestNumberOrderAtTheEdges(t *testing.T) {
	rising := []string{
		"-9.9e125", "-1e125", "-2", "-1.1", "-1.01", "-1", "-0.5", "-1e-130", "0", "1e-130", "0.5", "0.51", "1", "1.01", "1.1", "2", "9", "10", "99", "100", "1e125", "9.9e125",
	}
	for i := 1; i < len(rising); i++ {
		a, _ := item.CanonicalNumber(rising[i-1])
		b, _ := item.CanonicalNumber(rising[i])
		if item.CompareNumbers(a, b) != -1 || item.CompareNumbers(b, a) != 1 || item.CompareNumbers(a, a) != 0 {
			t.Errorf("%s is not below %s", rising[i-1], rising[i])
		}
	}
}

func TestArithmeticIsExactOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number(t, "a"), number(t, "b")
		check := func(name, got string, err error, want *big.Rat) {
			if err != nil {
				// Refused only if no canonical number equals the result.
				if text := want.FloatString(250); len(strings.Trim(strings.Replace(text, ".", "", 1), "-0")) <= 38 {
					t.Fatalf("%s %s %s refused: %v", a, name, b, err)
				}
				return
			}
			if rational(got).Cmp(want) != 0 {
				t.Fatalf("%s %s %s = %s", a, name, b, got)
			}
		}
		sum, err := item.AddNumbers(a, b)
		check("+", sum, err, new(big.Rat).Add(rational(a), rational(b)))
		difference, err := item.SubtractNumbers(a, b)
		check("-", difference, err, new(big.Rat).Sub(rational(a), rational(b)))
	})
}

func TestArithmeticRefusedInTheServicesWords(t *testing.T) {
	big, _ := item.CanonicalNumber("9e125")
	wide, _ := item.CanonicalNumber("1e50")
	for _, pair := range [][2]string{{big, big}, {wide, "1"}} {
		if _, err := item.AddNumbers(pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), "Number overflow") {
			t.Errorf("got %v, want an overflow", err)
		}
	}
}
