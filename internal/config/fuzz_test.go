package config

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// known lists the keys of this version, independently of the schema.
var known = map[string][]string{
	"":            {"version", "name", "source", "target", "state", "tables", "apply", "dual_writes", "backfill", "errors", "http", "notify", "log"},
	"source":      {"region", "role_arn", "start"},
	"target":      {"project", "instance", "app_profile", "create_missing", "view"},
	"state":       {"table", "tombstone_age", "lease"},
	"tables":      {"from", "to", "start", "families", "preset", "drop_attributes", "rules", "keep_versions", "ttl", "owned", "dual_writes", "backfill_from"},
	"backfill":    {"from", "whole_export", "max_read_capacity", "max_rows_per_second", "pause_above_target_cpu", "on_gap", "skip_expired", "segments"},
	"dual_writes": {"settle", "version_attribute"},
	"errors":      {"on_bad_item", "park_to", "stop_above"},
	"http":        {"listen"},
	"notify":      {"heartbeat", "to"},
	"log":         {"level", "format"},
}

// FuzzParse: no input panics. Refused input has findings with exit status 2 and a place inside the
// file. Accepted input has only known keys, and survives printing.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/accepted/*.yaml", "testdata/refused/*.yaml"} {
		for _, path := range files(&testing.T{}, pattern) {
			content, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := Parse("f", content, testEnv)
		if err != nil {
			checkFindings(t, content, err)
			return
		}
		var root yaml.Node
		if err := yaml.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &root); err != nil {
			t.Fatal(err)
		}
		checkKeys(t, root.Content[0], "")
		if c.Notify.Given() {
			return // Print shows only the hosts of its addresses
		}
		var text bytes.Buffer
		if err := c.Print(&text); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("printed", text.Bytes(), lookup(nil))
		if err != nil {
			t.Fatalf("the printed configuration does not load: %v\n%s", err, text.String())
		}
		if diff := cmp.Diff(c, again, ignorePositions); diff != "" {
			t.Fatal(diff)
		}
	})
}

func checkFindings(t *testing.T, content []byte, err error) {
	var list diag.List
	if !errors.As(err, &list) || diag.ExitCode(err) != diag.ExitUsage {
		t.Fatalf("not a list of findings with exit status 2: %v", err)
	}
	lines := bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("\r")) +
		bytes.Count(content, []byte("\u0085")) + bytes.Count(content, []byte("\u2028")) + bytes.Count(content, []byte("\u2029")) + 1
	for _, e := range list {
		if _, ok := diag.Lookup(e.Code); !ok || e.What == "" || e.Pos.Line < 1 || e.Pos.Line > lines || e.Pos.Column < 1 {
			t.Fatalf("a finding without code, text or place: %v", e)
		}
	}
}

func checkKeys(t *testing.T, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		return
	}
	var seen []string
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if !slices.Contains(known[path], key) || slices.Contains(seen, key) {
			t.Fatalf("key %q of section %q was accepted", key, path)
		}
		seen = append(seen, key)
		if path != "" {
			continue
		}
		checkKeys(t, value, key)
		if value.Kind == yaml.SequenceNode {
			for _, entry := range value.Content {
				checkKeys(t, entry, key)
			}
		}
	}
}
