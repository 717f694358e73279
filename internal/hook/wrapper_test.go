//go:build unix

package hook

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
)

// wrapped makes hooks that run a script behind the wrapper that is shipped.
func wrapped(t *testing.T, dir, text string, flags ...string) *Hooks {
	t.Helper()
	script(t, dir, "cd "+dir+"\n"+text)
	wrapper, err := filepath.Abs("../../deploy/cutover/newest-token.sh")
	if err != nil {
		t.Fatal(err)
	}
	return hooks(t, strings.Join(append([]string{wrapper}, append(flags, filepath.Join(dir, "token"), "./hook.sh")...), " "), dir)
}

func with(token string) cutover.Call {
	return cutover.Call{Hook: cutover.Switch, Token: token, Step: "switching", Tables: []string{"Orders"}}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// H110: the wrapper runs no call after a newer one, whatever the digits look like, and says that it does not know
// what the newer one did.
func TestH110_TheWrapperRefusesLateTokens(t *testing.T) {
	dir := t.TempDir()
	h := wrapped(t, dir, `echo $CUTOVER_TOKEN >>ran; exit $(cat status 2>/dev/null || echo 0)`)
	var ran []string
	for _, c := range []struct {
		token   string
		outcome cutover.Outcome
	}{
		{"1.3.9", cutover.HookDone}, {"1.3.10", cutover.HookDone}, {"1.3.9", cutover.HookUnknown}, {"1.3.10", cutover.HookDone},
		{"1.10.11", cutover.HookDone}, {"1.9.12", cutover.HookUnknown}, {"10.3.1", cutover.HookDone}, {"9.10.30", cutover.HookUnknown},
		{"", cutover.HookUnknown}, {"11.3", cutover.HookUnknown}, {"11.3.x", cutover.HookUnknown}, {"11.3.1.1", cutover.HookUnknown},
	} {
		output, outcome := h.Call(t.Context(), with(c.token))
		if outcome != c.outcome {
			t.Errorf("%s: %s, want %s: %s", c.token, outcome, c.outcome, output)
		}
		if c.outcome == cutover.HookDone {
			ran = append(ran, c.token)
		}
	}
	if got := strings.Fields(read(t, dir, "ran")); strings.Join(got, " ") != strings.Join(ran, " ") {
		t.Errorf("ran %v, want %v", got, ran)
	}
	for status, want := range map[string]cutover.Outcome{"77": cutover.HookRefused, "1": cutover.HookUnknown, "3": cutover.HookUnknown, "75": cutover.HookUnknown, "137": cutover.HookUnknown} {
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte(status), 0o600); err != nil {
			t.Fatal(err)
		}
		if output, outcome := h.Call(t.Context(), with("12.1.1")); outcome != want {
			t.Errorf("%s: %s: %s", status, outcome, output)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, outcome := h.Call(t.Context(), with("13.1.1")); outcome != cutover.HookUnknown || !strings.Contains(output, "holds no token") {
		t.Errorf("%s: %s", outcome, output)
	}
}

// A probe proves that the command could be run, and runs nothing: hooks that know no probe are safe behind the wrapper.
func TestTheWrapperProbesWithoutActing(t *testing.T) {
	dir := t.TempDir()
	h := wrapped(t, dir, `echo ran >ran`)
	probe := cutover.Call{Hook: cutover.FreezeWrites, Step: "probe", Probe: true}
	if output, outcome := h.Call(t.Context(), probe); outcome != cutover.HookDone || read(t, dir, "ran") != "" || read(t, dir, "token") != "" {
		t.Errorf("%s: %s", outcome, output)
	}
	if err := os.Chmod(filepath.Join(dir, "hook.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, call := range []cutover.Call{probe, with("1.1.1")} {
		if output, outcome := h.Call(t.Context(), call); outcome != cutover.HookUnknown || !strings.Contains(output, "cannot execute") {
			t.Errorf("%s: %s", outcome, output)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if output, outcome := h.Call(t.Context(), probe); outcome == cutover.HookDone {
		t.Errorf("%s: %s", outcome, output)
	}
}

// H110: a newer call waits until the older one's command is over, and goes on when that is killed; what a command leaves
// running does not hold it up.
func TestH110_CallsBehindTheWrapperDoNotOverlap(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := wrapped(t, dir, `case $CUTOVER_TOKEN in
1.1.1) sleep 1000 & echo $! >left ;;
1.2.2) echo old >begun; sleep 1000; echo late >>ran ;;
*) echo $CUTOVER_TOKEN >>ran ;;
esac`)
	if output, outcome := h.Call(t.Context(), with("1.1.1")); outcome != cutover.HookDone {
		t.Fatal(outcome, output)
	}
	ctx, cancel := context.WithCancel(t.Context())
	old := make(chan cutover.Outcome)
	go func() {
		_, outcome := h.Call(ctx, with("1.2.2"))
		old <- outcome
	}()
	read(t, dir, "begun")
	newer := make(chan cutover.Outcome)
	go func() {
		_, outcome := h.Call(t.Context(), with("1.3.3"))
		newer <- outcome
	}()
	cancel()
	if a, b := <-old, <-newer; a != cutover.HookUnknown || b != cutover.HookDone || read(t, dir, "ran") != "1.3.3" {
		t.Errorf("%s, then %s, ran %q", a, b, read(t, dir, "ran"))
	}
	_, _ = script(t, t.TempDir(), "kill "+read(t, dir, "left")).Call(t.Context(), freeze)
	lock, err := os.Open(filepath.Join(dir, "token.lock"))
	if err != nil || syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if output, outcome := h.Call(ctx, with("1.4.4")); outcome != cutover.HookUnknown || read(t, dir, "ran") != "1.3.3" {
		t.Errorf("while another call lives: %s: %s", outcome, output)
	}
}

// H145: tokens rise within a group. So a call for one group neither blocks another group nor lets its late
// calls pass. A token that a wrapper without groups wrote counts for all of them.
func TestH145_TheWrapperKeepsATokenForEachGroup(t *testing.T) {
	dir := t.TempDir()
	h := wrapped(t, dir, `echo $CUTOVER_GROUP $CUTOVER_TOKEN >>ran`)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("3.7.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, c := range []struct {
		group, token string
		outcome      cutover.Outcome
	}{
		{"Orders", "3.7.1", cutover.HookUnknown}, {"Orders", "9.3.1", cutover.HookDone}, {"Logs_{year:4}", "4.3.1", cutover.HookDone},
		{"Logs__year_4_", "3.9.1", cutover.HookDone}, {"Orders", "8.9.9", cutover.HookUnknown}, {"Logs_{year:4}", "4.2.9", cutover.HookUnknown},
		{"Logs_{year:4}", "4.7.2", cutover.HookDone}, {"", "3.7.3", cutover.HookDone}, {"", "3.7.2", cutover.HookUnknown},
		{strings.Repeat("x", 255), "5.1.1", cutover.HookDone},
	} {
		call := with(c.token)
		call.Group = c.group
		output, outcome := h.Call(t.Context(), call)
		if outcome != c.outcome {
			t.Errorf("%s %s: %s, want %s: %s", c.group, c.token, outcome, c.outcome, output)
		}
		if c.outcome == cutover.HookDone {
			ran = append(ran, strings.TrimSpace(c.group+" "+c.token))
		}
	}
	if got := read(t, dir, "ran"); got != strings.Join(ran, "\n") {
		t.Errorf("ran\n%s", got)
	}
	probe := with("")
	probe.Probe = true
	if output, outcome := h.Call(t.Context(), probe); outcome != cutover.HookDone || strings.TrimSpace(output) != "groups" {
		t.Errorf("probe: %s %q", outcome, output)
	}
}

// The wrapper passes a command's promise on. With --quiet its probe says that the command may give
// it, beside what it says of itself. A call that it refuses promises nothing.
func TestTheWrapperPassesThePromiseOn(t *testing.T) {
	for _, flags := range [][]string{nil, {"--quiet"}} {
		h := wrapped(t, t.TempDir(), "echo quiet", flags...)
		probe := cutover.Call{Hook: cutover.FreezeWrites, Step: "probe", Probe: true}
		said, want := "groups", cutover.HookDone
		if flags != nil {
			said, want = "groups quiet", cutover.HookQuiet
		}
		if output, outcome := h.Call(t.Context(), probe); outcome != want || output != said {
			t.Errorf("probe with %q: %s: %s", flags, outcome, output)
		}
		call := with("1.3.2")
		if _, outcome := h.Call(t.Context(), call); outcome != cutover.HookDone {
			t.Errorf("a switch: %s", outcome)
		}
		call.Hook = cutover.FreezeWrites
		if _, outcome := h.Call(t.Context(), call); outcome != cutover.HookQuiet {
			t.Errorf("with %q: %s", flags, outcome)
		}
		call.Token = "1.3.1"
		if _, outcome := h.Call(t.Context(), call); outcome != cutover.HookUnknown {
			t.Errorf("a late call: %s", outcome)
		}
	}
}
