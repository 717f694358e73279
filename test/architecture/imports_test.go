package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/dynamodb-bigtable/replicator"

// allowed lists, for each package, the packages of this module that it may import (except in
// tests). Packages that are not listed may import any.
var allowed = map[string][]string{
	"internal/task": {},
	"internal/diag": {},
	"attribute":     {},
	"cdc":           {"attribute", "internal/task"},
	"transform":     {"attribute", "cdc"},
	"checkpoint":    {"attribute", "cdc", "internal/task"},
	"sink":          {"attribute", "transform", "cdc", "internal/build", "internal/task"},
	"backfill":      {"attribute", "cdc", "transform", "sink", "checkpoint", "exports", "internal/task"},
	"verify":        {"attribute", "cdc", "transform", "sink", "checkpoint", "backfill", "internal/task"},
	"relay":         {"attribute", "cdc", "transform", "internal/build", "internal/task"},
	"dualwrite":     {"attribute", "cdc", "transform", "sink", "checkpoint", "backfill", "internal/config", "internal/diag", "internal/environment", "internal/preflight", "internal/task"},
	"replicate": {"backfill", "internal/build", "internal/config", "internal/desk", "internal/diag", "internal/environment", "internal/preflight", "internal/report",
		"internal/standing", "internal/status", "internal/terminal", "internal/worker"},
	"internal/build":       {},
	"internal/awshost":     {"internal/diag"},
	"internal/awssign":     {},
	"internal/source":      {"attribute", "backfill", "cdc", "checkpoint", "exports", "exports/bucket", "internal/diag", "transform"},
	"internal/timespan":    {},
	"internal/pattern":     {"transform"},
	"internal/environment": {"internal/awshost", "internal/diag"},
	"internal/config":      {"attribute", "internal/awshost", "internal/diag", "internal/environment", "internal/pattern", "internal/source", "internal/timespan", "transform", "expression"},
	"internal/policy":      {"internal/awshost", "internal/config", "internal/source"},
	"internal/cost":        {"internal/terminal"},
	"internal/targetload":  {"internal/build"},
	"test/virtual":         {"internal/task"},
	"internal/admin":       {"internal/task"},
	"internal/fence":       {"checkpoint", "sink", "internal/task"},
	"internal/standing":    {"cdc", "checkpoint"},
	"internal/canary":      {"attribute", "cdc", "transform"},
	"internal/readiness":   {"cdc", "checkpoint", "internal/standing", "internal/timespan"},
	"internal/drain":       {"cdc", "checkpoint", "internal/readiness", "internal/standing", "internal/timespan"},
	"internal/cutover":     {"attribute", "backfill", "cdc", "checkpoint", "sink", "transform", "internal/canary", "internal/drain", "internal/fence", "internal/readiness", "internal/standing", "internal/task", "internal/timespan"},
	"internal/forecast":    {"checkpoint", "internal/cutover", "internal/drain", "internal/timespan"},
	"internal/hook":        {"internal/build", "internal/cutover", "internal/environment"},
	"internal/notify":      {"checkpoint", "internal/build", "internal/config", "internal/diag", "internal/hook", "internal/standing", "internal/status", "internal/task", "internal/terminal"},
	"internal/desk": {"backfill", "checkpoint", "internal/config", "internal/diag", "internal/engine", "internal/environment", "internal/failover", "internal/preflight",
		"internal/source", "internal/task", "internal/terminal", "sink"},
	"internal/telemetry": {"internal/admin", "internal/diag", "internal/engine"},
	"internal/page":      {},
	"internal/evidence":  {"checkpoint", "internal/page"},
	"internal/engine":    {"attribute", "cdc", "transform", "checkpoint", "sink", "backfill", "verify", "relay", "internal/canary", "internal/fence", "internal/source", "internal/standing", "internal/task"},
	"internal/stream":    {"backfill", "cdc", "transform", "checkpoint", "sink", "internal/engine", "internal/task"},
	"internal/follow":    {"cdc", "transform", "checkpoint", "sink", "internal/canary", "internal/engine", "internal/fence", "internal/standing", "internal/task"},
	"internal/job":       {"backfill", "checkpoint", "sink", "internal/engine", "internal/task"},
	"internal/load":      {"attribute", "backfill", "cdc", "transform", "checkpoint", "sink", "internal/engine", "internal/fence", "internal/job", "internal/source", "internal/standing", "internal/task"},
	"internal/verify":    {"attribute", "backfill", "cdc", "transform", "checkpoint", "verify", "internal/engine", "internal/job", "internal/standing", "internal/task"},
	"internal/apply":     {"attribute", "cdc", "transform", "checkpoint", "relay", "sink", "internal/engine", "internal/fence", "internal/task"},
	"internal/pipeline":  {"backfill", "cdc", "transform", "checkpoint", "internal/engine", "internal/source", "internal/stream", "internal/follow", "internal/load", "internal/verify", "internal/apply", "internal/task"},
	"expression":         {"attribute"},
	"exports":            {"attribute"},
	"exports/bucket":     {"exports", "internal/build"},

	"internal/reverse":     {"attribute", "backfill", "checkpoint", "internal/canary", "internal/fallback", "internal/task", "sink", "transform"},
	"internal/tablepolicy": {"backfill", "internal/awssign", "internal/task"},
	"internal/freeze":      {"checkpoint", "internal/cutover", "internal/tablepolicy", "internal/task"},

	// The embedded services are separate products. Of replicator they only know what an item is.
	"bigtabletest":      {},
	"dynamodbtest":      {"attribute", "expression"},
	"dynamodbtest/item": {"attribute"},
}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], module+"/")
		seen[name] = true
		may, restricted := allowed[name]
		if !restricted {
			continue
		}
		for _, imported := range words[1:] {
			ours, ok := strings.CutPrefix(imported, module+"/")
			if ok && !contains(may, ours) && !strings.HasPrefix(ours, name+"/") {
				t.Errorf("%s imports %s; it may import only %v", name, ours, may)
			}
		}
	}
	for name := range allowed {
		if !seen[name] {
			t.Errorf("package %s is gone: mend this test and ARCHITECTURE.md", name)
		}
	}
}

