package cdc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// script is a Source whose shard holds the changes 1 to n, and whose calls can be made to fail.
type script struct {
	n, size  int // number of changes, and changes per page
	closed   bool
	trimmed  int      // changes up to this number are gone
	failures []Reason // of the next calls, in order; none is no failure
	pages    []Page   // if given, the answers of the next reads
	calls    []string
	onRead   func()
	clock    *clock // the service's; nil: answers have no time
}

const none = Reason(255)

func (s *script) fail(op string) error {
	if len(s.failures) == 0 {
		return nil
	}
	reason := s.failures[0]
	s.failures = s.failures[1:]
	if reason == none {
		return nil
	}
	return &Error{op, reason, errors.New("as the script says")}
}

func (s *script) ListPage(context.Context, string, string) (ListingPage, error) {
	return ListingPage{}, nil
}

func (s *script) Seek(_ context.Context, shard string, from Position) (Iterator, error) {
	s.calls = append(s.calls, fmt.Sprintf("seek %s %s", shard, from.After))
	if err := s.fail(opGetShardIterator); err != nil {
		return "", err
	}
	var after int
	if !from.AtHorizon() {
		_, _ = fmt.Sscan(from.After.String(), &after)
		if after < s.trimmed {
			return "", &Error{opGetShardIterator, Trimmed, errors.New("gone")}
		}
	}
	return Iterator(fmt.Sprint(max(after, s.trimmed))), nil
}

func (s *script) Read(_ context.Context, at Iterator) (Page, error) {
	s.calls = append(s.calls, "read "+string(at))
	if s.onRead != nil {
		s.onRead()
	}
	if err := s.fail(opGetRecords); err != nil {
		return Page{}, err
	}
	if len(s.pages) > 0 {
		page := s.pages[0]
		s.pages = s.pages[1:]
		if page.At.IsZero() && s.clock != nil {
			page.At = s.clock.now
		}
		return page, nil
	}
	var after int
	_, _ = fmt.Sscan(string(at), &after)
	var page Page
	if s.clock != nil {
		page.At = s.clock.now
	}
	for len(page.Changes) < s.size && after < s.n {
		after++
		page.Changes = append(page.Changes, change(after))
	}
	if after == s.n && s.closed {
		page.End = true
	} else {
		page.Next = Iterator(fmt.Sprint(after))
	}
	return page, nil
}

func change(n int) Change { return Change{Event: Insert, Sequence: SequenceOf(uint64(n))} }

func (s *script) log() string {
	calls := strings.Join(s.calls, ", ")
	s.calls = nil
	return calls
}

// clock is the service's clock, set by the test.
type clock struct{ now time.Time }

func after(n int) Position {
	if n == 0 {
		return Position{}
	}
	return Position{SequenceOf(uint64(n))}
}

func numbers(p Page) string {
	var list []string
	for _, c := range p.Changes {
		list = append(list, c.Sequence.String())
	}
	return strings.Join(list, " ")
}

func TestReaderFollowsTheIterator(t *testing.T) {
	s := &script{n: 5, size: 2, closed: true}
	r := &Reader{Source: s, Shard: "s"}
	for _, c := range []struct {
		applied int
		want    string
		end     bool
		calls   string
	}{
		{0, "1 2", false, "seek s , read 0"},
		{2, "3 4", false, "read 2"},
		{2, "3 4", false, "seek s 2, read 2"}, // not applied after all
		{3, "4 5", true, "seek s 3, read 3"},  // partly applied
		{5, "", true, "seek s 5, read 5"},
	} {
		page, err := r.Read(t.Context(), after(c.applied))
		if err != nil || numbers(page) != c.want || page.End != c.end {
			t.Errorf("after %d: %q, end %t, %v", c.applied, numbers(page), page.End, err)
		}
		if calls := s.log(); calls != c.calls {
			t.Errorf("after %d: %s; want %s", c.applied, calls, c.calls)
		}
	}
}

// H18: thousands of empty pages come before changes, without an end or a new iterator.
func TestH18EmptyPages(t *testing.T) {
	s := &script{n: 1, size: 1, pages: make([]Page, 10_000)}
	for i := range s.pages {
		s.pages[i].Next = "0"
	}
	r := &Reader{Source: s, Shard: "s"}
	for range 10_000 {
		if page, err := r.Read(t.Context(), Position{}); err != nil || page.End || len(page.Changes) > 0 {
			t.Fatal(page, err)
		}
	}
	page, err := r.Read(t.Context(), Position{})
	if err != nil || numbers(page) != "1" || strings.Count(s.log(), "seek") != 1 {
		t.Error(numbers(page), err)
	}
}

