package backfill

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// pages is a server that gives the answers one after the other, and records the requests.
func pages(asked *[]string, bodies ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		*asked = append(*asked, string(request))
		answer(http.StatusOK, bodies[min(len(*asked), len(bodies))-1])(w, r)
	}
}

// Every page of the list is read, even an empty one, from where the previous one ended.
func TestListReadsEveryPage(t *testing.T) {
	var asked []string
	names, err := tables(t, pages(&asked,
		`{"TableNames":["a","b"],"LastEvaluatedTableName":"b"}`, `{"TableNames":[],"LastEvaluatedTableName":"m"}`, `{"TableNames":["z"]}`)).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "z"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`{}`, `{"ExclusiveStartTableName":"b"}`, `{"ExclusiveStartTableName":"m"}`}, asked); diff != "" {
		t.Error(diff)
	}
}

// An impossible list is an error: tables that are missing in it would be suspended as dropped.
func TestListThatCannotBeRight(t *testing.T) {
	for name, bodies := range map[string][]string{
		"no list":                {`{}`},
		"no list after one page": {`{"TableNames":["a"],"LastEvaluatedTableName":"a"}`, `{}`},
		"it does not go on":      {`{"TableNames":["a"],"LastEvaluatedTableName":"a"}`, `{"TableNames":["a"],"LastEvaluatedTableName":"a"}`},
	} {
		var asked []string
		if names, err := tables(t, pages(&asked, bodies...)).List(t.Context()); !cdc.Is(err, cdc.Malformed) || names != nil {
			t.Errorf("%s: %v, %v", name, names, err)
		}
	}
}

// A list that fails after a page is an error: the tables after that page would be suspended as
// dropped.
func TestListThatBreaksOff(t *testing.T) {
	requests := 0
	throttled := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			answer(http.StatusOK, `{"TableNames":["a"],"LastEvaluatedTableName":"a"}`)(w, r)
			return
		}
		answer(http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`)(w, r)
	})
	if names, err := tables(t, throttled).List(t.Context()); !cdc.Is(err, cdc.Throttled) || names != nil {
		t.Errorf("%v, %v", names, err)
	}
}

// The status decides whether items expire: the attribute of a time to live that is disabled, or
// being disabled, does not count.
func TestExpiryAttribute(t *testing.T) {
	for status, want := range map[string]string{"ENABLED": "until", "ENABLING": "until", "DISABLING": "", "DISABLED": ""} {
		body := `{"TimeToLiveDescription":{"TimeToLiveStatus":"` + status + `","AttributeName":"until"}}`
		if got, err := NewExpiry(client(t, answer(http.StatusOK, body))).Attribute(t.Context(), "Orders"); err != nil || got != want {
			t.Errorf("%s: %q, %v", status, got, err)
		}
	}
	if got, err := NewExpiry(client(t, answer(http.StatusOK, `{}`))).Attribute(t.Context(), "Orders"); err != nil || got != "" {
		t.Errorf("nothing: %q, %v", got, err)
	}
	refused := answer(http.StatusBadRequest, `{"__type":"com.amazon.coral.service#AccessDeniedException","message":"`+strings.Repeat("x", 10)+`"}`)
	if _, err := NewExpiry(client(t, refused)).Attribute(t.Context(), "Orders"); !cdc.Is(err, cdc.Denied) {
		t.Errorf("denied: %v", err)
	}
}
