package itemkey

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestParseKey(t *testing.T) {
	schema := []transform.KeyAttribute{{Name: "PK", Type: attribute.KindS}, {Name: "n", Type: attribute.KindN}}
	binary := []transform.KeyAttribute{{Name: "b", Type: attribute.KindB}}
	number := func(text string) attribute.Value {
		v, err := attribute.Number(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	pair := func(text, n string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(text)}, {Name: "n", Value: number(n)}})
	}
	for _, c := range []struct {
		text   string
		schema []transform.KeyAttribute
		want   attribute.Item
	}{
		{`{"PK":"VIDEO#42","n":7}`, schema, pair("VIDEO#42", "7")},
		{`{"n":"7.0","PK":" "}`, schema, pair(" ", "7")},
		{`{"PK":{"S":"a\u00e4"},"n":{"N":"1e2"}}`, schema, pair("aä", "100")},
		{` {"PK":"{\"S\":1}","n":12345678901234567890123456789012345678}`, schema, pair(`{"S":1}`, "12345678901234567890123456789012345678")},
		{`{"b":"AP8="}`, binary, attribute.NewItem([]attribute.Attribute{{Name: "b", Value: attribute.Binary([]byte{0, 255})}})},
		{`{"b":{"B":"AP8="}}`, binary, attribute.NewItem([]attribute.Attribute{{Name: "b", Value: attribute.Binary([]byte{0, 255})}})},
	} {
		got, err := Parse(c.text, c.schema)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %v, %v", c.text, got, err)
		}
	}
	for text, want := range map[string]string{
		``:                                  "not a JSON object",
		`null`:                              "not a JSON object",
		`{"PK":"hidden"`:                    "not a JSON object",
		`{"PK":"hidden","n":`:               "not a JSON object",
		`{"PK":"hidden","n":1,}`:            "not a JSON object",
		`{"PK":"a","n":1,"PK":"hidden"}`:    `attribute "PK" is given twice`,
		"{\"PK\":\"hidden\xe4\",\"n\":1}":   "not valid UTF-8",
		`[1]`:                               "not a JSON object",
		`{"PK":"hidden","n":1} x`:           "text after the JSON object",
		`{"PK":"hidden"}`:                   `"n" is missing`,
		`{"PK":"hidden","n":1,"sk":"x"}`:    `"sk" is not part of the primary key PK (S), n (N)`,
		`{"PK":"hidden","n":"hidden"}`:      "not a valid DynamoDB number",
		`{"PK":"hidden","n":1e999}`:         "not a valid DynamoDB number",
		`{"PK":"","n":1}`:                   "is empty",
		`{"PK":{"S":""},"n":1}`:             "is empty",
		`{"PK":"hidden","n":""}`:            "not a valid DynamoDB number",
		`{"PK":42,"n":1}`:                   "write it as text",
		`{"PK":null,"n":1}`:                 "write it as text",
		`{"PK":"hidden","n":null}`:          "write it as text",
		`{"PK":{"N":"1"},"n":1}`:            "its type here is another",
		`{"PK":{"S":"a","N":"1"},"n":1}`:    "its type here is another",
		`{"PK":{"S":["hidden"]},"n":1}`:     "write it as text",
		`{"PK":"hidden","n":{"N":{"N":1}}}`: "write it as text",
	} {
		_, err := Parse(text, schema)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("an error shows a value of a key: %v", err)
		}
	}
	for _, text := range []string{`{"b":"%"}`, `{"b":""}`} {
		if _, err := Parse(text, binary); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// A key that DynamoDB would refuse is refused first. The partition key may be longer than the sort key.
// A key like another one is not measured, because the order of its attributes is unknown.
func TestLongKeys(t *testing.T) {
	schema := []transform.KeyAttribute{{Name: "z", Type: attribute.KindS}, {Name: "a", Type: attribute.KindB}}
	text := func(z, a int) string {
		return fmt.Sprintf(`{"z":%q,"a":%q}`, strings.Repeat("x", z), base64.StdEncoding.EncodeToString(make([]byte, a)))
	}
	for _, c := range []struct {
		z, a int
		want string
	}{{2048, 1024, ""}, {2049, 1, `attribute "z" is too long`}, {1, 1025, `attribute "a" is too long`}} {
		key, err := ParseAt("line 7 of f", text(c.z, c.a), schema)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "line 7 of f: "+c.want) {
			t.Errorf("%d and %d bytes: %v", c.z, c.a, err)
		}
		if err != nil {
			continue
		}
		if like, err := ParseLike(text(c.z, c.a), key); err != nil || !like.Equal(key) {
			t.Errorf("%d and %d bytes, like another key: %v", c.z, c.a, err)
		}
	}
}
