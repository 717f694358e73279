package config

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); regenerate with -update:\n%s", path, diff)
	}
}

func lookup(env map[string]string) Lookup {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// testEnv has the variables to which testdata may refer.
var testEnv = lookup(map[string]string{
	"EMPTY":   "",
	"PROJECT": "acme-project",
	"CREATE":  "false",
	"INJECT":  "Orders\n    to: elsewhere # ",
})

var ignorePositions = cmpopts.IgnoreUnexported(Config{}, Table{})

func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return paths
}

// parseFile parses a file of testdata under the file name that users have.
func parseFile(t *testing.T, path string, flags ...Flag) (*Config, error) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Parse("replicator.yaml", content, testEnv, flags...)
}

func TestRefused(t *testing.T) {
	for _, path := range files(t, "testdata/refused/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := parseFile(t, path)
			var list diag.List
			if !errors.As(err, &list) || diag.ExitCode(err) != diag.ExitUsage {
				t.Fatalf("want findings with exit status 2, got %v", err)
			}
			for _, e := range list {
				if e.Pos.Line == 0 || e.Pos.Column == 0 {
					t.Errorf("no position: %v", e)
				}
			}
			var text bytes.Buffer
			if err := diag.Render(&text, err); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", text.String())
		})
	}
}

// TestAccepted also shows that the output of Print loads to the same configuration.
func TestAccepted(t *testing.T) {
	for _, path := range files(t, "testdata/accepted/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, err := parseFile(t, path)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := c.Print(&text); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", text.String())
			again, err := Parse("printed", text.Bytes(), lookup(nil))
			if err != nil {
				t.Fatalf("the printed configuration does not load: %v", err)
			}
			if diff := cmp.Diff(c, again, ignorePositions); diff != "" {
				t.Errorf("the printed configuration loads differently:\n%s", diff)
			}
		})
	}
}

func TestMinimal(t *testing.T) {
	got, err := parseFile(t, "testdata/accepted/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Version:  1,
		Name:     "default",
		Source:   Source{Start: StartHorizon, Poll: time.Second, PollActive: 250 * time.Millisecond},
		Target:   Target{Project: "my-project", Instance: "my-instance", AppProfile: "default", CreateMissing: true},
		State:    State{Table: "replicator_state", TombstoneAge: 14 * 24 * time.Hour, Lease: 15 * time.Second},
		Tables:   []Table{{From: "Orders", To: "Orders", Start: StartHorizon}},
		Apply:    "guarded",
		Backfill: Backfill{From: "scan", Mode: "auto", OnGap: "wait", Segments: 4},
		Verify:   Verify{Sample: "1%", Settle: 30 * time.Second},
		Cutover: Cutover{RollbackDeadline: 15 * time.Minute, Hooks: CutoverHooks{Timeout: 10 * time.Minute, FreezeWithin: time.Minute}, ReadyWhen: ReadyWhen{LagBelow: 5 * time.Second, LagHeldFor: 10 * time.Minute, VerifyWithin: time.Hour, Headroom: 12 * time.Hour},
			RequestExpires: 15 * time.Minute,
			ListingBound:   2 * time.Minute, Freeze: "hook", Fence: "after_switch", FreezeAtMost: 8 * time.Second, Tries: 3, WatchFor: 24 * time.Hour},
		Relay:  Relay{Buckets: 256, Format: "cloudevents_json"},
		Errors: Errors{OnBadItem: BadItemPark, ParkTo: "state", StopAbove: 1000},
		HTTP:   HTTP{Listen: "127.0.0.1:8080"},
		Log:    Log{Level: "info", Format: "auto"},
	}
	if diff := cmp.Diff(want, got, ignorePositions); diff != "" {
		t.Error(diff)
	}
}

