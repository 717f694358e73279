package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// startRun starts `run` as a separate process and waits until it listens. It returns the address of
// its endpoints.
func startRun(t *testing.T, s *embedded, arguments ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd, stderr, address := launchRun(t, s, arguments...)
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // so that the process never blocks on its stderr
	return cmd, address
}

// launchRun is like startRun, for callers that read stderr themselves.
func launchRun(t *testing.T, s *embedded, arguments ...string) (*exec.Cmd, io.ReadCloser, string) {
	t.Helper()
	cmd := exec.Command("replicator", append([]string{"run", "-c", writeTestConfiguration(t), "--allow-emulator",
		"--listen", "127.0.0.1:0", "--log-format", "json"}, arguments...)...)
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
	for lines.Scan() {
		var entry map[string]any
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry["message"] == admin.ListeningMessage {
			return cmd, stderr, entry[admin.KeyAddress].(string)
		}
	}
	t.Fatalf("the process ended before it listened: %v", cmd.Wait())
	return nil, nil, ""
}

// A service stopped by its service manager ends with 0. A command interrupted by a person ends with
// the usual status. An interrupted --once never looks finished.
func TestSignals(t *testing.T) {
	s := servicesWithOrders(t)
	for _, c := range []struct {
		name      string
		signal    os.Signal
		arguments []string
		want      int
	}{
		{"a person interrupts", os.Interrupt, nil, 130},
		{"a service manager ends it", syscall.SIGTERM, nil, 0},
		{"an unfinished copy is ended", syscall.SIGTERM, []string{"--once", "--idle", "1h"}, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, address := startRun(t, s, c.arguments...)
			for _, path := range []string{"/healthz", "/metrics", "/api/v1/status"} {
				response, err := http.Get("http://" + address + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				// It is alive once its loops run.
				if path != "/healthz" && response.StatusCode != http.StatusOK {
					t.Errorf("%s: %s", path, response.Status)
				}
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			// Again, as timeout(1) does; the process may have ended by then.
			_ = cmd.Process.Signal(c.signal)
			_ = cmd.Wait() // its outcome is the exit status
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("exit status %d, want %d", got, c.want)
			}
		})
	}
}

// A reader of a service's log may close the pipe: `run 2>&1 | head`. Profiles are served only with
// the flag.
func TestAServiceOutlivesItsReader(t *testing.T) {
	s := servicesWithOrders(t)
	for _, profiles := range []bool{false, true} {
		want, arguments := http.StatusNotFound, []string(nil)
		if profiles {
			want, arguments = http.StatusOK, []string{"--pprof"}
		}
		cmd, stderr, address := launchRun(t, s, arguments...)
		_ = stderr.Close()
		response, err := http.Get("http://" + address + "/debug/pprof/goroutine")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("profiles: %s, want %d", response.Status, want)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // the process logs it
		_ = cmd.Wait()
		if got := cmd.ProcessState; got.ExitCode() != 0 {
			t.Errorf("%s", got)
		}
	}
}

