package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

func TestTempo(t *testing.T) {
	var tp RateMeter
	now := time.Duration(0)
	if got := tp.Add(5, now); got != 0 {
		t.Errorf("%v before any time has passed", got)
	}
	for range 300 { // five minutes of ten changes a second
		now += time.Second
		tp.Add(10, now)
	}
	if got := tp.rounded(); math.Abs(got-10) > 0.1 {
		t.Errorf("%v changes a second, want about 10", got)
	}
	// A stall shows in the very next addition, however long it lasted.
	if got := tp.Add(0, now+5*time.Minute); got > 0.01 {
		t.Errorf("%v after five minutes of nothing", got)
	}
}

func TestWaits(t *testing.T) {
	var w waits
	begin := time.Date(2026, 11, 1, 12, 0, 30, 0, time.UTC)
	add := func(reason string, spent time.Duration, at time.Time) { w.add(reason, at, spent, at.Add(spent)) }
	add(LimitRows, 2*time.Second, begin)
	add(LimitRows, 3*time.Second, begin.Add(time.Minute))
	add(LimitSource, time.Second, begin.Add(time.Minute))
	got := w.Report(begin.Add(2 * time.Minute))
	if len(got) != 2 || got[0].Reason != LimitSource || got[1].Seconds != 5 || !got[1].Since.Equal(begin) || !got[1].Last.Equal(begin.Add(time.Minute+3*time.Second)) {
		t.Errorf("%+v", got)
	}
	// Only the last hour counts, and an older wait does not reappear when its slot is reused.
	add(LimitRows, 7*time.Second, begin.Add(time.Hour))
	got = w.Report(begin.Add(time.Hour + 7*time.Second))
	if len(got) != 2 || got[1].Seconds != 10 {
		t.Errorf("%+v", got)
	}
	if got = w.Report(begin.Add(3 * time.Hour)); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	add(LimitRows, time.Second, time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC)) // a clock that was set back
}

// Segments and shards wait in parallel. If each of them waited for most of an hour, the table
// waited for most of an hour, not for days.
func TestWaitsSideBySideAreOne(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 30, 0, time.UTC)
	seconds := func(w *waits, now time.Time) float64 {
		got := w.Report(now)
		if len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		return got[0].Seconds
	}
	var rows waits
	// Sixteen tasks each wait for nine tenths of each second, and record that afterwards.
	for s := range 3600 {
		for segment := range 16 {
			from := begin.Add(time.Duration(s)*time.Second + time.Duration(segment)*time.Millisecond)
			rows.add(LimitRows, from, 900*time.Millisecond, from.Add(900*time.Millisecond))
		}
	}
	if got := seconds(&rows, begin.Add(time.Hour)); got < 3150 || got > 3300 {
		t.Errorf("waited for %g s of an hour", got)
	}
	var source waits
	source.add(LimitSource, begin, 40*time.Second, begin) // recorded as they begin
	source.add(LimitSource, begin.Add(10*time.Second), 40*time.Second, begin.Add(10*time.Second))
	if got := seconds(&source, begin.Add(20*time.Second)); got != 20 {
		t.Errorf("waited for %g s of the first twenty", got)
	}
	if got := seconds(&source, begin.Add(5*time.Minute)); got != 50 {
		t.Errorf("waited for %g s in all", got)
	}
}

// All shards of a table wait and stop reading in parallel.
func TestWaitsAndReadsSideBySide(t *testing.T) {
	var w waits
	var r Reads
	begin := time.Date(2026, 11, 1, 12, 0, 30, 0, time.UTC)
	var shards sync.WaitGroup
	for range 8 {
		shards.Go(func() {
			for range 500 {
				_, end := r.begin(context.Background())
				w.add(LimitSource, begin, time.Second, begin)
				end()
			}
		})
	}
	shards.Wait()
	if got := w.Report(begin.Add(time.Minute)); len(got) != 1 || got[0].Seconds != 1 || len(r.cancels) != 0 {
		t.Errorf("%+v, %d calls are under way", got, len(r.cancels))
	}
}

