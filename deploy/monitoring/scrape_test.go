package monitoring

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// discovery is how the file finds pods. Prometheus' own parser of it would bring the client of
// Kubernetes, which takes minutes to build.
const discovery = "    kubernetes_sd_configs:\n      - role: pod\n"

// TestEKSScrapesEveryProcess: Prometheus accepts the scrape configuration. It keeps workers and
// appliers, keeps environments apart by the job, and does not set the program's label pipeline.
func TestEKSScrapesEveryProcess(t *testing.T) {
	text, err := os.ReadFile("prometheus/eks-scrape.yml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), discovery) != 1 {
		t.Fatalf("no pods are discovered by\n%s", discovery)
	}
	if strings.Contains(string(text), "$") {
		t.Error("the ADOT collector would replace $")
	}
	c, err := config.Load(strings.Replace(string(text), discovery, "", 1), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].HonorLabels || c.ScrapeConfigs[0].MetricsPath != "/metrics" {
		t.Fatalf("%+v", c.ScrapeConfigs)
	}
	for _, pod := range []struct{ name, port, job string }{
		{"replicator", "http", "prod/replicator"},
		{"replicator-applier", "http", "prod/replicator-applier"},
		{"replicator", "debug", ""},
		{"other", "http", ""},
		{"", "http", ""},
	} {
		found := labels.NewBuilder(labels.FromStrings("job", "replicator", "__address__", "10.0.0.1:8080", "__meta_kubernetes_namespace", "prod", "__meta_kubernetes_pod_name", "p-1",
			"__meta_kubernetes_pod_label_app_kubernetes_io_name", pod.name, "__meta_kubernetes_pod_container_port_name", pod.port))
		kept := relabel.ProcessBuilder(found, c.ScrapeConfigs[0].RelabelConfigs...)
		if kept != (pod.job != "") {
			t.Errorf("%+v: scraped: %t", pod, kept)
		}
		if !kept {
			continue
		}
		if got := found.Labels(); got.Get("job") != pod.job || got.Get("namespace") != "prod" || got.Get("pod") != "p-1" || got.Has("pipeline") {
			t.Errorf("%+v has the labels %s", pod, got)
		}
	}
}
