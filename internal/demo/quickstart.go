package demo

import (
	"fmt"
	"strings"
)

// minimal is the shortest configuration of the demo's migration.
const minimal = `version: 1
target:
  project: ` + project + `
  instance: ` + instance + `
tables:
  - from: ` + tableName + `
`

// quickStart is what a user needs to go on with the services by hand, to be pasted into a shell.
func quickStart(executable string, s *services) string {
	var b strings.Builder
	b.WriteString("\nThe services listen on this machine alone until you interrupt this. All they hold is in memory and gone then.\nPaste this into another shell, in a directory of its own:\n\n")
	for _, entry := range s.environment() {
		fmt.Fprintf(&b, "export %s\n", entry)
	}
	configuration, follow := minimal, executable+" run --allow-emulator"
	if s.pubsub != nil {
		configuration, follow = minimal+publishes, executable+" relay --apply --allow-emulator"
	}
	fmt.Fprintf(&b, "cat > replicator.yaml <<'END'\n%sEND\n", configuration)
	b.WriteString("\nand then try, for example:\n\n")
	for _, line := range []struct{ command, why string }{
		{executable + " status", "what the workers of the demo left behind"},
		{follow, "go on following table " + tableName + ", until interrupted"},
		{executable + " preview --sample 3", "the first items and the cells they become"},
		{fmt.Sprintf(`aws dynamodb put-item --endpoint-url "$AWS_ENDPOINT_URL_DYNAMODB" --table-name %s --item '{%q:{"S":"me"},%q:{"S":"1"},"note":{"S":"hello"}}'`, tableName, partitionKey, sortKey), "a change to watch"},
		{fmt.Sprintf("cbt -project %s -instance %s read %s prefix=me", project, instance, tableName), "and its row"},
		{fmt.Sprintf(`curl -X POST %s/_control/shards -d '{"table":%q}'`, s.endpoint, tableName), "the stream's shards; _control/ lists what else can be done to them"},
	} {
		fmt.Fprintf(&b, "# %s\n%s\n", line.why, line.command)
	}
	return b.String()
}
