package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// TestRunbooksNameRealCommands: every command of ours in a runbook exists, with its flags. Whoever reads them has no time to find out.
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

// TestNextStepsAreCommands: what status advises in its golden documents can be typed.
func TestNextStepsAreCommands(t *testing.T) {
	pages, err := filepath.Glob("../../internal/status/testdata/*.json")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var document status.Document
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		for _, step := range document.NextSteps {
			t.Run(filepath.Base(page)+": "+step.Command, func(t *testing.T) { checkCommand(t, step.Command) })
		}
	}
}
