package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Every state of a migration is shown in every way: light and dark, on a desktop and on a phone.
// Only tables and drawings scroll sideways, within their own frames, and axe-core finds no problem.
func TestStates(t *testing.T) {
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			site, p := serve(t), open(t)
			site.showLong(documentOf(t, s.name))
			p.visit(site.URL)
			p.until("live", `document.getElementById("state").textContent === "● live"`)
			looks := []look{{"light", desk}, {"dark", phone}}
			if s.name == "gap" { // this state shows nearly every element
				looks = append(looks, look{"light", phone}, look{"dark", desk})
			}
			for _, l := range looks {
				p.scheme(l.scheme)
				p.sized(l.width)
				as := fmt.Sprintf("%s, %s, %d pixels", s.name, l.scheme, l.width)
				p.fits(as)
				p.accessible(as)
			}
		})
	}
}

// look is a way of showing a page.
type look struct {
	scheme string
	width  int64
}

// The text of every state.
func TestWords(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "in-sync"))
	p.visit(site.URL)
	for _, s := range states {
		site.show(documentOf(t, s.name))
		for _, want := range map[string][]string{
			"in-sync": {"✓ in sync", "1.2k/s", "4 done", "waiting for parent", "✓ no gap"},
			"copy":    {"30%", "ETA 1h10m", "VideoApp: is not copied yet", "Billing: never"},
			"gap":     {"needs a load", "✗ 1 gap", ", retrying", "✗ silent", "backfill repair"},
			"paused":  {"‖ paused", "c0de0002", "index rebuild, CHG-4711", "resume --table Billing"},
			"parked":  {"✗ 12", "2 rows differ", "parked list"},
			"cutover": {"◐ drain", "Attempt 2; the application's writes were frozen for 12s", "○ switch"},
			"done":    {"✓ Done", "gates are no longer checked", "no longer read", "finalize --dry-run"},
			"relay":   {"Appliers", "1240", "✗ 2"},
		}[s.name] {
			p.until(s.name+" shows "+want, fmt.Sprintf(`document.body.innerText.includes(%q)`, want))
		}
	}
}

// An open page updates: figures change in place, and what the reader does meanwhile is kept.
func TestLive(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "in-sync"))
	p.visit(site.URL)
	p.until("live", `document.getElementById("state").textContent === "● live"`)
	p.sized(phone) // here drawings are wider than the page
	p.do(`document.getElementById("shards-Billing").open = !(document.getElementById("shards-VideoApp").open = true);
		document.querySelector("#shards-VideoApp .wide").scrollLeft = 120; document.getElementById("live").before("kept"); 0`)
	later := changed(t, `{"at": "2026-11-02T10:42:12Z", "tables": [{"source": "VideoApp", "lag_seconds": 42}]}`)
	site.show(later)
	p.until("the new lag", `document.getElementById("lag").dataset.value === "42" && document.getElementById("table-VideoApp-lag").textContent === "42s"`)
	kept := tell[[]bool](p, `[document.getElementById("shards-VideoApp").open, !document.getElementById("shards-Billing").open, document.querySelector("#shards-VideoApp .wide").scrollLeft === 120,
		document.body.textContent.includes("kept")]`)
	if slices.Contains(kept, false) {
		t.Errorf("unfolded, folded, scrolled, not loaded again: %v", kept)
	}
	// While paused the page does not change. When resumed it shows the newest state.
	p.do(`document.getElementById("pause").click()`)
	p.until("paused", `document.getElementById("state").textContent === "‖ refresh paused"`)
	site.show(changed(t, `{"at": "2026-11-02T10:42:17Z", "tables": [{"source": "VideoApp", "lag_seconds": 43}]}`))
	for range 2 { // events are a second apart, and the second one is later than the page's
		clock := p.text(`document.getElementById("clock").textContent`)
		p.until("a later event", fmt.Sprintf(`document.getElementById("clock").textContent !== %q`, clock))
	}
	if lag := p.text(`document.getElementById("lag").dataset.value`); lag != "42" {
		t.Errorf("paused, it shows %s", lag)
	}
	p.do(`document.getElementById("pause").click()`)
	p.until("it goes on", `document.getElementById("lag").dataset.value === "43"`)
}

