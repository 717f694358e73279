package expression

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// number draws any number that DynamoDB can store, as canonical text.
func number(t *rapid.T, label string) string {
	digits := rapid.StringMatching(`[0-9]{1,37}`).Draw(t, label+" digits")
	exponent := rapid.IntRange(-80, 80).Draw(t, label+" exponent")
	sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, label+" sign")
	canonical, err := attribute.CanonicalNumber(sign + digits + "e" + big.NewInt(int64(exponent)).String())
	if err != nil {
		t.Fatal(err)
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

func TestArithmeticIsExactOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number(t, "a"), number(t, "b")
		check := func(name string, got attribute.Value, err error, want *big.Rat) {
			if err != nil {
				// It may be refused only if no canonical number equals the result.
				if text := want.FloatString(250); len(strings.Trim(strings.Replace(text, ".", "", 1), "-0")) <= 38 {
					t.Fatalf("%s %s %s refused: %v", a, name, b, err)
				}
				return
			}
			if rational(got.Text()).Cmp(want) != 0 {
				t.Fatalf("%s %s %s = %s", a, name, b, got.Text())
			}
		}
		sum, err := add(a, b)
		check("+", sum, err, new(big.Rat).Add(rational(a), rational(b)))
		difference, err := subtract(a, b)
		check("-", difference, err, new(big.Rat).Sub(rational(a), rational(b)))
	})
}

func TestArithmeticRefusedInTheServicesWords(t *testing.T) {
	big, _ := attribute.CanonicalNumber("9e125")
	wide, _ := attribute.CanonicalNumber("1e50")
	for _, pair := range [][2]string{{big, big}, {wide, "1"}} {
		if _, err := add(pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), "Number overflow") {
			t.Errorf("got %v, want an overflow", err)
		}
	}
}
