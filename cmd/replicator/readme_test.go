package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

const readmeBytes = 9 << 10

// A newcomer reads one screen, tries the first command, and looks for a way to check it.
func TestREADMEIsShortAndBeginsWithTheDemo(t *testing.T) {
	text := textOf(t, "README.md")
	if len(text) > readmeBytes {
		t.Errorf("README.md has %d bytes, %d are enough", len(text), readmeBytes)
	}
	var shells []string
	for _, b := range (page{text: text}).blocks() {
		if b.language == "sh" {
			shells = append(shells, strings.TrimSpace(b.text))
		}
	}
	if want := []string{"make demo", "make test"}; !slices.Equal(shells, want) {
		t.Errorf("the README's commands are %q, want %q", shells, want)
	}
}

// The versions in the section Status, and the Go version for the demo, equal those of the sources.
func TestREADMEStatesVersions(t *testing.T) {
	text, mod := textOf(t, "README.md"), textOf(t, "go.mod")
	golang := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(mod)
	client := regexp.MustCompile(`cloud\.google\.com/go/bigtable v(\d+\.\d+)`).FindStringSubmatch(mod)
	if golang == nil || client == nil {
		t.Fatal("go.mod names no Go, or no client of Bigtable")
	}
	for _, want := range []string{"It needs Go " + golang[1] + " ", "Built with Go " + golang[1] + " ", "Bigtable client " + client[1] + ",",
		fmt.Sprintf("ledger formats 2 to %d.", checkpoint.Format)} {
		if !strings.Contains(text, want) {
			t.Errorf("the README does not say %q", want)
		}
	}
}

// TestREADMEListsEveryCommand: the table has each command of the program once, and no others.
func TestREADMEListsEveryCommand(t *testing.T) {
	root := newRoot(process())
	root.InitDefaultHelpCmd()
	missing, groups := map[string]bool{}, map[string]bool{}
	for _, c := range all(root)[1:] {
		name := strings.TrimPrefix(c.CommandPath(), "replicator ")
		if c.HasAvailableSubCommands() && !actsItself(c) {
			groups[name] = true
		} else if !c.Hidden {
			missing[name] = true
		}
	}
	found := listedCommands(textOf(t, "README.md"))
	if len(found) < 40 {
		t.Fatalf("the README's table has only %d commands", len(found))
	}
	for _, name := range found {
		if !missing[name] {
			t.Errorf("the README lists %q twice, or the program has no such command (groups: %v)", name, groups[name])
		}
		delete(missing, name)
	}
	if len(missing) > 0 {
		t.Errorf("the README does not list %q", slices.Sorted(maps.Keys(missing)))
	}
}

// actsItself distinguishes a command with subcommands from a group, which accepts no flags.
func actsItself(c *cobra.Command) bool { return strings.HasSuffix(c.Use, "[flags]") }

// listedCommands returns the commands in the first column of the table under the heading Commands.
// In a row, the first word of a two-word name also applies to the single words after it.
func listedCommands(text string) (found []string) {
	_, section, _ := strings.Cut(text, "\n## Commands\n")
	section, _, _ = strings.Cut(section, "\n## ")
	code := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		group := ""
		for _, m := range code.FindAllStringSubmatch(strings.SplitN(line, "|", 3)[1], -1) {
			name := m[1]
			if first, _, two := strings.Cut(name, " "); two {
				group = first + " "
			} else {
				name = group + name
			}
			found = append(found, name)
		}
	}
	return found
}

func TestListedCommands(t *testing.T) {
	const text = "# x\n| `no` | |\n\n## Commands\n\n| command | does |\n|---|---|\n| `a`, `b` | `c` |\n| `d`, `d e`, `f` | |\n\n## Next\n| `g` | |\n"
	if got, want := listedCommands(text), []string{"a", "b", "d", "d e", "d f"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEveryFlagIsInAPage: besides the reference, a page written by people uses each flag.
func TestEveryFlagIsInAPage(t *testing.T) {
	var written strings.Builder
	for _, p := range writtenByPeople(t) {
		written.WriteString(p.text)
	}
	absent := map[string]bool{}
	for _, c := range all(newRoot(process())) {
		if strings.Contains(c.CommandPath(), " completion") || c.Hidden {
			continue // cobra's own flags, and those of the demo
		}
		for _, f := range flagsOf(c) {
			if name := "--" + f.Name; f.Name != "help" && !regexp.MustCompile(name+`\b`).MatchString(written.String()) {
				absent[name+" of "+c.CommandPath()] = true
			}
		}
	}
	if len(absent) > 0 {
		t.Errorf("no page says what these are for: %q", slices.Sorted(maps.Keys(absent)))
	}
}
