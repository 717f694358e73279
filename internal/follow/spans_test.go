package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// A page has a span with its steps, and empty pages have none. A commit is a step of the page that it
// follows, at most one each second. The last commit, at a stop, belongs to no page.
func TestAPageHasASpanWithItsSteps(t *testing.T) {
	playScene(t, func(s *scene) {
		spans := &enginetest.Spans{}
		s.Tracer, s.stream.size = spans, 2
		s.shard("s", "")
		s.put("a", "b", "a")
		s.answer = func(ctx context.Context, _ *sink.Request) error { return task.Sleep(ctx, 30*time.Millisecond) }
		s.follows(20 * time.Second)
		want := "page(read fold write commit) page(read fold write)"
		if got := spans.Tree(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		page, read, write := spans.Named("page")[0], spans.Named("read")[0], spans.Named("write")[0]
		if want := (engine.SpanFacts{Table: "Orders", Shard: "s", Records: 2}); page.Facts != want || page.Last != (engine.SpanFacts{Changes: 2, Rows: 2}) || page.Err != nil {
			t.Errorf("%+v, then %+v, %v", page.Facts, page.Last, page.Err)
		}
		if read.From != page.From || read.To-read.From != 10*time.Millisecond {
			t.Errorf("a read of 10ms lasts from %s to %s, in a page since %s", read.From, read.To, page.From)
		}
		if write.To-write.From != 30*time.Millisecond || page.To < write.To || page.To > write.To+100*time.Millisecond {
			t.Errorf("a write lasts from %s to %s, in a page until %s", write.From, write.To, page.To)
		}
	})
}

// A page whose write fails has failed, and each span ends once. The page is read again.
func TestThePageOfAFailureHasFailed(t *testing.T) {
	playScene(t, func(s *scene) {
		spans := &enginetest.Spans{}
		s.Tracer = spans
		s.shard("s", "")
		s.put("a")
		s.answer = func(context.Context, *sink.Request) error {
			if len(spans.Named("write")) < 2 {
				return sink.ErrFenced
			}
			return nil
		}
		s.follows(time.Minute)
		if got := spans.Tree(); got != "page(read fold write) page(read fold write commit)" {
			t.Fatal(got)
		}
		for _, name := range []string{"page", "write"} {
			of := spans.Named(name)
			if !errors.Is(of[0].Err, sink.ErrFenced) || of[1].Err != nil {
				t.Errorf("%s: %v, then %v", name, of[0].Err, of[1].Err)
			}
		}
	})
}

// The last page of a shard has a span, too, and so have pages that are settled later. The settler
// commits for several pages at once, so its commits belong to none.
func TestPagesThatEndOtherwiseHaveSpans(t *testing.T) {
	for late, want := range map[time.Duration]string{0: "page(read fold write)", time.Minute: "page(read fold write)"} {
		playScene(t, func(s *scene) {
			spans := &enginetest.Spans{}
			s.Tracer, s.Late = spans, late
			s.shard("s", "")
			s.put("a")
			s.stream.shards["s"].closed = true
			s.follows(5 * time.Minute)
			if got := spans.Tree(); got != want || len(spans.Named("page")) != 1 || spans.Named("page")[0].Err != nil {
				t.Errorf("late by %s: %s, want %s", late, got, want)
			}
		})
	}
}

// A page that is put back ends its span when the next page is read.
func TestAPageThatIsPutBackHasASpan(t *testing.T) {
	playScene(t, func(s *scene) {
		spans := &enginetest.Spans{}
		s.Tracer = spans
		s.prepares()
		pages := &pageReader{follower: s.parts.follower, reader: &cdc.Reader{Shard: "s"}}
		now := task.Mono(s.ctx)
		page := &readPage{Page: cdc.Page{Changes: make([]cdc.Change, 3)}, asked: now - 3*time.Second, answered: now - time.Second}
		pages.trace(engine.Until(s.ctx), page)
		pages.trace(engine.Until(s.ctx), &readPage{})
		if read := spans.Named("read")[0]; read.From != page.asked || read.To != page.answered {
			t.Errorf("the read of a page that was read ahead lasts from %s to %s", read.From, read.To)
		}
		if got := spans.Tree(); got != "page(read)" || !errors.Is(spans.Named("page")[0].Err, engine.ErrPutBack) {
			t.Error(got)
		}
	})
}

// A worker without traces allocates nothing for them.
func TestWithoutTracesAPageCostsNothing(t *testing.T) {
	pages := &pageReader{follower: &follower{Common: &engine.Common{Retrier: &engine.Retrier{Source: "Orders"}}}, reader: &cdc.Reader{Shard: "s"}}
	life, page := engine.Until(t.Context()), &readPage{Page: cdc.Page{Changes: make([]cdc.Change, 3)}}
	allocations := testing.AllocsPerRun(100, func() {
		traced := pages.trace(life, page)
		for _, name := range []string{engine.SpanFold, engine.SpanWrite, engine.SpanCommit} {
			within, step := pages.step(traced, name)
			pages.traced.folded(step, 3, 2)
			if step.Done(nil); within.Work != life.Work {
				t.Error("the context changes")
			}
		}
		pages.traced.end(nil)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
