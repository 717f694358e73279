package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
