package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hidingWords lists words that hide what a sentence says, with better ones. The test searches every
// text that a user may read.
var hidingWords = []struct{ words, instead string }{
	{`nobody(?:'s)?`, "name what does not: no worker, no process, nothing"},
	{`somebody(?:'s)?|someone`, "another program, another process, an operator"},
	{`anybody`, "anyone, any process"},
	{`whoever|whatever`, "the process that, everything that"},
	{`of before|of now`, "earlier, from before, current"},
	{`go(?:es)? on|went on|gone on`, "continue, resume, last"},
	{`stands?(?: still)?|stood`, "is, exists, is frozen, is at"},
	{`tells?|told`, "say, show, report, see"},
	{`keepers?`, "coordinator"},
	{`ours|theirs`, "replicator's, the application's, another program's"},
	{`mend(?:s|ed|ing)?`, "fix, repair"},
	{`of late`, "lately, since"},
	{`(?:is|are|was) meant`, "name what it means"},
	{`could be had`, "found"},
	{`the day will`, "as on the day"},
	{`be(?:gins?|gan) anew|written anew`, "again"},
	{`in vain`, "without success"},
	{`lead(?:s)? (?:to|elsewhere|back)|led (?:to|elsewhere|from)`, "routes to, sends to"},
	{`under way`, "running, in flight"},
	{`given up`, "abandoned, released"},
}

// hidingPatterns finds the words of hidingWords, except within names, paths and calls.
var hidingPatterns = func() (patterns []*regexp.Regexp) {
	for _, h := range hidingWords {
		patterns = append(patterns, regexp.MustCompile(`(?i)(?:^|[^\w./-])(`+h.words+`)(?:$|[^\w(/-])`))
	}
	return patterns
}()

// unread lists folders whose texts no user of the program reads: tests, and tools of this
// repository.
var unread = []string{"test", "bench", "deploy/check", "bigtabletest", "dynamodbtest", "cdc/cdctest", "sink/sinktest"}

// hidingIn returns the hiding words of a text, each with its replacement.
func hidingIn(text string) (found []string) {
	for i, word := range hidingPatterns {
		if m := word.FindStringSubmatch(text); m != nil {
			found = append(found, strconv.Quote(m[1])+": write "+hidingWords[i].instead)
		}
	}
	return found
}

// below reports whether a path is one of the given folders or files, or inside one.
func below(path string, of []string) bool {
	return slices.ContainsFunc(of, func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") })
}

// TestUsersReadPlainWords searches documents and all string literals of the program for
// hidingWords. The literals include help and the catalogue of errors.
func TestUsersReadPlainWords(t *testing.T) {
	walkTexts(t, func(path string) {
		for at, text := range textsOf(t, path) {
			if found := hidingIn(text); len(found) > 0 {
				t.Errorf("%s:%s: %s\n\t%s", path, at, strings.Join(found, "; "), text)
			}
		}
	})
}

// walkTexts calls each with every file whose texts users may read.
func walkTexts(t *testing.T, each func(path string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		switch {
		case d.IsDir() && (below(path, unread) || d.Name() == "testdata" || d.Name() == "node_modules" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".go"), strings.HasSuffix(path, ".md"):
			each(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// inlineCode matches a name in a document: a key, a metric, a member. The test ignores names.
var inlineCode = regexp.MustCompile("`[^`\n]*`")

// textsOf returns the texts of a file by line: of a Go file its literals of more than one word, of
// a document its lines.
func textsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	source := document(t, path)
	if strings.HasSuffix(path, ".md") {
		for i, line := range strings.Split(source, "\n") {
			texts[strconv.Itoa(i+1)] = inlineCode.ReplaceAllString(line, "CODE")
		}
		return texts
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err == nil && len(strings.Fields(text)) > 1 {
			at := files.Position(literal.Pos())
			texts[strconv.Itoa(at.Line)+":"+strconv.Itoa(at.Column)] = text
		}
		return true
	})
	return texts
}
