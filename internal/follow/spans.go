package follow

import (
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pageTrace holds the span of the page that a pageReader returned last. The zero value has none.
type pageTrace struct {
	span          engine.Span
	changes, rows int // applied and written
}

// trace begins the span of a page, whose first step is its read. The returned lifecycle carries the
// span. An empty page has no span, because an idle shard reads one each second. If the span of the
// page before is still open, that page was put back.
func (p *pageReader) trace(life engine.Lifecycle, page *readPage) engine.Lifecycle {
	p.traced.end(engine.ErrPutBack)
	if p.Tracer == nil || len(page.Changes) == 0 {
		return life
	}
	now := task.Mono(life.Work)
	ctx, span := engine.Trace(life.Work, p.Tracer, engine.SpanPage, now-page.asked, engine.SpanFacts{
		Table: p.Source, Shard: p.reader.Shard, Records: len(page.Changes),
	})
	_, read := engine.Trace(ctx, p.Tracer, engine.SpanRead, now-page.asked, engine.SpanFacts{Records: len(page.Changes)})
	read.EndedAgo(now-page.answered, engine.SpanFacts{}, nil)
	p.traced.span = span
	return life.Within(ctx)
}

// step begins the span of a step of the page. If the page has no span, the step has none.
func (p *pageReader) step(life engine.Lifecycle, name string) (engine.Lifecycle, engine.Span) {
	if !p.traced.span.Recorded() {
		return life, engine.Span{}
	}
	ctx, span := engine.Trace(life.Work, p.Tracer, name, 0, engine.SpanFacts{})
	return life.Within(ctx), span
}

// folded records how many changes of the page are applied, and how many rows they are folded into.
func (t *pageTrace) folded(step engine.Span, changes, rows int) {
	t.changes, t.rows = changes, rows
	step.End(engine.SpanFacts{Changes: changes, Rows: rows}, nil)
}

// end ends the page's span, if it is open. If err is not nil, the page was not applied.
func (t *pageTrace) end(err error) {
	t.span.End(engine.SpanFacts{Changes: t.changes, Rows: t.rows}, err)
	*t = pageTrace{}
}
