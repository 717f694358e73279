//go:build unix

package hook

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
)

// script makes hooks whose commands are all the same shell script.
func script(t *testing.T, dir, text string) *Hooks {
	t.Helper()
	path := filepath.Join(dir, "hook.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return hooks(t, "./hook.sh", dir)
}

func hooks(t *testing.T, text, dir string) *Hooks {
	t.Helper()
	parsed, err := Parse(text, dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Hook{}
	for _, name := range cutover.HookNames {
		all[name] = parsed
	}
	h, err := New(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var freeze = cutover.Call{Hook: cutover.FreezeWrites, Token: "3.3.1", Step: "freeze", Tables: []string{"Orders", "Users"}}

func TestACommandGetsTokenAndEnvironment(t *testing.T) {
	t.Setenv("CUTOVER_TOKEN", "9.9.9")
	t.Setenv("CUTOVER_PROBE", "1")
	t.Setenv("CUTOVER_DEADLINE", "yesterday")
	t.Setenv("FLAGS_URL", "http://flags")
	h := script(t, t.TempDir(), `echo "$# ${1-} $CUTOVER_HOOK $CUTOVER_STEP $CUTOVER_TABLES ${CUTOVER_TOKEN-none} ${CUTOVER_PROBE-none} $FLAGS_URL ${CUTOVER_DEADLINE-none} ${CUTOVER_DEADLINE_SECONDS-none}"`)
	limited := freeze
	limited.Deadline, limited.Left = time.Date(2026, 11, 28, 12, 0, 30, 0, time.UTC), 29900*time.Millisecond
	for _, c := range []struct {
		call cutover.Call
		want string
	}{
		{freeze, "0  freeze_writes freeze Orders,Users 3.3.1 none http://flags none none"},
		{limited, "0  freeze_writes freeze Orders,Users 3.3.1 none http://flags 2026-11-28T12:00:30Z 29"},
		{cutover.Call{Hook: cutover.Switch, Step: "probe", Tables: []string{"Orders"}, Probe: true, Token: "1.1.1"}, "1 --probe switch probe Orders none 1 http://flags none none"},
	} {
		if output, outcome := h.Call(t.Context(), c.call); output != c.want || outcome != cutover.HookDone {
			t.Errorf("%s: %q, want %q", outcome, output, c.want)
		}
	}
}

// What a status promises: only an exit of the command's own accord says that nothing was done.
func TestOutcomesOfACommand(t *testing.T) {
	for _, c := range []struct {
		text, output string
		outcome      cutover.Outcome
	}{
		{"exit 0", "", cutover.HookDone},
		{"echo sorry >&2; exit 1", "exit status 1: sorry", cutover.HookRefused},
		{"exit 125", "exit status 125", cutover.HookRefused},
		{"exit 74", "exit status 74", cutover.HookRefused},
		{"exit 76", "exit status 76", cutover.HookRefused},
		{"exit 126", "exit status 126", cutover.HookUnknown},
		{"exit 75", "exit status 75: its token is too old, or the result of an earlier call is unknown", cutover.HookUnknown},
		{"/no/such/program 2>/dev/null", "exit status 127", cutover.HookUnknown},
		{"kill -9 $$", "signal: killed", cutover.HookUnknown},
		{"sleep 1000 & echo $!", "", cutover.HookDone}, // what it leaves behind holds its output open
	} {
		output, outcome := script(t, t.TempDir(), c.text).Call(t.Context(), freeze)
		if c.text[0] == 's' {
			if pid := strings.TrimSpace(output); pid != "" {
				_, _ = script(t, t.TempDir(), "kill "+pid).Call(t.Context(), freeze)
			}
			output = ""
		}
		if output != c.output || outcome != c.outcome {
			t.Errorf("%s: %s, %q; want %s, %q", c.text, outcome, output, c.outcome, c.output)
		}
	}
	output, outcome := hooks(t, "./absent.sh", t.TempDir()).Call(t.Context(), freeze)
	if outcome != cutover.HookUnknown || !strings.Contains(output, "cannot be run") {
		t.Errorf("%s: %s", outcome, output)
	}
}

// A script that ends with 1 may have switched: `kubectl set env` acts, and `kubectl rollout status` behind
// it gives up. Of a switch exit status 77 alone promises that nothing was switched.
func TestOnlyOneStatusRefusesASwitch(t *testing.T) {
	for status := range 256 {
		want := map[int]cutover.Outcome{0: cutover.HookDone, 77: cutover.HookRefused}[status]
		if want == "" {
			want = cutover.HookUnknown
		}
		if how, outcome := judge(t.Context(), cutover.Switch, status, nil); status > 0 && outcome != want {
			t.Errorf("%d: %s, %q; want %s", status, outcome, how, want)
		}
	}
}

// Only a freeze that succeeds promises that the application is quiet, by exactly the last line that
// it prints. A probe may print it among other words. Where a child process still has the output
// open, the line may be the child's.
func TestOnlyTheLastLinePromisesQuiet(t *testing.T) {
	probe := cutover.Call{Hook: cutover.FreezeWrites, Step: "probe", Probe: true}
	for _, c := range []struct {
		text string
		call cutover.Call
		want cutover.Outcome
	}{
		{"echo quiet", freeze, cutover.HookQuiet},
		{"echo frozen; echo ' quiet '; echo", freeze, cutover.HookQuiet},
		{"echo quiet; echo frozen", freeze, cutover.HookDone},
		{"echo not quiet", freeze, cutover.HookDone},
		{"echo quiet; exit 1", freeze, cutover.HookRefused},
		{"echo quiet; exit 75", freeze, cutover.HookUnknown},
		{"echo quiet; kill -9 $$", freeze, cutover.HookUnknown},
		{"head -c 5000 /dev/zero | tr '\\0' x; echo quiet", freeze, cutover.HookDone},
		{"echo groups quiet", freeze, cutover.HookDone},
		{"echo groups quiet", probe, cutover.HookQuiet},
		{"echo groups", probe, cutover.HookDone},
		{"echo quiet", cutover.Call{Hook: cutover.Switch, Token: "3.7.1", Step: "switching"}, cutover.HookDone},
		{"echo quiet", cutover.Call{Hook: cutover.UnfreezeWrites, Step: "probe", Probe: true}, cutover.HookDone},
	} {
		if output, outcome := script(t, t.TempDir(), c.text).Call(t.Context(), c.call); outcome != c.want {
			t.Errorf("%s: %s, want %s: %s", c.text, outcome, c.want, output)
		}
	}
	h := script(t, t.TempDir(), "sleep 1000 & echo $! >&2; echo quiet")
	var pid string
	h.Heard = func(_ cutover.Call, output string) { pid, _, _ = strings.Cut(output, "\n") }
	_, outcome := h.Call(t.Context(), freeze)
	_, _ = script(t, t.TempDir(), "kill "+pid).Call(t.Context(), freeze)
	if outcome != cutover.HookDone {
		t.Errorf("with a child: %s", outcome)
	}
}

// The record gets how a call ended and the last line that it printed; all of it goes to the log of this
// process. Neither holds what looks like a secret.
func TestWhatAHookPrints(t *testing.T) {
	h := script(t, t.TempDir(), "echo first\necho 'password=hunter2 is wrong' >&2\nexit 1")
	var heard []string
	h.Heard = func(call cutover.Call, output string) { heard = append(heard, call.Token+" "+output) }
	said, _ := h.Call(t.Context(), freeze)
	if want := "exit status 1: password=[redacted] is wrong"; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	if want := []string{"3.3.1 first\npassword=[redacted] is wrong"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	if got := lastLine("a\n" + strings.Repeat("é", 400) + "\n\n"); len(got) > 310 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// H110: at the deadline the whole process group is killed, so that no child of the command acts later.
func TestH110_TheDeadlineKillsTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"begun", "alive"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := script(t, dir, "cd "+dir+"\nexec 3>alive\nsleep 1000 &\necho so far\necho >begun\nwait\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_, _ = os.ReadFile(filepath.Join(dir, "alive")) // until nobody has it open any more
		close(ended)
	}()
	go func() {
		_, _ = os.ReadFile(filepath.Join(dir, "begun"))
		cancel()
	}()
	output, outcome := h.Call(ctx, freeze)
	<-ended
	if outcome != cutover.HookUnknown || output != "it exceeded its time limit and was killed: so far" {
		t.Errorf("%s: %q", outcome, output)
	}
	if output, outcome := h.Call(ctx, freeze); outcome != cutover.HookUnknown || !strings.Contains(output, "not called") {
		t.Errorf("after the end: %s: %q", outcome, output)
	}
}

// Whatever a command that was ended says, nobody knows what it did; and one whose output broke did not
// say that it is done.
func TestEndedCommandsPromiseNothing(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		ctx     context.Context
		status  int
		err     error
		outcome cutover.Outcome
		how     string
	}{
		{t.Context(), 0, nil, cutover.HookDone, ""}, {t.Context(), 0, exec.ErrWaitDelay, cutover.HookDone, ""}, {ended, 0, nil, cutover.HookDone, ""},
		{t.Context(), 0, broken, cutover.HookUnknown, "broken pipe"}, {ended, 3, broken, cutover.HookUnknown, "it exceeded its time limit and was killed"},
		{ended, 75, broken, cutover.HookUnknown, "it exceeded its time limit and was killed"}, {ended, -1, broken, cutover.HookUnknown, "it exceeded its time limit and was killed"},
		{t.Context(), 1, broken, cutover.HookRefused, "exit status 1"}, {t.Context(), -1, broken, cutover.HookUnknown, "broken pipe"},
	} {
		if how, outcome := judge(c.ctx, cutover.FreezeWrites, c.status, c.err); outcome != c.outcome || how != c.how {
			t.Errorf("%d, %v: %s, %q", c.status, c.err, outcome, how)
		}
	}
	h := &Hooks{}
	if output, outcome := h.Call(t.Context(), freeze); outcome != cutover.HookUnknown || output != "this hook is not configured" {
		t.Errorf("%s, %q", outcome, output)
	}
	if output, outcome := h.Call(ended, freeze); outcome != cutover.HookUnknown || !strings.Contains(output, "not called") {
		t.Errorf("%s, %q", outcome, output)
	}
}

// A call whose time is up before it begins is not made, and promises nothing of earlier ones.
func TestACallThatIsLateIsNotMade(t *testing.T) {
	dir := t.TempDir()
	h := script(t, dir, "touch called\n")
	for name, of := range map[string]func() (context.Context, context.CancelFunc){
		"cancelled":            func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
		"after its time limit": func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), -1) },
	} {
		ctx, cancel := of()
		cancel()
		said, outcome := h.Call(ctx, freeze)
		if _, err := os.Stat(filepath.Join(dir, "called")); outcome != cutover.HookUnknown || !strings.Contains(said, "not called") || !os.IsNotExist(err) {
			t.Errorf("%s: %s, %q", name, outcome, said)
		}
	}
}

// What a terminal obeys is taken away, of both ranges of control characters, and lines and tabs stay.
func TestTextOfAnOutput(t *testing.T) {
	var kept tail
	_, _ = kept.Write([]byte("  a\tb\nc\x00d\x1fe\x7ff\u0080g\u009fh\u00a0i\r\x1b  "))
	if got := kept.String(); got != "a\tb\ncdefgh\u00a0i" {
		t.Errorf("%q", got)
	}
	for _, size := range []int{most, most + 1} {
		var one, many tail
		text := strings.Repeat("x", size-1) + "y"
		_, _ = one.Write([]byte(text))
		for i := range text {
			_, _ = many.Write([]byte(text[i : i+1]))
		}
		want := text[size-most:]
		if size > most {
			want = "…" + want
		}
		if one.String() != want || many.String() != want {
			t.Errorf("%d bytes are kept as %d and %d", size, len(one.String()), len(many.String()))
		}
	}
}

func TestOutputIsBoundedAndClean(t *testing.T) {
	h := script(t, t.TempDir(), `i=0; while [ $i -lt 3000 ]; do echo "line $i" ; echo "err $i" >&2; i=$((i+1)); done; printf '\033[31mred\033[0m \377 end\n'`)
	var output string
	h.Heard = func(_ cutover.Call, text string) { output = text }
	said, outcome := h.Call(t.Context(), freeze)
	if said != "[31mred[0m � end" || outcome != cutover.HookDone || len(output) > most+10 || !strings.HasPrefix(output, "…") || !strings.HasSuffix(output, "err 2999\n[31mred[0m � end") {
		t.Errorf("%s, %d bytes: …%q", outcome, len(output), output[max(0, len(output)-60):])
	}
	var kept tail
	_, _ = kept.Write([]byte("first" + strings.Repeat("x", 3*most)))
	_, _ = kept.Write([]byte("last"))
	if got := kept.String(); len(got) > most+3 || !strings.HasSuffix(got, "xlast") || strings.Contains(got, "first") {
		t.Errorf("%d bytes", len(got))
	}
}
