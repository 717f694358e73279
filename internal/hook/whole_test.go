//go:build unix

package hook

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
)

// calls are a call with everything that a hook may get, and a probe.
func calls() (full, probe cutover.Call) {
	full = cutover.Call{Hook: cutover.FreezeWrites, Token: "2.3.4", Step: "freeze", Group: "shop", Tables: []string{"Orders", "Items"}, Deadline: time.Date(2026, 11, 28, 13, 0, 30, 0, time.FixedZone("CET", 3600)), Left: 90*time.Second + 900*time.Millisecond}
	return full, cutover.Call{Hook: cutover.Switch, Step: "probe", Direction: cutover.Back, Group: "shop", Tables: []string{"Orders", "Items"}, Probe: true}
}

// Hooks of users read these variables by their names: all of a call, and no other.
func TestAllVariablesOfACall(t *testing.T) {
	for _, name := range []string{"CUTOVER_TOKEN", "CUTOVER_GROUP", "CUTOVER_OF_A_FORMER_VERSION"} {
		t.Setenv(name, "of the worker")
	}
	h := script(t, t.TempDir(), `env | grep '^CUTOVER_' | sort; echo "arguments: $*"; echo to stderr >&2`)
	var heard string
	h.Heard = func(_ cutover.Call, output string) { heard = output }
	h.Rollback = h
	full, probe := calls()
	for _, c := range []struct {
		call cutover.Call
		want string
	}{
		{full, "CUTOVER_DEADLINE=2026-11-28T12:00:30Z\nCUTOVER_DEADLINE_SECONDS=90\nCUTOVER_DIRECTION=forward\nCUTOVER_GROUP=shop\nCUTOVER_HOOK=freeze_writes\nCUTOVER_STEP=freeze\nCUTOVER_TABLES=Orders,Items\nCUTOVER_TOKEN=2.3.4\narguments: \nto stderr"},
		{probe, "CUTOVER_DIRECTION=back\nCUTOVER_GROUP=shop\nCUTOVER_HOOK=switch\nCUTOVER_PROBE=1\nCUTOVER_STEP=probe\nCUTOVER_TABLES=Orders,Items\narguments: --probe\nto stderr"},
	} {
		if said, outcome := h.Call(t.Context(), c.call); outcome != cutover.HookDone || said != "to stderr" || !strings.HasPrefix(heard, "CUTOVER_") {
			t.Errorf("%s: %q", outcome, said)
		}
		how, output, outcome := run(t.Context(), h.hooks[c.call.Hook].Command, c.call)
		if how != "" || outcome != cutover.HookDone || output != c.want {
			t.Errorf("%q, %s: got\n%s\nwant\n%s", how, outcome, output, c.want)
		}
	}
	words := append(slices.Clone(h.hooks[cutover.Switch].Command), "now")
	if _, output, _ := run(t.Context(), words, probe); !strings.Contains(output, "arguments: now --probe\n") || len(words) != 2 {
		t.Errorf("with an argument: %s", output)
	}
}

// Addresses of users read these headers and members by their names: all of a call, and no other.
func TestAllHeadersAndMembersOfACall(t *testing.T) {
	var headers, content string
	h := served(t, func(_ http.ResponseWriter, r *http.Request) {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			if strings.HasPrefix(name, "Cutover-") || name == "Content-Type" {
				lines = append(lines, fmt.Sprintf("%s: %s", name, strings.Join(r.Header[name], "|")))
			}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		headers, content = strings.Join(lines, "\n"), r.Method+" "+string(body)
	})
	h.Rollback = h
	h.Rollback = h
	full, probe := calls()
	for _, c := range []struct {
		call          cutover.Call
		headers, body string
	}{
		{full, "Content-Type: application/json\nCutover-Deadline: 2026-11-28T12:00:30Z\nCutover-Deadline-Seconds: 90\nCutover-Direction: forward\nCutover-Group: shop\nCutover-Hook: freeze_writes\nCutover-Step: freeze\nCutover-Tables: Orders,Items\nCutover-Token: 2.3.4",
			`POST {"schema":"replicator.cutover_hook/v1","hook":"freeze_writes","token":"2.3.4","step":"freeze","direction":"forward","group":"shop","tables":["Orders","Items"],"deadline":"2026-11-28T12:00:30Z","deadline_seconds":"90"}`},
		{probe, "Content-Type: application/json\nCutover-Direction: back\nCutover-Group: shop\nCutover-Hook: switch\nCutover-Probe: true\nCutover-Step: probe\nCutover-Tables: Orders,Items",
			`POST {"schema":"replicator.cutover_hook/v1","hook":"switch","step":"probe","direction":"back","group":"shop","tables":["Orders","Items"],"probe":true}`},
	} {
		if said, outcome := h.Call(t.Context(), c.call); outcome != cutover.HookDone || said != "200 OK" || headers != c.headers || content != c.body {
			t.Errorf("%s, %s: got\n%s\n%s\nwant\n%s\n%s", said, outcome, headers, content, c.headers, c.body)
		}
	}
}

// The answer of an address is kept up to the same length as the output of a command, and is said
// with its status. The word of a refusal may have capitals.
func TestWhatAnAddressAnswers(t *testing.T) {
	long := strings.Repeat("abc ", most/4-1) + "\nend"
	for name, c := range map[string]struct {
		status       int
		header, body string
		said, heard  string
		outcome      cutover.Outcome
		isHeardAtAll bool
	}{
		"long":    {200, "", long + "this is cut off", "200 OK: end", long, cutover.HookDone, true},
		"nothing": {202, "", "", "202 Accepted", "", cutover.HookDone, false},
		"refused": {409, "REFUSED", "not now", "409 Conflict: not now", "not now", cutover.HookRefused, true},
		"quiet":   {201, "QUIET", "token=hunter2", "201 Created: token=[redacted]", "token=[redacted]", cutover.HookQuiet, true},
		"moved":   {301, "", "there", "301 Moved Permanently (redirects are not followed): there", "there", cutover.HookUnknown, true},
	} {
		h := served(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.header != "" {
				w.Header().Set("Cutover-Outcome", c.header)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		heard, calls := "", 0
		h.Heard = func(_ cutover.Call, output string) { heard, calls = output, calls+1 }
		said, outcome := h.Call(t.Context(), freezeCall)
		if said != c.said || outcome != c.outcome || heard != c.heard || (calls == 1) != c.isHeardAtAll {
			t.Errorf("%s: %q, %s; heard %d bytes in %d calls", name, said, outcome, len(heard), calls)
		}
	}
}

// The last line is shortened after 300 bytes, not before, and never within a letter.
func TestTheLengthOfTheLastLine(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 300): strings.Repeat("x", 300), strings.Repeat("x", 301): strings.Repeat("x", 300) + "…", strings.Repeat("x", 299) + "éy": strings.Repeat("x", 299) + "…",
		"first\nsecond\n third \n\n": "third", "": "", "one": "one",
	} {
		if got := lastLine(text); got != want {
			t.Errorf("%d bytes: %q, want %q", len(text), got, want)
		}
	}
}
