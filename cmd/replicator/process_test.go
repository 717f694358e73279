package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/internal/demo"
)

// startRun starts `run` as a process of its own and waits until it listens. It returns the address of its endpoints.
func startRun(t *testing.T, s *embedded, arguments ...string) (*exec.Cmd, string) {
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
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry["message"] == demo.ListeningMessage {
			go func() {
				for lines.Scan() { // so that the process never waits for us
				}
			}()
			return cmd, entry[demo.AddressKey].(string)
		}
	}
	t.Fatalf("the process ended before it listened: %v", cmd.Wait())
	return nil, ""
}

// A service manager that ends a service sees 0, a person who interrupts sees what shells report; --once that was cut short is
// never taken for one that was done.
func TestSignals(t *testing.T) {
	s, stop, err := startEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := s.create("Orders", "NEW_AND_OLD_IMAGES"); err != nil {
		t.Fatal(err)
	}
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
				if path != "/healthz" && response.StatusCode != http.StatusOK { // it is alive with the first turn of its loops
					t.Errorf("%s: %s", path, response.Status)
				}
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Process.Signal(c.signal) // once more, as timeout(1) does; the process may be gone by then
			_ = cmd.Wait()                   // its outcome is the exit status
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("exit status %d, want %d", got, c.want)
			}
		})
	}
}

// TestWatchIsInterrupted: --watch goes on until somebody interrupts it, and says so with the shell's status.
func TestWatchIsInterrupted(t *testing.T) {
	s, stop, err := startEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	cmd := exec.Command("replicator", "status", "--watch", "--interval", "100ms", "-o", "json", "-c", writeTestConfiguration(t))
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
	for range 3 {
		if !lines.Scan() {
			t.Fatalf("it ended by itself: %v", cmd.Wait())
		}
		validateStatus(t, lines.Bytes())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until it ends
	}
	_ = cmd.Wait() // its outcome is the exit status
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit status %d, want 130", got)
	}
}

// Every command says what it does, and every flag what it is for.
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

// all is a command with everything below it.
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
