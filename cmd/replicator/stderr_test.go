package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// everyRecord reads lines of stderr until all messages were found, or without messages to the end.
// Each line must be a JSON document.
func everyRecord(t *testing.T, lines *bufio.Scanner, until ...string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for (len(until) == 0 || slices.ContainsFunc(until, func(part string) bool { return !said(out, part) })) && lines.Scan() {
		var record map[string]any
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Errorf("%v: %s", err, lines.Text())
		}
		out = append(out, record)
	}
	return out
}

func said(records []map[string]any, part string) bool {
	for _, r := range records {
		if message, _ := r["message"].(string); strings.Contains(message, part) {
			return true
		}
	}
	return false
}

// People read logs on terminals in either format, and errors quote remote services.
func TestLogsEscape(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var b strings.Builder
		log, err := newLog(admin.Log{Format: format, Level: "info"}, &b)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("retrying", admin.KeyError, "a\x1b[2J\u009b2J\x7f\u202e\nforged")
		if got := b.String(); diag.PrintableLines(got) != got || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q", format, got)
		}
	}
}

// If stderr is not a terminal, with log.format json, and with -o json, each line of stderr is a
// JSON document from the first probe to the end. An interrupt adds one line.
func TestEachLineOfStderrIsADocument(t *testing.T) {
	t.Run("no terminal", func(t *testing.T) { eachLineIsADocument(t, "log: { level: info }\n") })
	t.Run("log.format", func(t *testing.T) { eachLineIsADocument(t, "log: { format: json }\n") })
	t.Run("-o json", func(t *testing.T) { eachLineIsADocument(t, "log: { level: info }\n", "-o", "json") })
}