// If a page receives nothing for five seconds, it says so and looks stale. It recovers as soon as a
// process answers.
func TestStale(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "in-sync"))
	p.visit(site.URL)
	p.until("live", `document.getElementById("state").textContent === "● live"`)
	site.silent.Store(true)
	silent := time.Now()
	p.until("stale", `document.documentElement.classList.contains("stale")`)
	if took := time.Since(silent); took < 3500*time.Millisecond { // the last event may be a second old
		t.Errorf("stale after %s", took)
	}
	since := p.text(`document.getElementById("state").textContent`)
	said, err := time.Parse("✗ stale since 15:04:05 UTC", since)
	if last := silent.UTC(); err != nil || absolute(said.Sub(time.Date(0, 1, 1, last.Hour(), last.Minute(), last.Second(), 0, time.UTC))) > 10*time.Second {
		t.Errorf("it says %q, and fell silent at %s", since, last.Format(time.TimeOnly))
	}
	if grey := p.text(`getComputedStyle(document.getElementById("live")).filter + " " + getComputedStyle(document.getElementById("lag")).color`); !strings.HasPrefix(grey, "grayscale(1) rgb(102, 102, 102)") {
		t.Errorf("it looks %s", grey)
	}
	if title := p.text(`document.title`); !strings.HasPrefix(title, "✗ stale") {
		t.Errorf("its title is %s", title)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.accessible("stale, " + scheme)
	}
	site.silent.Store(false)
	p.until("live again", `!document.documentElement.classList.contains("stale") && document.getElementById("state").textContent === "● live"`)
}

func absolute(d time.Duration) time.Duration { return max(d, -d) }

// A page whose request was refused retries by itself. Browsers do so only after a broken
// connection.
func TestRefused(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t, "503")
	site.refuses.Store(true)
	site.show(documentOf(t, "in-sync"))
	p.visit(site.URL)
	p.until("stale", `document.documentElement.classList.contains("stale")`)
	site.refuses.Store(false)
	p.until("live", `document.getElementById("state").textContent === "● live" && !document.documentElement.classList.contains("stale")`)
}

