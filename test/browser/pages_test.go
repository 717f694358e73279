package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// cutOver returns the document of a migration of one table during the freeze of its second attempt.
func cutOver() *status.Document {
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	shard := func(id, parent string, state checkpoint.State) checkpoint.Shard {
		return checkpoint.Shard{Source: "VideoApp", ID: "shardId-00000001793598765432-" + id, Parent: parent, Label: "L", State: state, DoneAt: ago(time.Hour), FirstRead: ago(2 * time.Hour), Generation: 7}
	}
	parent := shard("52b7aa10", "", checkpoint.Done)
	child := shard("77fe03b1", parent.ID, checkpoint.Reading)
	child.DoneAt, child.Owner, child.CaughtUp, child.ReadAt, child.AppliedTo, child.Applied = time.Time{}, "worker-a", true, at, at, 4711
	child.WrittenAt = at
	state := checkpoint.TableState{Source: "VideoApp", Label: "L", Generation: 7, Adopted: 7, Listed: 7, Base: 7,
		Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: ago(3 * time.Hour), DoneAt: ago(2 * time.Hour), SweptAt: ago(time.Hour)}}
	state.Verify.Result = checkpoint.VerifyResult{Number: 4, EndedAt: ago(time.Minute), Generation: 7, VerifyCounts: checkpoint.VerifyCounts{Compared: 136_000_000, Missing: 2}}
	state.Verify.Full = state.Verify.Result
	attempt := checkpoint.Cutover{Attempt: 2, Step: checkpoint.CutoverDrain, CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"VideoApp"}}, FreezeBegunAt: ago(5 * time.Second),
		Trouble: "waits for shard shardId-00000001793598765432-77fe03b1",
		Timeline: []checkpoint.CutoverEvent{{At: ago(time.Minute), Step: "requested", Text: "requested by alice@example.com", By: "alice@example.com"}, {At: ago(50 * time.Second), Step: "checks", Text: "approved"},
			{At: ago(5 * time.Second), Step: "freeze", Text: "every gate is ready"}, {At: ago(3 * time.Second), Step: "drain", Text: "writes are frozen"}},
		Hooks:   []checkpoint.CutoverHook{{Name: "freeze_writes", Began: ago(5 * time.Second), Ended: ago(3 * time.Second), Outcome: "quiet"}},
		GivenUp: []checkpoint.CutoverTry{{Attempt: 1, Reason: "a shard was split", FreezeBegunAt: ago(time.Hour), UnfrozenAt: ago(time.Hour - 8*time.Second)}},
		Gates:   []checkpoint.CutoverGate{{Name: "lag", Table: "VideoApp", Ready: true, Figure: "held 2m"}, {Name: "verify", Table: "VideoApp", Figure: "2 rows differ"}}}
	in := &status.Input{Cfg: &config.Config{Name: "acme-2026", Target: config.Target{Project: "acme-prod", Instance: "main"}, State: config.State{Lease: 15 * time.Second}, Tables: []config.Table{{From: "VideoApp", To: "video_app"}}},
		Tables: []config.Table{{From: "VideoApp", To: "video_app"}}, Begun: true, Cutovers: checkpoint.Cutovers{attempt},
		Inputs: []status.TableInput{{Found: true, State: state, Shards: []checkpoint.Shard{parent, child}, Parked: 3}}}
	return in.Judge(func(string) (string, bool) { return "", false }, "", at)
}

// The pages of a table, of its parked items, of its findings, of a shard, of a cutover and of the
// pipelines are reached by links, have no
// horizontal scroll bar on a phone, and axe-core finds no problem. They work without scripts.
func TestPagesBelow(t *testing.T) {
	for _, c := range []struct {
		name, links, heading, shows string
	}{
		{"table", "#table-VideoApp-details", "VideoApp", "List of 3 parked items"},
		{"history", "#table-VideoApp-details", "VideoApp", "Changes per hour"},
		{"parked", "#table-VideoApp-details, #parked-list", "Parked items of VideoApp", "the row key is longer than 4096 bytes"},
		{"verify", "#table-VideoApp-details, #verify-rows", "Verify of VideoApp", "written by an older version of the mapping"},
		{"pipelines", "#pipelines", "Pipelines", "team-11"},
		{"shard", "#table-VideoApp-details, #shards a", "Shard shardId-00000001793598765432-52b7aa10", "77fe03b1"},
		{"cutover", "#about-cutover p a", "Cutover of VideoApp", "every gate is ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site, p := serve(t), open(t)
			site.show(cutOver())
			p.sized(narrow)
			p.visit(site.URL)
			links := strings.Split(c.links, ", ")
			for i, link := range links {
				address := p.text(fmt.Sprintf(`document.querySelector(%q).href`, link))
				if i == len(links)-1 {
					command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
				}
				p.visit(address)
			}
			command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
			if h1 := p.text(`document.querySelector("h1").textContent`); h1 != c.heading {
				t.Errorf("the heading is %q", h1)
			}
			if !tell[bool](p, fmt.Sprintf(`document.body.innerText.includes(%q)`, c.shows)) {
				t.Errorf("it does not show %q", c.shows)
			}
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				for _, width := range []int64{narrow, desk} {
					p.sized(width)
					as := fmt.Sprintf("%s, %s, %d pixels", c.name, scheme, width)
					p.fits(as)
					p.accessible(as)
				}
			}
			p.visit(p.text(`document.getElementById("up").href`))
			p.until("the first page", `document.getElementById("verdict").dataset.value === "cutover"`)
		})
	}
}