func eachLineIsADocument(t *testing.T, log string, flags ...string) {
	s := servicesWithOrders(t)
	if err := s.call("PutItem", map[string]any{"TableName": "Orders", "Item": map[string]any{"pk": map[string]string{"S": "a"}, "sk": map[string]string{"S": "1"}}}); err != nil {
		t.Fatal(err)
	}
	configuration := t.TempDir() + "/replicator.yaml"
	if err := os.WriteFile(configuration, []byte(testConfiguration+log), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("replicator", append([]string{"run", "-c", configuration, "--allow-emulator", "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Env = append(os.Environ(), s.environment()...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	parts := []string{"DynamoDB us-east-1 at EMULATOR", "✓ table Orders", admin.ListeningMessage, "acquired shard", "finished copy", "Orders  1 item copied"}
	begun := everyRecord(t, lines, parts...)
	for _, part := range parts {
		if !said(begun, part) {
			t.Fatalf("nothing says %q: %v", part, begun)
		}
	}
	for _, want := range []map[string]any{
		{"event": "probe", "probe": "table Orders", "ok": true, "severity": "INFO"},
		{"event": "progress", "table": "Orders", "items": 1.0, "done": true},
	} {
		if !slices.ContainsFunc(begun, func(r map[string]any) bool { return holds(r, want) }) {
			t.Errorf("no record holds %v: %v", want, begun)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	after := everyRecord(t, lines)
	if len(after) != 1 || after[0]["message"] != "stopping" || after[0]["reason"] != "received interrupt" {
		t.Errorf("an interrupt is told in these lines: %v", after)
	}
	_ = cmd.Wait() // its outcome is the exit status
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit status %d", got)
	}
}

// holds reports whether a record has all of the members.
func holds(record, members map[string]any) bool {
	for key, want := range members {
		if record[key] != want {
			return false
		}
	}
	return true
}

// With -o json or --log-format json, errors are JSON documents, whenever they occur.
func TestErrorsAsDocuments(t *testing.T) {
	t.Parallel()
	configuration := writeTestConfiguration(t)
	logsJSON := t.TempDir() + "/replicator.yaml"
	if err := os.WriteFile(logsJSON, []byte(testConfiguration+"log: { format: json }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments string
		code      string
		record    bool // a log record, not a document like lint's
		more      []string
	}{
		{"statsu -o json", "R1017", false, nil},
		{"run --onec -ojson", "R1017", false, nil},
		{"run --output=json -c nowhere.yaml", "R1001", false, nil},
		{"run -o json -c " + configuration, "R1103", false, nil},
		{"run -o json --log-format json -c " + configuration, "R1103", false, nil},
		{"run --onec --log-format=json", "R1017", true, nil},
		{"run -c " + logsJSON, "R1103", true, nil},
		{"run -c nowhere.yaml", "R1001", true, []string{"REPLICATOR_LOG_FORMAT=json"}},
		{"status -c nowhere.yaml", "R1001", true, []string{"REPLICATOR_LOG_FORMAT=json"}},
		{"run -c nowhere.yaml", "R1001", true, nil}, // a service, whose stderr is not a terminal
		{"relay --aply", "R1017", true, nil},
		{"run -c " + configuration, "R1103", true, nil},
	} {
		cmd := exec.Command("replicator", strings.Fields(c.arguments)...)
		cmd.Env = append(append(os.Environ(), "AWS_CONFIG_FILE=/nowhere", "AWS_REGION=", "AWS_DEFAULT_REGION=", "AWS_EC2_METADATA_DISABLED=true"), c.more...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // its outcome is the exit status
		if got := cmd.ProcessState.ExitCode(); got != 2 {
			t.Errorf("%s: exit status %d", c.arguments, got)
		}
		found := everyRecord(t, bufio.NewScanner(&stderr))
		if len(found) != 1 {
			t.Errorf("%s: %v", c.arguments, found)
			continue
		}
		what, severity := "what", "error"
		if c.record {
			what, severity = "message", "ERROR"
		}
		for _, key := range []string{what, "cause", "fix", "more"} {
			if text, _ := found[0][key].(string); text == "" {
				t.Errorf("%s: no %s: %v", c.arguments, key, found[0])
			}
		}
		if found[0]["code"] != c.code || found[0]["severity"] != severity {
			t.Errorf("%s: %v", c.arguments, found[0])
		}
	}
}

// With JSON on stderr, every command writes only records there, whether it works or refuses.
func TestEachLineOfEveryCommandsStderrIsARecord(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { // settings that commands make for their process
		debug.SetMemoryLimit(limit)
		signal.Reset(syscall.SIGPIPE)
	})
	s := servicesWithOrders(t)
	for _, variable := range s.environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, "/nowhere")
	}
	t.Setenv("REPLICATOR_CONFIG", writeTestConfiguration(t))
	const item = `{"pk":"a","sk":"1"}`
	arguments := map[string][]string{
		"run": {"--once", "--idle", "200ms", "--listen", "off"}, "init": {"--from", "Orders"}, "preview": {"--table", "Orders", "--sample", "1"},
		"explain": {"--key", item}, "pause": {"--table", "Orders"}, "resume": {"--table", "Orders"}, "throttle": {"--max-rows-per-second", "5"},
		"backfill start": {"--wait", "--timeout", "200ms"}, "backfill redo": {"--table", "Orders", "--yes"}, "relay": {"--once"}, "test": {"nowhere.yaml"}, "cutover start": {"--keep-fallback", "no", "--yes"},
		"cutover evidence": {t.TempDir() + "/evidence"}, "parked drop": {"--all", "--yes"}, "finalize": {"--yes"}, "failover": {"--yes"},
	}
	names := []string{"plan --apply", "run", "verify"} // first, so that the others find a migration
	for _, c := range listed() {
		if _, name, below := strings.Cut(c.CommandPath(), " "); below && name != "demo" && name != "help" && name != "run" && !c.HasSubCommands() {
			names = append(names, name)
		}
	}
	for _, name := range names {
		for _, flags := range [][]string{{"-o", "json"}, {"--log-format", "json"}} {
			line := slices.Concat(strings.Fields(name), []string{"--timeout", "10s"}, arguments[name], flags)
			if c, _, err := newRoot(process()).Find(line); err == nil && c.Flags().Lookup("allow-emulator") != nil {
				line = append(line, "--allow-emulator")
			}
			var stdout, stderr bytes.Buffer
			status := execute(line, &program{Console: terminal.Console{Stdout: &stdout, Stderr: &stderr, Env: os.LookupEnv}})
			records := everyRecord(t, bufio.NewScanner(&stderr))
			if t.Failed() || status != 0 && len(records) == 0 {
				t.Fatalf("%v: exit status %d, %d records", line, status, len(records))
			}
			if out := stdout.Bytes(); flags[0] == "-o" && len(out) > 0 && !json.Valid(out) {
				t.Errorf("%v: stdout is no document: %s", line, out)
			}
		}
	}
}

// The SDK's clients write to the same log.
func TestTheSDKSpeaksThroughTheLog(t *testing.T) {
	ac, err := preflight.LoadAWS(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1"}}, preflight.FetchTime)
	if err != nil {
		t.Fatal(err)
	}
	if ac.Logger == nil || ac.ClientLogMode != 0 {
		t.Errorf("the clients log to %v in mode %d", ac.Logger, ac.ClientLogMode)
	}
}

// If credentials disappear while a process runs, it requests them repeatedly, and continues once
// they are back.
func TestMissingCredentialsAreRetriedWhileRunning(t *testing.T) {
	s := servicesWithOrders(t)
	var missing atomic.Bool
	refused := make(chan bool, 1000)
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if missing.Load() {
			http.Error(w, `{"code":"NotFound","message":"no role"}`, http.StatusNotFound)
			select {
			case refused <- true:
			default:
			}
			return
		}
		_, _ = fmt.Fprintf(w, `{"AccessKeyId":"a","SecretAccessKey":"s","Token":"t","Expiration":%q}`, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
	}))
	defer identity.Close()
	cmd := exec.Command("replicator", "run", "-c", writeTestConfiguration(t), "--allow-emulator", "--listen", "off", "--log-format", "json", "--log-level", "debug")
	cmd.Env = append(append(os.Environ(), s.environment()...), "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_CONFIG_FILE=/nowhere",
		"AWS_SHARED_CREDENTIALS_FILE=/nowhere", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONTAINER_CREDENTIALS_FULL_URI="+identity.URL)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	if !said(everyRecord(t, lines, "acquired shard"), "acquired shard") {
		t.Fatal("it did not begin")
	}
	missing.Store(true)
	for range 3 {
		<-refused
	}
	missing.Store(false)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if after := everyRecord(t, lines); !said(after, "retrying") {
		t.Errorf("no repeat is told: %v", after)
	}
	_ = cmd.Wait() // its outcome is the exit status
	if got := cmd.ProcessState; got.ExitCode() != 0 {
		t.Errorf("%s", got)
	}
}

// Other sites' pages may not read the served documents.
func TestAForeignHostIsRefused(t *testing.T) {
	_, address := startRun(t, servicesWithOrders(t))
	for host, want := range map[string]int{"evil.example": http.StatusForbidden, "localhost": http.StatusOK} {
		r, err := http.NewRequest(http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", host, response.Status)
		}
	}
}
