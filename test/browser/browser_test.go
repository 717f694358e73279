package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the pictures of docs/images anew")

const (
	// patience is the longest wait for a condition. On an idle machine it takes seconds.
	patience = time.Minute
	desk     = 1000 // pixels
	phone    = 375
)

// chromium is the browser, started once. Each test has its own profile in it.
var chromium context.Context

// axeText is the source of axe-core.
var axeText string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	program := os.Getenv("REPLICATOR_BROWSER")
	if program == "" {
		program = "chromium"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return 0, fmt.Errorf("there is no browser: %w\nrun `make browser`, or install Chromium (Debian: apt-get install chromium); REPLICATOR_BROWSER names another one", err)
	}
	axe, err := os.ReadFile(os.Getenv("REPLICATOR_AXE"))
	if err != nil {
		return 0, fmt.Errorf("axe-core is missing: %w\nrun `make browser`, which brings it and names its file in REPLICATOR_AXE", err)
	}
	axeText = string(axe)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.WSURLReadTimeout(time.Minute))
	if os.Getuid() == 0 { // Chromium refuses to run its sandbox as root
		options = append(options, chromedp.NoSandbox)
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, end := chromedp.NewContext(allocated)
	defer end()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		return 0, fmt.Errorf("%s does not start: %w", path, err)
	}
	chromium = ctx
	return m.Run(), nil
}

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // messages of the page's console
	asked      []string // addresses that the page requested
}

// open opens an empty tab. When the test ends, the console must be empty except for texts with one
// of the given words, and the page must have requested only its own host.
func open(t *testing.T, but ...string) *tab {
	t.Helper()
	p := &tab{T: t}
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.heard))
	p.ctx = ctx
	command(p, page.SetBypassCSP, page.SetBypassCSPParams{})
	t.Cleanup(func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.complaints {
			if !slices.ContainsFunc(but, func(word string) bool { return strings.Contains(c, word) }) {
				t.Errorf("the browser complains: %s", c)
			}
		}
		for _, address := range p.asked {
			if u, err := url.Parse(address); err != nil || u.Scheme != "data" && u.Scheme != "about" && u.Hostname() != "127.0.0.1" {
				t.Errorf("the page asks for %s", address)
			}
		}
	})
	return p
}

func (p *tab) heard(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.complaints = append(p.complaints, fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value))
			}
			p.complaints = append(p.complaints, fmt.Sprintf("console.%s: %s", e.Type, strings.Join(words, " ")))
		}
	}
}

// command sends the tab a command of the DevTools protocol.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.Helper()
	answer, err := chromedp.Run(p.ctx, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
	if err != nil {
		p.Fatalf("%s: %v", c.Method, err)
	}
	return answer
}

// tell evaluates an expression and returns its value.
func tell[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression[:min(len(expression), 200)], err)
	}
	return value
}

// text evaluates an expression that yields a string.
func (p *tab) text(expression string) string {
	p.Helper()
	return tell[string](p, expression)
}

// do evaluates an expression for its effect.
func (p *tab) do(expression string) {
	p.Helper()
	tell[chromedp.Void](p, expression)
}

// press presses keys.
func (p *tab) press(keys string) {
	p.Helper()
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(keys)); err != nil {
		p.Fatal(err)
	}
}

// visit loads a page.
func (p *tab) visit(address string) {
	p.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(address)); err != nil {
		p.Fatal(err)
	}
}

// sized sets the window's width.
func (p *tab) sized(width int64) {
	p.Helper()
	command(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 500})
}

// scheme sets the colour scheme, light or dark.
func (p *tab) scheme(name string) {
	p.Helper()
	p.media("", name)
}

// media sets the medium of the page, "" for a screen.
func (p *tab) media(name, scheme string) {
	p.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: name, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// first registers a script that runs before those of later pages.
func (p *tab) first(script string) {
	p.Helper()
	command(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// until waits until an expression is true.
func (p *tab) until(what, expression string) {
	p.Helper()
	waitFor(p.T, what, func() bool {
		yes, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && yes // while a page loads there is no document to evaluate
	})
}

// waitFor polls until a condition holds.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline, again := time.After(patience), time.NewTicker(40*time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}

// accessible checks the current page with axe-core.
func (p *tab) accessible(as string) {
	p.Helper()
	p.do(axeText + ";0")
	found := p.text(`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(
		r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 200) + " " + n.failureSummary)}))))`)
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		p.Fatal(err)
	}
	for _, v := range violations {
		p.Errorf("%s: %s: %s\n\t%s", as, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
	}
}

// fits reports elements that make the page wider than its window.
func (p *tab) fits(as string) {
	p.Helper()
	wide := tell[[]string](p, `document.documentElement.scrollWidth <= innerWidth ? [] : [document.documentElement.scrollWidth + " of " + innerWidth].concat(
		[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest(".wide")).slice(0, 8).map((e) => e.outerHTML.slice(0, 120)))`)
	if len(wide) > 0 {
		p.Errorf("%s scrolls sideways: %s", as, strings.Join(wide, "\n\t"))
	}
}
