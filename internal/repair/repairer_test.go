package repair

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A repair of many items ends where another mapping begins.
func TestRepairEndsWithTheMapping(t *testing.T) {
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash string
		want error
	}{{"former", nil}, {"other", checkpoint.ErrMappingChanged}} {
		state, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.MappingHash, s.Generation = c.hash, s.Generation+1
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if now, err := underMapping(t.Context(), ledger, "Orders", "former"); now.Generation != state.Generation || !errors.Is(err, c.want) {
			t.Errorf("under %s: generation %d, %v", c.hash, now.Generation, err)
		}
	}
}

// asked is what a repair asks the ledger of a table, and what sets the table's generations and its
// mapping.
func asked(t *testing.T) (generations, func(generation, adopted uint32, mapping string)) {
	t.Helper()
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	note := func(generation, adopted uint32, mapping string) {
		if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.MappingHash, s.Generation, s.Adopted, s.Listed = "arn", "L", mapping, generation, adopted, generation
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return generations{ledger: ledger, table: "Orders", mapping: "hash"}, note
}

// A row without a version is repaired in a generation only if every change from after the item's
// read will be applied in it.
func TestARepairWaitsForTheGeneration(t *testing.T) {
	ask, note := asked(t)
	note(7, 6, "hash")
	var unready *checkpoint.NotAdmissible
	if _, err := ask.admissible(t.Context(), time.Now()); !errors.As(err, &unready) || !diag.Has(Failed(t.Context(), "cannot", "Orders", err), diag.RetryNotYet) {
		t.Error(err)
	}
	note(7, 7, "hash")
	if generation, err := ask.admissible(t.Context(), time.Now()); generation != 7 || err != nil {
		t.Error(generation, err)
	}
}

// A repair of many items takes hours: the ledger is asked for each of them.
func TestARepairNoticesWhatBecomesOfTheTable(t *testing.T) {
	ask, note := asked(t)
	for _, generation := range []uint32{7, 9} {
		note(generation, generation, "hash")
		if got, err := ask.current(t.Context()); got != generation || err != nil {
			t.Errorf("generation %d is given as %d, %v", generation, got, err)
		}
	}
	note(9, 9, "another")
	if _, err := ask.current(t.Context()); !errors.Is(err, checkpoint.ErrMappingChanged) {
		t.Errorf("under another mapping: %v", err)
	}
}

// An app profile that is led to another cluster between two retries is noticed by the second one.
func TestH46_ARepairAsksForTheClusterAnew(t *testing.T) {
	ask, _ := asked(t)
	to := ""
	profile := func(context.Context) (string, error) {
		if to == "" {
			return "", &sink.ProfileError{Problem: sink.MissingProfile}
		}
		return to, nil
	}
	if err := preflight.SameCluster(t.Context(), ask.ledger, profile); err != nil {
		t.Errorf("before the ledger knows a cluster: %v", err)
	}
	if err := ask.ledger.CheckCluster(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for _, to = range []string{"c1", "c2"} {
		if err := preflight.SameCluster(t.Context(), ask.ledger, profile); (err == nil) != (to == "c1") || err != nil && !errors.Is(err, checkpoint.ErrClusterChanged) {
			t.Errorf("a repair into %s: %v", to, err)
		}
	}
	to = ""
	var gone *sink.ProfileError
	if err := preflight.SameCluster(t.Context(), ask.ledger, profile); !errors.As(err, &gone) {
		t.Errorf("a repair by a profile that is gone, which may lead anywhere: %v", err)
	}
}
