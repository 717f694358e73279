package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// startSilent listens and never answers. Asked receives a value for each request.
func startSilent(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 100)
	var open []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open = append(open, conn)
			came <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	return l.Addr().String(), came
}

// A command that ends before it got any answer reports the actual reason: a signal or --timeout,
// not a network problem or a bug. A service that is stopped while it starts ends with status 0.
func TestEndedWhileNothingAnswers(t *testing.T) {
	s := servicesWithOrders(t)
	configuration := writeTestConfiguration(t)
	key := []string{"--table", "Orders", "--key", `{"pk":"a","sk":"b"}`}
	for _, c := range []struct {
		name     string
		command  []string
		bigtable bool // this service does not answer; otherwise DynamoDB
		service  bool // SIGTERM ends it with status 0
	}{
		{"run", []string{"run", "--allow-emulator", "--listen", "off"}, false, true},
		{"run without a target", []string{"run", "--allow-emulator", "--listen", "off"}, true, true},
		{"run --once", []string{"run", "--once", "--allow-emulator", "--listen", "off"}, true, false},
		{"run --dry-run", []string{"run", "--dry-run", "--allow-emulator"}, false, false},
		{"status", []string{"status"}, true, false},
		{"status --watch", []string{"status", "--watch"}, true, false},
		{"plan", []string{"plan", "--allow-emulator"}, false, false},
		{"preview", append([]string{"preview"}, key...), false, false},
		{"explain", append([]string{"explain"}, key...), true, false},
		{"explain without a source", append([]string{"explain"}, key...), false, false},
		{"parked list", []string{"parked", "list"}, true, false},
		{"parked drop", []string{"parked", "drop", "--all", "--yes", "--allow-emulator"}, true, false},
		{"init", []string{"init"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := func(more ...string) (*exec.Cmd, <-chan struct{}, *strings.Builder) {
				address, asked := startSilent(t)
				cmd := exec.Command("replicator", append(append(c.command, "-c", configuration), more...)...)
				cmd.Env = append(append(os.Environ(), s.environment()...), "AWS_CONFIG_FILE=/nowhere", "AWS_SHARED_CREDENTIALS_FILE=/nowhere")
				if c.bigtable {
					cmd.Env = append(cmd.Env, "BIGTABLE_EMULATOR_HOST="+address)
				} else {
					cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL_DYNAMODB=http://"+address, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS=http://"+address)
				}
				var stderr strings.Builder
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return cmd, asked, &stderr
			}
			exits := func(how string, cmd *exec.Cmd, stderr *strings.Builder, want int) {
				t.Helper()
				_ = cmd.Wait() // its outcome is the exit status
				if got := cmd.ProcessState.ExitCode(); got != want {
					t.Errorf("%s: exit status %d, want %d\n%s", how, got, want, stderr)
				}
			}
			for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
				want := 130
				if c.service && signal == syscall.SIGTERM {
					want = 0
				}
				cmd, asked, stderr := start()
				<-asked
				_ = cmd.Process.Signal(signal)
				exits(signal.String(), cmd, stderr, want)
			}
			cmd, _, stderr := start("--timeout", "100ms")
			exits("--timeout", cmd, stderr, 4)
		})
	}
}
