package checkpoint

import (
	"context"
	"time"
)

// VerifyRecheck is the outcome of a second comparison of the rows that stayed in flight in the last
// verify.
type VerifyRecheck struct {
	Of     VerifyResult // the result that has these rows in flight
	Name   string       // names the new findings; it must be unique to this comparison
	At     time.Time    // on the service's clock
	Counts VerifyCounts // counts of the whole verify, in place of those of the result
}

// recheckVerify replaces the counts of the last verify. The verify keeps its time, because its other
// rows were not compared again. So the result becomes stale as before.
func (s *TableState) recheckVerify(r VerifyRecheck) error {
	const step = "record the rows that were compared again"
	switch v := s.Verify; {
	case v.Result.Number == r.Of.Number && v.Result.Recheck == r.Name:
		return nil
	case v.Running():
		return s.refuse(step, "a verify is running", "wait for its end: replicator verify status")
	case v.Result.Number != r.Of.Number || v.Result.Recheck != r.Of.Recheck:
		return s.refuseYet(step, "another comparison ended meanwhile", "the table's record has changed: retry")
	case v.Result.Generation != s.Generation:
		return s.refuse(step, "the table has begun a new generation since", "compare all rows: replicator verify --table "+s.Source)
	}
	result := s.Verify.Result
	result.VerifyCounts, result.Recheck, result.RecheckedAt = r.Counts, r.Name, r.At.UTC()
	if s.Verify.Full.Number == result.Number {
		s.Verify.Full = result
	}
	s.Verify.Result = result
	return nil
}

// RecheckVerify replaces the counts of a table's last verify.
func (l *Ledger) RecheckVerify(ctx context.Context, source string, r VerifyRecheck) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.recheckVerify(r) })
}
