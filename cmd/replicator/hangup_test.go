package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// unmaskHangup makes commands that a test starts receive SIGHUP. Under nohup(1) they would inherit
// that it is ignored, but a handler is not inherited.
func unmaskHangup(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

// A run that ends by itself also ends at SIGHUP.
func TestHangupEndsWhatEndsByItself(t *testing.T) {
	unmaskHangup(t)
	cmd, lines, _ := launchRun(t, servicesWithOrders(t), "--once", "--idle", "1h")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if after := everyRecord(t, bufio.NewScanner(lines)); !said(after, "stopping") {
		t.Errorf("it did not stop in order: %v", after)
	}
	_ = cmd.Wait() // its outcome is the exit status
	if got := cmd.ProcessState; got.ExitCode() != 130 {
		t.Errorf("%s", got)
	}
}

// A service reads its limits again and applies them. The log names other changes, and a broken file
// changes nothing.
func TestHangupReadsLimitsAgain(t *testing.T) {
	unmaskHangup(t)
	s := servicesWithOrders(t)
	for i := range 600 { // ten minutes at one per second
		item := map[string]any{"pk": map[string]string{"S": fmt.Sprint(i)}, "sk": map[string]string{"S": "1"}}
		if err := s.call("PutItem", map[string]any{"TableName": "Orders", "Item": item}); err != nil {
			t.Fatal(err)
		}
	}
	path := writeTestConfiguration(t)
	configure := func(more string) {
		if err := os.WriteFile(path, []byte(testConfiguration+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("backfill: { max_rows_per_second: 1 }\n")
	cmd, stderr, _ := launchRun(t, s, "-c", path)
	lines := bufio.NewScanner(stderr)
	if begun := everyRecord(t, lines, "started copy"); !said(begun, "started copy") {
		t.Fatalf("no copy was started: %v", begun)
	}
	hangup := func(until string) map[string]any {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		found := everyRecord(t, lines, until)
		if !said(found, until) {
			t.Fatalf("nothing says %q: %v", until, found)
		}
		return found[len(found)-1]
	}

	configure("backfill: { max_rows_per_second: many }\n")
	hangup("keeping the current limits")

	configure("backfill: { max_rows_per_second: 1, segments: 7 }\nsource: { poll: 2s }\n")
	if r := hangup("need a restart"); r[admin.KeyKeys] != "backfill.segments, source.poll" {
		t.Errorf("named are %v", r[admin.KeyKeys])
	}

	configure("backfill: { max_rows_per_second: 100000 }\n")
	if r := hangup("reloaded limits"); r[admin.KeyLimits] != "backfill.max_rows_per_second 100000" {
		t.Errorf("changed are %v", r[admin.KeyLimits])
	}
	if done := everyRecord(t, lines, "finished copy"); !said(done, "finished copy") {
		t.Errorf("the copy does not go on at the new limit: %v", done)
	}
	stopInOrder(t, cmd)
}

// stopInOrder stops a service, which must end with status 0.
func stopInOrder(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its outcome is the exit status
	if got := cmd.ProcessState; got.ExitCode() != 0 {
		t.Errorf("%s", got)
	}
}
