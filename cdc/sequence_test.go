package cdc

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// H10: numbers of one shard grow in length; they compare as numbers, and so do their padded bytes.
func TestH10SequenceNumbersCompareAsNumbers(t *testing.T) {
	parse := func(s string) SequenceNumber {
		n, err := ParseSequenceNumber(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if parse("99").Compare(parse("100")) != -1 || parse("100").Compare(parse("0099")) != 1 || parse("7").Compare(parse("007")) != 0 {
		t.Error("99 must come before 100, and leading zeros mean nothing")
	}
	if (SequenceNumber{}).Compare(parse("0")) != -1 || !parse("").IsZero() || parse("0").IsZero() {
		t.Error("no number comes before every number")
	}
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.StringMatching(`[0-9]{1,40}`)
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		m, n := parse(a), parse(b)
		if m.Compare(n) != x.Cmp(y) {
			t.Fatalf("%s and %s compare as %d", a, b, m.Compare(n))
		}
		if bytes.Compare(m.AppendPadded(nil), n.AppendPadded(nil)) != x.Cmp(y) || len(m.AppendPadded(nil)) != MaxSequenceDigits {
			t.Fatalf("padded %s and %s compare otherwise", a, b)
		}
		if m.String() != x.String() {
			t.Fatalf("%s is written %s", a, m)
		}
		text, _ := m.MarshalText()
		var back SequenceNumber
		if err := back.UnmarshalText(text); err != nil || back != m {
			t.Fatalf("%s came back as %s, %v", m, back, err)
		}
	})
}

func TestParseSequenceNumberRefuses(t *testing.T) {
	for _, text := range []string{"-1", "+1", "1.0", "1e3", " 1", "12x", strings.Repeat("9", 41)} {
		if _, err := ParseSequenceNumber(text); !errors.Is(err, ErrSequenceNumber) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if n, err := ParseSequenceNumber("0" + strings.Repeat("9", 40)); err != nil || n.String() != strings.Repeat("9", 40) {
		t.Errorf("40 digits after a zero: %s, %v", n, err)
	}
	if SequenceOf(1732175999).String() != "1732175999" {
		t.Error("SequenceOf")
	}
}
