package transform

import (
	"cmp"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

type fields struct {
	generation, hop uint32
	sequence        cdc.SequenceNumber
	count           uint16
}

func drawFields(t *rapid.T) fields {
	sequence, err := cdc.ParseSequenceNumber(rapid.StringMatching(`[0-9]{1,40}`).Draw(t, "sequence"))
	if err != nil {
		t.Fatal(err)
	}
	return fields{
		rapid.Uint32Range(0, MaxGeneration).Draw(t, "generation"), rapid.Uint32Range(0, MaxHop).Draw(t, "hop"),
		sequence, rapid.Uint16Range(0, MaxCount).Draw(t, "count"),
	}
}

// H10, H11: sequence numbers of different lengths compare as numbers, and only within a hop of a generation.
func TestH10_H11_VersionBytesOrderAsHistoryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFields(t), drawFields(t)
		if rapid.Bool().Draw(t, "same generation") {
			b.generation = a.generation
		}
		if rapid.Bool().Draw(t, "same hop") {
			b.hop = a.hop
		}
		va, vb := NewVersion(a.generation, a.hop, a.sequence, a.count), NewVersion(b.generation, b.hop, b.sequence, b.count)
		want := cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.hop, b.hop), a.sequence.Compare(b.sequence), cmp.Compare(a.count, b.count))
		if got := cmp.Compare(va, vb); got != want {
			t.Fatalf("%s against %s: %d, want %d", va, vb, got, want)
		}
		if len(va) != VersionSize {
			t.Fatalf("%d bytes", len(va))
		}
		parsed, err := ParseVersion(string(va))
		if err != nil || parsed != va {
			t.Fatalf("%s: %v", va, err)
		}
		if va.Generation() != a.generation || va.Hop() != a.hop || va.Sequence().Compare(a.sequence) != 0 || va.Count() != a.count {
			t.Fatalf("%s does not give back %+v", va, a)
		}
	})
}

func TestLoadRanksBelowEveryChangeOfItsGeneration(t *testing.T) {
	one, _ := cdc.ParseSequenceNumber("1")
	load := NewVersion(7, LoadHop, cdc.SequenceOf(1_795_170_000), CountExact)
	for _, higher := range []Version{
		NewVersion(7, 1, one, CountTimestamped), NewVersion(7, 500_000, one, CountExact),
		NewVersion(7, LoadHop, cdc.SequenceOf(1_795_170_001), CountExact), NewVersion(8, LoadHop, cdc.SequenceOf(0), CountExact),
	} {
		if higher <= load {
			t.Errorf("%s is not above %s", higher, load)
		}
	}
}

func TestParseVersionRefusesWhatIsNone(t *testing.T) {
	good := string(NewVersion(1, 2, cdc.SequenceOf(3), 4))
	for _, bad := range []string{"", good[1:], good + "0", "x" + good[1:], good[:8] + "0" + good[9:], good[:30] + " " + good[31:]} {
		if _, err := ParseVersion(bad); !errors.Is(err, ErrVersion) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestNewVersionPanicsRatherThanWrapAround(t *testing.T) {
	for name, f := range map[string]func(){
		"generation": func() { NewVersion(MaxGeneration+1, 0, cdc.SequenceNumber{}, 0) },
		"hop":        func() { NewVersion(0, MaxHop+1, cdc.SequenceNumber{}, 0) },
		"count":      func() { NewVersion(0, 0, cdc.SequenceNumber{}, MaxCount+1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s out of range is accepted", name)
				}
			}()
			f()
		}()
	}
}
