package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// between returns the part of a page between two texts; "" if the page lacks the first.
func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	part, _, _ := strings.Cut(rest, to)
	return part
}

// begin begins the ledger of a pipeline.
func begin(t *testing.T, store checkpoint.Store, name string) *checkpoint.Ledger {
	t.Helper()
	l, err := checkpoint.Open(t.Context(), store, name, checkpoint.Options{Worker: "w-" + name, ID: name})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// write writes a row as another program would.
func write(t *testing.T, store checkpoint.Store, key, data string) {
	t.Helper()
	if done, err := store.Swap(t.Context(), key, 0, 1, []byte(data)); err != nil || !done {
		t.Fatalf("%s: %t, %v", key, done, err)
	}
}

// The list has every pipeline with the verdict that its own page would show, or the reason why there
// is none. This pipeline has the verdict of the first page.
func TestPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpointtest.Memory{}
		b := New("v1.2.3", func(int) []admin.Event { return nil })
		h := b.Pages(&Ledger{Config: testConfig(), Target: &stores{store: store}})
		m := judged()
		b.Show(m, true, noon)
		if code, text, _ := get(t, h, "/pipelines"); code != http.StatusOK || !strings.Contains(text, `id="pipelines" data-value="0"`) || !strings.Contains(text, "No pipeline has begun.") {
			t.Errorf("no pipeline: %d, %s", code, text)
		}
		begin(t, store, "acme")
		time.Sleep(pipelinesFor)
		if _, text, _ := get(t, h, "/pipelines"); !strings.Contains(text, `id="pipelines" data-value="1"`) {
			t.Errorf("one pipeline: %s", text)
		}
		paused := begin(t, store, "paused")
		write(t, store, "paused/table/Users", `{"format":2,"source":"Users","generation":3,"pause":{"since":"1999-12-31T23:00:00Z","reason":"CHG-1"}}`)
		if err := paused.ShowProcess(t.Context(), checkpoint.RoleStandby); err != nil {
			t.Fatal(err)
		}
		begin(t, store, "moving")
		write(t, store, "moving/table/Bills", `{"format":2,"source":"Bills","generation":3}`)
		write(t, store, "moving/cutover", `{"format":2,"attempt":2,"step":"drain","tables":["Bills"],"freeze_begun_at":"1999-12-31T23:00:00Z"}`)
		begin(t, store, "newer")
		write(t, store, "newer/table/Users", `{"format":99,"source":{"in":"another form"}}`)
		begin(t, store, "newer-shards")
		write(t, store, "newer-shards/table/Users", `{"format":2,"source":"Users"}`)
		write(t, store, "newer-shards/shard/Users/L/1", `{"format":99}`)
		write(t, store, "lost/table/Users", `{"format":2,"source":"Users"}`)
		begin(t, store, "many")
		for n := range mostJudged + 1 {
			write(t, store, fmt.Sprintf("many/table/T%d", n), `{"format":2}`)
		}
		begin(t, store, "new")
		time.Sleep(pipelinesFor)
		reads := 0
		store.OnRead = func(context.Context, string) error { reads++; return nil }
		code, text, header := get(t, h, "/pipelines")
		if code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(text, "<script") {
			t.Errorf("%d, %v", code, header)
		}
		for name, wants := range map[string][]string{
			"acme":         {"(this page)", m.Headline(), `data-value="cutover"`, `data-label="Cutover">drain<`},
			"paused":       {`data-value="paused">`, `<span aria-hidden="true">‖</span> Paused: an operator paused the table: CHG-1`, "w-paused", `data-label="Tables" class="number" data-value="1"`, time.Now().UTC().Format("2006-01-02 15:04")},
			"moving":       {`data-value="cutover">`, "the application", `data-label="Cutover">drain<`},
			"newer":        {`data-value="">`, "Not judged: the ledger has format 99, and this version knows 7", `data-label="Format" class="number">99`},
			"newer-shards": {"✗", "the ledger was written by a newer version of replicator"},
			"lost":         {"▲", "The ledger is lost: only other rows of this pipeline remain"},
			"many":         {"Not judged: 101 tables are too many for this page"},
			"new":          {"No table is known yet", `data-label="Cutover">-`},
		} {
			line := strings.ReplaceAll(between(text, `<tr id="pipeline-`+name+`"`, "</tr>"), "&#39;", "'")
			for _, want := range wants {
				if !strings.Contains(line, want) {
					t.Errorf("%s lacks %q: %s", name, want, line)
				}
			}
			if name != "acme" && strings.Contains(line, "(this page)") {
				t.Errorf("%s is marked as this pipeline", name)
			}
		}
		if strings.Contains(text, `id="more"`) {
			t.Error("a whole list lacks some pipelines")
		}
		once := reads
		get(t, h, "/pipelines")
		if reads != once || once > 120 {
			t.Errorf("%d reads, then %d", once, reads)
		}
		time.Sleep(pipelinesFor)
		store.OnRead = func(context.Context, string) error { return errors.New("denied") }
		if code, text, _ := get(t, h, "/pipelines"); code != http.StatusServiceUnavailable || !strings.Contains(text, "cannot list the pipelines of state table state") {
			t.Errorf("denied: %d, %s", code, text)
		}
	})
}

