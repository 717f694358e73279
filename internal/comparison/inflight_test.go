package comparison

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// flown runs a script after a verify with one row in flight, and one row that differs if `damaged` is
// true.
func flown(t *testing.T, damaged bool, script func(s *scene)) {
	t.Helper()
	playScene(t, func(s *scene) {
		s.Sleep(time.Minute)
		s.StopWorker()
		s.Sleep(10 * time.Minute)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("d", "total=new")))
		if damaged {
			s.Damage("orders", "c", "", "", "")
		}
		d, code := s.begin(func(o *Operator) { o.reach = s.reading })
		if r := d.Tables[0].Result; code != diag.RowsDiffer || r.InFlight != 1 || r.Clean {
			t.Fatalf("%q: %+v", code, r)
		}
		script(s)
	})
}

// again compares the rows again that stayed in flight.
func (s *scene) again() (*Document, string) {
	s.Helper()
	return s.begin(func(o *Operator) { o.reach, o.InFlight = s.reading, true })
}

// applied applies all changes, and records that they are applied.
func (s *scene) applied() {
	s.Helper()
	s.Load("Orders")
	shards, err := s.Ledger.Shards(s.Ctx, "Orders")
	s.Must(err)
	lease, err := s.Ledger.Take(s.Ctx, shards[0], nil)
	s.Must(err)
	changes := s.Source.Changes["Orders"]
	now := s.Now()
	s.Must(lease.Commit(s.Ctx, checkpoint.Progress{AppliedTo: now, ReadAt: now, CaughtUp: true, Position: cdc.Position{After: changes[len(changes)-1].Sequence}}))
	s.Must(lease.Release(s.Ctx))
}

// A verify whose rows in flight are all equal later is clean, without another verify. It keeps its
// time, so it becomes stale as before.
func TestRowsInFlightThatAreEqualLater(t *testing.T) {
	flown(t, false, func(s *scene) {
		before := s.Table("Orders").Verify
		s.applied()
		s.Sleep(time.Hour)
		d, code := s.again()
		r, after := d.Tables[0].Result, s.Table("Orders").Verify
		if code != "" || !r.Clean || r.InFlight != 0 || len(r.Findings) > 0 || r.RecheckedAt == nil || !r.EndedAt.Equal(before.Result.EndedAt) {
			t.Errorf("%q: %+v", code, r)
		}
		if after.Number != before.Number || after.Full != after.Result || !standing.VerifiedInFull(s.Table("Orders"), s.Now()) {
			t.Errorf("%+v", after)
		}
		if d, code = s.again(); code != "" || s.Table("Orders").Verify.Result != after.Result {
			t.Errorf("nothing in flight: %q: %+v", code, d.Tables[0].Result)
		}
	})
}

// Rows that still wait for their change stay in flight. Rows that differ by then count as such, beside
// the findings of the verify.
func TestRowsInFlightThatAreNotEqualLater(t *testing.T) {
	flown(t, true, func(s *scene) {
		if d, code := s.again(); code != diag.RowsDiffer || d.Tables[0].Result.InFlight != 1 || d.Tables[0].Result.Missing != 1 {
			t.Errorf("still in flight: %q: %+v", code, d.Tables[0].Result)
		}
		s.applied()
		s.Damage("orders", "c", "", "", "")
		s.Damage("orders", "d", "d", "total", "x")
		d, code := s.again()
		r := d.Tables[0].Result
		if code != diag.RowsDiffer || r.InFlight != 0 || r.Missing != 1 || r.Different != 1 || len(r.Findings) != 2 {
			t.Errorf("%q: %+v", code, r)
		}
		shown, _ := s.run(func(ctx context.Context) error { return s.operator(nil).Show(ctx) })
		if got := shown.Tables[0].Result.Findings; len(got) != 2 || got[0].Kind != "missing" || got[1].Kind != "different" {
			t.Errorf("recorded: %+v", got)
		}
	})
}

// Without a complete list of the rows in flight, or with another generation, only a verify of all rows
// helps.
func TestRowsInFlightThatCannotBeCompared(t *testing.T) {
	for name, change := range map[string]func(v *checkpoint.TableState){
		"not all are listed": func(v *checkpoint.TableState) { v.Verify.Result.InFlight++ },
		"another generation": func(v *checkpoint.TableState) { v.Verify.Result.Generation++ },
		"no result":          func(v *checkpoint.TableState) { v.Verify.Result = checkpoint.VerifyResult{} },
		"a verify runs": func(v *checkpoint.TableState) {
			v.Verify = checkpoint.Verify{Number: 3, Phase: 1, Parts: 1, Plan: []byte(`{"way":"quiet"}`), Result: v.Verify.Result}
		},
	} {
		flown(t, false, func(s *scene) {
			s.Change("Orders", change)
			if _, code := s.again(); code != diag.VerifyRefused {
				t.Errorf("%s: %q", name, code)
			}
		})
	}
}

// The counts and findings after a second comparison of rows in flight.
func TestRechecked(t *testing.T) {
	in := func(row string, kind verify.Kind) verify.Finding {
		return verify.Finding{Table: "t", Row: row, Kind: kind}
	}
	list := []verify.Finding{in("a", verify.InFlight), in("b", verify.InFlight), in("c", verify.Missing), in("d", verify.InFlight), in("e", verify.InFlight)}
	counts := checkpoint.VerifyCounts{Items: 9, InFlight: 4, Missing: 1}
	got, now := rechecked(list, counts, verify.Checked{
		Equal:    []verify.Place{{Table: "t", Row: "a"}},
		Findings: []verify.Finding{in("b", verify.Different)},
		Pending:  []verify.Finding{in("d", verify.InFlight)}, // e changed at every check
	})
	rows := make([]string, 0, len(got))
	for _, f := range got {
		rows = append(rows, f.Row+" "+string(f.Kind))
	}
	slices.Sort(rows)
	if want := "b different,c missing,d in_flight,e in_flight"; strings.Join(rows, ",") != want {
		t.Errorf("%q", rows)
	}
	if want := (checkpoint.VerifyCounts{Items: 9, InFlight: 2, Missing: 1, Different: 1}); now != want {
		t.Errorf("%+v, want %+v", now, want)
	}
}
