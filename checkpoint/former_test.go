package checkpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// H102: the ledger keeps every replaced mapping until a sweep is complete. It keeps each once, does
// not keep the present one, and is bounded.
func TestH102_FormerMappingsAreKept(t *testing.T) {
	f := newFailing(t)
	of := func(name string, tables ...string) checkpoint.Mapping {
		return checkpoint.Mapping{Hash: name, Text: "text of " + name, Tables: tables}
	}
	change := func(m checkpoint.Mapping) error {
		_, _, err := f.ledger.CheckMapping(f.Context(), source, m, true)
		return err
	}
	must := func(m checkpoint.Mapping) checkpoint.TableState {
		t.Helper()
		if err := change(m); err != nil {
			t.Fatal(err)
		}
		state, _, err := f.ledger.Table(f.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	former := func(s checkpoint.TableState) (names string) {
		for _, kept := range s.Former {
			names += kept.Hash + ":" + kept.Text + " "
		}
		return names
	}
	if _, err := f.ledger.UpdateTable(f.Context(), source, func(s *checkpoint.TableState) error {
		// The record was written by a version that kept no text.
		s.MappingHash, s.Generation, s.Adopted, s.WitnessBeat = "a", 7, 7, 5
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s := must(of("a", "t", "u")); s.Mapping != "text of a" || len(s.Former) > 0 || s.Generation != 7 {
		t.Errorf("the same mapping: %+v", s)
	}
	if s := must(of("b", "v")); former(s) != "a:text of a " || s.Generation <= 7 || s.WitnessBeat != 0 || s.WitnessBeats["t"] != 5 || fmt.Sprint(s.FormerTables()) != "[t u]" {
		t.Errorf("another: %+v", s)
	}
	if s := must(of("c", "t")); former(s) != "a:text of a b:text of b " || s.WitnessBeat != 5 || fmt.Sprint(s.FormerTables()) != "[u v]" {
		t.Errorf("a third: %+v", s)
	}
	if s := must(of("a", "t", "u")); former(s) != "b:text of b c:text of c " {
		t.Errorf("back: %s", former(s))
	}
	var err error
	for n := 0; err == nil && n < 20; n++ {
		err = change(of(fmt.Sprint("more", n), "t"))
	}
	state, _, _ := f.ledger.Table(f.Context(), source)
	if !errors.Is(err, checkpoint.ErrManyMappings) || len(state.Former) != checkpoint.MaxFormer {
		t.Errorf("%d are kept: %v", len(state.Former), err)
	}
}
