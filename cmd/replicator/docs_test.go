package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// repository is the root of the documentation.
const repository = "../.."

// page is one text of the documentation.
type page struct {
	path string // below the repository
	text string
}

// pages returns all texts for users and contributors.
func pages(t *testing.T) []page {
	t.Helper()
	var found []page
	for _, root := range []string{"docs", "deploy", "examples"} {
		err := filepath.WalkDir(filepath.Join(repository, root), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
				found = append(found, page{path: path})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	more, err := filepath.Glob(filepath.Join(repository, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range more {
		found = append(found, page{path: path})
	}
	for i := range found {
		text, err := os.ReadFile(found[i].path)
		if err != nil {
			t.Fatal(err)
		}
		found[i].text = string(text)
		if found[i].path, err = filepath.Rel(repository, found[i].path); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d pages", len(found))
	}
	return found
}

// block is a fenced block with its language.
type block struct{ language, text string }

// blocks returns the fenced blocks of a page, without the indentation of their fences.
func (p page) blocks() []block {
	var found []block
	var open *block
	indent := ""
	for line := range strings.Lines(p.text) {
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(trimmed, "```") && open == nil:
			indent = line[:len(line)-len(trimmed)]
			open = &block{language: strings.TrimSpace(trimmed[3:])}
		case strings.HasPrefix(trimmed, "```"):
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent)
		}
	}
	return found
}

// prose returns a page without its fenced blocks.
func (p page) prose() string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(p.text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestConfigurationsOfTheDocumentationAreAccepted: every configuration in the documentation is
// valid.
func TestConfigurationsOfTheDocumentationAreAccepted(t *testing.T) {
	checked, editors := 0, newEditor(t)
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.language != "yaml" || !strings.Contains(b.text, "tables:") {
				continue // Kubernetes manifests and the like
			}
			checked++
			path := filepath.Join(t.TempDir(), "replicator.yaml")
			if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(path, func(string) (string, bool) { return "", false })
			if err == nil {
				err = config.Lint(cfg).Err()
			}
			if err != nil {
				t.Errorf("%s: a configuration is refused: %v\n%s", p.path, err, b.text)
			}
			if err := editors.check(b.text); err != nil {
				t.Errorf("%s: editors underline a configuration: %v\n%s", p.path, err, b.text)
			}
		}
	}
	if checked < 3 {
		t.Errorf("only %d configurations are shown", checked)
	}
}

// editor checks configurations as an editor does.
type editor struct{ schema *jsonschema.Schema }

func newEditor(t *testing.T) editor {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("replicator.schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("replicator.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return editor{s}
}

func (e editor) check(text string) error {
	var document any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return err
	}
	return e.schema.Validate(document)
}

// TestCommandsOfTheDocumentationExist: every command line of this program, on every page, in every
// error's fix and in every example of the help, names an existing command, with flags and arguments
// that it accepts.
func TestCommandsOfTheDocumentationExist(t *testing.T) {
	inline := regexp.MustCompile("`(replicator [^`<…]+)`")
	checked := 0
	check := func(where, text string) {
		for _, words := range commandsOf(text) {
			checked++
			err := parses(words)
			if diag.Has(err, diag.Usage) && strings.Contains(err.Error(), "needs") && strings.HasPrefix(text, "replicator ") && !strings.Contains(text, "\n") {
				err = nil // prose that names a command does not call it
			}
			if err != nil {
				t.Errorf("%s: %s: %v", where, strings.Join(words, " "), err)
			}
		}
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.language == "" || b.language == "sh" || b.language == "yaml" {
				check(p.path, b.text)
			}
		}
		for _, match := range inline.FindAllStringSubmatch(strings.ReplaceAll(p.prose(), "\n", " "), -1) {
			check(p.path, match[1])
		}
	}
	for _, e := range diag.Entries() {
		for _, match := range inline.FindAllStringSubmatch(e.Explain+" "+e.Fix, -1) {
			check(e.Code, match[1])
		}
	}
	for _, c := range all(newRoot(process())) {
		if !strings.Contains(c.CommandPath(), " completion") {
			check("the help of "+c.CommandPath(), c.Example)
		}
	}
	if checked < 60 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// parses returns an error if the command tree rejects a command line.
func parses(words []string) error {
	root := newRoot(process())
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(words[1:])
	if err == nil && !c.HasParent() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		err = errors.New("it names no command")
	}
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil && c.Name() != "help" {
		err = c.ValidateArgs(c.Flags().Args())
	}
	return err
}

