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

// quickStart returns commands with which a user can try the services. Each line can be pasted into
// a shell. Lines with the vendors' commands contain all settings. The program's commands need the
// variables that the export lines set.
func quickStart(executable, page, configuration string, s *services) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
The page %s, both services and a worker stay until you press Ctrl-C. Data is in memory and lost on exit.

Write an item. It is in Bigtable, and on the page, within a second:

AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s aws dynamodb put-item --endpoint-url %s --region %s --table-name %s --item '{%q:{"S":"me"},%q:{"S":"1"},"note":{"S":"hello"}}'
BIGTABLE_EMULATOR_HOST=%s cbt -project %s -instance %s read %s prefix=me

To use replicator on this migration, paste this into another shell, in an empty folder:

`, page, credential, credential, s.endpoint, region, tableName, partitionKey, sortKey, s.bigtable.Addr(), project, instance, tableName)
	for _, entry := range s.environment() {
		fmt.Fprintf(&b, "export %s\n", entry)
	}
	follow := executable + " run --allow-emulator --listen 127.0.0.1:0"
	if s.pubsub != nil {
		follow = executable + " relay --apply --allow-emulator --listen 127.0.0.1:0"
	}
	fmt.Fprintf(&b, "cat > replicator.yaml <<'END'\n%sEND\n\nThen try, for example:\n\n", configuration)
	for _, line := range []struct{ command, does string }{
		{executable + " status", "show the state of the migration"},
		{executable + " preview --sample 3", "show three items and their cells"},
		{follow, "start a second worker to share the work"},
		{fmt.Sprintf(`curl -X POST %s/_control/shards -d '{"table":%q}'`, s.endpoint, tableName), "list the shards of the stream; " + s.endpoint + "/_control/ lists other actions on shards"},
	} {
		fmt.Fprintf(&b, "# %s\n%s\n", line.does, line.command)
	}
	return b.String()
}
