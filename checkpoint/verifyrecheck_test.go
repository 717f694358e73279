package checkpoint

import (
	"errors"
	"testing"
	"time"
)

// A recheck replaces the counts of the result that it was made of, and of nothing else.
func TestRecheckOfAVerify(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	of := VerifyResult{Number: 3, Generation: 7, EndedAt: at, VerifyCounts: VerifyCounts{Items: 5, InFlight: 2}}
	recheck := VerifyRecheck{Of: of, Name: "n", At: at.Add(time.Hour), Counts: VerifyCounts{Items: 5}}
	for name, c := range map[string]struct {
		change  func(s *TableState)
		refused bool
		full    bool // the result of all items changes too
	}{
		"the result of all items":  {func(*TableState) {}, false, true},
		"the result of a sample":   {func(s *TableState) { s.Verify.Full.Number = 2 }, false, false},
		"after a cancelled verify": {func(s *TableState) { s.Verify.Number = 4 }, false, true},
		"another result":           {func(s *TableState) { s.Verify.Result.Number = 4 }, true, false},
		"another recheck":          {func(s *TableState) { s.Verify.Result.Recheck = "m" }, true, false},
		"a verify runs":            {func(s *TableState) { s.Verify.Number, s.Verify.Phase = 4, 1 }, true, false},
		"a new generation":         {func(s *TableState) { s.Generation = 8 }, true, false},
	} {
		s := TableState{Source: "Orders", Generation: 7, Verify: Verify{Number: 3, Result: of, Full: of}}
		c.change(&s)
		before := s.Verify
		err := s.recheckVerify(recheck)
		var refused *LoadError
		if errors.As(err, &refused) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if r := s.Verify.Result; c.refused && r != before.Result || !c.refused && (!r.Clean() || !r.EndedAt.Equal(at) || !r.RecheckedAt.Equal(recheck.At)) {
			t.Errorf("%s: %+v", name, r)
		}
		if changed := s.Verify.Full != before.Full; changed != c.full {
			t.Errorf("%s: %+v", name, s.Verify.Full)
		}
		if !c.refused && s.recheckVerify(recheck) != nil {
			t.Errorf("%s: a repetition is refused", name)
		}
	}
}
