package checkpoint

import (
	"strings"
	"testing"
	"time"
)

// asksWindows is a table whose gap is to be repaired by two windows.
func asksWindows(t *testing.T) (s TableState, first, second WindowRequest) {
	t.Helper()
	at := time.Unix(90_000, 0).UTC()
	first = WindowRequest{From: at, To: at.Add(time.Hour), Serial: 1}
	second = WindowRequest{From: first.To, To: at.Add(2 * time.Hour), Serial: 1}
	s = TableState{Source: "T", Generation: 2, Adopted: 2, NeedsLoad: true}
	for _, err := range []error{
		s.RequestExport(at, true, ExportRequest{To: "s3://b", Incremental: true}),
		s.beginWindows(1, 2, []WindowRequest{first, second}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, first, second
}

func did(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// The load continues once every window is there, in their order. An older program cannot read the
// record before, and would otherwise request a full export.
func TestWindowsAreRequestedAndTaken(t *testing.T) {
	s, first, second := asksWindows(t)
	if s.written() != Format || s.Load.Request.At != second.To {
		t.Errorf("format %d, %+v", s.written(), s.Load.Request)
	}
	did(t, s.beginWindows(1, 2, []WindowRequest{first, second}), s.askWindow(first.From, first.To), s.askWindow(first.From, first.To), s.acceptWindow(first.From, "a"), s.askWindow(second.From, first.To),
		s.acceptWindow(second.From, "b"), s.finishWindow(second.From, Export{Address: "s3://b/2", ARN: "b", From: second.From, At: second.To}))
	if w := s.Load.Request.Windows; w[0].State() != WindowRunning || w[0].Tries != 0 || w[1].State() != WindowCompleted || s.Load.Export.Address != "" {
		t.Errorf("%+v", s.Load)
	}
	did(t, s.finishWindow(first.From, Export{Address: "s3://b/1", ARN: "a", From: first.From, At: first.To}))
	if all := s.Load.Exports(); len(all) != 2 || all[0].ARN != "a" || all[1].ARN != "b" || !s.Load.MendsGap() {
		t.Errorf("%+v", all)
	}
	if s.acceptWindow(first.To.Add(time.Second), "x") == nil || s.beginWindows(1, 2, []WindowRequest{first}) == nil || s.beginWindows(3, 2, []WindowRequest{first}) == nil || s.beginWindows(2, 2, nil) == nil {
		t.Error("a step of another attempt was made")
	}
	s.Load.Request = ExportRequest{}
	if s.written() != exportFormat {
		t.Errorf("format %d once the windows are there", s.written())
	}
}

// A failed window is named, the load waits, and a repeated request asks only for that window, with
// another token. A request that is too old also gets another token.
func TestAFailedWindowIsRequestedAgain(t *testing.T) {
	s, first, second := asksWindows(t)
	l := &Ledger{name: "n", id: "i"}
	did(t, s.askWindow(first.From, first.To), s.askWindow(second.From, first.To), s.acceptWindow(first.From, "a"), s.finishWindow(first.From, Export{Address: "s3://b/1", ARN: "a", From: first.From, At: first.To}))
	token := l.WindowToken(s, s.Load.Request.Windows[1])
	if token == l.WindowToken(s, s.Load.Request.Windows[0]) {
		t.Error("two windows have one token")
	}
	did(t, s.failWindow(second.From, "no bucket"))
	r := s.Load.Request
	if _, ok := r.Covers(first.From); ok || r.Refused() || r.Windows[1].State() != WindowFailed || !strings.Contains(r.Failed, "the window from 1970-01-02T02:00:00Z to 1970-01-02T03:00:00Z: no bucket") {
		t.Errorf("%+v", r)
	}
	again := s
	did(t, again.RequestExport(second.To, false, ExportRequest{To: "s3://b", Incremental: true}))
	if r := again.Load.Request; r.Failed != "" || r.Windows[0].State() != WindowCompleted || r.Windows[1].State() != WindowPlanned || l.WindowToken(again, r.Windows[1]) == token {
		t.Errorf("%+v", r)
	}
	other := s
	did(t, other.RequestExport(second.To, false, ExportRequest{To: "s3://other", Incremental: true}))
	if r := other.Load.Request; len(r.Windows) != 0 || !r.Incremental {
		t.Errorf("another bucket: %+v", r)
	}
	full := s
	did(t, full.RequestExport(second.To, false, ExportRequest{To: "s3://b"}))
	if r := full.Load.Request; len(r.Windows) != 0 || r.Incremental {
		t.Errorf("a full export: %+v", r)
	}
	did(t, again.askWindow(second.From, second.To), again.askWindow(second.From, second.To.Add(time.Hour)))
	if w := again.Load.Request.Windows[1]; w.Tries != 2 || w.State() != WindowRequested {
		t.Errorf("%+v", w)
	}
}
