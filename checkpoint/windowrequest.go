package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// WindowRequest is one incremental export that replicator itself requests from DynamoDB, and its
// progress. It is recorded before DynamoDB is called, so a restarted worker repeats the same call.
type WindowRequest struct {
	// From and To are the window's beginning and its end, in whole seconds. The end does not belong
	// to the window.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Serial is the number of the attempt that planned the window. Tries is how often the window was
	// requested again, after a failure or a lost request. Both are part of its token.
	Serial uint32 `json:"serial"`
	Tries  int    `json:"tries,omitempty"`
	// AskedAt is when its request was first allowed; zero while it is only planned.
	AskedAt time.Time `json:"asked_at,omitzero"`
	// ARN is the ARN of the export, once the service has accepted the request.
	ARN string `json:"arn,omitempty"`
	// Failed explains why there is no export.
	Failed string `json:"failed,omitempty"`
	// Export is the completed export; zero before.
	Export Export `json:"export,omitzero"`
}

// WindowState is the progress of a requested window.
type WindowState string

// The states of a requested window.
const (
	WindowPlanned   WindowState = "planned"     // other exports come first
	WindowRequested WindowState = "requested"   // DynamoDB has not accepted it yet
	WindowRunning   WindowState = "in_progress" // DynamoDB writes the export
	WindowCompleted WindowState = "completed"
	WindowFailed    WindowState = "failed"
)

// State returns the progress of the window.
func (w WindowRequest) State() WindowState {
	switch {
	case w.Failed != "":
		return WindowFailed
	case w.Export.Address != "":
		return WindowCompleted
	case w.ARN != "":
		return WindowRunning
	case !w.AskedAt.IsZero():
		return WindowRequested
	}
	return WindowPlanned
}

// String names the window in sentences.
func (w WindowRequest) String() string {
	return "the window from " + stampOf(w.From) + " to " + stampOf(w.To)
}

// Covers returns the end of the windows that a request has planned. It returns false if a window
// has failed, if there is none, or if they begin later than the time `by`.
func (r ExportRequest) Covers(by time.Time) (until time.Time, ok bool) {
	if len(r.Windows) == 0 || r.Failed != "" || r.Windows[0].From.After(by) {
		return time.Time{}, false
	}
	return r.Windows[len(r.Windows)-1].To, true
}

// WindowToken returns the client token of the request for a window. It differs for each window and
// for each try, because an old token would return an export that failed (H106).
func (l *Ledger) WindowToken(s TableState, w WindowRequest) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %d %d %d", l.name, l.id, s.Source, s.Load.Request.To, w.Serial, w.From.Unix(), w.To.Unix(), w.Tries))
	return hex.EncodeToString(sum[:16])
}

// beginWindows records that the attempt with the number `serial` will request windows. Windows of
// the previous attempt that are among them keep their progress.
func (s *TableState) beginWindows(serial, generation uint32, windows []WindowRequest) error {
	if n := len(windows); n < 1 || n > MaxExports {
		return s.refuse("request windows", fmt.Sprintf("the time needs %d incremental exports, but a load takes at most %d", n, MaxExports), "copy everything instead")
	}
	if r := s.Load.Request; r.Serial == serial && !slices.EqualFunc(r.Windows, windows, sameWindow) {
		return s.refuseYet("request windows", "other windows were planned meanwhile", "the table's record has changed: retry")
	} else if r.Serial == serial && r.Generation == generation {
		return nil
	}
	if err := s.BeginExport(serial, generation, windows[len(windows)-1].To); err != nil {
		return err
	}
	s.Load.Request.Incremental, s.Load.Request.Windows = true, slices.Clone(windows)
	return nil
}

func sameWindow(a, b WindowRequest) bool { return a.From.Equal(b.From) && a.To.Equal(b.To) }

// window returns the window of the current attempt that begins at a time.
func (s *TableState) window(step string, from time.Time) (*WindowRequest, error) {
	r := &s.Load.Request
	if s.Stage() == StageAsked && r.Wanted() {
		if i := slices.IndexFunc(r.Windows, func(w WindowRequest) bool { return w.From.Equal(from) }); i >= 0 {
			r.Windows = slices.Clone(r.Windows)
			return &r.Windows[i], nil
		}
	}
	return nil, s.refuseYet(step, "the window is no longer requested", "the table's record has changed: retry")
}

// askWindow records that the window may be requested from now on. A window whose earlier request is
// too old to be repeated gets another token.
func (s *TableState) askWindow(from, at time.Time) error {
	w, err := s.window("request a window", from)
	if err != nil || w.AskedAt.Equal(at) {
		return err
	}
	if !w.AskedAt.IsZero() {
		w.Tries++
	}
	w.AskedAt, w.ARN = at.UTC(), ""
	return nil
}

// acceptWindow records that the service has accepted the request for the window.
func (s *TableState) acceptWindow(from time.Time, arn string) error {
	w, err := s.window("note the window", from)
	if err == nil {
		w.ARN = arn
	}
	return err
}

// failWindow records why there will be no export of the window. The load then waits for an
// operator.
func (s *TableState) failWindow(from time.Time, why string) error {
	w, err := s.window("abandon the window", from)
	if err == nil {
		w.Failed = why
		s.Load.Request.Failed = w.String() + ": " + why
	}
	return err
}

// finishWindow records the completed export of the window. After the last one, the load continues
// as with exports that an operator has named.
func (s *TableState) finishWindow(from time.Time, e Export) error {
	w, err := s.window("take the window", from)
	if err != nil {
		return err
	}
	e.From, e.At = e.From.UTC(), e.At.UTC()
	w.Export = e
	var all []Export
	for _, w := range s.Load.Request.Windows {
		if w.State() != WindowCompleted {
			return nil
		}
		all = append(all, w.Export)
	}
	s.Load.Export, s.Load.Windows = all[0], all[1:]
	return nil
}

// retryWindows lets failed windows be requested again, and keeps the other ones. It reports whether
// there is such a request for the same destination.
func (s *TableState) retryWindows(wish ExportRequest) bool {
	r := s.Load.Request
	if s.Stage() != StageAsked || !r.Incremental || !wish.Incremental || r.Failed == "" || r.To != wish.To || r.Generation != s.Generation || len(r.Windows) == 0 {
		return false
	}
	r.Failed, r.Attempts, r.Windows = "", 0, slices.Clone(r.Windows)
	for i := range r.Windows {
		if w := &r.Windows[i]; w.Failed != "" {
			w.Failed, w.ARN, w.AskedAt, w.Tries = "", "", time.Time{}, w.Tries+1
		}
	}
	s.Load.Request = r
	return true
}

// BeginWindows records that windows will be requested.
func (l *Ledger) BeginWindows(ctx context.Context, source string, serial, generation uint32, windows []WindowRequest) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.beginWindows(serial, generation, windows) })
}

// AskWindow records that the window which begins at `from` may be requested.
func (l *Ledger) AskWindow(ctx context.Context, source string, from, at time.Time) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.askWindow(from, at) })
}

// AcceptWindow records that the service has accepted the request for the window.
func (l *Ledger) AcceptWindow(ctx context.Context, source string, from time.Time, arn string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.acceptWindow(from, arn) })
}

// FailWindow records why there will be no export of the window.
func (l *Ledger) FailWindow(ctx context.Context, source string, from time.Time, why string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.failWindow(from, why) })
}

// FinishWindow records the completed export of the window.
func (l *Ledger) FinishWindow(ctx context.Context, source string, from time.Time, e Export) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.finishWindow(from, e) })
}
