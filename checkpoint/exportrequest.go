package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ExportRequest is the wish for an export that replicator asks DynamoDB for itself, and how far that
// has come. What is to be asked is written before it is asked, so that the next worker after a
// restart asks the same with the same token, which gives the same export. Times are on the service's
// clock.
type ExportRequest struct {
	// To is the destination, s3://BUCKET or s3://BUCKET/PREFIX; with serial 0 and failed, the place
	// of a refused export; "" if none is requested.
	To string `json:"to,omitempty"`
	// NotBefore is the earliest time of point-in-time recovery when the export was requested.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Serial is the number of the attempt, unique within a table; 0 before the first.
	Serial uint32 `json:"serial,omitempty"`
	// Attempts is the number of attempts for this request.
	Attempts int `json:"attempts,omitempty"`
	// Generation is that of the attempt, At the whole second of its export's content.
	Generation uint32    `json:"generation,omitempty"`
	At         time.Time `json:"at,omitzero"`
	// ARN is the export's, once the service has accepted the request.
	ARN string `json:"arn,omitempty"`
	// Failed is why there is no export. Only an operator requests again, because endless requests
	// would cost without end (H106).
	Failed string `json:"failed,omitempty"`
}

// Wanted tells that an export is to be asked for, whatever has become of that.
func (r ExportRequest) Wanted() bool { return r.To != "" }

// Refused tells that the load was to copy an export that there is, which may not be applied. The
// service was asked for none.
func (r ExportRequest) Refused() bool { return r.Wanted() && r.Serial == 0 && r.Failed != "" }

// ExportToken makes one request of every repetition of it, for as long as the service remembers:
// another generation, load or attempt has another, or it would get the export of before (H106).
func (l *Ledger) ExportToken(s TableState) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d %d", l.name, l.id, s.Source, s.Load.Request.Generation, s.Load.Number, s.Load.Request.Serial))
	return hex.EncodeToString(sum[:16])
}

// RequestExport asks for a load of the current generation from an export that is yet to be asked
// for. One that is asked for and not sealed becomes that.
func (s *TableState) RequestExport(at time.Time, approved bool, r ExportRequest) error {
	if err := s.AskLoad(at, approved); err != nil {
		return err
	}
	s.Load.Request = ExportRequest{To: r.To, NotBefore: r.NotBefore.UTC()}
	return nil
}

// RefuseExport asks for a load, and notes that it does not begin because the export at an address,
// from which it was to be copied, may not be applied. An operator's wish stays.
func (s *TableState) RefuseExport(at time.Time, address, why string) error {
	if s.Stage() == StageAsked && !s.Load.Request.Refused() {
		return s.refuseYet("refuse an export", "another load was requested", "read the table's record again")
	}
	if err := s.AskLoad(at, false); err != nil {
		return err
	}
	s.Load.Request = ExportRequest{To: address, Failed: why}
	return nil
}

// ForgetRefusal withdraws a load whose export was refused: whoever begins anew judges anew, by a
// configuration that may be another one.
func (s *TableState) ForgetRefusal() error {
	if s.Stage() == StageAsked && s.Load.Request.Refused() {
		s.Load.AskedAt, s.Load.Request = time.Time{}, ExportRequest{}
	}
	return nil
}

// BeginExport notes that an export as of a time is to be asked for, as the attempt of the given
// number. What an attempt before it came to is forgotten.
func (s *TableState) BeginExport(serial, generation uint32, at time.Time) error {
	const step = "request an export"
	r := &s.Load.Request
	switch {
	case s.Stage() != StageAsked || !r.Wanted():
		return s.refuseYet(step, "the export is no longer requested", "read the table's record again")
	case s.Generation != generation:
		return s.refuseYet(step, "another generation has begun", "request one for that generation")
	case r.Serial == serial && r.Generation == generation && r.At.Equal(at):
		return nil
	case serial != s.ExportsAsked+1:
		return s.refuseYet(step, "another was requested meanwhile", "read the table's record again")
	}
	s.ExportsAsked, s.Load.Export = serial, Export{}
	*r = ExportRequest{To: r.To, NotBefore: r.NotBefore, Serial: serial, Attempts: r.Attempts + 1, Generation: generation, At: at.UTC()}
	return nil
}

// ofAttempt refuses what is said of another attempt than the current one.
func (s *TableState) ofAttempt(step string, serial uint32) error {
	if r := s.Load.Request; s.Stage() != StageAsked || !r.Wanted() || r.Serial != serial {
		return s.refuseYet(step, "another export was requested meanwhile", "read the table's record again")
	}
	return nil
}

// AcceptExport notes that the service has taken the request.
func (s *TableState) AcceptExport(serial uint32, arn string) error {
	if err := s.ofAttempt("note the export", serial); err != nil {
		return err
	}
	s.Load.Request.ARN = arn
	return nil
}

// FailExport notes why there will be no export.
func (s *TableState) FailExport(serial uint32, why string) error {
	if err := s.ofAttempt("abandon the export", serial); err != nil {
		return err
	}
	s.Load.Request.Failed, s.Load.Export = why, Export{}
	return nil
}

// FinishExport notes the export that is complete: the load goes on with it as with one that an
// operator has named.
func (s *TableState) FinishExport(serial uint32, e Export) error {
	if err := s.ofAttempt("take the export", serial); err != nil {
		return err
	}
	e.At = e.At.UTC()
	s.Load.Export = e
	return nil
}

// RequestExport asks for a load of a table from an export that is yet to be asked for.
func (l *Ledger) RequestExport(ctx context.Context, source string, approved bool, r ExportRequest) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.RequestExport(at, approved, r) })
}

// RefuseExport notes that a load does not begin, because its export is refused.
func (l *Ledger) RefuseExport(ctx context.Context, source, address, why string) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.RefuseExport(at, address, why) })
}

// ForgetRefusal withdraws a load whose export was refused.
func (l *Ledger) ForgetRefusal(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.ForgetRefusal() })
}

// BeginExport notes that an export is to be asked for.
func (l *Ledger) BeginExport(ctx context.Context, source string, serial, generation uint32, at time.Time) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.BeginExport(serial, generation, at) })
}

// AcceptExport notes that the service has taken the request of an export.
func (l *Ledger) AcceptExport(ctx context.Context, source string, serial uint32, arn string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.AcceptExport(serial, arn) })
}

// FailExport notes why there will be no export.
func (l *Ledger) FailExport(ctx context.Context, source string, serial uint32, why string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.FailExport(serial, why) })
}

// FinishExport notes the export that is complete.
func (l *Ledger) FinishExport(ctx context.Context, source string, serial uint32, e Export) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.FinishExport(serial, e) })
}
