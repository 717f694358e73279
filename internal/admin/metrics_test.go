package admin

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of expected output, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// filled has a value in every series that the program can make.
func filled() *Metrics {
	m := NewMetrics("orders", Build{Version: "1.2.3", Revision: "abc", GoVersion: "go1.26"})
	m.Phase("copy")
	m.State("copying")
	m.Workers(map[string]int{"active": 2, "idle": 1, "unheard of": 4})
	m.Lag("Orders", 800*time.Millisecond)
	for i, g := range Gauges {
		value := float64(i + 1)
		m.Gauge(g, "Orders", &value)
		m.Gauge(g, "Billing", &value)
		m.Gauge(g, "Billing", nil)
	}
	m.Shards("Orders", map[string]int{"reading": 3, "done": 7, "unheard of": 1})
	m.LoadNeeded("Orders", true)
	m.LoadNeeded("Billing", false)
	m.Sought(false)
	m.Read("Orders", EventCounts{Inserts: 1, Modifies: 2, Removes: 3})
	m.Applied("Orders", EventCounts{Inserts: 1, Modifies: 1})
	m.Ignored("Orders", "presence", 4)
	m.Compared("Orders", 100)
	m.Compared("Orders", -1)
	m.Mismatched("Orders", 3)
	m.Diverged("Orders", 2)
	m.Diverged("Billing", 0)
	m.Overtaken("Orders", 700*time.Millisecond)
	m.Overtaken("Orders", 2*time.Minute)
	m.Copied("Orders", 10)
	m.Copied("Orders", 5)
	m.Estimated("Orders", 1000)
	m.Written(3*time.Millisecond, Exemplar{})
	m.Written(time.Minute, Exemplar{})
	m.WriteFailed("Unavailable")
	m.Throttled("max_rows_per_second", 1500*time.Millisecond)
	m.Throttled("max_rows_per_second", -time.Second)
	m.Topic("Orders", 12, 90*time.Second, 7*24*time.Hour, 2)
	m.Topic("Billing", 1, time.Second, 0, 0)
	m.NoTopic("Billing")
	m.Notified("1", "sent")
	m.ReceiversFailing(2)
	m.Published("Orders", 20, 1)
	m.ClockOffset(-1500 * time.Millisecond)
	m.Cutovers([]Cutover{{Group: "Orders", Ready: true, Strays: 3, Unanswered: 1, Frozen: 90 * time.Second, Limit: time.Hour, Lasted: 5 * time.Second, Driven: true, Cancelling: time.Minute}})
	m.LeaseTaken()
	m.LeaseTaken()
	m.LeaseLeft()
	return m
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d", w.Code)
	}
	return w.Body.String()
}

// TestMetricsAreAsDocumented: names, types, labels and values as scraped, because dashboards and
// alerts use them. TestGaugesOfTables covers the gauges of tables, which are all alike.
func TestMetricsAreAsDocumented(t *testing.T) {
	var lines []string
	for line := range strings.Lines(scrape(t, filled())) {
		gauge := func(g Gauge) bool { return strings.Contains(line, g.Name) }
		if strings.Contains(line, "replicator_") && !slices.ContainsFunc(Gauges, gauge) {
			lines = append(lines, line)
		}
	}
	golden(t, "testdata/metrics.txt", strings.Join(lines, ""))
}

// TestGaugesOfTables: each gauge has the value that it was given, and disappears when that is
// withdrawn.
func TestGaugesOfTables(t *testing.T) {
	text := scrape(t, filled())
	for i, g := range Gauges {
		want := fmt.Sprintf("# HELP %s %s\n# TYPE %s gauge\n%s{pipeline=\"orders\",source_table=\"Orders\"} %d\n", g.Name, g.Help, g.Name, g.Name, i+1)
		if !strings.Contains(text, want) || strings.Contains(text, g.Name+`{pipeline="orders",source_table="Billing"}`) {
			t.Errorf("%s is not told as\n%s", g.Name, want)
		}
	}
}

// TestEverySeriesNamesThePipeline: alerts of several pipelines in one Prometheus are kept apart by
// this label. Metrics of the Go runtime and the process have it too.
func TestEverySeriesNamesThePipeline(t *testing.T) {
	families, err := filled().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, f := range families {
		kind, _, _ := strings.Cut(f.GetName(), "_")
		for _, series := range f.GetMetric() {
			kinds[kind]++
			named := 0
			for _, label := range series.GetLabel() {
				if label.GetName() == "pipeline" && label.GetValue() == "orders" {
					named++
				}
			}
			if named != 1 {
				t.Errorf("%s has the label pipeline %d times", f.GetName(), named)
			}
		}
	}
	if kinds["replicator"] < 40 || kinds["go"] < 10 || kinds["process"] < 5 {
		t.Errorf("the series are %v", kinds)
	}
}

