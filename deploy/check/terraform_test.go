package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// module lists what a directory of Terraform files declares and uses. Whether a resource accepts
// its arguments is left to `terraform validate`, which downloads providers and is not run here.
type module struct {
	variables map[string]bool // whether it has a default
	outputs   map[string]bool
	blocks    map[string]bool // resources, data and modules, as they are referred to
	locals    map[string]bool
	calls     map[string]*hclsyntax.Body
	uses      []hcl.Traversal
}

func terraform(t *testing.T, dir string) *module {
	t.Helper()
	m := &module{variables: map[string]bool{}, outputs: map[string]bool{}, blocks: map[string]bool{}, locals: map[string]bool{}, calls: map[string]*hclsyntax.Body{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, "no files", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(hclwrite.Format(text)) != string(text) {
			t.Errorf("%s is not formatted as terraform fmt does", name)
		}
		file, problems := hclparse.NewParser().ParseHCL(text, name)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		body := file.Body.(*hclsyntax.Body)
		m.read(t, body)
		_ = hclsyntax.VisitAll(body, func(node hclsyntax.Node) hcl.Diagnostics {
			if e, ok := node.(*hclsyntax.ScopeTraversalExpr); ok {
				m.uses = append(m.uses, e.Traversal)
			}
			return nil
		})
	}
	return m
}

func (m *module) read(t *testing.T, body *hclsyntax.Body) {
	t.Helper()
	for _, b := range body.Blocks {
		switch b.Type {
		case "variable":
			m.variables[b.Labels[0]] = b.Body.Attributes["default"] != nil
			if b.Body.Attributes["description"] == nil || b.Body.Attributes["type"] == nil {
				t.Errorf("%s: variable %s has no description or no type", b.Range(), b.Labels[0])
			}
		case "output":
			m.outputs[b.Labels[0]] = true
		case "resource":
			m.blocks[strings.Join(b.Labels, ".")] = true
		case "data":
			m.blocks["data."+strings.Join(b.Labels, ".")] = true
		case "module":
			m.blocks["module."+b.Labels[0]], m.calls[b.Labels[0]] = true, b.Body
		case "locals":
			for name := range b.Body.Attributes {
				m.locals[name] = true
			}
		case "terraform", "provider":
		default:
			t.Errorf("%s: a block that no test looks at: %s", b.Range(), b.Type)
		}
	}
}

// dotted returns the beginning of a reference: the names up to the first index or non-literal
// attribute.
func dotted(use hcl.Traversal) []string {
	out := []string{use.RootName()}
	for _, step := range use[1:] {
		if a, ok := step.(hcl.TraverseAttr); ok {
			out = append(out, a.Name)
			continue
		}
		break
	}
	return out
}

// TestTerraform: every file parses and is formatted, every reference is declared, and every
// variable is used. A module is called only with variables that it has, including all without a
// default.
func TestTerraform(t *testing.T) {
	modules := map[string]*module{}
	for _, dir := range []string{"modules/aws", "modules/gcp", "examples/gke-keyless"} {
		m := terraform(t, filepath.Join("../terraform", dir))
		modules[dir] = m
		used := map[string]bool{}
		for _, use := range m.uses {
			names := dotted(use)
			declared := true
			switch {
			case names[0] == "var" && len(names) > 1:
				used[names[1]] = true
				_, declared = m.variables[names[1]]
			case names[0] == "local" && len(names) > 1:
				declared = m.locals[names[1]]
			case names[0] == "data" && len(names) > 2:
				declared = m.blocks[strings.Join(names[:3], ".")]
			case names[0] == "path" || names[0] == "each" || names[0] == "count" || names[0] == "column_family" || names[0] == "statement" || names[0] == "arn": // of dynamic blocks, and of a for expression
			case len(names) > 1 && strings.Contains(names[0], "_") || names[0] == "module" && len(names) > 1:
				declared = m.blocks[strings.Join(names[:2], ".")]
			}
			if !declared {
				t.Errorf("%s: %s is not declared", use.SourceRange(), strings.Join(names, "."))
			}
		}
		for name := range m.variables {
			if !used[name] {
				t.Errorf("%s: variable %s is not used", dir, name)
			}
		}
	}
	example := modules["examples/gke-keyless"]
	for name, called := range map[string]*module{"aws": modules["modules/aws"], "gcp": modules["modules/gcp"]} {
		for argument := range example.calls[name].Attributes {
			if _, has := called.variables[argument]; !has && argument != "source" {
				t.Errorf("module %s has no variable %s", name, argument)
			}
		}
		for variable, optional := range called.variables {
			if example.calls[name].Attributes[variable] == nil && !optional {
				t.Errorf("module %s is called without %s", name, variable)
			}
		}
	}
	for _, use := range example.uses {
		if names := dotted(use); names[0] == "module" && !modules["modules/"+names[1]].outputs[names[2]] {
			t.Errorf("module %s has no output %s", names[1], names[2])
		}
	}
}

// TestTerraformGivesThePolicies: the example's policies equal those that the program prints.
func TestTerraformGivesThePolicies(t *testing.T) {
	for _, name := range []string{"aws-policy.json", "gcp-role.yaml"} {
		example, err := os.ReadFile("../terraform/examples/gke-keyless/" + name)
		if err != nil {
			t.Fatal(err)
		}
		printed, err := os.ReadFile("../policies/" + name)
		if err != nil || string(example) != string(printed) {
			t.Errorf("%s differs from deploy/policies (%v)", name, err)
		}
	}
}

// TestTrustPolicy: only one service account of one cluster may assume the role.
func TestTrustPolicy(t *testing.T) {
	text, err := os.ReadFile("../policies/aws-trust-policy.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Principal map[string]string
			Action    string
			Condition map[string]map[string]string
		}
	}
	if err := json.Unmarshal(text, &policy); err != nil || len(policy.Statement) != 1 {
		t.Fatal(err, policy)
	}
	s := policy.Statement[0]
	_, issuer, _ := strings.Cut(s.Principal["Federated"], "oidc-provider/")
	conditions := s.Condition["StringEquals"]
	if s.Action != "sts:AssumeRoleWithWebIdentity" || issuer == "" || len(s.Condition) != 1 || conditions[issuer+":aud"] != "sts.amazonaws.com" ||
		conditions[issuer+":sub"] != "system:serviceaccount:replicator:replicator" {
		t.Errorf("%+v", s)
	}
}

