package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// keeper is an owner of the part whose record is given.
type keeper struct {
	Saves
	record *checkpoint.Part
}

// save stores and commits what an owner has.
func (k *keeper) save(t *testing.T, p Progress, since News) {
	t.Helper()
	for range 2 { // it may be repeated
		to, err := k.Store(t.Context(), p, since)
		if err != nil {
			t.Fatal(err)
		}
		k.record.PartProgress = to
	}
	k.Committed(t.Context())
}

// waiting returns the rows of candidates.
func waiting(all []Candidate) string {
	var rows []string
	for _, c := range all {
		rows = append(rows, c.Row)
	}
	return strings.Join(rows, " ")
}

// H56: another owner of a part resumes with everything of the last committed save, and with nothing of
// a later one. What a save replaces is removed.
func TestH56_AnotherOwnerResumes(t *testing.T) {
	l, table := keeping(t)
	record := &checkpoint.Part{Index: 1, Phase: "verify-1"}
	own := func() *keeper {
		record.Epoch++
		return &keeper{Saves: Saves{Kept: Kept{l, table, *record}}, record: record}
	}
	row := func(rows ...string) (all []Candidate) {
		for _, r := range rows {
			all = append(all, Candidate{Look: Look{Place: Place{Table: "t", Row: r}}})
		}
		return all
	}
	sums := func(rows ...uint32) *Sums {
		s := NewSums(nil)
		for _, n := range rows {
			s.at(n).cells = total{uint64(n)}
		}
		return s
	}
	data := func(prefix string) int {
		all, err := l.VerifyData(t.Context(), "S", 3, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	resumes := func(what, position string, read bool, waits string, added *Sums, found int) *keeper {
		t.Helper()
		next, total := own(), NewSums(nil)
		for range 2 { // it may be repeated without sums
			if _, err := next.Resume(t.Context(), nil); err != nil {
				t.Fatal(what, err)
			}
		}
		from, err := next.Resume(t.Context(), total)
		if err != nil || string(from.Position) != position || from.Read != read || waiting(from.Waiting) != waits || len(next.held.found) != found || from.Items != record.Compared.Items ||
			!slices.EqualFunc(total.Pieces(pieceBytes), added.Pieces(pieceBytes), bytes.Equal) {
			t.Errorf("%s: %+v, %d cells of findings, %v", what, from, len(next.held.found), err)
		}
		return next
	}
	first := resumes("at the beginning", "", false, "", sums(), 0)
	first.save(t, Progress{Position: json.RawMessage(`{"p":1}`), Counts: Counts{Items: 1}}, News{Found: []Finding{{Row: "f"}}})
	if string(record.Position) != `{"p":1}` {
		t.Errorf("without rows that wait: %s", record.Position)
	}
	first.save(t, Progress{Position: json.RawMessage(`{"p":2}`), Counts: Counts{Items: 2}}, News{Waiting: row("a", "b"), Sums: sums(1, 2)})
	first.save(t, Progress{Position: json.RawMessage(`{"p":3}`), Counts: Counts{Items: 3}}, News{Waiting: row("c"), Sums: sums(1, 2, 3)})
	if _, err := first.Store(t.Context(), Progress{Position: json.RawMessage(`{"p":4}`)}, News{Found: []Finding{{Row: "late"}}, Waiting: row("late"), Sums: sums(9)}); err != nil {
		t.Fatal(err)
	}
	second := resumes("between pages", `{"p":3}`, false, "a b c", sums(1, 2, 3), 1)
	if n := data(sumsData); n != 2 { // one of the save that was not committed
		t.Errorf("%d sums are kept", n)
	}
	for _, refuses := range []error{func() error { _, err := attribute.UnmarshalItem(record.Position); return err }(), json.Unmarshal(record.Position, &position{})} {
		if refuses == nil {
			t.Errorf("a version that does not know waiting rows resumes at %s", record.Position)
		}
	}
	second.save(t, Progress{Counts: Counts{Items: 4}, Read: true}, News{Found: []Finding{{Row: "g"}}, Waiting: row("b"), Instead: true, Sums: sums(1, 2, 3, 4)})
	third := resumes("at the end", "", true, "b", sums(1, 2, 3, 4), 2)
	third.save(t, Progress{Counts: Counts{Items: 4}, Read: true}, News{Waiting: row("b")}) // once more
	fourth := resumes("at the end", "", true, "b b", sums(1, 2, 3, 4), 2)
	fourth.save(t, Progress{Counts: Counts{Items: 4}, Read: true}, News{Found: []Finding{{Row: "h"}}, Instead: true, Sums: sums(7)})
	resumes("over", "", true, "", sums(1, 2, 3, 4), 3)
	if n := data(waitingData); n != 1 { // of the save that was not committed
		t.Errorf("%d lists of waiting rows are kept", n)
	}
}

// What a part saved and the ledger lost is an error: without it, rows would count as compared that
// were not.
func TestH56_ALostSaveIsAnError(t *testing.T) {
	for _, lost := range []string{sumsData, waitingData} {
		l, table := keeping(t)
		record := &checkpoint.Part{Phase: "verify-1", Epoch: 1}
		k := &keeper{Saves: Saves{Kept: Kept{l, table, *record}}, record: record}
		one := NewSums(nil)
		one.at(1).cells = total{1}
		k.save(t, Progress{Read: true}, News{Waiting: []Candidate{{}}, Sums: one})
		all, err := l.VerifyData(t.Context(), "S", 3, lost)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d rows of %s, %v", len(all), lost, err)
		}
		if err := l.DropVerifyData(t.Context(), table, all[0].Name); err != nil {
			t.Fatal(err)
		}
		next := &Saves{Kept: Kept{l, table, *record}}
		if _, err := next.Resume(t.Context(), NewSums(nil)); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("without %s: %v", lost, err)
		}
		if err := l.PutVerifyData(t.Context(), table, all[0].Name, []byte("secret")); err != nil {
			t.Fatal(err)
		}
		if _, err := next.Resume(t.Context(), NewSums(nil)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("with another %s: %v", lost, err)
		}
	}
}

// A candidate comes back with all that its next check needs.
func TestACandidateComesBack(t *testing.T) {
	f := Finding{Table: "t", Row: "\xff\x00", Keys: item("é"), Kind: Different, Version: "7", image: "\x00\xfe"}
	pending := Finding{Table: "t", Row: "\xff\x00", Kind: Extra, Version: "8"}
	c := Candidate{Look: Look{Place: Place{Table: "t", Row: "\xff\x00", Keys: []attribute.Item{item("é"), item("b")}}, At: noon}, wants: living, checked: 2}
	c.Findings, c.pending = []Finding{f, {Table: "t", Kind: Missing}}, []Finding{pending}
	data, err := c.MarshalJSON()
	var back Candidate
	if err := errors.Join(err, back.UnmarshalJSON(data)); err != nil || !reflect.DeepEqual(c, back) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, text := range []string{`"secret"`, `{"keys":["secret"]}`, `{"found":[{"row":"c2VjcmV0"}]}`} {
		if err := back.UnmarshalJSON([]byte(text)); !errors.Is(err, backfill.ErrProgress) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