// edges lists the files that may use a vendor's client.
var edges = map[string][]string{
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams": {"cdc/dynamodbstreams.go"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb":        {"backfill/dynamodb.go", "backfill/byarn.go", "backfill/canarywriter.go", "backfill/exporter.go", "backfill/exportbucket.go", "internal/fallback/dynamodb.go", "internal/tablepolicy/dynamodb.go", "internal/tablepolicy/probe.go"},
	"cloud.google.com/go/pubsub":                           {"relay/pubsub.go"},
	"github.com/aws/aws-sdk-go-v2/service/s3":              {"exports/bucket/s3.go"},
	"google.golang.org/api/storage":                        {"exports/bucket/cloudstorage.go"},
	"go.opentelemetry.io":                                  {}, // only internal/telemetry, which the simulation does not run
}

func contains(list []string, s string) bool {
	for _, o := range list {
		if o == s {
			return true
		}
	}
	return false
}

// TestNothingImportsTheProof: no shipped package imports a package below test/.
func TestNothingImportsTheProof(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		for _, imported := range words[1:] {
			if strings.HasPrefix(imported, module+"/test/") && !strings.HasPrefix(words[0], module+"/test/") {
				t.Errorf("%s imports %s", words[0], imported)
			}
		}
	}
}

// TestTheCommandIsThin: commands consist of flags, help and exit codes. Decisions are in packages
// that the simulation can call too.
func TestTheCommandIsThin(t *testing.T) {
	const command, most = "cmd/replicator", 3700
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, module+"/"+command).CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, engine := range []string{"checkpoint", "transform", "sink"} {
		if contains(strings.Fields(string(out)), module+"/"+engine) {
			t.Errorf("%s imports %s: move what needs it into a package of internal/", command, engine)
		}
	}
	paths, err := filepath.Glob(filepath.Join("..", "..", command, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	lines := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines > most {
		t.Errorf("%s has %d lines outside of its tests, %d are enough", command, lines, most)
	}
}

// TestManualIsNotLinked: the generator of man pages is for releases, and the CloudEvents library is
// an oracle of tests. Neither is linked into the program.
func TestManualIsNotLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/cmd/replicator").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, path := range []string{"github.com/spf13/cobra/doc", "github.com/cpuguy83/go-md2man/v2/md2man",
		"github.com/cloudevents/sdk-go/v2/event", "github.com/json-iterator/go"} {
		if contains(strings.Fields(string(out)), path) {
			t.Errorf("the program links %s", path)
		}
	}
	if !contains(strings.Fields(string(out)), "github.com/spf13/cobra") {
		t.Error("the program links no cobra: this test looks at nothing")
	}
}