// H19, H20: an expired iterator is replaced by one after the last applied change, or at the horizon
// if there is none. If the new one expires immediately, the caller must wait.
func TestH19H20ExpiredIterator(t *testing.T) {
	for _, c := range []struct {
		applied  int
		failures []Reason
		want     string
		calls    string
	}{
		{0, []Reason{none, Expired}, "1 2", "seek s , read 0, seek s , read 0"},
		{3, []Reason{none, Expired}, "4 5", "seek s 3, read 3, seek s 3, read 3"},
		{3, []Reason{none, Expired, none, Expired}, "", "seek s 3, read 3, seek s 3, read 3"},
	} {
		s := &script{n: 9, size: 2, failures: c.failures}
		r := &Reader{Source: s, Shard: "s"}
		page, err := r.Read(t.Context(), after(c.applied))
		if c.want == "" && !Is(err, Expired) || c.want != "" && err != nil || numbers(page) != c.want {
			t.Errorf("after %d: %q, %v", c.applied, numbers(page), err)
		}
		if calls := s.log(); calls != c.calls {
			t.Errorf("after %d: %s", c.applied, calls)
		}
		if page, err = r.Read(t.Context(), after(c.applied)); err != nil || len(page.Changes) == 0 {
			t.Errorf("after %d, later: %v", c.applied, err)
		}
	}
}

// H21, H22: trimmed or missing positions are reported, and reading does not skip anything.
func TestH21H22LostPositionIsTold(t *testing.T) {
	s := &script{n: 9, size: 2, trimmed: 5}
	r := &Reader{Source: s, Shard: "s"}
	for range 2 {
		if _, err := r.Read(t.Context(), after(3)); !Is(err, Trimmed) {
			t.Errorf("got %v", err)
		}
	}
	s.trimmed = 0
	if _, err := r.Read(t.Context(), after(3)); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []Reason{Trimmed, NotFound, Malformed, Denied} {
		s.log()
		s.failures = []Reason{reason}
		if _, err := r.Read(t.Context(), after(5)); !Is(err, reason) {
			t.Errorf("got %v, want %s", err, reason)
		}
		page, err := r.Read(t.Context(), after(5))
		if err != nil || numbers(page) != "6 7" || !strings.Contains(s.log(), "seek s 5") {
			t.Errorf("after %s: %q, %v", reason, numbers(page), err)
		}
		if _, err := r.Read(t.Context(), after(3)); err != nil {
			t.Fatal(err)
		}
	}
}

// A throttled or failed read is repeated with the same iterator, because another seek would add to
// the load.
func TestPassingFaultsKeepTheIterator(t *testing.T) {
	s := &script{n: 9, size: 2}
	r := &Reader{Source: s, Shard: "s"}
	if _, err := r.Read(t.Context(), after(1)); err != nil {
		t.Fatal(err)
	}
	s.failures = []Reason{Throttled, Unavailable}
	for range 2 {
		if _, err := r.Read(t.Context(), after(3)); err == nil {
			t.Error("no error")
		}
	}
	s.log()
	if page, err := r.Read(t.Context(), after(3)); err != nil || numbers(page) != "4 5" || s.log() != "read 3" {
		t.Errorf("%q, %v", numbers(page), err)
	}
}

