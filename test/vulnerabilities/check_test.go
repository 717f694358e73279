package vulnerabilities

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: a vulnerability in called code fails, a database without it passes, and an unreachable
// database is reported.
func TestCheck(t *testing.T) {
	program := filepath.Join(t.TempDir(), "govulncheck")
	if out, err := exec.Command("go", "build", "-o", program, "golang.org/x/vuln/cmd/govulncheck").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	scanned := t.TempDir()
	write(t, filepath.Join(scanned, "go.mod"), "module example.com/scanned\n\ngo 1.26\n")
	write(t, filepath.Join(scanned, "main.go"), "package main\n\nimport \"net/url\"\n\nfunc main() { println(url.PathEscape(\"a b\")) }\n")
	script, err := filepath.Abs("check")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, database string
		status         int
		says           string
	}{
		{"a hole", "file://" + database(t, "PathEscape"), 3, "GO-2026-0001"},
		{"a hole in what is not called", "file://" + database(t, "QueryEscape"), 0, "No vulnerabilities found"},
		// This is the discard port of the loopback interface, where no process listens.
		{"no database", "http://127.0.0.1:9", 0, "cannot be reached: NOT checked"},
	} {
		run := exec.Command(script, program, c.database, "./...")
		run.Dir = scanned
		out, err := run.CombinedOutput()
		if run.ProcessState == nil || run.ProcessState.ExitCode() != c.status || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, want status %d and %q:\n%s", c.name, err, c.status, c.says, out)
		}
	}
}

// database writes a database in the form of https://go.dev/doc/security/vuln/database, with one
// vulnerability in a function of net/url.
func database(t *testing.T, function string) string {
	t.Helper()
	const id, day = "GO-2026-0001", "2026-01-02T00:00:00Z"
	dir := t.TempDir()
	always := []map[string]any{{"type": "SEMVER", "events": []map[string]string{{"introduced": "0"}}}}
	for name, content := range map[string]any{
		"index/db.json":      map[string]any{"modified": day},
		"index/vulns.json":   []any{map[string]any{"id": id, "modified": day}},
		"index/modules.json": []any{map[string]any{"path": "stdlib", "vulns": []any{map[string]any{"id": id, "modified": day}}}},
		"ID/" + id + ".json": map[string]any{
			"schema_version": "1.3.1", "id": id, "modified": day, "published": day, "summary": "A hole of this test", "details": "None.",
			"database_specific": map[string]string{"url": "https://pkg.go.dev/vuln/" + id, "review_status": "REVIEWED"},
			"affected": []any{map[string]any{
				"package": map[string]string{"name": "stdlib", "ecosystem": "Go"}, "ranges": always,
				"ecosystem_specific": map[string]any{"imports": []any{map[string]any{"path": "net/url", "symbols": []string{function}}}},
			}},
		},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
