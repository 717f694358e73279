package cdc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The horizon is checked only at the first read after a seek. Later reads skip nothing, however
// long the shard has no changes and however often the service throttles.
func TestAnIdleShardLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{n: 0, size: 1}
		r := &Reader{Source: s, Shard: "s"}
		for n := range 30 * 6 {
			want := none
			if n%5 == 4 {
				want = []Reason{Throttled, Unavailable}[n%2]
				s.failures = []Reason{want}
			}
			if _, err := r.Read(t.Context(), Position{}); want == none && err != nil || want != none && !Is(err, want) {
				t.Fatalf("after %d minutes: %v", 10*n, err)
			}
			time.Sleep(10 * time.Minute)
		}
		if seeks := strings.Count(strings.Join(s.calls, "\n"), "seek"); seeks != 1 {
			t.Errorf("it was sought %d times", seeks)
		}
	})
}

// After a change was read, earlier changes no longer matter, however old they are.
func TestAShardThatWasReadIsNotJudged(t *testing.T) {
	s := &script{n: 5, size: 10}
	r := &Reader{Source: s, Shard: "s", Covered: time.Now().Add(-3 * Retention)}
	page, err := r.Read(t.Context(), Position{SequenceOf(3)})
	if err != nil || len(page.Changes) != 2 {
		t.Errorf("%d changes, %v", len(page.Changes), err)
	}
}

// An invalid position is an error, not an empty one: otherwise the shard would be read from its
// horizon.
func TestASequenceNumberIsReadOrRefused(t *testing.T) {
	var s SequenceNumber
	if err := s.UnmarshalText([]byte("12x")); !errors.Is(err, ErrSequenceNumber) {
		t.Errorf("%q, %v", s, err)
	}
	if err := s.UnmarshalText([]byte("012")); err != nil || s.Compare(SequenceOf(12)) != 0 {
		t.Errorf("%q, %v", s, err)
	}
}

// An answer without a known code is judged by its status. All statuses from 500 to 599 are faults
// of the service.
func TestReasonsOfStatuses(t *testing.T) {
	for status, want := range map[int]Reason{
		200: Unavailable, 302: Unavailable, 399: Unavailable, 400: Malformed, 401: Denied, 402: Malformed, 403: Denied, 404: Malformed, 407: Denied, 408: Unavailable, 429: Throttled,
		499: Malformed, 500: Unavailable, 503: Unavailable,
	} {
		if got := reasonOfStatus(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

// endless is a stream whose listing always has a further page, up to a number of pages at which the
// caller should long have given up.
type endless struct {
	Source
	pages int
}

func (e *endless) ListPage(context.Context, string, string) (ListingPage, error) {
	if e.pages++; e.pages > maxListingPages {
		return ListingPage{}, &Error{opDescribeStream, Denied, errors.New("asked too often")}
	}
	return ListingPage{Next: fmt.Sprint(e.pages)}, nil
}

// A listing that never ends is given up and restarted, and blocks no caller forever. Pages after
// the first few are requested at a limited pace, which a stop ends.
func TestAListingWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, e := t.Context(), &endless{}
		began := task.Mono(ctx)
		if _, err := ListShards(ctx, e, ""); !Is(err, Unavailable) || e.pages != maxListingPages {
			t.Errorf("%d pages, %v", e.pages, err)
		}
		if took := task.Mono(ctx) - began; took != (maxListingPages-hastyPages)*listingPace {
			t.Errorf("it took %s", took)
		}
		stopped, stop := context.WithCancel(ctx)
		l := NewLister(&endless{}, "")
		for range hastyPages {
			if done, err := l.Next(stopped); done || err != nil {
				t.Fatal(done, err)
			}
		}
		stop()
		if _, err := l.Next(stopped); !Is(err, Unavailable) || l.Pages() != hastyPages {
			t.Errorf("after a stop: %d pages, %v", l.Pages(), err)
		}
	})
}