// H75: the service reports no error for changes that were trimmed at the horizon. So coverage that
// is too old causes an error when the first page shows the time, also after the iterator was
// replaced. A declared gap allows the read again.
func TestH75HorizonIsRefusedWhenChangesMayBeGone(t *testing.T) {
	covered := time.Unix(1_732_000_000, 0)
	limit := covered.Add(Retention - HorizonMargin)
	c := &clock{now: limit}
	ctx := t.Context()
	s := &script{n: 9, size: 2, clock: c}

	r := &Reader{Source: s, Shard: "s", Covered: covered}
	if page, err := r.Read(ctx, Position{}); err != nil || numbers(page) != "1 2" {
		t.Errorf("just in time: %q, %v", numbers(page), err)
	}
	c.now = limit.Add(24 * time.Hour)
	if page, err := r.Read(ctx, after(2)); err != nil || numbers(page) != "3 4" {
		t.Errorf("away from the horizon: %q, %v", numbers(page), err)
	}
	_, err := r.Read(ctx, Position{})
	if !Is(err, Trimmed) || !strings.Contains(err.Error(), "2024-11-19T07:06:40Z") {
		t.Errorf("too late: %v", err)
	}
	for _, page := range []Page{{Next: "0", At: limit.Add(time.Second)}, {End: true, At: limit.Add(time.Second)}} {
		r = &Reader{Source: s, Shard: "s", Covered: covered}
		s.pages = []Page{page}
		if _, err := r.Read(ctx, Position{}); !Is(err, Trimmed) {
			t.Errorf("too late, of a page that ends the shard %v: %v", page.End, err)
		}
	}

	c.now = limit
	r = &Reader{Source: s, Shard: "s", Covered: covered}
	s.failures = []Reason{none, Throttled}
	if _, err := r.Read(ctx, Position{}); !Is(err, Throttled) {
		t.Errorf("throttled: %v", err)
	}
	c.now = limit.Add(time.Second)
	s.log()
	if _, err := r.Read(ctx, Position{}); !Is(err, Trimmed) || s.log() != "seek s , read 0" {
		t.Errorf("throttled until too late: %v", err)
	}

	s.clock = nil
	if _, err := r.Read(ctx, Position{}); !Is(err, Unavailable) {
		t.Errorf("an answer without its time is not waited for: %v", err)
	}
	r = &Reader{Source: s, Shard: "s"}
	if _, err := r.Read(ctx, Position{}); err != nil {
		t.Errorf("without a claim: %v", err)
	}
}

// H21, H75: the service may report that a record was trimmed under an iterator of the horizon. That
// alone is no loss: the reader seeks the horizon again, and only coverage decides. After an applied
// change, it means that later changes are lost.
func TestH21H75TrimmedUnderTheHorizon(t *testing.T) {
	covered := time.Unix(1_732_000_000, 0)
	c := &clock{now: covered.Add(time.Hour)}
	ctx := t.Context()

	s := &script{n: 9, size: 2, failures: []Reason{none, Trimmed}, clock: c}
	r := &Reader{Source: s, Shard: "s", Covered: covered}
	if page, err := r.Read(ctx, Position{}); err != nil || numbers(page) != "1 2" || s.log() != "seek s , read 0, seek s , read 0" {
		t.Errorf("outrun once: %q, %v", numbers(page), err)
	}
	s.failures = []Reason{none, Trimmed, none, Trimmed}
	if _, err := r.Read(ctx, Position{}); !Is(err, Expired) || Is(err, Trimmed) {
		t.Errorf("outrun again and again is waited for: %v", err)
	}
	s.pages, s.failures = []Page{{Next: "0"}}, []Reason{none, none, Trimmed}
	for range 2 { // nothing was read yet: the position is still the horizon
		if _, err := r.Read(ctx, Position{}); err != nil {
			t.Errorf("outrun after an empty page: %v", err)
		}
	}
	s.failures = []Reason{none, Trimmed}
	s.onRead = func() { c.now = covered.Add(Retention) }
	if _, err := r.Read(ctx, Position{}); !Is(err, Trimmed) {
		t.Errorf("outrun until what is needed may be gone: %v", err)
	}
	s.onRead, s.failures = nil, []Reason{none, Trimmed}
	if _, err := r.Read(ctx, after(3)); !Is(err, Trimmed) {
		t.Errorf("after a change: %v", err)
	}
}

// H75: a root's coverage begins with its first page. If its reader is throttled for a day, it must
// not start again at a horizon that has moved.
func TestH75AReaderClaimsWhatItsFirstPageSaw(t *testing.T) {
	first := time.Unix(1_732_000_000, 0)
	c := &clock{now: first}
	s := &script{n: 9, size: 2, pages: []Page{{Next: "0"}}, clock: c}
	r := &Reader{Source: s, Shard: "s"}
	if _, err := r.Read(t.Context(), Position{}); err != nil {
		t.Fatal(err)
	}
	c.now = first.Add(Retention)
	s.failures = []Reason{Expired}
	if page, err := r.Read(t.Context(), Position{}); !Is(err, Trimmed) {
		t.Errorf("a day later: %q, %v", numbers(page), err)
	}
}

// Coverage begins with a page that has a time: this host's clock proves nothing.
func TestAReaderClaimsByTheServicesClock(t *testing.T) {
	c := &clock{now: time.Unix(1_732_000_000, 0)}
	s := &script{n: 9, size: 2, pages: []Page{{Next: "0"}}}
	r := &Reader{Source: s, Shard: "s"}
	if _, err := r.Read(t.Context(), Position{}); err != nil || !r.Covered.IsZero() {
		t.Errorf("covered to %s, %v", r.Covered, err)
	}
	s.clock, s.pages = c, []Page{{Next: "0"}}
	if _, err := r.Read(t.Context(), Position{}); err != nil || !r.Covered.Equal(c.now) {
		t.Errorf("covered to %s, %v", r.Covered, err)
	}
}

