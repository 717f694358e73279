package expression

import (
	"math/big"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// add returns the exact sum of two canonical numbers. It rejects a sum that DynamoDB cannot store
// exactly. Like the service, it reports an overflow even if only the number of digits is too large.
func add(a, b string) (attribute.Value, error) { return combine(a, b, (*big.Int).Add) }

// subtract returns the exact difference a − b, under the rules of add.
func subtract(a, b string) (attribute.Value, error) { return combine(a, b, (*big.Int).Sub) }

func combine(a, b string, op func(z, x, y *big.Int) *big.Int) (attribute.Value, error) {
	places := max(fractionDigits(a), fractionDigits(b))
	digits := op(new(big.Int), scaled(a, places), scaled(b, places)).Text(10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if missing := places + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole := len(digits) - places
	v, err := attribute.Number(sign + digits[:whole] + "." + digits[whole:])
	if err != nil {
		return attribute.Value{}, refuse("Number overflow. Attempting to store a number with magnitude larger than supported range")
	}
	return v, nil
}

func fractionDigits(number string) int {
	_, fraction, _ := strings.Cut(number, ".")
	return len(fraction)
}

// scaled returns a canonical number times ten to the power of places. The number must have at most
// places fraction digits.
func scaled(number string, places int) *big.Int {
	whole, fraction, _ := strings.Cut(number, ".")
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", places-len(fraction)), 10)
	if !ok {
		panic("expression: not a canonical number")
	}
	return n
}
