package item_test

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

func TestNumbersRefusedInTheServicesWords(t *testing.T) {
	cases := []struct{ in, want string }{
		{"", "numeric"}, {"-.", "numeric"}, {"1e", "numeric"}, {" 1", "numeric"}, {"NaN", "numeric"}, {"0x10", "numeric"}, {"1.2.3", "numeric"},
		{"1e126", "overflow"}, {"-11e125", "overflow"}, {"1e99999999999999999999999999", "overflow"},
		{"1e-131", "underflow"}, {"1e-99999999999999999999999999", "underflow"},
		{"3.14159265358979323846264338327950288419", "more than 38 significant"}, {"314159265358979323846264338327950288419e30", "more than 38 significant"},
	}
	for _, c := range cases {
		_, err := item.ParseValue([]byte(`{"N":"` + c.in + `"}`))
		var invalid *item.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Message, c.want) {
			t.Errorf("%q gives %v; want an error with %q", c.in, err, c.want)
		}
	}
}

// number draws any number that DynamoDB can store.
func number(t *rapid.T, label string) string {
	digits := rapid.StringMatching(`[0-9]{1,37}`).Draw(t, label+" digits")
	point := rapid.IntRange(0, len(digits)).Draw(t, label+" point")
	exponent := rapid.IntRange(-80, 80).Draw(t, label+" exponent")
	sign := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, label+" sign")
	text := sign + digits[:point] + "." + digits[point:] + "e" + big.NewInt(int64(exponent)).String()
	canonical, err := attribute.CanonicalNumber(text)
	if err != nil {
		t.Fatalf("CanonicalNumber(%q): %v", text, err)
	}
	return canonical
}

func TestNumberSortKeysOrderAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number(t, "a"), number(t, "b")
		if got := bytes.Compare(item.NumberSortKey(a), item.NumberSortKey(b)); got != attribute.CompareNumbers(a, b) {
			t.Fatalf("sort keys of %s and %s order %d", a, b, got)
		}
	})
}

func TestNumberSortKeysAtTheEdges(t *testing.T) {
	rising := []string{
		"-9.9e125", "-1e125", "-20", "-10.5", "-10", "-2", "-1.1", "-1.01", "-1", "-0.5", "-1e-130", "0", "1e-130", "0.05", "0.5", "0.51", "1", "1.01", "1.1", "2", "9", "10", "10.5", "99", "100", "1e125", "9.9e125",
	}
	for i := 1; i < len(rising); i++ {
		a, _ := attribute.CanonicalNumber(rising[i-1])
		b, _ := attribute.CanonicalNumber(rising[i])
		if bytes.Compare(item.NumberSortKey(a), item.NumberSortKey(b)) != -1 {
			t.Errorf("the key of %s is not below that of %s", rising[i-1], rising[i])
		}
	}
}

// Sizes that others measured at the service.
func TestNumberSizes(t *testing.T) {
	for text, want := range map[string]int{
		"0": 1, "-0": 1, "1": 2, "12": 2, "123": 3, "12345": 4, "123456": 4, "1234567890123456789": 11, "12345678901234567890123456789012345678": 20,
		"0042": 2, "100": 2, "1010": 3, "0.0000001": 2, "1E125": 2, "1E-100": 2, "1.5": 3, "1.200": 3, "1.234": 4, "3.14159": 5, "100.5": 4, "0.15": 2, "-42": 3, "-0.15": 3, "-1E125": 3,
	} {
		v, err := attribute.Number(text)
		if err != nil || item.ValueSize(v) != want {
			t.Errorf("%s has %d bytes, want %d (%v)", text, item.ValueSize(v), want, err)
		}
	}
}