// TestTerraformIsDocumented: deploy/terraform/README.md has a row for each variable and output of a
// module, with the module's description.
func TestTerraformIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../terraform/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"modules/aws", "modules/gcp", "examples/gke-keyless"} {
		_, section, found := strings.Cut(string(page), "\n## "+dir+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rows := documentedRows(t, filepath.Join("../terraform", dir))
		for _, row := range rows {
			if !strings.Contains(section, row+"\n") {
				t.Errorf("%s: the page lacks %s", dir, row)
			}
		}
		if got := strings.Count(section, "\n| `"); !found || got != len(rows) {
			t.Errorf("%s: the page has %d rows, want %d", dir, got, len(rows))
		}
	}
}

// documentedRows returns the rows that the page must have for a directory's variables and outputs.
func documentedRows(t *testing.T, dir string) (rows []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, problems := hclparse.NewParser().ParseHCL(text, name)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			said := func(attribute string) string {
				a := b.Body.Attributes[attribute]
				if a == nil {
					return ""
				}
				return string(a.Expr.Range().SliceBytes(text))
			}
			description := strings.Trim(said("description"), `"`)
			switch value := said("default"); {
			case b.Type == "variable" && value == "":
				rows = append(rows, "| `"+b.Labels[0]+"` | "+said("type")+" | must be given | "+description+" |")
			case b.Type == "variable":
				rows = append(rows, "| `"+b.Labels[0]+"` | "+said("type")+" | `"+value+"` | "+description+" |")
			case b.Type == "output" && description != "":
				rows = append(rows, "| `"+b.Labels[0]+"` | output | | "+description+" |")
			}
		}
	}
	return rows
}