// A long list says that there are more, but always has this pipeline. Tables are judged up to a limit
// for the whole list.
func TestManyPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpointtest.Memory{}
		b := New("v1.2.3", func(int) []admin.Event { return nil })
		l := &Ledger{Config: testConfig(), Target: &stores{store: store}}
		b.Show(judged(), true, noon)
		names := []string{"acme"}
		for n := range mostPipelines - 1 {
			names = append(names, fmt.Sprintf("a-%03d", n))
		}
		for _, name := range names {
			begin(t, store, name)
			for n := range 20 {
				write(t, store, fmt.Sprintf("%s/table/T%d", name, n), `{"format":2}`)
			}
		}
		_, text, _ := get(t, b.Pages(l), "/pipelines")
		judged := strings.Count(text, `data-label="Verdict" data-value="preparing"`)
		if strings.Contains(text, `id="more"`) || !strings.Contains(text, `data-value="100"`) || judged != allJudged/20 {
			t.Errorf("a hundred pipelines, %d judged: %.3000s", judged, text)
		}
		begin(t, store, "a-zzz")
		time.Sleep(pipelinesFor)
		if _, text, _ = get(t, b.Pages(l), "/pipelines"); !strings.Contains(text, `id="more"`) || !strings.Contains(text, "(this page)") || !strings.Contains(text, `id="pipeline-a-zzz"`) {
			t.Errorf("more than a hundred pipelines: %.3000s", text)
		}
	})
}

// The step of a cutover is that of the running one, else that of the last one.
func TestCutoverStep(t *testing.T) {
	done := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDone, EndedAt: noon}
	cancelled := checkpoint.Cutover{Attempt: 2, Step: "cancelled", EndedAt: noon.Add(time.Hour)}
	drains := checkpoint.Cutover{Attempt: 3, Step: checkpoint.CutoverDrain}
	for _, c := range []struct {
		all  checkpoint.Cutovers
		want checkpoint.CutoverStep
	}{{nil, ""}, {checkpoint.Cutovers{{}}, ""}, {checkpoint.Cutovers{done, {}}, done.Step}, {checkpoint.Cutovers{done, cancelled}, cancelled.Step}, {checkpoint.Cutovers{cancelled, done}, cancelled.Step},
		{checkpoint.Cutovers{done, drains, cancelled}, drains.Step}} {
		if got := cutoverStep(c.all); got != c.want {
			t.Errorf("%+v: %s, want %s", c.all, got, c.want)
		}
	}
	var line pipelineLine
	line.judge(pipeline{judged: &status.Document{}})
	if line.Verdict.Word == "" {
		t.Error("a document without a table has no verdict")
	}
}
