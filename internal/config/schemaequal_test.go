package config

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
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
	return s
}

// asEditor converts a YAML node as an editor does for the schema.
func asEditor(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := object{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = asEditor(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		l := []any{}
		for _, entry := range n.Content {
			l = append(l, asEditor(entry))
		}
		return l
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return n.Value == "true"
	case "!!int", "!!float":
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return v
		}
	}
	return n.Value
}

// structure returns the decoder's findings about keys and kinds of values, before it checks their
// meaning together.
func structure(content []byte) ([]string, *yaml.Node) {
	d := &decoder{file: "f", env: testEnv, where: map[string]diag.Position{}, written: map[string]written{}, bad: map[string]bool{}}
	root, syntax := document("f", content)
	if syntax != nil {
		return []string{syntax.Code}, nil
	}
	v := reflect.New(reflect.TypeFor[Config]()).Elem()
	setDefaults(v)
	d.refuseFeatures(root)
	d.section(&schema, root, v, "")
	if !d.bad[""] {
		d.required(&schema, v, "")
	}
	var codes []string
	for _, e := range d.found {
		codes = append(codes, e.Code)
	}
	return codes, root
}

// structural lists the findings that the schema must have as well. It need not have others, such as
// a text that is too long.
var structural = []string{diag.UnknownKey, diag.NotAvailable, diag.WrongType, diag.MissingValue, diag.UnknownVersion}

// agree compares decoder and schema on a document. It reports whether the decoder accepts it.
func agree(t *testing.T, s *jsonschema.Schema, content []byte) bool {
	t.Helper()
	codes, root := structure(content)
	if root == nil {
		return false
	}
	err := s.Validate(asEditor(root))
	if len(codes) == 0 && err != nil {
		t.Errorf("the schema refuses what the decoder takes: %v\n%s", err, content)
	}
	known := structural
	if bytes.Contains(content, []byte("${")) {
		known = structural[:1] // a variable may hold anything
	}
	if err == nil && slices.ContainsFunc(codes, func(c string) bool { return slices.Contains(known, c) }) {
		t.Errorf("the schema takes what the decoder refuses with %v:\n%s", codes, content)
	}
	return len(codes) == 0
}

// TestJSONSchemaAgreesOnFiles: configurations of the tests, the examples and deploy/.
func TestJSONSchemaAgreesOnFiles(t *testing.T) {
	s := compiledSchema(t)
	accepted := 0
	for _, pattern := range []string{"testdata/*/*.yaml", "../../examples/*/replicator.yaml", "../../deploy/*/replicator*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(path, "refused/empty") || strings.Contains(path, "not_a_mapping") {
				continue // an empty document: an editor reports nothing either
			}
			if agree(t, s, content) {
				accepted++
			}
		}
	}
	if accepted < 15 {
		t.Errorf("only %d files were accepted", accepted)
	}
}

// TestJSONSchemaHasTheKeys: the schema has every key of Config, computed from its tags, and no
// other.
func TestJSONSchemaHasTheKeys(t *testing.T) {
	want := map[string]bool{}
	var ofType func(of reflect.Type, prefix string)
	ofType = func(of reflect.Type, prefix string) {
		if of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			key := f.Tag.Get("key")
			if key == "" || key == "@" || f.Type == reflect.TypeFor[time.Duration]() && key == "" {
				continue
			}
			want[prefix+"/"+key] = true
			ofType(f.Type, prefix+"/"+key)
		}
	}
	ofType(reflect.TypeFor[Config](), "")
	// The entries of families are single values, so the key that they stand for is not written.
	delete(want, "/tables/families/rule")
	delete(want, "/cutover/groups/tables") // nor here
	got := map[string]bool{}
	var ofSchema func(v any, prefix string)
	ofSchema = func(v any, prefix string) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				ofSchema(one, prefix)
			}
		case object:
			for name, inner := range v {
				if name != "properties" {
					ofSchema(inner, prefix)
					continue
				}
				for key, property := range inner.(object) {
					got[prefix+"/"+key] = true
					ofSchema(property, prefix+"/"+key)
					if text, _ := property.(object)["description"].(string); len(text) < 5 {
						t.Errorf("%s/%s is not described", prefix, key)
					}
				}
			}
		}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	ofSchema(document, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys of Config (-) and of the schema (+):\n%s", diff)
	}
}