func TestPrecedence(t *testing.T) {
	file := []byte("version: 1\nname: of-file\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\nlog: {level: warn}\n")
	env := lookup(map[string]string{"REPLICATOR_NAME": "of-env", "REPLICATOR_LOG_LEVEL": "error", "REPLICATOR_LOG_FORMAT": "",
		"REPLICATOR_HTTP_LISTEN": ":1"})
	c, err := Parse("f.yaml", file, env, Flag{"--log-level", "log.level", "debug"}, Flag{"--listen", "http.listen", ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct{ path, got, want, from string }{
		{"name", c.Name, "of-env", "$REPLICATOR_NAME"},
		{"log.level", c.Log.Level, "debug", "--log-level"},
		{"log.format", c.Log.Format, "auto", ""},
		{"http.listen", c.HTTP.Listen, ":1", "$REPLICATOR_HTTP_LISTEN"},
		{"target.project", c.Target.Project, "p", "f.yaml:3:19"},
		{"tables[0].from", c.Tables[0].From, "Orders", "f.yaml:4:17"},
	} {
		if from := c.Where(check.path).String(); check.got != check.want || from != check.from {
			t.Errorf("%s: %q from %q, want %q from %q", check.path, check.got, from, check.want, check.from)
		}
	}
	var text bytes.Buffer
	if err := c.Print(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/precedence.txt", text.String())
}

func TestOverlayFindings(t *testing.T) {
	env := lookup(map[string]string{"REPLICATOR_NAME": "Not A Name", "REPLICATOR_LOG_FORMAT": "yaml"})
	_, err := Parse("replicator.yaml", []byte("version: 1\ntables: []\n"), env, Flag{"--log-level", "log.level", "loud"})
	var text bytes.Buffer
	if err := diag.Render(&text, err); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/overlay.txt", text.String())
}

func TestVariables(t *testing.T) {
	want := []override{{"REPLICATOR_NAME", "name"}, {"REPLICATOR_HTTP_LISTEN", "http.listen"},
		{"REPLICATOR_LOG_LEVEL", "log.level"}, {"REPLICATOR_LOG_FORMAT", "log.format"}}
	if diff := cmp.Diff(want, variables()); diff != "" {
		t.Error(diff)
	}
}

func TestFlagForUnknownKey(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a flag for a key that does not exist must not pass in silence")
		}
	}()
	_, _ = parseFile(t, "testdata/accepted/minimal.yaml", Flag{"--x", "tables", "y"})
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml")
	if err := os.WriteFile(second, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	named := lookup(map[string]string{pathVariable: "named.yaml"})
	empty := lookup(map[string]string{pathVariable: ""})
	for _, c := range []struct {
		name, flag string
		env        Lookup
		paths      []string
		want       string
	}{
		{"flag", "flag.yaml", named, []string{second}, "flag.yaml"},
		{"variable", "", named, []string{second}, "named.yaml"},
		{"first that exists", "", empty, []string{first, second}, second},
	} {
		if got, err := find(c.flag, c.env, c.paths); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	if _, err := find("", empty, []string{first}); !diag.Has(err, diag.ConfigNotFound) || diag.ExitCode(err) != diag.ExitUsage {
		t.Errorf("nothing to find: %v", err)
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, bytes.Repeat([]byte("#"), maxBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load(filepath.Join(dir, "absent.yaml"), testEnv)
	if !diag.Has(err, diag.ConfigNotFound) || !errors.Is(err, fs.ErrNotExist) || diag.ExitCode(err) != diag.ExitUsage {
		t.Errorf("absent file: %v", err)
	}
	for _, path := range []string{dir, big} {
		if _, err := Load(path, testEnv); !diag.Has(err, diag.ConfigUnreadable) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Load("testdata/accepted/complete.yaml", testEnv); err != nil {
		t.Error(err)
	}
}

func TestByteOrderMark(t *testing.T) {
	if _, err := Parse("f", []byte("\ufeffversion: 1\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), testEnv); err != nil {
		t.Error(err)
	}
}

// TestLint: the only offline finding of this version is a warning, which stops nothing.
func TestLint(t *testing.T) {
	c, err := parseFile(t, "testdata/accepted/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := Lint(c)
	if found.Err() != nil {
		t.Errorf("the minimal example has errors: %v", found.Err())
	}
	var text bytes.Buffer
	if err := found.Render(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/lint.txt", text.String())
}

// TestHash freezes the value: another value would make every running migration refuse to continue.
func TestHash(t *testing.T) {
	c := &Config{Name: "a"}
	const frozen = "2b2b082227306cd2327e91080f62e7b5"
	if got := c.Hash(Table{From: "Orders", To: "orders"}); got != frozen {
		t.Errorf("the hash of an unchanged mapping changed: %s", got)
	}
	other := &Config{Name: "b", Backfill: Backfill{Segments: 9}}
	if other.Hash(Table{From: "Orders", To: "orders", Start: StartNow}) != frozen {
		t.Error("the hash depends on what does not determine cells")
	}
	seen := map[string]Table{}
	for _, table := range []Table{{From: "Orders", To: "orders"}, {From: "Orders", To: "Orders"}, {From: "Order", To: "sorders"}, {From: "Ordersorders"}} {
		hash := c.Hash(table)
		if first, ok := seen[hash]; ok {
			t.Errorf("%+v and %+v have one hash", first, table)
		}
		seen[hash] = table
	}
}

// TestSchema checks the assumptions of the decoder.
func TestSchema(t *testing.T) {
	var visit func(f *field)
	visit = func(f *field) {
		for i := range f.fields {
			sub := &f.fields[i]
			if sub.key == "" {
				t.Errorf("a key below %q has no name", f.path)
			}
			if _, ok := notAvailable[sub.path]; ok {
				t.Errorf("%s is available and listed as not available", sub.path)
			}
			if sub.kind == text && sub.check == "" && len(sub.oneOf) == 0 {
				t.Errorf("%s takes any text", sub.path)
			}
			if _, ok := checks[sub.check]; sub.check != "" && !ok {
				t.Errorf("%s: no check %q", sub.path, sub.check)
			}
			if sub.kind == duration && (sub.min == "" || sub.max == "") {
				t.Errorf("%s has no bounds", sub.path)
			}
			if (sub.min == "") != (sub.max == "") {
				t.Errorf("%s has one bound", sub.path)
			}
			visit(sub)
		}
	}
	visit(&schema)
	for path := range notAvailable {
		parent, key := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			parent, key = path[:i], path[i+1:]
		}
		if key == "" || !hasSection(&schema, parent) {
			t.Errorf("notAvailable has %s, but there is no section %q", path, parent)
		}
	}
	setDefaults(reflect.New(reflect.TypeFor[Config]()).Elem()) // panics on a bad default
}

func hasSection(f *field, path string) bool {
	if f.entryPath() == path {
		return true
	}
	for i := range f.fields {
		if f.fields[i].kind <= list && hasSection(&f.fields[i], path) {
			return true
		}
	}
	return false
}

// Findings that need the key schema also have a place in the file.
func TestMappingIsCheckedAgainstTheKeySchema(t *testing.T) {
	c, err := parseFile(t, "testdata/accepted/mapping.yaml")
	if err != nil {
		t.Fatal(err)
	}
	key := func(names ...string) []transform.KeyAttribute {
		var keys []transform.KeyAttribute
		for _, name := range names {
			keys = append(keys, transform.KeyAttribute{Name: name, Type: attribute.KindS})
		}
		return keys
	}
	for i, names := range [][]string{{"PK", "SK"}, {"PK", "SK"}, {"id"}, {"deviceId", "ts"}, {"kind", "brand"}, {"kind", "brand"}} {
		m, err := c.Tables[i].Mapping(key(names...))
		if err != nil || m.Source != c.Tables[i].From || m.Table != c.Tables[i].To {
			t.Errorf("%s: %v", c.Tables[i].From, err)
		}
	}
	_, err = c.Tables[3].Mapping(key("deviceId", "sequence"))
	var list diag.List
	if !errors.As(err, &list) || len(list) != 1 || list[0].Code != diag.AddressAmbiguous || list[0].Pos.Line != 61 || list[0].Fix != "add #{sequence} at the end of row_key" {
		t.Error(err)
	}
	if name, at := c.Tables[0].rule(1); name != "rule comment" || at.Line != 24 {
		t.Error(name, at)
	}
	if name, at := c.Tables[2].rule(0); name != "default mapping" || at.Line != 53 {
		t.Error(name, at)
	}
	if families := c.Tables[0].TargetFamilies(); len(families) != 4 || families[3].Aggregate != transform.IntSum {
		t.Error(families)
	}
	if families := (&Table{From: "Orders"}).TargetFamilies(); len(families) != 1 || families[0].Name != DataFamily {
		t.Error(families)
	}
}