func TestMetricsPassTheLinter(t *testing.T) {
	problems, err := testutil.GatherAndLint(filled().registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestLabelsAreBounded: only these few labels exist, and none names a shard or a key.
func TestLabelsAreBounded(t *testing.T) {
	known := []string{"version", "revision", "goversion", "phase", "source_table", "state", "event", "code", "reason", "rule", "winner", "group", "role", "pipeline", "receiver", "outcome"}
	families, err := filled().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "replicator_") {
			continue
		}
		ours++
		for _, series := range f.GetMetric() {
			for _, label := range series.GetLabel() {
				if !slices.Contains(known, label.GetName()) {
					t.Errorf("%s has the label %s", f.GetName(), label.GetName())
				}
			}
		}
	}
	if registered := registeredMetrics(filled()); ours != registered {
		t.Errorf("%d metrics have values, %d are registered: give the others one in filled", ours, registered)
	}
}

// registeredMetrics counts replicator's own metrics, with or without values.
func registeredMetrics(m *Metrics) (n int) {
	described := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(described); close(described) }()
	for d := range described {
		if strings.Contains(d.String(), `"replicator_`) {
			n++
		}
	}
	return n
}

// TestReferenceOfMetrics: docs/metrics.md is generated from the registered metrics.
func TestReferenceOfMetrics(t *testing.T) {
	families, err := filled().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(metricsHead)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "replicator_") {
			continue
		}
		var labels []string
		for _, label := range f.GetMetric()[0].GetLabel() {
			if label.GetName() == "pipeline" {
				continue
			}
			labels = append(labels, "`"+label.GetName()+"`")
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	golden(t, "../../docs/metrics.md", text.String())
}

// TestATableThatWasLeftHasNoGauges: no figure of a table can raise an alarm after its cutover.
func TestATableThatWasLeftHasNoGauges(t *testing.T) {
	m := filled()
	m.Left()
	for _, g := range Gauges {
		m.Gauge(g, "Orders", nil)
	}
	kind := ""
	for line := range strings.Lines(scrape(t, m)) {
		if of, yes := strings.CutPrefix(line, "# TYPE "); yes {
			kind = of
		}
		if strings.Contains(kind, "gauge") && (strings.Contains(line, "source_table=") || strings.HasPrefix(line, "replicator_discovery_failing")) {
			t.Errorf("still told: %s", line)
		}
	}
}

const metricsHead = `# Metrics

Every process serves these metrics at /metrics, besides metrics of the Go runtime and the process. Generated by
"go test ./internal/admin -update". A series appears with its first value; an unknown value is absent, not zero.

Every series, including those of the Go runtime and the process, also has the label ` + "`" + `pipeline` + "`" + `: the ` + "`" + `name` + "`" + ` of the
configuration. The table omits it. Alerts and the dashboard keep pipelines apart by this label.

No label has a shard or a key, so the number of series stays bounded. The alerts in deploy/monitoring use these names.
Once the tables are cut over, gauges of tables are absent, except those of a way back, so no alert fires for them.

| metric | type | labels | what |
|---|---|---|---|
`

func TestUnknownIsAbsent(t *testing.T) {
	text := scrape(t, NewMetrics("orders", Build{}))
	for _, name := range []string{"replicator_source_lag_seconds", "replicator_needs_load", "replicator_source_shards", "replicator_migration_phase"} {
		if strings.Contains(text, name) {
			t.Errorf("%s is told before it is known", name)
		}
	}
	for _, name := range []string{"replicator_build_info", `replicator_leases_held{pipeline="orders"} 0`, "go_goroutines", "process_start_time_seconds"} {
		if !strings.Contains(text, name) {
			t.Errorf("%s is not told", name)
		}
	}
	m := filled()
	m.NotReading("Orders")
	if text := scrape(t, m); strings.Contains(text, "replicator_source_lag") || !strings.Contains(text, "headroom") || !strings.Contains(text, "replicator_source_shards") {
		t.Error("figures of a table that is not read here are told")
	}
	m = NewMetrics("orders", Build{})
	for _, phase := range append(Phases, "unheard of") {
		m.Phase(phase)
		sum := 0
		for _, p := range Phases {
			sum += int(testutil.ToFloat64(m.phase.WithLabelValues(p)))
		}
		if want := slices.Index(Phases, phase) >= 0; want != (sum == 1) {
			t.Errorf("phase %s: %d are active", phase, sum)
		}
	}
	if n := testutil.CollectAndCount(m.phase); n != len(Phases) {
		t.Error(fmt.Sprint(n, " phases"))
	}
}
