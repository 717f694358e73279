package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func referenceConfiguration(t *testing.T) string {
	b := reference("Configuration", "One YAML file, looked up as `-c FILE`, `$REPLICATOR_CONFIG`, `./replicator.yaml`, `/etc/replicator/replicator.yaml`. It is strict: an unknown\n"+
		"key is an error, which names its place. A value is taken from the first of: flag, `REPLICATOR_*` variable, file, default. In values, `${NAME}`,\n"+
		"`${NAME:-default}`, `${NAME:?message}` and `$$` are expanded. `replicator lint` checks a file offline, `replicator config print` shows the effective\n"+
		"configuration, and `replicator config schema` prints a JSON Schema for editors.")
	b.WriteString("\n| key | kind | default | allowed | meaning |\n|---|---|---|---|---|\n")
	for _, e := range structsOf(t, "internal/config").entries(t, "Config", "key", "") {
		fallback, allowed := e.tag.Get("default"), []string{}
		switch {
		case fallback != "":
			fallback = "`" + fallback + "`"
		case e.tag.Get("required") != "":
			fallback = "must be given"
		case e.tag.Get("unset") != "":
			fallback = e.tag.Get("unset")
		}
		if one := e.tag.Get("oneof"); one != "" {
			allowed = append(allowed, "`"+strings.ReplaceAll(one, ",", "`, `")+"`")
		}
		if least := e.tag.Get("min"); least != "" {
			allowed = append(allowed, least+" to "+e.tag.Get("max"))
		}
		if variable := e.tag.Get("env"); variable != "" {
			allowed = append(allowed, "or `$"+variable+"`")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", e.path, e.kind, fallback, strings.Join(allowed, "; "), e.meaning)
	}
	return b.String()
}

// documents lists the JSON documents that commands print: the schema's name, the command, the type,
// and where its list of documents is.
var documents = []struct{ schema, command, declared, below string }{
	{"replicator.init/v1", "replicator init -o json", "starter.Document", ""},
	{"replicator.lint/v1", "replicator lint -o json", "lintReport", ""},
	{"replicator.plan/v1", "replicator plan -o json", "plan.Document", ""},
	{"replicator.preview/v1", "replicator preview -o json", "inspect.Preview", "items[]."},
	{"replicator.test/v1", "replicator test -o json", "mappingtest.Result", "examples[]."},
	{"replicator.functions/v1", "replicator config functions -o json", "config.TemplateFunction", "functions[]."},
	{"replicator.dry_run/v1", "replicator run --dry-run -o json", "worker.Rehearsal", "tables[]."},
	{"replicator.status/v1", "replicator status -o json", "status.Document", ""},
	{"replicator.backfill/v1", "replicator backfill status -o json", "loads.Document", ""},
	{"replicator.pause/v1", "replicator pause -o json", "lever.Document", ""},
	{"replicator.failover/v1", "replicator failover -o json", "lever.FailedOver", ""},
	{"replicator.verify/v1", "replicator verify -o json", "comparison.Document", ""},
	{"replicator.verify_report/v1", "replicator verify --report FILE", "comparison.line", ""},
	{"replicator.cutover/v1", "replicator cutover status -o json", "switchover.Document", ""},
	{"replicator.cutover_hook/v1", "the body of a call of a hook by HTTPS", "hook.body", ""},
	{"replicator.evidence/v1", "evidence.json of replicator cutover evidence", "evidence.Document", ""},
	{"replicator.finalize/v1", "replicator finalize -o json", "switchover.Finalized", ""},
	{"replicator.repair/v1", "a part of the document of replicator verify --repair -o json", "repair.Document", ""},
	{"replicator.explain/v1", "replicator explain -o json", "inspect.Explanation", ""},
	{"replicator.parked/v1", "replicator parked list -o json", "parked.Entry", "items[]."},
	{"replicator.parked_item/v1", "replicator parked show", "parked.Entry", ""},
	{"replicator.parked_retry/v1", "replicator parked retry -o json", "parked.retried", "items[]."},
	{"replicator.parked_drop/v1", "replicator parked drop -o json", "parked.Entry", "dropped[]."},
	{"replicator.dead_letter/v1", "replicator relay dead-letter list -o json", "deadletter.document", ""},
	{"replicator.dead_letter_drop/v1", "replicator relay dead-letter drop -o json", "deadletter.document", ""},
	{"replicator.functions/v1", "replicator config functions -o json", "config.TemplateFunction", "functions[]."},
	{"replicator.notification/v1", "the body of a notification in the format json (notify.to)", "notify.Event", ""},
	{"replicator.notify_test/v1", "replicator notify test -o json", "notify.trial", "receivers[]."},
	{"replicator.demo/v1", "replicator demo -o json", "demo.Verdict", ""},
	{"replicator.version/v1", "replicator version -o json", "build.Info", ""},
}

func referenceJSON(t *testing.T) string {
	b := reference("Documents for programs", "With `-o json` every command prints one document on stdout. Its member `schema` names the format. Unknown values are\n"+
		"`null`. Later versions of a format may add members but never remove one. `replicator status --schema` prints the JSON\n"+
		"Schema of the status. Text that is not UTF-8 is `{\"base64\": \"…\"}`.\n\n"+
		"With `-o json`, stderr has one JSON object per line, unless stderr is a terminal or `log.format` is `text`. The same is\n"+
		"true with `log.format: json` and, unless stderr is a terminal, for `run` and `relay`. With `-o json` an error has\n"+
		"`severity`, `code`, `what`, `cause`, `fix` and `more`. Every other line is a log record with `time`, `severity` and\n"+
		"`message`. A log record of an error also has `code`, `cause`, `fix` and `more`. In `run` and `relay`, records with\n"+
		"`\"event\":\"probe\"` have `probe`, `ok` (null if unknown), `detail` and, if there is one, `code`. Records with\n"+
		"`\"event\":\"progress\"` have `table`, `items` and `done` and, if known, `estimate`, `items_per_second`, `eta_seconds`,\n"+
		"`lag_seconds`, `headroom_seconds`, `throttled` and, at the end, `took_seconds`.")
	packages, others := map[string]structs{"main": structsOf(t, "cmd/replicator")}, structs{}
	for _, in := range []string{"build", "comparison", "config", "cost", "deadletter", "demo", "evidence", "hook", "inspect", "lever", "loads", "mappingtest", "notify", "parked", "plan", "preflight", "repair", "standing", "starter", "status", "switchover", "worker"} {
		packages[in] = structsOf(t, "internal/"+in)
		for name, declared := range packages[in] {
			others[in+"."+name] = declared
		}
	}
	for _, declared := range packages { // documents may contain types of other packages
		maps.Copy(declared, others)
	}
	for _, d := range documents {
		in, name, ok := strings.Cut(d.declared, ".")
		if !ok {
			in, name = "main", d.declared
		}
		declared := packages[in]
		fmt.Fprintf(b, "\n## %s\n\n`%s`\n", d.schema, d.command)
		found := declared.entries(t, name, "json", d.below)
		if d.schema == "replicator.parked_item/v1" {
			found = append(found, entry{path: "key", kind: "text", meaning: "the item's primary key, in replicator's encoding"},
				entry{path: "change", kind: "section", meaning: "the parked change with its images, in DynamoDB's JSON"})
		}
		writeEntries(b, found)
	}
	return b.String()
}

// TestEveryDocumentIsInTheReference: every document that a command prints has a section on the
// page.
func TestEveryDocumentIsInTheReference(t *testing.T) {
	var paths []string
	for _, in := range []string{"*.go", "../../internal/*/*.go"} {
		found, err := filepath.Glob(in)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	schema := regexp.MustCompile(`"(replicator\.[a-z_]+/v\d+)"`)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range schema.FindAllStringSubmatch(string(text), -1) {
			if !slices.ContainsFunc(documents, func(d struct{ schema, command, declared, below string }) bool { return d.schema == match[1] }) {
				t.Errorf("%s: %s is not in the reference: add it to documents", path, match[1])
			}
		}
	}
}

func referenceStateTable(t *testing.T) string {
	b := reference("State table", "The ledger is in `state.table` of the target instance (`replicator_state`), so any worker can continue the work of\n"+
		"another. Every key begins with the `name` of the configuration. A row of the ledger is one JSON record in the family\n"+
		"`ledger`. `cbt read replicator_state` shows it. No other program may write these rows: workers change them by\n"+
		"compare-and-set on a counter, in column `c` of the row.\n\n"+
		"| key | record | written by |\n|---|---|---|\n"+
		"| `<name>/pipeline` | the ledger itself | the first process |\n"+
		"| `<name>/table/<source table>` | a source table | any process, by compare-and-set |\n"+
		"| `<name>/target/<target table>` | a target table, with the number of its fence | any process, by compare-and-set |\n"+
		"| `<name>/shard/<source table>/<stream label>/<shard>` | a shard | the holder of its lease |\n"+
		"| `<name>/part/<source table>/<generation>/<load>/<phase>/<part>` | a part of a load | the holder of its lease |\n"+
		"| `<name>/sampled/<source table>` | rows that differed after recently applied changes; holds item keys | workers |\n"+
		"| `<name>/applied/<source table>/<process>` | messages of a topic that a process has applied and that are not merged yet | that process |\n"+
		"| `<name>/merged/<source table>/<stream label>/<shard>` | applied messages of a topic, of all processes | the coordinator |\n"+
		"| `<name>/deadletter` | messages in the dead-letter topic; absent while there are none | appliers |\n"+
		"| `<name>/keeper/<source table>` | the coordinator of the table, and the pace of its load | the coordinator |\n"+
		"| `<name>/notices` | what operators were notified of, and what is still to be sent; absent without `notify` | the holder of the lease `<name>/keeper//notices` |\n"+
		"| `<name>/history/<source table>/<hour, as YYYYMMDDHH>` | an hour of the table, for a week | the table's coordinators |\n"+
		"| `<name>/process/<process>` | a running process that holds no lease | that process |\n"+
		"| `<name>/writer/<process>` | a process that may write to target tables | that process, and coordinators |\n"+
		"| `<name>/parked/<source table>/<hash of the key>/<version>` | a parked change, whole, in the family `parked` | workers; `replicator parked` |\n\n"+
		"In each target table, `_cdc:v` holds the version of a live row, and `_cdc_gone:v` the version of a removed item. One row\n"+
		"per source table, under a key that no item can have, is the witness: it proves that ledger and table belong together.\n"+
		"The first mutation of every write names the family `_cdc_w<ledger>_<fence>`, which keeps no cell. Once this family is\n"+
		"dropped, Bigtable rejects requests that name it. A version is `generation.hop.sequence.count` at fixed widths of 8, 6,\n"+
		"40 and 4 digits. Hop 0 means a load, whose sequence is the second of its read.")
	declared := structsOf(t, "checkpoint")
	for _, r := range []struct{ title, declared string }{
		{"Every record", "header"}, {"The ledger", "pipeline"}, {"A source table", "TableState"}, {"A target table", "Target"}, {"A shard", "Shard"}, {"A part", "Part"}, {"Rows known to differ", "sampledRecord"}, {"The dead-letter topic", "deadLetterRow"}, {"The coordinator", "coordinatorRecord"}, {"The notifications", "Notices"}, {"An hour of a table", "hourRow"}, {"A coordinator's part of an hour", "HourPart"}, {"A process", "Process"}, {"A process that may write", "Writer"},
	} {
		fmt.Fprintf(b, "\n## %s\n", r.title)
		if declared[r.declared] == nil {
			t.Fatalf("checkpoint has no type %s", r.declared)
		}
		found := declared.entries(t, r.declared, "json", "")
		if r.declared != "header" {
			own := map[string]bool{}
			for _, e := range declared.entries(t, "header", "json", "") {
				own[e.path] = true
			}
			found = slices.DeleteFunc(found, func(e entry) bool { return own[e.path] })
		}
		writeEntries(b, found)
	}
	return b.String()
}
