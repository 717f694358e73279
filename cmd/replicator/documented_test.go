package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// elsewhere lists other programs that documents call, and why no test of this package runs them.
var elsewhere = map[string]string{
	"bin/replicator-beam": "its module tests it on the local runner; other runners need a cluster",
	"aws":                 "needs an account of AWS; the embedded DynamoDB takes the place of its services in the scripts",
	"cbt":                 "is not installed with Go; the scripts read rows by themselves",
	"docker":              "needs a daemon; deploy/check builds what the image holds",
	"brew":                "needs a published release; deploy/check reads the cask's configuration",
	"cosign":              "needs a published release; deploy/check compares the names with what is signed",
	"gcloud":              "needs an account of Google Cloud; the scripts make topics and subscriptions by themselves",
	"helm":                "needs a cluster; deploy/check renders the chart with its library",
	"gh":                  "needs a published release; the workflow attests it",
	"git":                 "is run by whoever reads what a command wrote",
	"go":                  "the toolchain: CI builds the program and runs the demo with it",
	"jq":                  "filters what a command printed, whose schema is tested",
	"make":                "CI calls the same targets",
	"alias":               "is the shell's own",
	"export":              "is the shell's own",
	"curl":                "asks the endpoints of a worker, which Go tests do over HTTP",
	"dynamodb":            "is an alias of the AWS command line in the tutorial",
	"sha256sum":           "is run by the script of the cutover's runbook, through a shell",
}

// ofTests lists, by command, flags that scripts add and that do not change what a command does to
// the stores: listen addresses, logging, embedded services, time limits, confirmations, and the
// amount that a demo writes. The entry "" applies to every command.
var ofTests = map[string][]string{
	"":              {"allow-emulator", "config", "listen", "log-format", "log-level", "timeout"},
	"run":           {"once", "idle"},
	"relay":         {"once", "idle"},
	"status":        {"interval"},
	"demo":          {"items", "duration", "rate", "seed"},
	"cutover start": {"yes", "wait"},
	"failover":      {"still-for"},
	"finalize":      {"yes"},
	"parked drop":   {"yes"},

	"cutover end-fallback":   {"yes"},
	"relay dead-letter drop": {"yes"},
}

// byGoTests lists command lines that Go tests execute, by the name of the test. The test's source
// contains every word of them.
var byGoTests = map[string][]string{
	"TestHealthcheck": {"replicator healthcheck live", "replicator healthcheck ready --address 127.0.0.1:9000"},
}

// use is a command with the set of its flags.
type use struct{ command, flags string }

func (u use) String() string { return strings.TrimSpace("replicator " + u.command + " " + u.flags) }

// has returns the flags of a use.
func (u use) has() []string { return strings.Fields(u.flags) }

// useOf parses a command line of this program.
func useOf(words []string) (use, error) {
	root := newRoot(process())
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(words[1:])
	if err != nil {
		return use{}, err
	}
	if err := c.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return use{}, err
	}
	var flags []string
	c.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name) })
	slices.Sort(flags)
	return use{strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "replicator"), " "), strings.Join(flags, " ")}, nil
}

// covers reports whether an execution proves a documented use: it has the use's flags, and
// otherwise only those of tests.
func (ran use) covers(shown use) bool {
	if ran.command != shown.command {
		return false
	}
	for _, f := range shown.has() {
		if !slices.Contains(ran.has(), f) && !slices.Contains(ofTests[""], f[2:]) {
			return false
		}
	}
	for _, f := range ran.has() {
		if !slices.Contains(shown.has(), f) && !slices.Contains(ofTests[""], f[2:]) && !slices.Contains(ofTests[ran.command], f[2:]) {
			return false
		}
	}
	return true
}

// TestDocumentedCommandsAreExecuted: every command in a shell block, on a page or in the help, is
// executed by a script or a test with the expected outcome, or belongs to another program.
func TestDocumentedCommandsAreExecuted(t *testing.T) {
	ran := ranByScripts(t)
	ran = append(ran, ranByGoTests(t)...)
	foreign := map[string]bool{}
	places := map[use][]string{}
	collect := func(where, text string) {
		for _, words := range commandLines(text) {
			if !ours(words) {
				foreign[words[0]] = true
				if elsewhere[words[0]] == "" {
					t.Errorf("%s: %s is neither run in a test nor named among the programs of others", where, strings.Join(words, " "))
				}
				continue
			}
			u, err := useOf(words)
			if err != nil {
				t.Errorf("%s: %s: %v", where, strings.Join(words, " "), err)
				continue
			}
			if !slices.Contains(places[u], where) {
				places[u] = append(places[u], where)
			}
		}
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if first := commandLines(b.text); b.language == "sh" || b.language == "" && len(first) > 0 && (ours(first[0]) || elsewhere[first[0][0]] != "") {
				collect(p.path, b.text)
			}
			if b.language == "console" {
				for line := range strings.Lines(b.text) {
					if strings.HasPrefix(line, "$ ") {
						collect(p.path, line)
					}
				}
			}
		}
	}
	for _, c := range all(newRoot(process())) {
		if !strings.Contains(c.CommandPath(), " completion") {
			collect("the help of "+c.CommandPath(), c.Example)
		}
	}
	var missing []string
	for u, where := range places {
		if !slices.ContainsFunc(ran, func(r use) bool { return r.covers(u) }) {
			missing = append(missing, fmt.Sprintf("%s is run by no script: %s", u, strings.Join(where, ", ")))
		}
	}
	slices.Sort(missing)
	for _, m := range missing {
		t.Error(m)
	}
	if len(places) < 100 {
		t.Errorf("only %d command lines were found", len(places))
	}
	for program := range elsewhere {
		if !foreign[program] {
			t.Errorf("no document calls %s any more: remove it here", program)
		}
	}
}

