package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
)

var (
	quotedWords = regexp.MustCompile("`([^`]+)`")
	// aKey is a key of the configuration: a path, or a key with its value.
	aKey = regexp.MustCompile(`^([a-z_]+\.)+[a-z_]+$|^[a-z_]+: `)
)

// Every command beside a permission exists in the program, with its flags and arguments.
func TestCommandsOfPermissions(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }]\n"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, o := range policy.Operations() {
		texts = append(texts, o.Use.String())
	}
	for _, a := range slices.Concat(policy.AWSAdditions(cfg, ""), policy.GoogleAdditions(cfg)) {
		texts = append(texts, a.When)
	}
	commands := 0
	for _, text := range texts {
		for _, m := range quotedWords.FindAllStringSubmatch(text, -1) {
			if aKey.MatchString(m[1]) {
				continue
			}
			commands++
			if err := parses(strings.Fields("replicator " + m[1])); err != nil {
				t.Errorf("`%s` of %q: %v", m[1], text, err)
			}
		}
	}
	if commands < 20 {
		t.Errorf("only %d commands were found", commands)
	}
	for _, wrong := range []string{"relay dead-letters", "backfill start --request-export s3://BUCKET", "nothing"} {
		if parses(strings.Fields("replicator "+wrong)) == nil {
			t.Errorf("`%s` is taken for a command", wrong)
		}
	}
}
