package config

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// added matches a fix that gives YAML to add: below `families` of the table, below a section, or to
// the mapping at the finding's place.
var added = regexp.MustCompile(`^add (?:to (families|this entry):\n|below ([a-z.]+):\n)?((?s).+)$`)

// addable lists configurations whose findings have a fix to add. More are in testdata.
var addable = []string{
	"tables: [{ from: 'Video{day}', to: Video }]",
	"tables: [{ from: 'Video{day}', to: Video, rules: [{ when: attribute_exists(a), columns: { '*': d } }] }]",
	"tables: [{ from: 'Video{day}', to: Video, rules: [{ write: [{ columns: { '*': d } }] }] }]",
	"tables: [{ from: 'Video{day}', to: Video, preset: google-migration-utility-corrected }]",
	"tables: [{ from: A, families: { a: maxversions=1, b: maxversions=1 } }]",
	"tables: [{ from: A, families: { n: 'never:intsum', b: maxversions=1 }, rules: [{ row_key: '{id}' }] }]",
	"tables: [{ from: A, rules: [{ columns: { '*': d, b: 'yes' } }] }]",
	"tables: [{ from: A, rules: [{ columns: { '*': d, b: '1' } }] }]",
	"tables: [{ from: A, families: { d: maxversions=1 }, rules: [{ columns: { '*': d, b: { to: 'n:b', as: counter } } }] }]",
}

// The YAML that a fix adds is valid at the finding's place: no key is unknown there, and the
// finding disappears.
func TestAdditionsAreValid(t *testing.T) {
	texts := map[string]string{}
	for _, text := range addable {
		texts[text] = "version: 1\ntarget: { project: p, instance: i }\n" + text + "\n"
	}
	for _, path := range files(t, "testdata/refused/*.yaml") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(content)
	}
	applied := 0
	for name, text := range texts {
		_, before := Parse("replicator.yaml", []byte(text), testEnv)
		for _, e := range diag.Findings(before) {
			changed, ok := apply(t, text, e)
			if !ok {
				continue
			}
			applied++
			_, err := Parse("replicator.yaml", changed, testEnv)
			if n := faults(err) - faults(before); n > 0 || same(err, e.What) {
				t.Errorf("%s: %s\nfix %s\ngives %v\n%s", name, e.What, e.Fix, err, changed)
			}
		}
	}
	if applied < 15 {
		t.Errorf("only %d fixes were applied", applied)
	}
}

// faults counts the findings about misplaced keys or values.
func faults(err error) (n int) {
	for _, e := range diag.Findings(err) {
		switch e.Code {
		case diag.YAMLSyntax, diag.UnknownKey, diag.DuplicateKey, diag.WrongType:
			n++
		}
	}
	return n
}

func same(err error, what string) bool {
	for _, e := range diag.Findings(err) {
		if e.What == what {
			return true
		}
	}
	return false
}

// apply adds a fix's YAML; it returns false if the fix has none.
func apply(t *testing.T, text string, e *diag.Error) ([]byte, bool) {
	t.Helper()
	m := added.FindStringSubmatch(e.Fix)
	if m == nil {
		return nil, false
	}
	addition := keysOf(m[3])
	if addition == nil {
		return nil, false
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) == 0 {
		return nil, false // there is nothing to add to
	}
	var chain []*yaml.Node
	enclosing(document.Content[0], e.Pos, &chain)
	to := chain[len(chain)-1]
	switch {
	case m[1] == "families":
		for _, node := range chain {
			if member(node, "from") != nil {
				to = node
			}
		}
		if families := member(to, "families"); families != nil {
			to = families
			break
		}
		addition = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "families"}, addition}}
	case m[2] != "":
		to = document.Content[0]
		for _, key := range strings.Split(m[2], ".") {
			if next := member(to, key); next != nil {
				to = next
			}
		}
		if to.Kind != yaml.MappingNode {
			return nil, false
		}
	}
	for i := 0; i < len(addition.Content); i += 2 {
		// Present, without a value.
		if empty := member(to, addition.Content[i].Value); empty != nil {
			*empty = *addition.Content[i+1]
			continue
		}
		to.Content = append(to.Content, addition.Content[i], addition.Content[i+1])
	}
	var out bytes.Buffer
	if err := yaml.NewEncoder(&out).Encode(&document); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), true
}

// inWords matches fixes that look like YAML but describe a change in words.
var inWords = regexp.MustCompile(`a name of at most| to tables\[| at the end of `)

// keysOf parses a text as keys with their values, or returns nil for words, such as: add the unit.
func keysOf(text string) *yaml.Node {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) == 0 || inWords.MatchString(text) {
		return nil
	}
	keys := document.Content[0]
	if keys.Kind != yaml.MappingNode || strings.Contains(keys.Content[0].Value, " ") {
		return nil
	}
	return keys
}

// enclosing collects the mappings that contain a position, from the outermost.
func enclosing(node *yaml.Node, pos diag.Position, chain *[]*yaml.Node) {
	if node.Kind == yaml.MappingNode {
		*chain = append(*chain, node)
	}
	var last *yaml.Node
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		start := child
		if node.Kind == yaml.MappingNode {
			start = node.Content[i-1]
		}
		if start.Line < pos.Line || start.Line == pos.Line && start.Column <= pos.Column {
			last = child
		}
	}
	if last != nil && last.Tag == "!!null" && node.Kind == yaml.SequenceNode {
		*last = yaml.Node{Kind: yaml.MappingNode, Line: last.Line, Column: last.Column}
	}
	if last != nil && last.Kind != yaml.ScalarNode {
		enclosing(last, pos, chain)
	}
}

// member returns the value of a mapping's key, or nil.
func member(node *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}