// commandsOf returns this program's command lines in the text of a shell.
func commandsOf(text string) [][]string {
	return slices.DeleteFunc(commandLines(text), func(words []string) bool { return !ours(words) })
}

// ours reports whether a command line belongs to this program.
func ours(words []string) bool {
	return len(words) > 1 && (words[0] == "replicator" || words[0] == "bin/replicator") && !strings.HasPrefix(words[1], "is")
}

// commandLines returns the command lines in the text of a shell. It joins continued lines, and
// understands prompts, pipes, comments and redirections as far as the documentation uses them. A
// run through the Go toolchain counts as this program.
func commandLines(text string) [][]string {
	var found [][]string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		for _, words := range shellWords(strings.TrimPrefix(strings.TrimSpace(line), "$ ")) {
			for len(words) > 0 && strings.Contains(words[0], "=") {
				words = words[1:] // variables before the command
			}
			if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/replicator" {
				words = append([]string{"replicator"}, words[3:]...)
			}
			if len(words) > 0 {
				found = append(found, words)
			}
		}
	}
	return found
}

// shellWords splits a line into commands of words.
func shellWords(line string) [][]string {
	var commands [][]string
	var words []string
	word, inWord, quote, file := "", false, rune(0), false
	endWord := func() {
		if inWord && !file {
			words = append(words, word)
		}
		word, inWord, file = "", false, file && !inWord
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case unicode.IsSpace(r):
			endWord()
		case r == '#' && !inWord:
			endCommand()
			return commands
		case slices.Contains([]rune{'|', '&', ';', '>'}, r):
			endCommand()
			file = r == '>' // the next word is a file name
		default:
			word, inWord = word+string(r), true
		}
	}
	endCommand()
	return commands
}

func TestCommandsOf(t *testing.T) {
	const text = "$ replicator parked show --key '{\"a\": 1}' | jq .x  # comment\nA=b replicator run \\\n  --once && replicator status\n# replicator nothing\nls\n"
	var got []string
	for _, words := range commandsOf(text) {
		got = append(got, strings.Join(words, "·"))
	}
	want := `replicator·parked·show·--key·{"a": 1} replicator·run·--once replicator·status`
	if strings.Join(got, " ") != want {
		t.Errorf("got %s", strings.Join(got, " "))
	}
	for _, bad := range []string{"replicator statsu", "replicator status --shard", "replicator lint a b", "replicator parked list somewhere"} {
		if parses(strings.Fields(bad)) == nil {
			t.Errorf("%s is taken for a command", bad)
		}
	}
}

// TestLinksOfTheDocumentationResolve: every relative link names a file of the repository and, if it
// has an anchor, a heading in it.
func TestLinksOfTheDocumentationResolve(t *testing.T) {
	link := regexp.MustCompile(`(?:\]\(|<img src=")([^)\s"]+)[)"]`)
	checked := 0
	for _, p := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(p.prose(), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			checked++
			path := filepath.Join(repository, p.path)
			if target != "" {
				path = filepath.Join(repository, filepath.Dir(p.path), target)
			}
			text, err := os.ReadFile(path)
			if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: the link %s leads nowhere", p.path, match[1])
			} else if anchor != "" && !slices.Contains(anchors(string(text)), anchor) {
				t.Errorf("%s: the link %s leads to no heading", p.path, match[1])
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d links", checked)
	}
}

// anchors returns the anchors of a page: explicit ones, and those that hosts derive from headings.
func anchors(text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, match[1])
		found = append(found, slug)
	}
	return found
}
