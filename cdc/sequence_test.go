package cdc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"pgregory.net/rapid"
)

// H10: numbers of one shard grow in length. They compare as numbers, and so do their padded bytes.
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
		if m.String() != a {
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
	if n, err := ParseSequenceNumber("0" + strings.Repeat("9", 40)); err != nil || n.String() != "0"+strings.Repeat("9", 40) {
		t.Errorf("40 digits after a zero: %s, %v", n, err)
	}
	if SequenceOf(1732175999).String() != "1732175999" {
		t.Error("SequenceOf")
	}
}

// A service may accept only the exact text that it returned, and local services pad numbers to 21
// digits. The ledger and parked records keep that text.
func TestSequenceNumberKeepsItsText(t *testing.T) {
	for _, text := range []string{"000000000000000000935", "935", "100000000000000000001", "0", "00"} {
		n := must(ParseSequenceNumber(text))
		type record struct {
			Position SequenceNumber `json:"position,omitzero"`
		}
		var stored record
		if err := json.Unmarshal(must(json.Marshal(record{n})), &stored); err != nil || stored.Position.String() != text || stored.Position != n {
			t.Errorf("%s is stored as %s, %v", text, stored.Position, err)
		}
		key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}})
		change := Change{Event: Remove, Sequence: n, Time: time.Unix(1, 0), Keys: key}
		if back, err := UnmarshalChange(must(MarshalChange(change))); err != nil || back.Sequence.String() != text {
			t.Errorf("%s is kept as %s, %v", text, back.Sequence, err)
		}
	}
}

// FuzzSequenceNumber: a sequence number has the same value as in math/big, in every stored form.
func FuzzSequenceNumber(f *testing.F) {
	for _, texts := range [][2]string{
		{"99", "100"}, {"0", ""}, {"00", "0"}, {"100000000000000000000", "99999999999999999999"}, {strings.Repeat("9", 40), "1" + strings.Repeat("0", 39)},
		{strings.Repeat("0", 60) + "7", "7"}, {"+1", "1"}, {"1e3", "1000"}, {"٣", "3"}, {" 1", "1\n"},
	} {
		f.Add(texts[0], texts[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okA := fuzzedNumber(t, a)
		y, okB := fuzzedNumber(t, b)
		if !okA || !okB {
			return
		}
		p, q := new(big.Int), new(big.Int)
		p.SetString(x.String(), 10)
		q.SetString(y.String(), 10)
		want := p.Cmp(q)
		switch { // the zero value precedes all numbers, even zero
		case x.IsZero() || y.IsZero():
			want = len(x.String()) - len(y.String()) // one of them is the zero value
		default:
			if got := bytes.Compare(x.AppendPadded(nil), y.AppendPadded(nil)); got != want {
				t.Errorf("padded %s and %s compare as %d", x, y, got)
			}
		}
		if got := x.Compare(y); got*want < 0 || (got == 0) != (want == 0) || y.Compare(x) != -got {
			t.Errorf("%s and %s compare as %d", x, y, got)
		}
	})
}

// fuzzedNumber parses a text, and compares the result with math/big and with its stored forms.
func fuzzedNumber(t *testing.T, text string) (SequenceNumber, bool) {
	n, err := ParseSequenceNumber(text)
	value, isNumber := new(big.Int).SetString(text, 10)
	isNumber = isNumber && strings.Trim(text, "0123456789") == ""
	if err != nil {
		if !errors.Is(err, ErrSequenceNumber) || !n.IsZero() {
			t.Errorf("%q: %v, %v", text, n, err)
		}
		if isNumber && len(value.String()) <= MaxSequenceDigits {
			t.Errorf("%q is refused: %v", text, err)
		}
		return n, false
	}
	if n.IsZero() != (text == "") || n.String() != text || !n.IsZero() && !isNumber {
		t.Errorf("%q is taken for %s", text, n)
	}
	stored, _ := n.MarshalText()
	var back SequenceNumber
	if err := back.UnmarshalText(stored); err != nil || back != n {
		t.Errorf("%s came back as %s, %v", n, back, err)
	}
	if padded := string(n.AppendPadded([]byte("x"))); text != "" && padded != fmt.Sprintf("x%0*d", MaxSequenceDigits, value) {
		t.Errorf("%s is padded to %s", n, padded)
	}
	return n, true
}
