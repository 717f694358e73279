package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ExportRequest records that replicator itself requests an export from DynamoDB, and the progress
// of that request. The record is written before DynamoDB is called. So after a restart the next
// worker repeats the same call with the same token, and gets the same export. Times are on the
// service's clock.
type ExportRequest struct {
	// To is the destination, s3://BUCKET or s3://BUCKET/PREFIX; "" if no export is requested. If
	// serial is 0 and failed is set, it is the address of a refused export.
	To string `json:"to,omitempty"`
	// NotBefore is the earliest time that point-in-time recovery could restore when the export was
	// requested.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Serial is the number of the attempt, unique within a table; 0 before the first attempt.
	Serial uint32 `json:"serial,omitempty"`
	// Attempts is the number of attempts for this request.
	Attempts int `json:"attempts,omitempty"`
	// Generation is the generation of the attempt. At is the time of its export's content, in whole
	// seconds.
	Generation uint32    `json:"generation,omitempty"`
	At         time.Time `json:"at,omitzero"`
	// ARN is the ARN of the export, once the service has accepted the request.
	ARN string `json:"arn,omitempty"`
	// Failed explains why there is no export. Only an operator can request another export, because
	// automatic requests could cost without limit (H106).
	Failed string `json:"failed,omitempty"`
	// Incremental reports that incremental exports are requested, which repair a gap without a copy.
	// Windows are these exports, in chronological order, once a worker has planned them. At is then
	// the end of the last one.
	Incremental bool            `json:"incremental,omitempty"`
	Windows     []WindowRequest `json:"windows,omitempty"`
}

// Wanted reports whether an export is requested, regardless of its progress.
func (r ExportRequest) Wanted() bool { return r.To != "" }

// Refused reports whether the load was to copy an existing export that may not be applied. For such
// a load, replicator requests no export from the service.
func (r ExportRequest) Refused() bool {
	return r.Wanted() && r.Serial == 0 && r.Failed != "" && !r.Incremental
}

// ExportToken returns the client token of an export request. The service treats repeated requests
// with one token as one request while it remembers the token. Each generation, load and attempt has
// its own token, because an old token would return the earlier export (H106).
func (l *Ledger) ExportToken(s TableState) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d %d", l.name, l.id, s.Source, s.Load.Request.Generation, s.Load.Number, s.Load.Request.Serial))
	return hex.EncodeToString(sum[:16])
}

// RequestExport requests a load of the current generation from an export. The export is requested
// from the service later. If a load is requested and not sealed yet, RequestExport replaces its
// source. If windows were requested and one has failed, a repeated request keeps the other ones.
func (s *TableState) RequestExport(at time.Time, approved bool, r ExportRequest) error {
	if s.retryWindows(r) {
		s.Load.Sweep.Approved = s.Load.Sweep.Approved || approved
		return nil
	}
	if err := s.AskLoad(at, approved); err != nil {
		return err
	}
	s.Load.Request = ExportRequest{To: r.To, NotBefore: r.NotBefore.UTC(), Incremental: r.Incremental}
	return nil
}

// RefuseExport requests a load, and records that it does not begin because the export at the
// address may not be applied. It does not replace another requested load.
func (s *TableState) RefuseExport(at time.Time, address, why string) error {
	if s.Stage() == StageAsked && !s.Load.Request.Refused() {
		return s.refuseYet("refuse an export", "another load was requested", "the table's record has changed: retry")
	}
	if err := s.AskLoad(at, false); err != nil {
		return err
	}
	s.Load.Request = ExportRequest{To: address, Failed: why}
	return nil
}

// ForgetRefusal withdraws a load whose export was refused. A process that starts later checks the
// export again, perhaps with another configuration.
func (s *TableState) ForgetRefusal() error {
	if s.Stage() == StageAsked && s.Load.Request.Refused() {
		s.Load.AskedAt, s.Load.Request = time.Time{}, ExportRequest{}
	}
	return nil
}