// ranByScripts returns the uses that scripts execute without a refusal.
func ranByScripts(t *testing.T) (ran []use) {
	t.Helper()
	for _, path := range scriptFiles(t, "*") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range executions(string(txtar.Parse(text).Comment)) {
			for _, words := range commandLines(line) {
				if !ours(words) {
					continue
				}
				u, err := useOf(words)
				if err != nil {
					t.Errorf("%s: %s: %v", path, line, err)
				}
				ran = append(ran, u)
			}
		}
	}
	return ran
}

var (
	executes = regexp.MustCompile(`^(?:exec|exits (\d+)|until '.*?(?:'|"))\s+(replicator .*)$`)
	isForked = regexp.MustCompile(`^! exec (replicator .*?) &\w*&$`)
)

// executions returns this program's commands in a script that prove a use. They succeed, run until
// they are interrupted, or end with status 3 or 4 and output that the script checks. A refused
// command proves nothing.
func executions(script string) (found []string) {
	lines := strings.Split(script, "\n")
	for i, line := range lines {
		if m := isForked.FindStringSubmatch(line); m != nil {
			found = append(found, m[1])
		}
		if rest, ok := strings.CutPrefix(line, "serve-demo "); ok { // serve_test.go
			found = append(found, "replicator demo --serve "+rest)
		}
		m := executes.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		answers := i+1 < len(lines) && (strings.HasPrefix(lines[i+1], "stdout ") || strings.HasPrefix(lines[i+1], "cmp stdout "))
		if m[1] == "" || m[1] == "0" || (m[1] == "3" || m[1] == "4") && answers {
			found = append(found, m[2])
		}
	}
	return found
}

// ranByGoTests returns the uses of byGoTests. It checks that their tests exist and contain all of
// their words.
func ranByGoTests(t *testing.T) (ran []use) {
	t.Helper()
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]string{} // by test: the words in its literals
	for _, path := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						texts[f.Name.Name] = append(texts[f.Name.Name], strings.Fields(text)...)
					}
				}
				return true
			})
		}
	}
	for test, lines := range byGoTests {
		for _, line := range lines {
			words := strings.Fields(line)
			u, err := useOf(words)
			if err != nil {
				t.Errorf("%s: %s: %v", test, line, err)
			}
			for _, word := range append(strings.Fields(u.command), u.has()...) {
				if !slices.Contains(texts[test], word) {
					t.Errorf("%s does not run %s: it never says %s", test, line, word)
				}
			}
			ran = append(ran, u)
		}
	}
	return ran
}

func TestExecutions(t *testing.T) {
	const script = `exec replicator status
! exec replicator lint
exits 1 replicator plan
exits 3 replicator verify
stderr x
exits 3 replicator cutover check
stdout x
exits 0 replicator plan --apply
until 'in sync' replicator status --table Orders
! exec replicator run --once &worker&
serve-demo --items 2
# exec replicator version
`
	want := []string{"replicator status", "replicator cutover check", "replicator plan --apply", "replicator status --table Orders",
		"replicator run --once", "replicator demo --serve --items 2"}
	if got := executions(script); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	shown := use{"run", "--dry-run"}
	for ran, covers := range map[use]bool{
		{"run", "--dry-run"}:                         true,
		{"run", "--allow-emulator --dry-run --once"}: true,
		{"run", "--dry-run --no-backfill"}:           false,
		{"run", "--once"}:                            false,
		{"relay", "--dry-run"}:                       false,
	} {
		if ran.covers(shown) != covers {
			t.Errorf("%s covers %s: %v", ran, shown, !covers)
		}
	}
	if _, err := useOf([]string{"replicator", "status", "--shard"}); !diag.Has(err, diag.Usage) && err == nil {
		t.Error("a flag that there is not is taken")
	}
}
