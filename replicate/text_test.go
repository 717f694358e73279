package replicate

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func noVariables(string) (string, bool) { return "", false }

// Fields of Config mean the same as the keys that they are named after.
func TestFieldsAreKeys(t *testing.T) {
	target := Target{Project: "p-1", Instance: "i-1", AppProfile: "single"}
	const head = "version: 1\nname: orders\nsource: { region: eu-west-1, role_arn: ['arn:aws:iam::111122223333:role/q', 'arn:aws:iam::111122223333:role/r'], external_id: partner }\n" +
		"target: { project: p-1, instance: i-1, app_profile: single }\nstate: { table: s }\n" +
		"backfill: { from: 's3://bucket/AWSDynamoDB/{table}', mode: guarded, on_gap: load, max_rows_per_second: 7 }\nhttp: { listen: '127.0.0.1:1' }\n"
	base := Config{Name: "orders", Source: Source{Region: "eu-west-1", Roles: []string{"arn:aws:iam::111122223333:role/q", "arn:aws:iam::111122223333:role/r"}, ExternalID: "partner", Endpoint: "http://localhost:1"}, Target: target, StateTable: "s",
		Backfill: Backfill{From: "s3://bucket/AWSDynamoDB/{table}", Mode: "guarded", OnGap: "load", MaxRowsPerSecond: 7}, Listen: "127.0.0.1:1"}
	for _, c := range []struct {
		name   string
		yaml   string
		tables []Table
		want   string
	}{
		{"names", "", []Table{{From: "Orders"}, {From: "Lines", To: "order-lines"}}, "tables: [{ from: Orders }, { from: Lines, to: order-lines }]"},
		{"columns", "", []Table{{From: "Orders", RowKey: "{pk}#{sk | lower}", Columns: []Column{{"total", "d:total", "float64"}, {"*", "d", ""}, {"a: \"b\"", "d:x", ""}}}},
			`tables: [{ from: Orders, rules: [{ row_key: "{pk}#{sk | lower}", columns: { total: { to: "d:total", as: float64 }, "*": d, 'a: "b"': "d:x" } }] }]`},
		{"a document", "", []Table{{From: "Orders", Cell: Cell{"d:item", "json"}}}, `tables: [{ from: Orders, rules: [{ cell: { to: "d:item", as: json } }] }]`},
		{"keys of the entry", "", []Table{{From: "Orders", YAML: "owned: true\nttl:\n  attribute: expires\n  expire: follow_deletes\n"}, {From: "Lines"}},
			"tables: [{ from: Orders, owned: true, ttl: { attribute: expires, expire: follow_deletes } }, { from: Lines }]"},
		{"dollar signs", "", []Table{{From: "Orders", RowKey: "{pk}#${HOME}$$", Columns: []Column{{"$a", "d:$a", ""}}}},
			`tables: [{ from: Orders, rules: [{ row_key: "{pk}#$${HOME}$$$$", columns: { $a: "d:$a" } }] }]`},
		{"keys of the text", "version: 1\nverify: { every: 1m }", []Table{{From: "Orders"}}, "verify: { every: 1m }\ntables: [{ from: Orders }]"},
		{"the whole text", "version: 1\nname: other\nverify: { every: 1m }\ntables: [{ from: Orders }]", nil, "verify: { every: 1m }\ntables: [{ from: Orders }]"},
	} {
		given := base
		given.YAML, given.Tables = c.yaml, c.tables
		got, err := given.read(noVariables)
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, tablesText(c.tables))
			continue
		}
		want, err := config.Parse("want", []byte(head+c.want), noVariables)
		if err != nil {
			t.Fatal(c.name, err)
		}
		gotDocument, err := got.Document()
		if err != nil {
			t.Fatal(err)
		}
		if wantDocument, err := want.Document(); err != nil || !reflect.DeepEqual(gotDocument, wantDocument) {
			t.Errorf("%s: %v\n%v\nwant\n%v", c.name, err, gotDocument, wantDocument)
		}
	}
}

