package dualwrite_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
)

// answering is a DynamoDB with one answer, which records the last request.
type answering struct {
	status  int
	body    string
	op      string
	request map[string]any
	asked   int
}

func (a *answering) source(t *testing.T) dualwrite.Source {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, a.op, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		a.request, a.asked = nil, a.asked+1
		_ = json.Unmarshal(text, &a.request)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(server.Close)
	return dualwrite.DynamoDB(dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}), "Orders")
}

// Only an answer that refuses a write proves that it was not executed. Each write is sent once, and
// no error quotes the item.
func TestWhatAnAnswerOfDynamoDBProves(t *testing.T) {
	said := func(code string) string {
		return `{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `","message":"secret"}`
	}
	for name, c := range map[string]struct {
		status             int
		body               string
		conflict, executed bool // executed: perhaps executed
	}{
		"a condition that does not hold": {400, said("ConditionalCheckFailedException"), true, false},
		"a request that is not valid":    {400, said("ValidationException"), false, false},
		"throttled":                      {400, said("ProvisionedThroughputExceededException"), false, false},
		"refused by a proxy":             {403, "<html>secret</html>", false, false},
		"an error of the service's":      {500, said("InternalServerError"), false, true},
		"a proxy without its backend":    {503, "<html>secret</html>", false, true},
	} {
		for _, remove := range []bool{false, true} {
			a := &answering{status: c.status, body: c.body}
			change := dualwrite.Change{Keys: item(t, order1), Image: item(t, order1), Attribute: "rev", Number: "7"}
			if remove {
				change.Image = attribute.Item{}
			}
			_, err := a.source(t).Write(t.Context(), change)
			var not *dualwrite.NotExecuted
			if err == nil || errors.Is(err, dualwrite.ErrConflict) != c.conflict || errors.As(err, &not) != (!c.conflict && !c.executed) || a.asked != 1 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, removed %t: %v, asked %d times", name, remove, err, a.asked)
			}
		}
	}
}

// Puts and deletes have the same condition: the number that was read, no number, or none at all.
func TestConditionsOfAWrite(t *testing.T) {
	for _, c := range []struct{ attribute, number, condition, value string }{
		{"rev", "7", "#v = :v", "7"}, {"rev", "", "attribute_not_exists(#v)", ""}, {"", "", "", ""},
	} {
		for _, op := range []string{"PutItem", "DeleteItem"} {
			a := &answering{status: 200, body: `{"Attributes":{"pk":{"S":"old"}}}`}
			change := dualwrite.Change{Keys: item(t, `{"pk":{"S":"1"},"sk":{"S":"a"}}`), Attribute: c.attribute, Number: c.number}
			if op == "PutItem" {
				change.Image = item(t, order1)
			}
			old, err := a.source(t).Write(t.Context(), change)
			if pk, _ := old.Get("pk"); err != nil || pk.Text() != "old" || a.op != op || a.request["TableName"] != "Orders" || a.request["ReturnValues"] != "ALL_OLD" {
				t.Errorf("%+v: %s: %v", c, a.op, err)
			}
			condition, _ := a.request["ConditionExpression"].(string)
			names, _ := json.Marshal(a.request["ExpressionAttributeNames"])
			values, _ := json.Marshal(a.request["ExpressionAttributeValues"])
			if condition != c.condition || strings.Contains(string(names), `"#v":"rev"`) != (c.attribute != "") || strings.Contains(string(values), `":v":{"N":"7"}`) != (c.value != "") {
				t.Errorf("%s %+v: %q of %s and %s", op, c, condition, names, values)
			}
			sent, _ := json.Marshal(map[string]any{"PutItem": a.request["Item"], "DeleteItem": a.request["Key"]}[op])
			if strings.Contains(string(sent), "customer") != (op == "PutItem") || !strings.Contains(string(sent), `"sk":{"S":"a"}`) {
				t.Errorf("%s of %s", op, sent)
			}
		}
	}
}
