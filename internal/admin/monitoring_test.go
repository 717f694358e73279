package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// deployed is the directory with the files that operators install.
const deployed = "../../deploy"

// rule is one alert of the rules file.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, "monitoring/prometheus/rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

// TestAlertsRestOnWhatIsTold: the program registers every metric in an alert, with its labels.
// promtool tests the expressions (make promtool).
func TestAlertsRestOnWhatIsTold(t *testing.T) {
	families, err := filled().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, f := range families {
		told[f.GetName()] = true
	}
	ours := regexp.MustCompile(`replicator_[a-z_]+`)
	test, err := os.ReadFile(filepath.Join(deployed, "monitoring/prometheus/rules_test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		names := ours.FindAllString(r.Expr, -1)
		if len(names) == 0 {
			t.Errorf("%s rests on no metric of ours", r.Alert)
		}
		for _, name := range names {
			if !told[name] {
				t.Errorf("%s rests on %s, which is not told", r.Alert, name)
			}
		}
		if !strings.Contains(string(test), "alertname: "+r.Alert+"\n        exp_alerts:\n") {
			t.Errorf("%s is never shown to fire in rules_test.yml", r.Alert)
		}
	}
}

// TestEveryAlertIsListed: the tables of alerts are complete.
func TestEveryAlertIsListed(t *testing.T) {
	for _, page := range []string{"README.md", "../docs/how-to/monitoring.md"} {
		text, err := os.ReadFile(filepath.Join(deployed, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules(t) {
			if !strings.Contains(string(text), r.Alert) {
				t.Errorf("%s is not named in %s", r.Alert, page)
			}
		}
	}
}

// TestEveryAlertHasARunbook: the alert links to a page, and the page names the alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	const pages = "https://github.com/dynamodb-bigtable/replicator/blob/main/"
	for _, r := range rules(t) {
		path, ok := strings.CutPrefix(r.Annotations["runbook_url"], pages)
		if !ok {
			t.Errorf("%s: runbook_url %q is no page of this repository", r.Alert, r.Annotations["runbook_url"])
			continue
		}
		text, err := os.ReadFile(filepath.Join(deployed, "..", path))
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		if !strings.Contains(string(text), r.Alert) {
			t.Errorf("%s is not named in %s", r.Alert, path)
		}
		for _, annotation := range []string{"summary", "description"} {
			if r.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", r.Alert, annotation)
			}
		}
		if s := r.Labels["severity"]; s != "page" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.For == "" {
			t.Errorf("%s has no `for`: one bad scrape would raise it", r.Alert)
		}
	}
}

// TestThresholdsAgree: alerts and readiness use the same thresholds.
func TestThresholdsAgree(t *testing.T) {
	for _, r := range rules(t) {
		if limit := fmt.Sprintf("> %.0f", pollWithin.Seconds()); r.Alert == "ReplicatorStalled" && !strings.HasSuffix(r.Expr, limit) {
			t.Errorf("the alert is %s, readiness waits %s", r.Expr, pollWithin)
		}
	}
}
