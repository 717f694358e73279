package dynamodbtest

import "strings"

// Sequence numbers are decimal numbers of 21 to 40 digits. They are too long for a machine word.
// They are kept as text without leading zeros and compared as numbers.

// compareSequence orders two sequence numbers: -1, 0 or 1.
func compareSequence(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		if len(a) < len(b) {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// addSequence returns the sum of two decimal numbers.
func addSequence(a, b string) string {
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := make([]byte, len(a)+1)
	carry := byte(0)
	for i := range len(a) {
		digit := a[len(a)-1-i] - '0' + carry
		if i < len(b) {
			digit += b[len(b)-1-i] - '0'
		}
		carry = digit / 10
		sum[len(sum)-1-i] = '0' + digit%10
	}
	sum[0] = '0' + carry
	return strings.TrimLeft(string(sum), "0")
}

// validSequence reports whether the text has the form of a sequence number: 1 to 40
// decimal digits.
func validSequence(text string) bool {
	if len(text) == 0 || len(text) > 40 {
		return false
	}
	return strings.Trim(text, "0123456789") == ""
}
