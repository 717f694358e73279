package comparison

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A repair with a limit repairs no row if more rows differ, and says so. At the limit it repairs all.
func TestARepairWithALimit(t *testing.T) {
	for name, keys := range map[string][]string{"whole tables": nil, "keys": {"a", "b", "c", "d", "e", "f"}} {
		playScene(t, func(s *scene) {
			for _, pk := range []string{"a", "b", "c", "d"} {
				s.Damage("orders", pk, "d", "total", "x")
			}
			delete(s.Source.Items["Orders"], "e")
			s.Damage("orders", "z", "d", "total", "x") // foreign, so no repair changes it
			limited := func(most int, dry bool) func(o *Operator) {
				return func(o *Operator) {
					o.Repair, o.DryRun, o.AtMost = true, dry, most
					for _, pk := range keys {
						o.Keys = append(o.Keys, keyText(pk))
					}
				}
			}
			for _, dry := range []bool{true, false} {
				d, code := s.begin(limited(4, dry))
				r := d.Tables[0].Repair
				if code != diag.RowsDiffer || r == nil || r.AtMost == nil || *r.AtMost != 4 || r.Repaired != 0 || r.NotReached != 5 || r.Findings != 5 || r.DryRun != dry {
					t.Errorf("%s: above the limit: %q: %+v", name, code, r)
				}
			}
			d, _ := s.begin(limited(5, false))
			if r := d.Tables[0].Repair; r == nil || r.AtMost != nil || r.Repaired != 5 {
				t.Errorf("%s: at the limit: %+v", name, r)
			}
			if d, _ = s.begin(nil); d.Tables[0].Result.differing() != 1 || d.Tables[0].Result.Foreign != 1 {
				t.Errorf("%s: after the repair: %+v", name, d.Tables[0].Result)
			}
		})
	}
}

// Differences beyond the list count against the limit.
func TestALimitCountsWhatIsNotListed(t *testing.T) {
	state := table{}
	state.state.Verify.Result.Missing, state.state.Verify.Result.LeftOut, state.state.Verify.Result.Foreign = 7, 6, 2
	if n := state.toRepair(); n != 7 {
		t.Errorf("%d", n)
	}
}

// Flags that make no sense together are refused.
func TestFlagsOfKeysAndLimits(t *testing.T) {
	for name, c := range map[string]struct {
		o  Operator
		f  Flags
		ok bool
	}{
		"a key":                  {Operator{Keys: []string{"k"}, Waits: true}, Flags{}, true},
		"keys and a repair":      {Operator{KeysFile: "f", Waits: true, Repair: true}, Flags{AtMost: "1"}, true},
		"in flight":              {Operator{InFlight: true, Waits: true}, Flags{}, true},
		"key and keys":           {Operator{Keys: []string{"k"}, KeysFile: "f", Waits: true}, Flags{}, false},
		"keys, in flight":        {Operator{KeysFile: "f", InFlight: true, Waits: true}, Flags{}, false},
		"key, full":              {Operator{Keys: []string{"k"}, Waits: true}, Flags{Full: true}, false},
		"key, a sample":          {Operator{Keys: []string{"k"}, Waits: true}, Flags{Sample: "1%"}, false},
		"in flight, a sample":    {Operator{InFlight: true, Waits: true}, Flags{Sample: "1%"}, false},
		"key, not waiting":       {Operator{Keys: []string{"k"}}, Flags{}, false},
		"key, reverse":           {Operator{Keys: []string{"k"}, Reverse: true, Waits: true}, Flags{}, false},
		"in flight, reverse":     {Operator{InFlight: true, Reverse: true, Waits: true}, Flags{}, false},
		"in flight, repair":      {Operator{InFlight: true, Repair: true, Waits: true}, Flags{}, false},
		"a limit, no repair":     {Operator{Waits: true}, Flags{AtMost: "1"}, false},
		"a limit, reverse":       {Operator{Reverse: true, Repair: true, Waits: true}, Flags{AtMost: "1"}, false},
		"a limit of nothing":     {Operator{Repair: true, Waits: true}, Flags{AtMost: "0"}, false},
		"a limit below nothing":  {Operator{Repair: true, Waits: true}, Flags{AtMost: "-1"}, false},
		"a limit without number": {Operator{Repair: true, Waits: true}, Flags{AtMost: "few"}, false},
	} {
		err := c.o.Choose(c.f)
		if (err == nil) != c.ok || err != nil && !diag.Has(err, diag.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
