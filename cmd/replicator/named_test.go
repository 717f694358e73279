package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// textOf returns the text of a file of the repository.
func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(repository + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writtenByPeople returns the pages about the present that are not generated.
func writtenByPeople(t *testing.T) []page {
	t.Helper()
	return slices.DeleteFunc(pages(t), func(p page) bool {
		return strings.HasPrefix(p.path, "docs/reference/") || p.path == "docs/errors.md" || p.path == "docs/metrics.md" || p.path == "CHANGELOG.md"
	})
}

// TestNamedKeysExist: every configuration key that a page names, such as `verify.settle`, exists.
func TestNamedKeysExist(t *testing.T) {
	keys := textOf(t, "docs/reference/configuration.md")
	named := regexp.MustCompile("`((?:apply|backfill|cutover|dual_writes|errors|http|log|relay|source|state|target|verify)\\.[a-z_.]+)")
	checked := 0
	for _, p := range writtenByPeople(t) {
		for _, m := range named.FindAllStringSubmatch(p.prose(), -1) {
			checked++
			if !strings.Contains(keys, "`"+m[1]+"`") && !strings.Contains(keys, "`"+m[1]+"[]`") {
				t.Errorf("%s: there is no key %s", p.path, m[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d keys are named", checked)
	}
}

// TestNamedMetricsExist: every metric that a page names is exported.
func TestNamedMetricsExist(t *testing.T) {
	metrics := textOf(t, "docs/metrics.md")
	named := regexp.MustCompile("`(replicator_[a-z_]+)")
	checked := 0
	for _, p := range writtenByPeople(t) {
		for _, m := range named.FindAllStringSubmatch(p.prose(), -1) {
			checked++
			if !strings.Contains(metrics, "`"+m[1]+"`") && m[1] != "replicator_state" { // the default of state.table
				t.Errorf("%s: there is no metric %s", p.path, m[1])
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d metrics are named", checked)
	}
}