// H21, H75: when the service has trimmed the last change of an idle shard, an earlier run of empty
// pages shows that the stream still keeps all later changes.
func TestH21H75AnIdleShardIsReadOn(t *testing.T) {
	changed := time.Unix(1_732_000_000, 0)
	caughtUp := changed.Add(3 * time.Hour)
	for _, c := range []struct {
		name      string
		appliedTo time.Time
		now       time.Duration // since the last change
		want      Reason
	}{
		{"idle, and caught up 21 hours ago", caughtUp, 24*time.Hour + 5*time.Minute, none},
		{"just in time", caughtUp, 27*time.Hour - HorizonMargin, none},
		{"too late", caughtUp, 27*time.Hour - HorizonMargin + time.Second, Trimmed},
		{"nothing proves anything", time.Time{}, 24*time.Hour + 5*time.Minute, Trimmed},
		{"trimmed before its time", caughtUp, 5 * time.Hour, Trimmed},
	} {
		clock := &clock{now: changed.Add(c.now)}
		s := &script{n: 9, size: 2, trimmed: 7, clock: clock}
		r := &Reader{Source: s, Shard: "s", AppliedTo: c.appliedTo, Changed: changed}
		page, err := r.Read(t.Context(), after(3))
		if c.want == none && (err != nil || numbers(page) != "8 9") || c.want != none && !Is(err, c.want) {
			t.Errorf("%s: %q, %v", c.name, numbers(page), err)
		}
		if c.want != none {
			continue
		}
		if calls := s.log(); calls != "seek s 3, seek s , read 7" {
			t.Errorf("%s: %s", c.name, calls)
		}
		// The iterator expires before the next page, and the horizon still replaces the position.
		s.failures = []Reason{Expired}
		if page, err := r.Read(t.Context(), after(3)); err != nil || numbers(page) != "8 9" {
			t.Errorf("%s, once more: %q, %v", c.name, numbers(page), err)
		}
		if page, err := r.Read(t.Context(), after(9)); err != nil || numbers(page) != "" {
			t.Errorf("%s, after what followed: %q, %v", c.name, numbers(page), err)
		}
	}
}

// A few empty pages prove nothing (H18). If an older change follows, it reverts the apparent
// progress.
func TestH18ARunOfEmptyPagesProves(t *testing.T) {
	c := &clock{now: time.Unix(1_732_000_000, 0)}
	s := &script{n: 3, size: 2, clock: c}
	r := &Reader{Source: s, Shard: "s"}
	for n := 1; n <= EmptyRun+1; n++ {
		c.now = c.now.Add(time.Second)
		if _, err := r.Read(t.Context(), after(3)); err != nil || r.AppliedTo.IsZero() != (n < EmptyRun) || n >= EmptyRun && !r.AppliedTo.Equal(c.now) {
			t.Errorf("%d empty pages: applied to %s, %v", n, r.AppliedTo, err)
		}
	}
	proved := r.AppliedTo
	for ago, keeps := range map[time.Duration]bool{HorizonMargin: true, HorizonMargin + time.Second: false} {
		r.AppliedTo = proved
		late := change(4)
		late.Time = proved.Add(-ago)
		s.pages = []Page{{Changes: []Change{late}, Next: "3"}}
		if _, err := r.Read(t.Context(), after(3)); err != nil || r.AppliedTo.IsZero() == keeps {
			t.Errorf("a change of %s before: applied to %s, %v", ago, r.AppliedTo, err)
		}
	}
	s.pages = []Page{{Next: "3"}}
	if _, err := r.Read(t.Context(), after(3)); err != nil || !r.AppliedTo.IsZero() && !r.AppliedTo.Equal(proved) {
		t.Errorf("one empty page after a change: applied to %s, %v", r.AppliedTo, err)
	}
}

// A reader that is hours behind needs more empty pages: the service walks through that time in them,
// and changes of that time may follow.
func TestH18MoreEmptyPagesAfterALongTime(t *testing.T) {
	c := &clock{now: time.Unix(1_732_000_000, 0)}
	s := &script{n: 3, size: 2, clock: c}
	for behind, want := range map[time.Duration]int{29 * time.Minute: EmptyRun, 12 * time.Hour: EmptyRun + 24} {
		r := &Reader{Source: s, Shard: "s", Covered: c.now.Add(-48 * time.Hour), AppliedTo: c.now.Add(-behind)}
		n, before := 0, r.AppliedTo
		for ; r.AppliedTo.Equal(before) && n < 200; n++ {
			if _, err := r.Read(t.Context(), after(3)); err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%s behind: proved after %d pages, want %d", behind, n, want)
		}
	}
}

