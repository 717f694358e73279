package worker

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// calledHooks answers each call, and sees its context.
type calledHooks struct{ contexts []context.Context }

func (h *calledHooks) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	h.contexts = append(h.contexts, ctx)
	return "output with a secret", cutover.HookRefused
}

// Each call of a hook has a span with its name, direction and outcome, without its output. Without
// traces the call is passed on as it is.
func TestHooksHaveSpans(t *testing.T) {
	for _, traced := range []bool{true, false} {
		called, spans := &calledHooks{}, &enginetest.Spans{}
		hooks := tracedHooks{Hooks: called}
		if traced {
			hooks.tracer = spans
		}
		output, outcome := hooks.Call(t.Context(), cutover.Call{Hook: cutover.Switch})
		if output != "output with a secret" || outcome != cutover.HookRefused || len(called.contexts) != 1 {
			t.Fatalf("%q, %s, %d calls", output, outcome, len(called.contexts))
		}
		if !traced {
			continue
		}
		_, _ = hooks.Call(t.Context(), cutover.Call{Hook: cutover.FreezeWrites, Direction: cutover.Back})
		all := spans.Named(engine.SpanHook)
		if len(all) != 2 || spans.Tree() != "hook hook" {
			t.Fatal(spans.Tree())
		}
		for i, want := range []engine.SpanFacts{{Hook: cutover.Switch, Direction: cutover.Forward}, {Hook: cutover.FreezeWrites, Direction: cutover.Back}} {
			if all[i].Facts != want || all[i].Last != (engine.SpanFacts{Outcome: "refused"}) {
				t.Errorf("%+v, then %+v", all[i].Facts, all[i].Last)
			}
		}
	}
}

// counted matches the number of writes.
var counted = regexp.MustCompile(`replicator_target_write_duration_seconds_count\{pipeline="[^"]*"\} 2\n`)

// A write shows the span that it belongs to, as an exemplar of the histogram in the OpenMetrics
// format. A write without a span has none. Without traces only the text format is served.
func TestWritesHaveExemplars(t *testing.T) {
	for _, c := range []struct{ traced, recorded bool }{{true, true}, {true, false}, {false, false}} {
		o := silentObserver()
		if c.traced {
			o.metrics.ShowExemplars()
			o.span = func(context.Context) (e admin.Exemplar) {
				if c.recorded {
					e = admin.Exemplar{Trace: "0af7651916cd43dd8448eb211c80319c", Span: "b7ad6b7169203331"}
				}
				return e
			}
		}
		o.writes().Applied(t.Context(), "Orders", 3*time.Millisecond)
		o.writes().Stale(t.Context(), "Orders", 3*time.Millisecond)
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		o.metrics.Handler().ServeHTTP(w, r)
		text, kind := w.Body.String(), w.Header().Get("Content-Type")
		exemplar := strings.Contains(text, `# {span_id="b7ad6b7169203331",trace_id="0af7651916cd43dd8448eb211c80319c"} 0.003`) ||
			strings.Contains(text, `# {trace_id="0af7651916cd43dd8448eb211c80319c",span_id="b7ad6b7169203331"} 0.003`)
		if exemplar != c.recorded || strings.HasPrefix(kind, "application/openmetrics-text") != c.traced || !counted.MatchString(text) {
			t.Errorf("%+v: exemplar %t, %s", c, exemplar, kind)
		}
	}
}
