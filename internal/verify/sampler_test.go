package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

func newSample(t *testing.T, share float64) *Sampler {
	t.Helper()
	s := &Sampler{mapping: enginetest.OrdersMapping(t), share: share}
	s.begin()
	return s
}

// applied returns the rows of some items as a writer has them.
func (s *Sampler) applied(from, to int) *transform.Batch {
	var items []attribute.Item
	for i := from; i < to; i++ {
		items = append(items, enginetest.Keyed(fmt.Sprintf("k%05d", i)))
	}
	b := transform.Load(s.mapping, items, 1, time.UnixMilli(1_800_000_000_000))
	return &b
}

// A sample has about its share of the items: the same ones however often they are applied, and
// others in the next round.
func TestSampleOfWhatIsApplied(t *testing.T) {
	s := newSample(t, 0.1)
	s.note(s.pick(s.applied(0, 2000)))
	s.note(s.pick(s.applied(0, 2000)))
	first := s.take()
	if n := len(first); n < 140 || n > 260 {
		t.Errorf("%d of 2000 items in a sample of a tenth", n)
	}
	s.note(s.pick(s.applied(0, 2000)))
	again := 0
	for _, p := range s.take() {
		if slices.ContainsFunc(first, func(o verify.Place) bool { return o.Row == p.Row }) {
			again++
		}
	}
	if again > len(first)/2 {
		t.Errorf("%d of %d items come again in the next round", again, len(first))
	}
	if whole := newSample(t, 1); len(whole.pick(whole.applied(0, 100))) != 100 {
		t.Error("a share of 1 leaves items out")
	}
}

// However many rows are applied, the waiting ones are bounded, and are a sample by hash. A waiting
// item would have been selected at any time of the round.
func TestASampleIsBounded(t *testing.T) {
	s := newSample(t, 1)
	for from := 0; from < 20_000; from += 1000 {
		s.note(s.pick(s.applied(from, from+1000)))
		if len(s.waiting) > mostWaiting || len(s.known) != len(s.waiting) {
			t.Fatalf("%d rows wait, %d are known", len(s.waiting), len(s.known))
		}
	}
	if len(s.waiting) < mostWaiting/4 {
		t.Errorf("%d rows wait", len(s.waiting))
	}
	for _, p := range s.waiting {
		if p.hash > s.cut {
			t.Fatal("a row that is not in the sample any more waits")
		}
	}
	if s.take(); s.cut != math.MaxUint64 {
		t.Error("the next round does not begin at its share")
	}
}

// A row that was selected before a round ended and became durable afterwards is recorded only if it
// is in the next round's sample.
func TestASampleOfTheRoundBefore(t *testing.T) {
	s := newSample(t, 1)
	picked := s.pick(s.applied(0, 100))
	s.take()
	s.cut = 0
	if s.note(picked); len(s.waiting) != 0 {
		t.Errorf("%d rows wait that are not in the sample", len(s.waiting))
	}
}

// Only a comparison removes another one's finding.
func TestWhatIsKnownToDiffer(t *testing.T) {
	finding := func(row string, kind verify.Kind) verify.Finding {
		return verify.Finding{Source: "Orders", Table: "orders", Row: row, Kind: kind, Keys: enginetest.Keyed(row), Columns: []verify.Column{{Family: "d", Qualifier: "v"}}}
	}
	var known []json.RawMessage
	for _, row := range []string{"mended", "still", "moving"} {
		text, err := json.Marshal(finding(row, verify.Missing))
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, text)
	}
	places, unread := withKnown([]verify.Place{{Table: "orders", Row: "still"}}, known)
	if unread != 0 || len(places) != 3 {
		t.Fatalf("%d places, %d are not read", len(places), unread)
	}
	for _, p := range places[1:] {
		if len(p.Keys) != 1 || !p.Keys[0].Equal(enginetest.Keyed(p.Row)) {
			t.Errorf("%s without its item", p.Row)
		}
	}
	now := merge(known, verify.Checked{
		Equal:    []verify.Place{{Table: "orders", Row: "mended"}},
		Findings: []verify.Finding{finding("still", verify.Different), finding("new", verify.Extra)},
	})
	var got []string
	for _, text := range now {
		var f verify.Finding
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		if f.Row != "moving" && f.Columns != nil {
			t.Errorf("%s is kept with its columns", f.Row)
		}
		got = append(got, f.Row+" "+string(f.Kind))
	}
	if want := []string{"moving missing", "still different", "new extra"}; !slices.Equal(got, want) {
		t.Errorf("known are %q, want %q", got, want)
	}
}

// A row is identified by its table and key. The outcome for a row with the same key in another
// table says nothing about it.
func TestWhatIsKnownIsOfATable(t *testing.T) {
	of := func(table string) verify.Finding {
		return verify.Finding{Source: "Orders", Table: table, Row: "r", Kind: verify.Different, Keys: enginetest.Keyed("r")}
	}
	text, err := json.Marshal(of("orders"))
	if err != nil {
		t.Fatal(err)
	}
	known := []json.RawMessage{text}
	for name, places := range map[string][]verify.Place{"the same": {{Table: "orders", Row: "r"}}, "another row": {{Table: "orders", Row: "s"}}, "another table": {{Table: "parts", Row: "r"}}} {
		all, _ := withKnown(places, known)
		if looked := slices.ContainsFunc(all, func(p verify.Place) bool { return p.Table == "orders" && p.Row == "r" }); !looked || (len(all) == 1) != (name == "the same") {
			t.Errorf("beside %s: %+v", name, all)
		}
		kept := len(merge(known, verify.Checked{Equal: places})) == 1
		if kept != (name != "the same") {
			t.Errorf("when %s is equal it is kept: %v", name, kept)
		}
	}
	if now := merge(known, verify.Checked{Findings: []verify.Finding{of("parts")}}); len(now) != 2 || string(now[0]) != string(text) {
		t.Errorf("beside a difference in another table: %s", now)
	}
}

// A finding in the format of a later version is reported. It neither stops a round nor is dropped:
// only a comparison removes it.
func TestAFindingThatCannotBeRead(t *testing.T) {
	playScene(t, "ab", func(s *scene) {
		later := json.RawMessage(`{"kind":"stale","row":7}`)
		_, err := s.Ledger.Sample(s.Ctx, "Orders", s.Now(), 1, func([]json.RawMessage) []json.RawMessage { return []json.RawMessage{later} })
		s.Must(err)
		var halted error
		of := s.sampler(&halted)
		s.Must(s.rounds(of, 90*time.Second)) // with nothing else to compare
		s.Damage("orders", "b", "d", "pk", "x")
		s.applied(of, "a", "b")
		s.Must(s.rounds(of, 90*time.Second))
		if state := s.Table("Orders").Sampled; s.known() != "stale different" || state.Differing != 2 || s.compared != 2 || halted != nil {
			t.Errorf("known are %s, %+v; %d rows are compared, %v", s.known(), state, s.compared, halted)
		}
		if want := []string{"read the rows that differ", "read the rows that differ"}; !slices.Equal(s.told, want) {
			t.Errorf("told %q", s.told)
		}
	})
}
