package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manual is the directory for a release's man pages and completions. make manual sets it.
var manual = flag.String("manual", "", "write the man pages and the completions into this `DIRECTORY`, which must exist")

// TestManual writes the man pages and completions of a release, as TestReferenceIsGenerated writes
// the reference. Only tests link the generator. The date of the pages is SOURCE_DATE_EPOCH, so that
// two builds of one commit are equal.
func TestManual(t *testing.T) {
	date := time.Unix(1_700_000_000, 0)
	if text, set := os.LookupEnv("SOURCE_DATE_EPOCH"); set {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("SOURCE_DATE_EPOCH=%s: give the seconds since 1970", text)
		}
		date = time.Unix(seconds, 0)
	}
	pages, completions := manualPages(t, date), completionScripts(t)
	again := manualPages(t, date)
	for name, page := range pages {
		if page != again[name] {
			t.Errorf("%s is another page the second time", name)
		}
	}
	root := newRoot(process())
	for _, c := range all(root) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, there := pages[name]
		if hasPage(c) != there {
			t.Errorf("%s: there is a page: %v", name, there)
		}
		if there {
			checkPage(t, name, page, c, pages)
		}
		delete(again, name)
	}
	for name := range again {
		t.Errorf("%s is the page of no command", name)
	}
	for name, begin := range map[string]string{"replicator.bash": "# bash completion V2 for replicator ", "_replicator": "#compdef replicator\n",
		"replicator.fish": "# fish completion for replicator ", "replicator.ps1": "# powershell completion for replicator "} {
		if text := completions[name]; !strings.HasPrefix(text, begin) || !strings.Contains(text, "__complete") {
			t.Errorf("%s begins with %.60q", name, text)
		}
	}
	c := exec.Command("bash", "-n")
	c.Stdin = strings.NewReader(completions["replicator.bash"])
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("replicator.bash: %v\n%s", err, out)
	}
	if *manual == "" || t.Failed() {
		return
	}
	for name, page := range pages {
		var packed bytes.Buffer // without a name and a time
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err == nil {
			_, err = w.Write([]byte(page))
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		writeManual(t, filepath.Join("man1", name+".gz"), packed.Bytes())
	}
	for name, text := range completions {
		writeManual(t, filepath.Join("completions", name), []byte(text))
	}
}

func writeManual(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join(*manual, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// hasPage reports whether a command has a page: all listed ones do.
func hasPage(c *cobra.Command) bool {
	for ; c.HasParent(); c = c.Parent() {
		if !c.IsAvailableCommand() {
			return false
		}
	}
	return true
}

// manualPages returns the man pages by file name.
func manualPages(t *testing.T, date time.Time) map[string]string {
	t.Helper()
	root := newRoot(process())
	var commands strings.Builder
	for _, g := range root.Groups() {
		fmt.Fprintf(&commands, "\n## %s\n", g.Title)
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && hasPage(c) {
				fmt.Fprintf(&commands, "\n**%s**\n: %s\n", c.Name(), markdown(c.Short))
			}
		}
	}
	for _, c := range all(root) {
		c.DisableAutoGenTag = true
		c.Long = markdown(c.Long)
		if c.Long == "" {
			c.Long = markdown(c.Short)
		}
		for _, f := range flagsOf(c) {
			f.Usage = markdown(f.Usage)
		}
	}
	root.Long += "\n\n# COMMANDS\n" + commands.String() + `
# FILES

**./replicator.yaml**, **/etc/replicator/replicator.yaml**
: the configuration, unless **--config** or **$REPLICATOR\_CONFIG** names another

# EXIT STATUS

0 done; 1 failed; 2 wrong usage, configuration or environment; 3 the answer is no; 4 timed out; 130 interrupted.
**replicator help R1101** explains the error of that code.
`
	dir := t.TempDir()
	err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: "replicator", Manual: "replicator"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(path)] = string(text)
	}
	return pages
}

