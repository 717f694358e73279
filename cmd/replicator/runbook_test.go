package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// TestRunbooksNameRealCommands: every command of this program in a runbook exists, with its flags.
// Readers of runbooks have no time to find out.
func TestRunbooksNameRealCommands(t *testing.T) {
	pages, err := filepath.Glob("../../deploy/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	inline := regexp.MustCompile("`(replicator [^`]+)`")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var commands []string
		fenced := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "```"):
				fenced = !fenced
			case fenced && strings.HasPrefix(line, "replicator "):
				commands = append(commands, line)
			case !fenced:
				for _, match := range inline.FindAllStringSubmatch(line, -1) {
					commands = append(commands, match[1])
				}
			}
		}
		if len(commands) == 0 {
			t.Errorf("%s names no command", page)
		}
		for _, command := range commands {
			t.Run(filepath.Base(page)+": "+command, func(t *testing.T) { checkCommand(t, command) })
		}
	}
}

// TestNextStepsAreCommands: the commands that status advises in its golden documents exist.
func TestNextStepsAreCommands(t *testing.T) {
	archive, err := txtar.ParseFile("../../internal/status/testdata/documents.txtar")
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, page := range archive.Files {
		if filepath.Ext(page.Name) != ".json" {
			continue
		}
		var document status.Document
		if err := json.Unmarshal(page.Data, &document); err != nil {
			t.Fatal(err)
		}
		for _, step := range document.NextSteps {
			steps++
			t.Run(page.Name+": "+step.Command, func(t *testing.T) { checkCommand(t, step.Command) })
		}
	}
	if steps == 0 {
		t.Error("no document advises a command")
	}
}

// checkCommand fails unless the command tree has the command with its flags.
func checkCommand(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "replicator" {
		t.Errorf("%q is no command of ours", line)
		return
	}
	c, rest, err := newRoot(process()).Find(words[1:])
	if err == nil && !c.HasParent() {
		err = errors.New("it names no command")
	}
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

// TestNextStepsFindTheConfiguration: an advised command uses the same configuration as status did.
func TestNextStepsFindTheConfiguration(t *testing.T) {
	unbegun := &status.Input{Cfg: &config.Config{Name: "test"}, Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []status.TableInput{{}}}
	for path, want := range map[string]string{
		"":            "replicator run",
		"a/b.yaml":    "replicator run -c a/b.yaml",
		"it's a.yaml": `replicator run -c 'it'\''s a.yaml'`,
	} {
		p := process()
		p.configPath = path
		if got := unbegun.Judge(nothingSet, p.withConfig(), time.Now()).NextSteps[0].Command; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
