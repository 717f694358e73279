package conformance

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// The embedded DynamoDB answers as documented, except for the listed verdicts, however many shards
// its streams have.
func TestEmbedded(t *testing.T) {
	for _, shards := range []int{1, 4} {
		server := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Seed: 1, InitialShards: shards}))
		defer server.Close()
		results, err := Run(t.Context(), Local(Embedded, server.URL))
		if err != nil {
			t.Fatal(err)
		}
		// An outdated verdict fails only make conformance, which stores the report.
		problems, _ := Judge(Embedded, results)
		for _, problem := range problems {
			t.Errorf("%d shards: %s", shards, problem)
		}
	}
}

func TestCasesAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] || !strings.Contains(c.Name, "/") || strings.ContainsAny(c.Name, `"$\`) {
			t.Errorf("%q is no name of a case, or of two", c.Name)
		}
		seen[c.Name] = true
		if c.Source == "" {
			t.Errorf("%s names no source", c.Name)
		}
	}
	for service, list := range verdicts {
		for name := range list {
			if !seen[name] {
				t.Errorf("a verdict about %s names no case: %s", service, name)
			}
		}
	}
}

// A comparison that overlooks differences would prove nothing.
func TestMismatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		partial   bool
		what      string
	}{
		{`{"a":{"N":"1"}}`, `{"a":{"N":"1"}}`, false, ""},
		{`{"a":{"N":"1"}}`, `{"a":{"N":"1.0"}}`, false, `answer.a.N is "1.0", want "1"`},
		{`{"a":{"SS":["x","y"]}}`, `{"a":{"SS":["y","x"]}}`, false, ""},
		{`{"a":{"SS":["x","y"]}}`, `{"a":{"SS":["x"]}}`, false, `answer.a.SS is ["x"], want ["x","y"]`},
		{`{"a":{"L":["x","y"]}}`, `{"a":{"L":["y","x"]}}`, false, `answer.a.L[0] is "y", want "x"`},
		{`{"a":1}`, `{"a":1.0,"b":2}`, false, "answer has a b: 2"},
		{`{"a":1}`, `{"a":1.0,"b":2}`, true, ""},
		{`{"a":"*"}`, `{"a":{"b":2}}`, false, ""},
		{`{"a":"*"}`, `{"a":null}`, false, `answer.a is null, want "*"`},
		{`{"a":"*"}`, `{}`, true, "answer has no a"},
		{`{"a":{}}`, `{"a":"x"}`, true, `answer.a is "x", not an object`},
		{`{"a":true}`, `{"a":"true"}`, false, `answer.a is "true", want true`},
	} {
		want, err := decode([]byte(c.want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode([]byte(c.got))
		if err != nil {
			t.Fatal(err)
		}
		if what := mismatch(want, got, c.partial); what != c.what {
			t.Errorf("%s, %s: %q, want %q", c.want, c.got, what, c.what)
		}
	}
}

// Requests contain the run's table names, answers do not. A value of an answer can be part of the
// next request.
func TestExpand(t *testing.T) {
	c := &run{suite: &Suite{prefix: "p-"}, key: "the case"}
	for text, want := range map[string]string{
		`{"$simple":"$k"}`: `{"p-simple":"the case"}`,
		`"$keys-only"`:     `"p-keys-only"`,
		`arn:x/$dropped/y`: `arn:x/p-dropped/y`,
		`$k$k $`:           `the casethe case p-`,
	} {
		if got := c.expand(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		EndpointVariable: "", StreamsEndpointVariable: "", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(name, value)
	}
	if e, err := FromEnvironment(t.Context()); e != nil || err != nil {
		t.Errorf("without %s: %v, %v", EndpointVariable, e, err)
	}
	expect := func(tables, streams string) {
		t.Helper()
		e, err := FromEnvironment(t.Context())
		if err != nil || e.Tables != tables || e.Streams != streams {
			t.Errorf("%+v, %v; want %s and %s", e, err, tables, streams)
		}
	}
	t.Setenv(EndpointVariable, "http://localhost:8000")
	expect("http://localhost:8000", "http://localhost:8000")
	t.Setenv(StreamsEndpointVariable, "http://localhost:8001")
	expect("http://localhost:8000", "http://localhost:8001")
	t.Setenv(EndpointVariable, "aws")
	t.Setenv(StreamsEndpointVariable, "")
	expect("https://dynamodb.eu-west-1.amazonaws.com", "https://streams.dynamodb.eu-west-1.amazonaws.com")
}
