package clock_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// answer is a service with a fixed answer.
type answer struct {
	date   string
	status int
}

func (a answer) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Date": {a.date}}}, nil
}

// The clock is compared with every answer, even one that refuses a request's signature. A worker
// may start with a clock that is wrong by up to ten minutes.
func TestAWorkerWithAWrongClockDoesNotBegin(t *testing.T) {
	served := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for off, refused := range map[time.Duration]bool{0: false, time.Minute: false, clock.Limit: false, -clock.Limit: false, clock.Limit + time.Second: true,
		-24 * time.Hour: true} {
		w := &clock.Watch{Now: func() time.Time { return served.Add(off) }}
		if _, known := w.Offset(); known || w.Refuse() != nil {
			t.Error("it is known before an answer came")
		}
		if _, err := w.Around(answer{served.Format(http.TimeFormat), http.StatusBadRequest}).Do(nil); err != nil {
			t.Fatal(err)
		}
		if got, known := w.Offset(); !known || got != off {
			t.Errorf("%s off: %s, %v", off, got, known)
		}
		var told *diag.Error
		if err := w.Refuse(); errors.As(err, &told) != refused || refused && (told.Code != diag.ClockWrong || diag.ExitCode(err) != diag.ExitUsage) {
			t.Errorf("%s off: %v", off, err)
		}
		if _, err := w.Around(answer{"", http.StatusOK}).Do(nil); err != nil {
			t.Fatal(err)
		}
		if got, known := w.Offset(); !known || got != off {
			t.Errorf("after an answer without a time: %s, %v", got, known)
		}
	}
}

// A clock that is wrong by more than a minute is reported once, and so is its recovery.
func TestAWrongClockIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	teller := &clock.Teller{Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, offset := range []time.Duration{0, -time.Minute, -time.Minute - time.Second, -time.Hour, time.Second, 0} {
		teller.Tell(offset)
	}
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "offset=-1m1s") || !strings.Contains(text, "right again") {
		t.Error(text)
	}
}