// Without a mouse every control can be reached, is visible and works. It keeps the focus when the
// page changes.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "gap"))
	p.visit(site.URL)
	p.until("live", `document.getElementById("state").textContent === "● live"`)
	command(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		c := chromedp.FromContext(p.ctx)
		if _, err := cdp.Call(p.ctx, c.Browser, browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
			Origin: site.URL, BrowserContextID: c.BrowserContextID}); err != nil {
			t.Fatal(err)
		}
	}
	var reached []string
	for range 60 {
		p.press(kb.Tab)
		focus := tell[struct {
			Name, Outline string
			Seen          bool
		}](p, `(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(); return {
			Name: e === document.body ? "" : e.id || e.tagName + " " + (e.getAttribute("aria-label") || e.parentElement.id), Outline: s.outlineStyle + " " + s.outlineWidth,
			Seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.bottom > 0 && r.top < innerHeight } })()`)
		if focus.Name == "" || slices.Contains(reached, focus.Name) {
			break
		}
		reached = append(reached, focus.Name)
		if !focus.Seen {
			t.Errorf("the focus on %s is not seen: %s", focus.Name, focus.Outline)
		}
	}
	for _, want := range []string{"pause", "copy-0", "copy-1", "DIV Tables", "SUMMARY shards-VideoApp", "DIV Lineage of the shards of VideoApp", "SUMMARY list-VideoApp", "DIV Workers", "DIV Recent events"} {
		if !slices.Contains(reached, want) {
			t.Errorf("the keyboard does not reach %s: %q", want, reached)
		}
	}
	if !slices.IsSortedFunc([]int{slices.Index(reached, "pause"), slices.Index(reached, "copy-0"), slices.Index(reached, "copy-1"), slices.Index(reached, "SUMMARY shards-VideoApp")}, func(a, b int) int { return a - b }) {
		t.Errorf("the order is %q", reached)
	}
	to := func(selector string) { p.do(fmt.Sprintf(`document.querySelector(%q).focus()`, selector)) }
	to("#copy-0")
	p.press(kb.Enter)
	p.until("copied", `document.getElementById("copy-0").textContent === "copied"`)
	clip := p.text(`navigator.clipboard.readText()`)
	if want := "replicator backfill repair VideoApp"; clip != want {
		t.Errorf("copied %q, want %q", clip, want)
	}
	site.show(changed(t, `{"at": "2026-11-02T10:42:12Z", "next_steps": [{"command": "replicator run", "why": "no worker reads the stream"}]}`))
	p.until("the page changed", `document.getElementById("copy-0").textContent === "copy" && document.getElementById("copy-0").dataset.copy === "replicator run"`)
	if focus := p.text(`document.activeElement.id`); focus != "copy-0" {
		t.Errorf("the focus went to %q", focus)
	}
	to("#shards-VideoApp > summary")
	open := `document.getElementById("shards-VideoApp").open`
	before := tell[bool](p, open)
	p.press(kb.Enter)
	if tell[bool](p, open) == before {
		t.Error("the shards do not unfold")
	}
	to("#pause")
	p.press(" ")
	p.until("paused", `document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
}

// If a page may not write to the clipboard, as over plain HTTP, it selects the command.
func TestCopyWithoutClipboard(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "gap"))
	p.first(`Object.defineProperty(navigator, "clipboard", {value: undefined})`)
	p.visit(site.URL)
	// Both in one evaluation: when the stream updates the page for the first time, the button reads
	// "copy" again.
	if !tell[bool](p, `(() => { const b = document.getElementById("copy-0"); b.click();
		return b.textContent === "selected" && getSelection().toString() === b.dataset.copy })()`) {
		t.Error("the command is not selected")
	}
}

// Without scripts the page reloads itself, and shows the time of its data.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "in-sync"))
	command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.visit(site.URL)
	shows := func(want string) func() bool {
		return func() bool {
			html, err := chromedp.Run(p.ctx, func(ctx context.Context, t *chromedp.Target) (string, error) {
				root, err := cdp.Call(ctx, t, dom.GetDocument, dom.GetDocumentParams{})
				if err != nil {
					return "", err
				}
				html, err := cdp.Call(ctx, t, dom.GetOuterHTML, dom.GetOuterHTMLParams{NodeID: root.Root.NodeID})
				return html.OuterHTML, err
			})
			return err == nil && strings.Contains(html, want)
		}
	}
	waitFor(t, "the page", shows(`id="lag" data-value="2"`))
	for _, want := range []string{"as of page load", `aria-pressed="false" hidden`, `content="5"`} {
		if !shows(want)() {
			t.Errorf("it does not have %s", want)
		}
	}
	site.show(changed(t, `{"at": "2026-11-02T10:42:12Z", "tables": [{"source": "VideoApp", "lag_seconds": 42}]}`))
	waitFor(t, "the page loads itself again", shows(`id="lag" data-value="42"`))
}

// In print there are no buttons, everything is unfolded, and colours are never dark.
func TestPrint(t *testing.T) {
	t.Parallel()
	site, p := serve(t), open(t)
	site.show(documentOf(t, "gap"))
	p.visit(site.URL)
	p.until("live", `document.getElementById("state").textContent === "● live"`)
	p.media("print", "dark")
	p.do(`document.querySelectorAll("details").forEach((d) => { d.open = false }); 0`)
	seen := tell[struct{ Buttons, Drawings int }](p, `({Buttons: [...document.querySelectorAll("button, .live")].filter((e) => e.checkVisibility()).length,
		Drawings: [...document.querySelectorAll("svg.lineage")].filter((e) => e.getBoundingClientRect().height > 20).length})`)
	if seen.Buttons != 0 || seen.Drawings != 3 {
		t.Errorf("%d buttons, %d of 3 drawings", seen.Buttons, seen.Drawings)
	}
	if paper := p.text(`getComputedStyle(document.body).backgroundColor + " " + getComputedStyle(document.body).color`); paper != "rgb(255, 255, 255) rgb(28, 32, 36)" {
		t.Errorf("paper and ink are %s", paper)
	}
	pdf := command(p, page.PrintToPDF, page.PrintToPDFParams{}).Data
	if pages := strings.Count(string(pdf), "/Type /Page\n"); !strings.HasPrefix(string(pdf), "%PDF-") || pages < 1 || pages > 4 {
		t.Errorf("%d bytes, %d pages", len(pdf), pages)
	}
}
