// Package clock compares the clock of this host with the source's.
package clock

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

const (
	// tolerance is the largest clock error that is not reported.
	tolerance = time.Minute
	// Limit is the largest clock error with which a worker may start. DynamoDB rejects requests
	// that are signed with a slightly larger clock error.
	Limit = 10 * time.Minute
)

// Client sends the requests of the AWS SDK's clients.
type Client interface {
	Do(*http.Request) (*http.Response, error)
}

// Watch records the clock error of this host, as measured at the last answer of the source.
type Watch struct {
	// Now returns the time. If it is nil, the host's clock is used.
	Now func() time.Time

	mu     sync.Mutex
	offset time.Duration
	known  bool
}

// Around returns a client that records the times in answers.
func (w *Watch) Around(c Client) Client { return watched{c, w} }

type watched struct {
	client Client
	watch  *Watch
}

func (c watched) Do(r *http.Request) (*http.Response, error) {
	answer, err := c.client.Do(r)
	if answer != nil {
		c.watch.note(answer.Header.Get("Date"))
	}
	return answer, err
}

func (w *Watch) note(date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return // the answer has no time
	}
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset, w.known = now().Sub(at), true
}

// Offset returns how far this host's clock is ahead of the source's, accurate to about a second. It
// returns false before the first answer that has a time.
func (w *Watch) Offset() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offset, w.known
}

// Refuse returns why a worker may not start; nil if it may start.
func (w *Watch) Refuse() error {
	offset, _ := w.Offset()
	if offset.Abs() <= Limit {
		return nil
	}
	return &diag.Error{Code: diag.ClockWrong, What: "the clock of this host is " + Text(offset) + " DynamoDB's",
		Cause: fmt.Sprintf("according to the Date header of its answers; a difference of up to %s is allowed", Limit)}
}

// Ahead returns how far this host's clock is ahead of the time in an answer that just arrived.
func Ahead(at time.Time) time.Duration { return time.Since(at) }

// Text describes a clock error.
func Text(offset time.Duration) string {
	if offset < 0 {
		return (-offset).Round(time.Second).String() + " behind"
	}
	return offset.Round(time.Second).String() + " ahead of"
}

// Teller writes a log line when the clock becomes wrong, and another when it is right again. It is
// not safe for concurrent use.
type Teller struct {
	Log   *slog.Logger
	wrong bool
}

// Tell reports the current clock error.
func (t *Teller) Tell(offset time.Duration) {
	switch wrong := offset.Abs() > tolerance; {
	case wrong && !t.wrong:
		t.Log.Warn("the clock of this host is wrong: changes are still copied, but reported times such as lag are wrong",
			"offset", offset.Round(time.Second).String())
	case !wrong && t.wrong:
		t.Log.Info("the clock of this host is right again")
	}
	t.wrong = offset.Abs() > tolerance
}