// TestJSONSchemaAgreesOnMutations changes configurations at random places and compares both.
func TestJSONSchemaAgreesOnMutations(t *testing.T) {
	s := compiledSchema(t)
	var bases [][]byte
	for _, path := range files(t, "testdata/accepted/*.yaml") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.ReplaceAll(content, []byte("${ROLE:-}"), []byte(`""`))
		bases = append(bases, regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAll(content, []byte("false")))
	}
	r := rand.New(rand.NewPCG(1, 2))
	accepted, refused := 0, 0
	for range 2000 {
		var root yaml.Node
		if err := yaml.Unmarshal(bases[r.IntN(len(bases))], &root); err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(2) {
			mutate(r, root.Content[0])
		}
		content, err := yaml.Marshal(&root)
		if err != nil {
			t.Fatal(err)
		}
		if agree(t, s, content) {
			accepted++
		} else {
			refused++
		}
		if t.Failed() {
			return
		}
	}
	if accepted < 100 || refused < 500 {
		t.Errorf("%d accepted, %d refused: the changes are one-sided", accepted, refused)
	}
}

// mutate changes one place at or below a node. A value gets another kind, or a key is misspelt,
// removed, or added where it may not belong.
func mutate(r *rand.Rand, root *yaml.Node) {
	var places []*yaml.Node
	var collect func(n *yaml.Node)
	collect = func(n *yaml.Node) {
		places = append(places, n)
		for i, inner := range n.Content {
			if n.Kind != yaml.MappingNode || i%2 == 1 {
				collect(inner)
			}
		}
	}
	collect(root)
	n := places[1:][r.IntN(len(places)-1)]
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 && r.IntN(2) == 0 {
		i := 2 * r.IntN(len(n.Content)/2)
		switch r.IntN(3) {
		case 0:
			n.Content[i].Value += "x"
		case 1:
			n.Content = slices.Delete(n.Content, i, i+2)
		case 2:
			key := someKeys[r.IntN(len(someKeys))]
			for j := 0; j < len(n.Content); j += 2 {
				if n.Content[j].Value == key {
					return
				}
			}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, someValue(r))
		}
		return
	}
	*n = *someValue(r)
}

var someKeys = func() []string {
	var keys []string
	var visit func(f *field)
	visit = func(f *field) {
		for i := range f.fields {
			if !slices.Contains(keys, f.fields[i].key) {
				keys = append(keys, f.fields[i].key)
			}
			visit(&f.fields[i])
		}
	}
	visit(&schema)
	return append(keys, "dual_writes", "relay", "d", "$schema")
}()

func someValue(r *rand.Rand) *yaml.Node {
	scalar := func(tag, value string, style yaml.Style) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Style: style}
	}
	switch r.IntN(14) {
	case 0:
		return scalar("!!null", "", 0)
	case 1:
		return scalar("!!str", "", yaml.DoubleQuotedStyle)
	case 2:
		return scalar("!!int", "5", 0)
	case 3:
		return scalar("!!str", "20", yaml.DoubleQuotedStyle)
	case 4:
		return scalar("!!float", "1.5", 0)
	case 5:
		return scalar("!!bool", "true", 0)
	case 6:
		return scalar("!!str", "some-text", 0)
	case 7:
		return scalar("!!str", "3d12h", 0)
	case 8:
		return scalar("!!str", "${PROJECT}", 0)
	case 9:
		return &yaml.Node{Kind: yaml.SequenceNode}
	case 10:
		return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{scalar("!!str", "a", 0), scalar("!!null", "", 0)}}
	case 11:
		return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{scalar("!!str", "a", 0)}}
	case 12:
		return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("!!str", "to", 0), scalar("!!str", "d", 0)}}
	default:
		return &yaml.Node{Kind: yaml.MappingNode}
	}
}
