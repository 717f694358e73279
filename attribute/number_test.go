package attribute_test

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/attribute/attributetest"
	"pgregory.net/rapid"
)

func TestCanonicalNumber(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0", "0"}, {"-0", "0"}, {"+0", "0"}, {"0.000", "0"}, {"0e500", "0"}, {"-0E-999999999999", "0"}, {"000", "0"},
		{"1", "1"}, {"+1", "1"}, {"007", "7"}, {"-007.700", "-7.7"}, {".5", "0.5"}, {"-.5", "-0.5"}, {"5.", "5"}, {"10", "10"}, {"1.0", "1"},
		{"1e0", "1"}, {"1e39", "1" + strings.Repeat("0", 39)}, {"1E+3", "1000"}, {"1.5e1", "15"}, {"1.25e-1", "0.125"}, {"12.5e-3", "0.0125"},
		{"100e-2", "1"}, {"0.001e3", "1"}, {"1e-130", "0." + strings.Repeat("0", 129) + "1"},
		{"9.9999999999999999999999999999999999999e125", strings.Repeat("9", 38) + strings.Repeat("0", 88)},
		{"-9.9999999999999999999999999999999999999E+125", "-" + strings.Repeat("9", 38) + strings.Repeat("0", 88)},
		{strings.Repeat("0", 500) + "12", "12"},
		{"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"},
		{"0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"},
		{"1.2345e-130", "0." + strings.Repeat("0", 129) + "12345"},
	} {
		got, err := attribute.CanonicalNumber(c.text)
		if err != nil || got != c.want {
			t.Errorf("CanonicalNumber(%q) = %q, %v; want %q", c.text, got, err, c.want)
		}
		if again, err := attribute.CanonicalNumber(got); err != nil || again != got {
			t.Errorf("canonical text %q became %q, %v", got, again, err)
		}
	}
}

func TestCanonicalNumberRefuses(t *testing.T) {
	for _, text := range []string{
		"", "-", "+", ".", "-.", "e5", ".e5", "1e", "1e+", "1e1.5", "1e5e5", "--1", "+-1", "1-", "1.2.3", "1 ", " 1", "1\n", "0x10", "1_000", "1,5",
		"NaN", "Infinity", "inf", "١", "1e126", "1e-131", "-1e126", "1e99999999999999999999999", "10e125", "0.1e-130",
		"123456789012345678901234567890123456789", "1.00000000000000000000000000000000000001", "1" + strings.Repeat("0", 126),
		strings.Repeat("0", 1025),
	} {
		got, err := attribute.CanonicalNumber(text)
		if !errors.Is(err, attribute.ErrNumber) || got != "" {
			t.Errorf("CanonicalNumber(%q) = %q, %v; want ErrNumber", text, got, err)
		}
	}
	if _, err := attribute.CanonicalNumber("98765432109876543210987654321098765432109"); strings.Contains(err.Error(), "9876") {
		t.Errorf("the error quotes the digits: %v", err)
	}
}

func TestCanonicalNumberDoesNotAllocate(t *testing.T) {
	for _, text := range []string{"0", "-12.5", "1732175999", "1" + strings.Repeat("0", 100), "0." + strings.Repeat("0", 100) + "1"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = attribute.CanonicalNumber(text) }); n != 0 {
			t.Errorf("%d characters: %v allocations", len(text), n)
		}
	}
}

func rat(t interface{ Fatalf(string, ...any) }, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("big.Rat does not read %q", text)
	}
	return r
}

// checkAgainstRat compares CanonicalNumber with exact arithmetic: the value is unchanged, and a
// refused number is out of range.
func checkAgainstRat(t interface{ Fatalf(string, ...any) }, text string) {
	want := rat(t, text)
	got, err := attribute.CanonicalNumber(text)
	if err != nil {
		magnitude := new(big.Rat).Abs(want)
		small := magnitude.Cmp(rat(t, "1e-130")) < 0
		large := magnitude.Cmp(rat(t, "1e126")) >= 0
		if want.Sign() != 0 && (small || large) {
			return
		}
		digits := strings.TrimLeft(strings.Trim(strings.ReplaceAll(want.FloatString(400), ".", ""), "0-"), "0")
		if len(digits) <= 38 {
			t.Fatalf("%q refused: %v", text, err)
		}
		return
	}
	if rat(t, got).Cmp(want) != 0 {
		t.Fatalf("%q became %q", text, got)
	}
	if strings.ContainsAny(got, "eE+") || got == "-0" || len(got) > 170 {
		t.Fatalf("%q became %q, which is not canonical", text, got)
	}
	whole, fraction, dotted := strings.Cut(strings.TrimPrefix(got, "-"), ".")
	if whole == "" || len(whole) > 1 && whole[0] == '0' || dotted && (fraction == "" || strings.HasSuffix(fraction, "0")) {
		t.Fatalf("%q became %q, which is not canonical", text, got)
	}
}

func TestCanonicalNumberKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkAgainstRat(t, attributetest.NumberTexts().Draw(t, "number")) })
}

func TestCompareNumbersIsNumeric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		canonical := attributetest.NumberTexts().Filter(func(s string) bool { _, err := attribute.CanonicalNumber(s); return err == nil })
		a, _ := attribute.CanonicalNumber(canonical.Draw(t, "a"))
		b, _ := attribute.CanonicalNumber(canonical.Draw(t, "b"))
		if got, want := attribute.CompareNumbers(a, b), rat(t, a).Cmp(rat(t, b)); got != want {
			t.Fatalf("CompareNumbers(%s, %s) = %d, want %d", a, b, got, want)
		}
	})
	sorted := []string{"-100", "-99", "-1.01", "-1", "-0.5", "-0.05", "0", "0.05", "0.5", "1", "1.01", "99", "100"}
	if !slices.IsSortedFunc(sorted, attribute.CompareNumbers) {
		t.Error("signs or lengths are not ordered by value")
	}
}

func FuzzCanonicalNumber(f *testing.F) {
	for _, text := range []string{"0", "-0.0", "1e39", ".5", "5.", "1e-130", "9.9e125", "+001.100", "1e", "e", "-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := attribute.CanonicalNumber(text)
		if err != nil {
			if !errors.Is(err, attribute.ErrNumber) || got != "" {
				t.Fatalf("%q, %v", got, err)
			}
			return
		}
		if again, err := attribute.CanonicalNumber(got); err != nil || again != got {
			t.Fatalf("canonical text %q became %q, %v", got, again, err)
		}
		if len(text) < 200 && !strings.ContainsAny(text, "eE") {
			checkAgainstRat(t, text)
		}
	})
}

func BenchmarkCanonicalNumber(b *testing.B) {
	for _, text := range []string{"1732175999", "1.5e3"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = attribute.CanonicalNumber(text)
			}
		})
	}
}
