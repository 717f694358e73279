// Package monitoring compares the Grafana dashboard with the program's metrics, with Prometheus'
// own parser.
package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// exported returns the metrics that the program registers, with their labels, from the program's
// own test data.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../internal/admin/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^(replicator_\w+)(?:\{([^}]*)\})? `)
	label := regexp.MustCompile(`(\w+)="`)
	all := map[string]map[string]bool{}
	for l := range strings.Lines(string(text)) {
		if found := line.FindStringSubmatch(l); found != nil {
			if all[found[1]] == nil {
				all[found[1]] = map[string]bool{"job": true, "instance": true} // of every target
			}
			for _, name := range label.FindAllStringSubmatch(found[2], -1) {
				all[found[1]][name[1]] = true
			}
		}
	}
	// Gauges of a table have one label, and their own list.
	gauges, err := os.ReadFile("../../internal/admin/gauges.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`Gauge\{"(replicator_\w+)"`).FindAllStringSubmatch(string(gauges), -1) {
		all[found[1]] = map[string]bool{"job": true, "instance": true, "pipeline": true, "source_table": true}
	}
	if len(all) < 25 {
		t.Fatalf("%d metrics", len(all))
	}
	return all
}

type dashboard struct {
	Panels []struct {
		Type    string
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

// ofAPipeline reports whether an aggregation keeps a label whose values may be the same in two
// pipelines.
func ofAPipeline(grouping []string) bool {
	return slices.ContainsFunc(grouping, func(name string) bool {
		return slices.Contains([]string{"source_table", "group", "state", "phase", "role"}, name)
	})
}

// TestDashboardShowsWhatIsExported: each query parses and uses existing metrics and labels, and
// each metric has a panel. Each query shows only the chosen pipelines, and keeps them apart.
func TestDashboardShowsWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("grafana/replicator.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	metrics, seen := exported(t), map[string]bool{}
	check := func(where, query string) {
		query = strings.NewReplacer("$__rate_interval", "5m").Replace(query)
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if a, ok := n.(*parser.AggregateExpr); ok && ofAPipeline(a.Grouping) && !slices.Contains(a.Grouping, "pipeline") {
				t.Errorf("%s: tables or groups of the same name in two pipelines are mixed: %s", where, a)
			}
			v, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			seen[v.Name] = true
			known := metrics[v.Name]
			if known == nil {
				t.Errorf("%s: nothing exports %s", where, v.Name)
			}
			for _, m := range v.LabelMatchers {
				if m.Name != "__name__" && !known[m.Name] {
					t.Errorf("%s: %s has no label %s", where, v.Name, m.Name)
				}
			}
			for _, variable := range []string{"job", "pipeline"} {
				chosen := func(m *labels.Matcher) bool { return m.Name == variable && m.Value == "$"+variable }
				if v.Name != "replicator_build_info" && !slices.ContainsFunc(v.LabelMatchers, chosen) {
					t.Errorf("%s: %s is not limited to the chosen %s", where, v.Name, variable)
				}
			}
			return nil
		})
	}
	panels := 0
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		panels++
		if len(p.Targets) == 0 {
			t.Errorf("%s: no query", p.Title)
		}
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), \w+\)$`)
	for _, v := range d.Templating.List {
		if found := values.FindStringSubmatch(v.Definition); found != nil {
			check("variable "+v.Name, found[1])
		}
	}
	for name := range metrics {
		if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count"); !seen[name] && !seen[base] && !seen[base+"_bucket"] {
			t.Errorf("no panel shows %s", name)
		}
	}
	if panels < 20 {
		t.Errorf("%d panels", panels)
	}
}
