package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// The configuration in the README is accepted unchanged, without a warning.
func TestREADMEConfigurationLintsClean(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n(version: 1\n.*?)```").FindAllSubmatch(readme, -1)
	if len(shown) == 0 {
		t.Fatal("the README shows no configuration")
	}
	for _, s := range shown {
		path := filepath.Join(t.TempDir(), "replicator.yaml")
		if err := os.WriteFile(path, s[1], 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := config.Examine(path, nothingSet); err != nil || len(found) > 0 {
			t.Errorf("%v, %v\n%s", found, err, s[1])
		}
	}
}

// The help of preview states its limits.
func TestPreviewHelpNamesItsLimit(t *testing.T) {
	if usage := newPreview(&program{}).Flags().Lookup("sample").Usage; !strings.Contains(usage, "at most 1000") {
		t.Error(usage)
	}
}

func nothingSet(string) (string, bool) { return "", false }