// markdown converts a text of the help, whose only markup is backquotes, to the form that the
// generator reads. Indented lines stay separate. Headings come from cobra's own texts about
// completion.
func markdown(text string) string {
	var b strings.Builder
	code, indented := false, false
	for line := range strings.Lines(text) {
		if was := indented; line != "\n" {
			indented = strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
			if indented != was && b.Len() > 0 && !strings.HasSuffix(b.String(), "\n\n") {
				b.WriteString("\n")
			}
		}
		if indented {
			b.WriteString("    " + line)
			continue
		}
		for _, r := range strings.TrimPrefix(line, "#### ") {
			if r == '`' {
				code = !code
			}
			if !code && strings.ContainsRune(`\*_<>[]#&~`, r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// macros lists the allowed macros of a page: those of man(7), and requests that every roff knows.
var macros = []string{"TH", "SH", "SS", "PP", "TP", "EX", "EE", "nh"}

// checkPage fails unless man can render the page and the page contains the text of the help.
func checkPage(t *testing.T, name, page string, c *cobra.Command, pages map[string]string) {
	t.Helper()
	var sections []string
	var plain strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "'") {
			t.Errorf("%s: a request of roff: %s", name, line)
		}
		if request, ok := strings.CutPrefix(line, "."); ok {
			macro, arguments, _ := strings.Cut(request, " ")
			if !slices.Contains(macros, macro) {
				t.Errorf("%s: the macro %s", name, line)
			}
			if macro == "SH" {
				sections = append(sections, arguments)
			}
			line = arguments
		}
		plain.WriteString(unescapeRoff(t, name, line) + "\n")
	}
	if !strings.HasPrefix(page, ".nh\n.TH ") || strings.Count(page, "\n.EX\n") != strings.Count(page, "\n.EE\n") {
		t.Errorf("%s: a heading or the end of a block is missing", name)
	}
	if len(sections) < 4 || !slices.Equal(sections[:3], []string{"NAME", "SYNOPSIS", "DESCRIPTION"}) {
		t.Errorf("%s has the sections %q", name, sections)
	}
	said := words(plain.String())
	want := []string{strings.TrimSuffix(name, ".1") + " - " + c.Short, c.UseLine(), c.Long, c.Example}
	for _, f := range slices.Concat(flagsOf(c), flagsOf(c.Root())) {
		if !f.Hidden {
			want = append(want, "--"+f.Name, f.Usage)
		}
	}
	for _, text := range want {
		if !strings.Contains(said, words(text)) {
			t.Errorf("%s does not say: %s", name, words(text))
		}
	}
	for _, other := range regexp.MustCompile(`replicator[a-z-]*\(1\)`).FindAllString(said, -1) {
		if _, there := pages[strings.TrimSuffix(other, "(1)")+".1"]; !there {
			t.Errorf("%s refers to %s, which is no page", name, other)
		}
	}
}

// unescapeRoff returns a line with font escapes removed and the others replaced by what they show.
func unescapeRoff(t *testing.T, name, line string) string {
	t.Helper()
	return regexp.MustCompile(`\\(f.|.)`).ReplaceAllStringFunc(line, func(escape string) string {
		switch escape {
		case `\fB`, `\fI`, `\fP`, `\fR`, `\&`:
			return ""
		case `\-`, `\\`:
			return escape[1:]
		}
		t.Errorf("%s: the escape %s in: %s", name, escape, line)
		return escape
	})
}

// words returns the words of a text, separated by single blanks and without code marks.
func words(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("`", "", "#### ", "").Replace(text)), " ")
}

// completionScripts returns the completion script of each shell, by the file name that the shell
// expects.
func completionScripts(t *testing.T) map[string]string {
	t.Helper()
	root := newRoot(process())
	scripts := map[string]string{}
	for name, generate := range map[string]func(*bytes.Buffer) error{
		"replicator.bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_replicator":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"replicator.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		"replicator.ps1":  func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) },
	} {
		var b bytes.Buffer
		if err := generate(&b); err != nil {
			t.Fatal(err)
		}
		scripts[name] = b.String()
	}
	return scripts
}