// watching is a `status --watch` in a separate process.
type watching struct {
	*testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startWatch(t *testing.T, s *embedded, configuration string) *watching {
	t.Helper()
	cmd := exec.Command("replicator", "status", "--watch", "--shards", "--interval", "200ms", "-o", "json", "-c", configuration)
	cmd.Env = append(os.Environ(), s.environment()...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	return &watching{t, cmd, lines}
}

// until reads until a document satisfies holds.
func (w *watching) until(what string, holds func(m *status.Document) bool) *status.Document {
	w.Helper()
	var last string
	for w.lines.Scan() {
		last = w.lines.Text()
		var m status.Document
		if err := json.Unmarshal(w.lines.Bytes(), &m); err != nil {
			w.Fatal(err)
		}
		if holds(&m) {
			validateStatus(w.T, w.lines.Bytes())
			return &m
		}
	}
	w.Fatalf("%s: the watch ended with %v after %s", what, w.cmd.Wait(), last)
	return nil
}

// TestWatchIsInterrupted: --watch continues until it is interrupted, and reports this with the
// shell's status.
func TestWatchIsInterrupted(t *testing.T) {
	s, stop, err := startEmbedded(0)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	w := startWatch(t, s, writeTestConfiguration(t))
	for range 3 {
		w.until("any", func(*status.Document) bool { return true })
	}
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for w.lines.Scan() { // until it ends
	}
	_ = w.cmd.Wait() // its outcome is the exit status
	if got := w.cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit status %d, want 130", got)
	}
}

// TestAFrozenProcessIsSeen: status shows that a frozen worker is silent, that its figures are old,
// and that a worker must be started. Then another worker takes over, and all figures are current
// again.
func TestAFrozenProcessIsSeen(t *testing.T) {
	t.Parallel()
	s := servicesWithOrders(t)
	configuration := t.TempDir() + "/replicator.yaml"
	if err := os.WriteFile(configuration, []byte(testConfiguration+"state: { lease: 5s }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	frozen, _ := startRun(t, s, "-c", configuration)
	w := startWatch(t, s, configuration)
	m := w.until("it reads", func(m *status.Document) bool {
		return len(m.Workers) == 1 && m.Leases == 1 && m.Tables[0].ChangesPerSecond != nil && m.Phase == status.PhaseInSync
	})
	first := m.Workers[0]
	if len(m.NextSteps) > 0 || first.Host == nil || first.Version == nil || len(first.Keeps) != 1 {
		t.Errorf("a healthy worker: %+v, %+v", first, m.NextSteps)
	}
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	m = w.until("it is silent, and its figures are old", func(m *status.Document) bool { return m.Workers[0].Silent && m.Tables[0].Old })
	if m.Shards[0].Why == nil || m.Shards[0].Why.Code != status.WhySilent || m.Tables[0].ChangesPerSecond != nil || m.NextSteps[0].Command != "replicator run -c "+configuration {
		t.Errorf("of a frozen worker is told: %+v %+v %+v", m.Shards[0].Why, m.Tables[0], m.NextSteps)
	}
	startRun(t, s, "-c", configuration)
	w.until("another one has taken over", func(m *status.Document) bool {
		return len(m.Workers) == 1 && m.Workers[0].ID != first.ID && m.Leases == 1 && !m.Tables[0].Old && m.Tables[0].ChangesPerSecond != nil
	})
}

// TestAGapIsAnAlarmAndNotUnreadiness: otherwise a rollout of the fix would stall.
func TestAGapIsAnAlarmAndNotUnreadiness(t *testing.T) {
	t.Parallel()
	s := servicesWithOrders(t)
	configuration := writeTestConfiguration(t)
	once := func(want int) {
		cmd := exec.Command("replicator", "run", "--once", "--idle", "200ms", "--allow-emulator", "--listen", "off", "-c", configuration)
		cmd.Env = append(os.Environ(), s.environment()...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Fatalf("exit status %d, want %d: %s", cmd.ProcessState.ExitCode(), want, out)
		}
	}
	put := func(sk string) {
		if err := s.call("PutItem", map[string]any{"TableName": "Orders", "Item": map[string]any{"pk": map[string]string{"S": "a"}, "sk": map[string]string{"S": sk}}}); err != nil {
			t.Fatal(err)
		}
	}
	put("1") // a position to resume from
	once(0)
	put("2")
	if err := s.dynamo.TrimTo("Orders", s.dynamo.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	once(3)
	_, address := startRun(t, s, "-c", configuration)
	events, err := http.Get("http://" + address + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	for lines := bufio.NewScanner(events.Body); lines.Scan() && lines.Text() != "event: lease_taken"; {
	}
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Errorf("not ready: %s", text)
	}
	m := startWatch(t, s, configuration).until("any", func(*status.Document) bool { return true })
	if !m.Tables[0].LoadNeeded || m.Tables[0].LastGap == nil || m.Phase != status.PhaseCopy {
		t.Errorf("the gap is not told: %+v", m.Tables[0])
	}
}

// Every command and every flag has a description.
func TestHelpIsComplete(t *testing.T) {
	root := newRoot(process())
	for _, c := range all(root) {
		if c.Short == "" {
			t.Errorf("%s has no short description", c.CommandPath())
		}
		if strings.HasSuffix(c.Short, ".") && c != root {
			t.Errorf("%s: the short description is no sentence and ends without a full stop", c.CommandPath())
		}
		if c.RunE == nil && c.Run == nil {
			t.Errorf("%s does nothing", c.CommandPath())
		}
		if c.Parent() == root && c.GroupID == "" && !c.Hidden && c.Name() != "help" {
			t.Errorf("%s is in no group, so the help does not list it", c.CommandPath())
		}
		for _, f := range flagsOf(c) {
			if f.Usage == "" {
				t.Errorf("%s --%s is not described", c.CommandPath(), f.Name)
			}
		}
	}
}

// all returns a command and all commands below it.
func all(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		out = append(out, all(sub)...)
	}
	return out
}

func flagsOf(c *cobra.Command) []*pflag.Flag {
	var out []*pflag.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) { out = append(out, f) })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { out = append(out, f) })
	return out
}

// validateStatus fails unless a document fits the JSON Schema that status prints.
func validateStatus(t *testing.T, document []byte) {
	t.Helper()
	form, err := jsonschema.UnmarshalJSON(bytes.NewReader(status.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("status.schema.json", form); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("the document does not fit its schema: %v\n%s", err, document)
	}
}