func TestReaderRefusesPagesOutOfOrder(t *testing.T) {
	for name, c := range map[string]struct {
		page   Page
		reason Reason
		record string
	}{
		"going back":             {Page{Changes: []Change{change(5), change(4)}, Next: "x"}, Unreadable, "4"},
		"repeating":              {Page{Changes: []Change{change(5), change(5)}, Next: "x"}, Unreadable, "5"},
		"as text, not as number": {Page{Changes: []Change{change(100), change(99)}, Next: "x"}, Unreadable, "99"},
		"without a number":       {Page{Changes: []Change{{Event: Insert}}, Next: "x"}, Unreadable, ""},
		"below the position":     {Page{Changes: []Change{change(2), change(4)}, Next: "x"}, Unreadable, "2"},
		"all below the position": {Page{Changes: []Change{change(1), change(2)}, Next: "x"}, Unreadable, "1"},
		"end with an iterator":   {Page{Next: "x", End: true}, Malformed, ""},
		"no end and no iterator": {Page{}, Malformed, ""},
	} {
		s := &script{n: 9, size: 2, pages: []Page{c.page}}
		r := &Reader{Source: s, Shard: "s"}
		got, err := r.Read(t.Context(), after(3))
		if !Is(err, c.reason) || got.Changes != nil {
			t.Errorf("%s: %v", name, err)
		}
		if record, ok := errors.AsType[*RecordError](err); ok && (record.Shard != "s" || record.Sequence != c.record) {
			t.Errorf("%s: %v names another record", name, err)
		}
		if got, err := r.Read(t.Context(), after(3)); err != nil || numbers(got) != "4 5" {
			t.Errorf("after %s: %q, %v", name, numbers(got), err)
		}
	}
}

// A page that begins with applied changes is returned without them; the position never moves back.
func TestReaderLeavesOutWhatIsApplied(t *testing.T) {
	s := &script{n: 9, size: 2, pages: []Page{
		{Changes: []Change{change(99), change(100)}, Next: "x"}, {Changes: []Change{change(100)}, Next: "y"}}}
	r := &Reader{Source: s, Shard: "s"}
	page, err := r.Read(t.Context(), after(99))
	if err != nil || numbers(page) != "100" {
		t.Errorf("%q, %v", numbers(page), err)
	}
	page, err = r.Read(t.Context(), after(100))
	if err != nil || len(page.Changes) != 0 || s.log() != "seek s 99, read 99, read x" {
		t.Errorf("%q, %v", numbers(page), err)
	}
	// If the service has trimmed the position, reading continues from the horizon.
	s = &script{n: 9, size: 2, pages: []Page{{Changes: []Change{change(98), change(100)}, Next: "x"}}}
	r = &Reader{Source: s, Shard: "s", aged: after(99)}
	if page, err = r.Read(t.Context(), after(99)); err != nil || numbers(page) != "100" {
		t.Errorf("from the horizon: %q, %v", numbers(page), err)
	}
}

// Whatever fails: if the caller applies each page and moves the position to its last change, it
// applies every change in order.
func TestReaderMissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &script{n: rapid.IntRange(0, 30).Draw(t, "changes"), size: rapid.IntRange(1, 7).Draw(t, "page"), closed: true}
		s.failures = rapid.SliceOfN(rapid.SampledFrom([]Reason{none, none, none, Expired, Throttled, Unavailable, Denied, Malformed}), 0, 40).Draw(t, "failures")
		r := &Reader{Source: s, Shard: "s"}
		crashes := rapid.SliceOfN(rapid.Bool(), 0, 40).Draw(t, "crashes")
		applied := 0
		for i := range 200 {
			page, err := r.Read(t.Context(), after(applied))
			if err != nil || i < len(crashes) && crashes[i] {
				continue
			}
			for _, c := range page.Changes {
				applied++
				if c.Sequence != SequenceOf(uint64(applied)) {
					t.Fatalf("%s in place of %d", c.Sequence, applied)
				}
			}
			if page.End {
				if applied != s.n {
					t.Fatalf("the end after %d of %d", applied, s.n)
				}
				return
			}
		}
		t.Fatal("no end")
	})
}