// WithdrawExports withdraws a load from exports that is not sealed yet. The table is read in another
// region, of which they hold nothing. The load that the table now needs then begins as after any gap.
func (s *TableState) WithdrawExports() {
	if s.Stage() == StageAsked && (s.Load.Request.Wanted() || s.Load.Export.Address != "") {
		s.Load.AskedAt, s.Load.Export, s.Load.Windows, s.Load.Request = time.Time{}, Export{}, nil, ExportRequest{}
		s.Load.Sweep.Approved = false
	}
}

// BeginExport records that the attempt with the number `serial` will request an export with the
// content of the time `at`. It discards the outcome of the previous attempt.
func (s *TableState) BeginExport(serial, generation uint32, at time.Time) error {
	const step = "request an export"
	r := &s.Load.Request
	switch {
	case s.Stage() != StageAsked || !r.Wanted():
		return s.refuseYet(step, "the export is no longer requested", "the table's record has changed: retry")
	case s.Generation != generation:
		return s.refuseYet(step, "another generation has begun", "request one for that generation")
	case r.Serial == serial && r.Generation == generation && r.At.Equal(at):
		return nil
	case serial != s.ExportsAsked+1:
		return s.refuseYet(step, "another export was requested meanwhile", "the table's record has changed: retry")
	}
	s.ExportsAsked, s.Load.Export = serial, Export{}
	*r = ExportRequest{To: r.To, NotBefore: r.NotBefore, Serial: serial, Attempts: r.Attempts + 1, Generation: generation, At: at.UTC()}
	return nil
}

// ofAttempt refuses a step unless it refers to the current attempt.
func (s *TableState) ofAttempt(step string, serial uint32) error {
	if r := s.Load.Request; s.Stage() != StageAsked || !r.Wanted() || r.Serial != serial {
		return s.refuseYet(step, "another export was requested meanwhile", "the table's record has changed: retry")
	}
	return nil
}

// AcceptExport records that the service has accepted the request.
func (s *TableState) AcceptExport(serial uint32, arn string) error {
	if err := s.ofAttempt("note the export", serial); err != nil {
		return err
	}
	s.Load.Request.ARN = arn
	return nil
}

// FailExport records why there will be no export.
func (s *TableState) FailExport(serial uint32, why string) error {
	if err := s.ofAttempt("abandon the export", serial); err != nil {
		return err
	}
	s.Load.Request.Failed, s.Load.Export = why, Export{}
	return nil
}

// FinishExport records the completed export. The load then continues as with an export that an
// operator has named.
func (s *TableState) FinishExport(serial uint32, e Export) error {
	if err := s.ofAttempt("take the export", serial); err != nil {
		return err
	}
	e.At = e.At.UTC()
	s.Load.Export = e
	return nil
}

// RequestExport requests a load of a table from an export. The export is requested from the service
// later.
func (l *Ledger) RequestExport(ctx context.Context, source string, approved bool, r ExportRequest) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.RequestExport(at, approved, r) })
}

// RefuseExport records that a load does not begin because its export is refused.
func (l *Ledger) RefuseExport(ctx context.Context, source, address, why string) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.RefuseExport(at, address, why) })
}

// ForgetRefusal withdraws a load whose export was refused.
func (l *Ledger) ForgetRefusal(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.ForgetRefusal() })
}

// BeginExport records that an export will be requested.
func (l *Ledger) BeginExport(ctx context.Context, source string, serial, generation uint32, at time.Time) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.BeginExport(serial, generation, at) })
}

// AcceptExport records that the service has accepted the request for an export.
func (l *Ledger) AcceptExport(ctx context.Context, source string, serial uint32, arn string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.AcceptExport(serial, arn) })
}

// FailExport records why there will be no export.
func (l *Ledger) FailExport(ctx context.Context, source string, serial uint32, why string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.FailExport(serial, why) })
}

// FinishExport records the completed export.
func (l *Ledger) FinishExport(ctx context.Context, source string, serial uint32, e Export) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.FinishExport(serial, e) })
}
