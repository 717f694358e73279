package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestReferenceIsGenerated keeps docs/reference equal to the code: commands, configuration keys,
// exit statuses, JSON documents, records of the state table, permissions. To write it, run
//
//	go test ./cmd/replicator -run TestReferenceIsGenerated -update
func TestReferenceIsGenerated(t *testing.T) {
	for name, generate := range map[string]func(*testing.T) string{
		"cli.md": referenceCLI, "configuration.md": referenceConfiguration, "exit-codes.md": referenceExitCodes,
		"json.md": referenceJSON, "state-table.md": referenceStateTable, "permissions.md": referencePermissions,
	} {
		path := filepath.Join(repository, "docs", "reference", name)
		want := generate(t)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/reference/%s is not what the code says: run go test ./cmd/replicator -run TestReferenceIsGenerated -update", name)
		}
	}
}

// reference begins a page.
func reference(title, text string) *strings.Builder {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Generated from the code by cmd/replicator/reference_test.go. Do not edit. -->\n\n%s\n", title, text)
	return &b
}

func referenceCLI(t *testing.T) string {
	root := newRoot(process())
	b := reference("Commands", "What `--help` prints, for every command. All commands accept the global flags, which are shown once.")
	for _, c := range all(root) {
		if c.Hidden || c.HasParent() && c.Parent().Name() == "completion" {
			continue
		}
		var help bytes.Buffer
		writeHelp(&help, c, helpWidth)
		text := help.String()
		if c != root {
			text, _, _ = strings.Cut(text, "\nGlobal flags\n")
		}
		fmt.Fprintf(b, "\n## %s\n\n```text\n%s\n```\n", c.CommandPath(), strings.TrimRight(text, "\n"))
	}
	return b.String()
}

func referenceExitCodes(*testing.T) string {
	b := reference("Exit statuses", "Errors of the local configuration and environment are 2, errors of remote services 1. The codes are explained in [errors](../errors.md).")
	b.WriteString("\n| status | meaning | errors with this status |\n|---|---|---|\n")
	for _, e := range []struct {
		status  int
		meaning string
	}{
		{diag.ExitDone, "done"}, {diag.ExitFailed, "failed"}, {diag.ExitUsage, "wrong usage, configuration or environment"},
		{diag.ExitNo, "the answer is no: differences, parked items, unmet gates, a load that is needed or waits for approval, resources to create"},
		{diag.ExitTimeout, "timed out waiting"}, {diag.ExitInterrupted, "interrupted by a signal; a service stopped by a signal ends with 0"},
	} {
		var codes []string
		for _, entry := range diag.Entries() {
			if entry.Exit == e.status {
				codes = append(codes, fmt.Sprintf("[%s](../errors.md#%s)", entry.Code, entry.Code))
			}
		}
		fmt.Fprintf(b, "| %d | %s | %s |\n", e.status, e.meaning, strings.Join(codes, " "))
	}
	return b.String()
}

func referencePermissions(*testing.T) string {
	b := reference("Permissions", "Every operation that the program can send, and its permission. `replicator plan --print-iam aws` and\n"+
		"`replicator plan --print-iam gcp` print the minimum permissions for a configuration, offline; examples are in [deploy/policies](../../deploy/policies).")
	b.WriteString("\n| service | operation | permission | when |\n|---|---|---|---|\n")
	for _, o := range policy.Operations() {
		permission := "none"
		if len(o.Permissions) > 0 {
			permission = "`" + strings.Join(o.Permissions, "`, `") + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", o.Service, o.Name, permission, o.Use)
	}
	b.WriteString("\nDynamoDB and S3 send the operations of kms, in the name of the identity that reads or exports. For the keys that AWS\n" +
		"manages in your account (`aws/dynamodb`, `aws/s3`) no grant is needed.\n\n" +
		"A dead-letter topic of `relay.subscription` needs two grants to Pub/Sub's own account,\n`service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com` of the subscription's project: `roles/pubsub.publisher` on\n" +
		"the dead-letter topic and `roles/pubsub.subscriber` on the subscription. Without them it stays empty.\n\nThe app profile must have single-cluster routing and allow single-row transactions.\n")
	return b.String()
}

// structs holds the struct types that the files of a directory declare, by name.
type structs map[string]*structType

type structType struct{ *ast.StructType }

func structsOf(t *testing.T, directory string) structs {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository, directory, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	found := structs{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = &structType{s}
				}
			}
			return true
		})
	}
	return found
}

// entry is one field of a struct, or of a struct below it.
type entry struct {
	path, kind, meaning string
	tag                 reflect.StructTag
}