// An error names the field or the line of the text that it is about.
func TestErrorsOfConfigurations(t *testing.T) {
	target := Target{Project: "p-1", Instance: "i-1"}
	one := []Table{{From: "Orders"}}
	for _, c := range []struct {
		name        string
		config      Config
		code, place string
		what        string
	}{
		{"nothing", Config{}, diag.MissingValue, "Config.Tables", "target.project is missing"},
		{"a field", Config{Target: target, Tables: one, Backfill: Backfill{Mode: "quick"}}, diag.InvalidValue, "Config.Backfill.Mode", "quick"},
		{"a negative limit", Config{Target: target, Tables: one, Backfill: Backfill{MaxRowsPerSecond: -1}}, diag.InvalidValue, "Config.Backfill.MaxRowsPerSecond", "-1"},
		{"a table", Config{Target: target, Tables: []Table{{From: "Orders", To: "a b"}}}, diag.InvalidValue, "Config.Tables", "tables[0].to"},
		{"a key of a table", Config{Target: target, Tables: []Table{{From: "Orders", YAML: "owend: true"}}}, diag.UnknownKey, "Config.Tables", "owend"},
		{"a line", Config{Target: target, Tables: one, YAML: "version: 1\nverfy: {}"}, diag.UnknownKey, "Config.YAML:2:1", "verfy"},
		{"tables twice", Config{Target: target, Tables: one, YAML: "version: 1\ntables: [{ from: Orders }]"}, diag.DuplicateKey, "Config.YAML:3:1", "tables"},
		{"a file and tables", Config{Target: target, Tables: one, File: "replicator.yaml"}, diag.Usage, "Config.File", "excludes"},
		{"a file that is missing", Config{Target: target, File: "testdata/none.yaml"}, diag.ConfigNotFound, "", "testdata/none.yaml"},
		{"a variable", Config{Target: target, YAML: "version: 1\nname: ${NAME}\ntables: [{ from: Orders }]"}, diag.VariableUnset, "Config.YAML:2:7", "NAME"},
	} {
		_, err := New(c.config, WithEnvironment(noVariables))
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code || e.Place != c.place || !strings.Contains(e.What, c.what) || e.Fix == "" || !strings.HasSuffix(e.More, "#"+e.Code) {
			t.Errorf("%s: %+v (%v), want %s at %s", c.name, e, err, c.code, c.place)
		}
	}
	_, err := New(Config{Tables: []Table{{From: "Orders", To: "a b"}}}, WithEnvironment(noVariables))
	if text := err.Error(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "target.instance is missing") || !strings.Contains(text, "tables[0].to") {
		t.Errorf("not all errors are reported: %v", err)
	}
}

// A text's variables come from the given environment.
func TestVariables(t *testing.T) {
	r, err := New(Config{Target: Target{Project: "p-1", Instance: "i-1"}, YAML: "version: 1\nname: ${NAME}\ntables: [{ from: Orders }]"},
		WithEnvironment(func(name string) (string, bool) { return "of-" + strings.ToLower(name), name == "NAME" }))
	if err != nil || r.cfg.Name != "of-name" {
		t.Errorf("%v, %v", r, err)
	}
}

// A variable that redirects a client is refused, unless the program allows it or has set the
// endpoint itself.
func TestRedirectionsAreRefused(t *testing.T) {
	t.Setenv("BIGTABLE_EMULATOR_HOST", "localhost:1")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:2")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "http://localhost:2")
	c := Config{Target: Target{Project: "p-1", Instance: "i-1"}, Tables: []Table{{From: "Orders"}}}
	_, err := New(c)
	if !strings.Contains(text(err), "BIGTABLE_EMULATOR_HOST is set") || !strings.Contains(text(err), "AWS_ENDPOINT_URL_DYNAMODB") {
		t.Errorf("%v", err)
	}
	if fix := first(err).Fix; !strings.Contains(fix, "replicate.AllowEmulators()") {
		t.Errorf("fix %q", fix)
	}
	if _, err = New(c, AllowEmulators()); err != nil {
		t.Errorf("although allowed: %v", err)
	}
	c.Target.Emulator = "localhost:3"
	if _, err = New(c); strings.Contains(text(err), "BIGTABLE_EMULATOR_HOST") || !strings.Contains(text(err), "AWS_ENDPOINT_URL_DYNAMODB") {
		t.Errorf("with an emulator: %v", err)
	}
	c.Source.Endpoint = "http://localhost:4"
	r, err := New(c)
	if err != nil {
		t.Fatalf("with both: %v", err)
	}
	for name, want := range map[string]string{"BIGTABLE_EMULATOR_HOST": "localhost:3", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": "http://localhost:4"} {
		if got, _ := r.console().Env(name); got != want {
			t.Errorf("%s is %q to the engine, want %q", name, got, want)
		}
	}
}

// first returns the first *Error of an error.
func first(err error) *Error {
	e := &Error{}
	_ = errors.As(err, &e)
	return e
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
