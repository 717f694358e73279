package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// narrow is the width of a common phone, in pixels.
const narrow = 390

// verdicts lists all states, each as a state of the table VideoApp with the verdict that its page
// shows.
var verdicts = []struct {
	state, reason, since, detail, command string
	verdict, severity                     string
}{
	{"done", "", "2026-11-01T08:00:00Z", "", "finalize --dry-run", "✓ Done since 2026-11-01 08:00 UTC: VideoApp: the application no longer uses the source", "info"},
	{"cutover", "drain", "2026-11-02T10:41:55Z", "", "cutover status", "✓ Cutover since 10:41 UTC: VideoApp: the application's writes are frozen", "info"},
	{"unknown", "target_unreadable", "2026-11-02T10:38:07Z", "Bigtable: PermissionDenied", "plan", "✗ Not known to be in sync: VideoApp: the target cannot be read: Bigtable: PermissionDenied (for 4m00s)", "page"},
	{"paused", "operator", "2026-11-02T10:02:07Z", "index rebuild, CHG-4711", "resume --table VideoApp", "‖ Paused: VideoApp: an operator paused the table: index rebuild, CHG-4711 (for 40m)", "warning"},
	{"needs_load", "stream", "2026-11-02T10:20:07Z", "GetRecords: trimmed", "backfill start --repair-gap --table VideoApp", "✗ Needs a load: VideoApp: changes or rows are missing: GetRecords: trimmed (for 22m)", "page"},
	{"stalled", "step_fails", "2026-11-02T10:39:07Z", "cannot read a shard (GetRecords): DynamoDB: AccessDeniedException", "status --shards --table VideoApp",
		"✗ Stalled: VideoApp: cannot read a shard (GetRecords): DynamoDB: AccessDeniedException (for 3m00s)", "page"},
	{"stalled", "dropped", "2026-11-02T09:42:07Z", "", "", "▲ Stalled: VideoApp: the table was dropped (for 1h00m)", "warning"},
	{"preparing", "", "2026-11-02T10:41:00Z", "", "", "◐ Preparing since 10:41 UTC: VideoApp: the stream is being listed", "info"},
	{"copying", "", "2026-11-02T09:12:00Z", "", "", "◐ Copying since 09:12 UTC: VideoApp: existing items are being copied", "info"},
	{"sweeping", "approval", "2026-11-02T10:12:07Z", "rows to write: 0, to remove: 41", "backfill resume --table VideoApp --yes", "▲ Sweeping: VideoApp: the sweep waits for approval: rows to write: 0, to remove: 41 (for 30m)", "warning"},
	{"parked", "", "", "12", "parked list --table VideoApp", "▲ Parked: VideoApp: items could not be stored: 12", "warning"},
	{"differs", "verify", "2026-11-02T10:36:07Z", "2", "verify --repair --dry-run --table VideoApp", "▲ Different: VideoApp: the last verify found rows that differ: 2 (for 6m00s)", "warning"},
	{"catching_up", "lag", "2026-11-02T10:37:00Z", "", "", "◐ Catching up since 10:37 UTC: VideoApp: changes are not applied yet", "info"},
	{"in_sync", "", "2026-11-02T08:00:00Z", "", "", "✓ In sync since 08:00 UTC", "info"},
}

// known encodes a text; null if it is unknown.
func known(text string) string {
	if text == "" {
		return "null"
	}
	return fmt.Sprintf("%q", text)
}

// The first line of the page has the verdict on every state of the closed list, with its command and
// its document. The page has no horizontal scroll bar on a phone, and axe-core finds no problem.
func TestVerdicts(t *testing.T) {
	asked := map[standing.State]bool{}
	for _, v := range verdicts {
		asked[standing.State(v.state)] = true
		t.Run(strings.Trim(v.state+" "+v.reason, " "), func(t *testing.T) {
			t.Parallel()
			site, p := serve(t), open(t)
			stands := fmt.Sprintf(`"state": %q, "reason": %s, "since": %s, "detail": %s`, v.state, known(v.reason), known(v.since), known(v.detail))
			steps := "[]"
			if v.command != "" {
				steps = fmt.Sprintf(`[{"command": %q, "why": "a reason"}]`, "replicator "+v.command)
			}
			site.show(changed(t, fmt.Sprintf(`{%s, "tables": [{"source": "VideoApp", %s, "next_steps": %s}, {"source": "Billing", "since": "2026-11-02T07:00:00Z"}], "next_steps": %s}`, stands, stands, steps, steps)))
			p.sized(narrow)
			p.visit(site.URL)
			p.until("live", `document.getElementById("state").textContent === "● live"`)
			if got := p.text(`document.getElementById("verdict").innerText`); got != v.verdict {
				t.Errorf("%q, want %q", got, v.verdict)
			}
			data := p.text(`(({dataset: d}) => d.value + " " + d.severity)(document.getElementById("verdict"))`)
			if data != v.state+" "+v.severity {
				t.Errorf("for programs it is %q", data)
			}
			_, sentence, _ := strings.Cut(v.verdict, " ")
			if title := p.text(`document.title`); title != sentence+" · acme-2026 · replicator" {
				t.Errorf("the title is %q", title)
			}
			if v.command != "" {
				for _, id := range []string{"verdict-command", "copy-VideoApp"} {
					got := p.text(fmt.Sprintf(`(e => e.dataset.copy ?? e.textContent)(document.getElementById(%q))`, id))
					if got != "replicator "+v.command {
						t.Errorf("%s has the command %q", id, got)
					}
				}
			}
			for _, id := range []string{"verdict-page", "table-VideoApp-page"} {
				if page := p.text(fmt.Sprintf(`document.getElementById(%q).getAttribute("href")`, id)); !strings.Contains(page, "/docs/") || !strings.Contains(page, ".md") {
					t.Errorf("%s leads to %q", id, page)
				}
			}
			if where := tell[float64](p, `document.getElementById("verdict").getBoundingClientRect().bottom`); where > 400 {
				t.Errorf("the verdict ends %v pixels below the top", where)
			}
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				for _, width := range []int64{narrow, desk} {
					p.sized(width)
					as := fmt.Sprintf("%s, %s, %d pixels", v.state, scheme, width)
					p.fits(as)
					p.accessible(as)
				}
			}
		})
	}
	for _, s := range standing.States {
		if !asked[s] {
			t.Errorf("no page shows the state %s", s)
		}
	}
}

// An open page changes its verdict and its title.
func TestVerdictChanges(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(changed(t, `{"since": "2026-11-02T08:00:00Z"}`))
	p.visit(site.URL)
	p.until("live", `document.title.startsWith("In sync since 08:00 UTC")`)
	site.show(changed(t, `{"state": "stalled", "reason": "no_worker", "tables": [{"source": "Billing", "state": "stalled", "reason": "no_worker"}]}`))
	p.until("the verdict", `document.getElementById("verdict").dataset.severity === "page"`)
	p.until("the title", `document.title === "Stalled: Billing: no worker reads the stream · acme-2026 · replicator"`)
}
