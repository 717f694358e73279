package transform

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// FuzzVersion: the bytes of two versions compare like their fields, one after the other, and the
// fields can be read back.
func FuzzVersion(f *testing.F) {
	f.Add(uint32(1), uint32(500_000), "99", uint16(1), uint32(1), uint32(500_000), "100", uint16(0))
	f.Add(uint32(29_891_520), uint32(500_001), "1000", uint16(1), uint32(29_891_520), uint32(500_000), "999999999999999999999", uint16(9_999))
	f.Add(uint32(MaxGeneration), uint32(0), "1732175999", uint16(1), uint32(7), uint32(MaxHop), strings.Repeat("9", 40), uint16(MaxCount))
	f.Fuzz(func(t *testing.T, g1, h1 uint32, s1 string, c1 uint16, g2, h2 uint32, s2 string, c2 uint16) {
		m, err1 := cdc.ParseSequenceNumber(s1)
		n, err2 := cdc.ParseSequenceNumber(s2)
		if err1 != nil || err2 != nil || m.IsZero() || n.IsZero() {
			return
		}
		g1, h1, c1, g2, h2, c2 = g1%(MaxGeneration+1), h1%(MaxHop+1), c1%(MaxCount+1), g2%(MaxGeneration+1), h2%(MaxHop+1), c2%(MaxCount+1)
		a, b := NewVersion(g1, h1, m, c1), NewVersion(g2, h2, n, c2)
		want := cmp.Or(cmp.Compare(g1, g2), cmp.Compare(h1, h2), m.Compare(n), cmp.Compare(c1, c2))
		if got := strings.Compare(string(a), string(b)); got != want || len(a) != VersionSize {
			t.Errorf("%s and %s compare as %d, not %d", a, b, got, want)
		}
		if a.Generation() != g1 || a.Hop() != h1 || a.Sequence().Compare(m) != 0 || a.Count() != c1 {
			t.Errorf("%s has other fields than it was made of", a)
		}
		if a.WithoutCount() > a || a.WithoutCount().Count() != 0 {
			t.Errorf("%s is %s without its count", a, a.WithoutCount())
		}
	})
}

// FuzzParseVersion: a text that is accepted as a version is one.
func FuzzParseVersion(f *testing.F) {
	good := string(NewVersion(29_891_520, 500_000, cdc.SequenceOf(100), CountExact))
	for _, text := range []string{"", good, good[1:], good + "0", strings.ReplaceAll(good, ".", "-"), strings.Replace(good, "5", "٣", 1), strings.Repeat("9", VersionSize)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseVersion(text)
		if err != nil {
			if !errors.Is(err, ErrVersion) || v != "" {
				t.Errorf("%q: %q, %v", text, v, err)
			}
			return
		}
		if again := NewVersion(v.Generation(), v.Hop(), v.Sequence(), v.Count()); again != v || string(v) != text {
			t.Errorf("%q was taken for %q, which is %q", text, v, again)
		}
	})
}