// A cause quotes a service where its words hold no item data, in one line of bounded length. An
// exhausted quota of the topic is not "no answer in time".
func TestCausesQuoteServices(t *testing.T) {
	secret := errors.New("secret")
	for _, c := range []struct {
		err   error
		cause string
		limit string
	}{
		{&cdc.Error{Op: "GetRecords", Reason: cdc.Throttled, Err: secret}, "DynamoDB: throttled", LimitSource},
		{&cdc.Error{Op: "GetRecords", Reason: cdc.Denied, Err: secret}, "DynamoDB: denied", ""},
		{&cdc.Error{Op: "GetRecords", Reason: cdc.Unreadable, Err: &cdc.RecordError{Shard: "s1", Sequence: "77", Err: errors.New("attribute \"a\": empty set")}},
			"malformed record: sequence number 77 of shard s1: attribute \"a\": empty set", ""},
		{&cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: fmt.Errorf("read: %w", cdc.ErrChecksum)}, "DynamoDB: an answer has a wrong checksum; check whether a proxy changes answers", ""},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Throttled, Code: "ResourceExhausted"}, "Bigtable: throttled (ResourceExhausted)", limitTarget},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}, "Bigtable: outcome unknown (Unavailable)", ""},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Denied, Code: "PermissionDenied", Text: "missing permission bigtable.tables.mutateRows"},
			"Bigtable: denied (PermissionDenied): missing permission bigtable.tables.mutateRows", ""},
		{&relay.Error{Op: "Publish", Reason: relay.Throttled, Code: "ResourceExhausted", Text: "Quota exceeded\nfor\tpublishers"},
			"Pub/Sub: throttled (ResourceExhausted), its ordering keys are blocked until the next attempt: Quota exceeded for publishers", limitTopic},
		{&relay.Error{Op: "Publish", Reason: relay.Unavailable, Code: "FailedPrecondition", Text: strings.Repeat("ü", 200)},
			"Pub/Sub: unavailable (FailedPrecondition), its ordering keys are blocked until the next attempt: " + strings.Repeat("ü", 150) + "…", ""},
		{&relay.Error{Op: "Pull", Reason: relay.Denied, Code: "PermissionDenied"}, "Pub/Sub: denied (PermissionDenied)", ""},
		{context.DeadlineExceeded, "no answer in time", ""},
		{secret, "failed; see the worker's log", ""},
	} {
		limit, is := limitOf(c.err)
		if got := causeOf(c.err); got != c.cause || is != (c.limit != "") || is && limit != c.limit {
			t.Errorf("%v: %q, %q", c.err, got, limit)
		}
	}
}

func TestNotes(t *testing.T) {
	var last checkpoint.Trouble
	n := &Notes{Tell: func(trouble checkpoint.Trouble) { last = trouble }}
	first, second := n.Slot(0), n.Slot(1)
	copying, keeping := checkpoint.Trouble{Step: "copy"}, checkpoint.Trouble{Step: "keep the table"}
	for _, step := range []struct {
		do   func()
		want checkpoint.Trouble
	}{
		{func() { second(keeping) }, keeping}, {func() { first(copying) }, copying}, {func() { second(checkpoint.Trouble{}) }, copying},
		{func() { second(keeping) }, copying}, {func() { first(checkpoint.Trouble{}) }, keeping}, {func() { second(checkpoint.Trouble{}) }, checkpoint.Trouble{}},
	} {
		if step.do(); last != step.want {
			t.Errorf("told %+v, want %+v", last, step.want)
		}
	}
}

func TestDiary(t *testing.T) {
	var told []checkpoint.Trouble
	ctx, note := context.Background(), func(trouble checkpoint.Trouble) { told = append(told, trouble) }
	quiet := &diary{tell: note, step: "read a shard"}
	quiet.close()
	if len(told) != 0 {
		t.Errorf("a step that succeeds at once is told: %+v", told)
	}
	d := &diary{tell: note, step: "read a shard"}
	d.write(ctx, &cdc.Error{Reason: cdc.Throttled})
	d.write(ctx, &cdc.Error{Reason: cdc.Unavailable})
	d.close()
	if len(told) != 3 || told[1].Since != told[0].Since || !told[0].Throttled || told[1].Throttled || told[2] != (checkpoint.Trouble{}) {
		t.Errorf("%+v", told)
	}
	nobody := &diary{}
	nobody.write(ctx, context.DeadlineExceeded)
	nobody.close()
}
