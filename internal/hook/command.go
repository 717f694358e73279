package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
)

// stale is the exit status of a command that refuses a late token, or that does not know the result
// of an earlier call. It is EX_TEMPFAIL of sysexits.h.
const stale = 75

// denied is the only exit status with which a switch hook promises that it has switched nothing. It
// is EX_NOPERM of sysexits.h. The status 1 promises nothing, because a script with `set -e` may end
// with 1 after it has acted.
const denied = 77

// foreign is the first exit status by which a shell reports a command that could not be executed or
// was killed. Such a status promises nothing.
const foreign = 126

// closing is how long child processes of an ended command may keep its output open.
const closing = time.Second

// run runs a command.
func run(ctx context.Context, words []string, call cutover.Call) (how, output string, outcome cutover.Outcome) {
	args := words[1:]
	if call.Probe {
		args = append(args[:len(args):len(args)], "--probe")
	}
	c := exec.CommandContext(ctx, words[0], args...)
	c.Env = variables(os.Environ(), call)
	c.WaitDelay = closing
	var kept tail
	c.Stdout, c.Stderr = &kept, &kept
	inGroup(c)
	err := c.Run()
	if c.ProcessState == nil { // this call did not start, but earlier calls may have been carried out
		return "it cannot be run: " + err.Error(), "", cutover.HookUnknown
	}
	how, outcome = judge(ctx, call.Hook, c.ProcessState.ExitCode(), err)
	output = kept.String()
	// If a child process still has the output open, the last line may be the child's.
	if outcome == cutover.HookDone && err == nil && promises(call, lastLine(output)) {
		outcome = cutover.HookQuiet
	}
	return how, output, outcome
}

// refuses reports whether an exit status promises that neither this call nor earlier calls of the
// hook did anything.
func refuses(hook string, status int) bool {
	if hook == cutover.Switch {
		return status == denied
	}
	return status > 0 && status < foreign && status != stale
}

// judge returns the outcome of a hook's command. If the outcome is not done, the result `how`
// describes how the command ended. The argument `status` is -1 if the command was killed.
func judge(ctx context.Context, hook string, status int, err error) (how string, outcome cutover.Outcome) {
	switch {
	case status == 0 && (err == nil || errors.Is(err, exec.ErrWaitDelay)):
		return "", cutover.HookDone
	case ctx.Err() != nil:
		return "it exceeded its time limit and was killed", cutover.HookUnknown
	case status == stale:
		return fmt.Sprintf("exit status %d: its token is too old, or the result of an earlier call is unknown", status), cutover.HookUnknown
	case refuses(hook, status):
		return fmt.Sprintf("exit status %d", status), cutover.HookRefused
	case status > 0:
		return fmt.Sprintf("exit status %d", status), cutover.HookUnknown
	}
	return err.Error(), cutover.HookUnknown
}

// variables returns the worker's own environment, extended by the variables of the call.
func variables(own []string, call cutover.Call) []string {
	var env []string
	for _, v := range own {
		if !strings.HasPrefix(v, "CUTOVER_") {
			env = append(env, v)
		}
	}
	env = append(env, "CUTOVER_HOOK="+call.Hook, "CUTOVER_STEP="+call.Step, "CUTOVER_DIRECTION="+directionOf(call), "CUTOVER_GROUP="+call.Group, "CUTOVER_TABLES="+strings.Join(call.Tables, ","))
	if call.Probe {
		return append(env, "CUTOVER_PROBE=1")
	}
	if !call.Deadline.IsZero() {
		env = append(env, "CUTOVER_DEADLINE="+deadlineOf(call), "CUTOVER_DEADLINE_SECONDS="+secondsLeft(call))
	}
	return append(env, "CUTOVER_TOKEN="+call.Token)
}

// directionOf returns the direction of a call: forward, or back in a rollback.
func directionOf(call cutover.Call) string { return cmp.Or(call.Direction, cutover.Forward) }

// deadlineOf is when the try of a call ends.
func deadlineOf(call cutover.Call) string { return call.Deadline.UTC().Format(time.RFC3339) }

// secondsLeft is how many seconds are left until then, for hooks whose clock differs.
func secondsLeft(call cutover.Call) string { return strconv.Itoa(int(call.Left / time.Second)) }