// entries returns the fields of a type that have the tag, by path, each followed by the fields
// below it.
func (s structs) entries(t *testing.T, name, tag, prefix string) []entry {
	t.Helper()
	declared := s[name]
	if declared == nil {
		t.Fatalf("there is no type %s", name)
	}
	keys := declared.keys(tag)
	var found []entry
	for _, field := range declared.Fields.List {
		kind, list := field.Type, false
		if pointer, ok := kind.(*ast.StarExpr); ok {
			kind = pointer.X
		}
		if array, ok := kind.(*ast.ArrayType); ok {
			kind, list = array.Elt, true
		}
		named := ""
		switch kind := kind.(type) {
		case *ast.Ident:
			named = kind.Name
		case *ast.SelectorExpr: // from another package, which only some maps contain
			if in, ok := kind.X.(*ast.Ident); ok {
				named = in.Name + "." + kind.Sel.Name
			}
		}
		if len(field.Names) == 0 { // embedded
			if s[named] != nil {
				found = append(found, s.entries(t, named, tag, prefix)...)
			}
			continue
		}
		e := entry{kind: kindOf(kind), meaning: shortened(withKeys(meaningOf(field), keys), keys[nameOf(field)])}
		if s[named] != nil {
			e.kind = "section"
		}
		if field.Tag != nil {
			text, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			e.tag = reflect.StructTag(text)
		}
		key, _, _ := strings.Cut(e.tag.Get(tag), ",")
		if key == "" || key == "-" {
			continue
		}
		e.path = prefix + key
		switch {
		case list && e.tag.Get("single") != "":
			e.kind += ", or list of " + e.kind
		case list:
			e.path, e.kind = e.path+"[]", "list of "+e.kind
		}
		found = append(found, e)
		if s[named] != nil {
			found = append(found, s.entries(t, named, tag, e.path+".")...)
		}
	}
	return found
}

func kindOf(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.Ident:
		switch e.Name {
		case "string", "Octets":
			return "text"
		case "bool":
			return "true or false"
		case "int", "int64", "uint64", "uint32", "uint16", "float64":
			return "number"
		case "State", "Loss", "PartState", "Phase", "GapKind", "Start", "BadItem", "Severity", "Capacity", "Percent", "LoadState", "Role":
			return "text"
		}
		return "section"
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "Time":
			return "time"
		case "Duration":
			return "duration"
		case "SequenceNumber", "Version", "State", "LoadState":
			return "text"
		case "RawMessage":
			return "JSON"
		}
		return "section"
	case *ast.MapType:
		return "map"
	}
	return "section"
}

// meaningOf returns the comment on a field, in one line.
func meaningOf(field *ast.Field) string {
	text := field.Comment.Text()
	if doc := field.Doc.Text(); doc != "" {
		text = doc + " " + text
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}

// keys returns the keys of the struct's fields, by the names of the fields.
func (s *structType) keys(tag string) map[string]string {
	found := map[string]string{}
	for _, field := range s.Fields.List {
		if field.Tag == nil {
			continue
		}
		text, _ := strconv.Unquote(field.Tag.Value)
		key, _, _ := strings.Cut(reflect.StructTag(text).Get(tag), ",")
		for _, name := range field.Names {
			if key != "" && key != "-" {
				found[name.Name] = "`" + key + "`"
			}
		}
	}
	return found
}

var (
	fieldNames = regexp.MustCompile(`[A-Za-z.]+`)
	afterField = regexp.MustCompile(`^(,| (is|are|reports|holds|lists|says|rises|counts|names|covers|cover|explains|describes|has|and [A-Z]))`)
)

// withKeys replaces the names of fields in a comment with their keys, because readers of a document
// see only the keys. At the beginning of a sentence, a name counts only before a verb, because it
// may also be a plain word.
func withKeys(comment string, keys map[string]string) string {
	var b strings.Builder
	end := 0
	for _, at := range fieldNames.FindAllStringIndex(comment, -1) {
		before, word := comment[:at[0]], strings.TrimRight(comment[at[0]:at[1]], ".")
		key, starts := keys[word], before == "" || strings.HasSuffix(before, ". ")
		if key == "" || word == strings.ToLower(word) || !starts && word == strings.ToUpper(word) || starts && word[1:] == strings.ToLower(word[1:]) && !afterField.MatchString(comment[at[0]+len(word):]) {
			continue
		}
		b.WriteString(comment[end:at[0]] + key)
		end = at[0] + len(word)
	}
	return b.String() + comment[end:]
}

var ownKey = regexp.MustCompile("^`[a-z_]+` (?:is|are|says|explains|(reports that)|reports) (the|an?|when|how|why|whether|) ?")

// shortened leaves out the key with which the meaning of a field begins, because the table has it
// in its first column.
func shortened(meaning, key string) string {
	found := ownKey.FindStringSubmatch(meaning)
	switch {
	case found == nil || key == "" || !strings.HasPrefix(meaning, key+" ") || strings.HasPrefix(meaning, key+" and"):
	case found[1] != "":
		return "true if " + strings.TrimPrefix(meaning, key+" reports that ")
	case found[2] != "":
		return strings.TrimPrefix(strings.TrimPrefix(found[0], key+" "), strings.Fields(found[0])[1]+" ") + meaning[len(found[0]):]
	}
	return meaning
}

func nameOf(field *ast.Field) string { return field.Names[0].Name }

func writeEntries(b *strings.Builder, found []entry) {
	b.WriteString("\n| member | kind | meaning |\n|---|---|---|\n")
	for _, e := range found {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", e.path, e.kind, e.meaning)
	}
}
