package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// Every command that a state, a document or a gate advises belongs to this program, with its flags.
// Tests in internal/desk check that a state accepts the commands it advises, and their effect.
func TestAdvisedCommandsParse(t *testing.T) {
	commands := standing.Advised()
	for path, advises := range map[string]string{
		"internal/status/conditions.go":   "leads\\(\"([^\"]+)\"",
		"internal/switchover/document.go": "next\\(\"([^\"]+)\"",
		"internal/readiness/judge.go":     "\"replicator ([^\"]+)\"",
		"internal/readiness/rollback.go":  "\"replicator ([^\"]+)\"",
		"internal/comparison/judge.go":    "return \"([^\"]+)\", ",
		"internal/loads/judge.go":         "return \"([^\"]+)\", ",
	} {
		found := regexp.MustCompile(advises).FindAllStringSubmatch(textOf(t, path), -1)
		if len(found) == 0 {
			t.Errorf("%s advises nothing", path)
		}
		for _, f := range found {
			commands = append(commands, f[1])
		}
	}
	for _, command := range commands {
		if strings.HasSuffix(command, "--table ") { // the name is added
			command += "TABLE"
		}
		if strings.HasSuffix(command, "--keep-fallback ") { // the choice is added
			command += "yes"
		}
		if err := parses(strings.Fields(standing.Command(command, "Orders", " -c f"))); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	if len(commands) < 40 {
		t.Errorf("only %d commands are advised", len(commands))
	}
}
