// Package itemkey reads the primary key of an item as operators write it.
package itemkey

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Help describes the value of --key, in the help of all commands that have this flag.
const Help = "primary key as `JSON`: plain ({\"PK\":\"VIDEO#42\",\"SK\":7}) or DynamoDB's own ({\"PK\":{\"S\":\"VIDEO#42\"},…}); binary is base64"

// Parse parses the primary key of one item. The key schema determines the types, and has the
// partition key first. A value may be plain JSON or DynamoDB JSON. Errors contain no values, because
// operators may copy errors into tickets.
func Parse(text string, schema []transform.KeyAttribute) (attribute.Item, error) {
	return ParseAt("--key", text, schema)
}

// ParseAt is Parse for a key that stands at another place, such as a line of a file. Errors
// begin with this place.
func ParseAt(place, text string, schema []transform.KeyAttribute) (attribute.Item, error) {
	keys, err := parse(place, text, schema)
	if err != nil {
		return attribute.Item{}, err
	}
	for i, k := range schema {
		most := transform.MaxKeyBytes
		if i > 0 {
			most = transform.MaxSortKeyBytes
		}
		// DynamoDB would refuse every read of such a key.
		if v, _ := keys.Get(k.Name); v.Kind() != attribute.KindN && len(v.Text()) > most {
			return attribute.Item{}, diag.BadUsage(fmt.Sprintf("%s: attribute %q is too long", place, k.Name), fmt.Sprintf("give a key as DynamoDB allows it: at most %d bytes", most))
		}
	}
	return keys, nil
}

// ParseLike parses the primary key of an item in the table of another item, whose key is known.
func ParseLike(text string, known attribute.Item) (attribute.Item, error) {
	var schema []transform.KeyAttribute // in no order, so that sizes cannot be checked
	for _, a := range known.Attributes() {
		schema = append(schema, transform.KeyAttribute{Name: a.Name, Type: a.Value.Kind()})
	}
	return parse("--key", text, schema)
}

func parse(place, text string, schema []transform.KeyAttribute) (attribute.Item, error) {
	fail := func(what string) (attribute.Item, error) {
		return attribute.Item{}, diag.BadUsage(place+": "+what, fmt.Sprintf("give the whole primary key, for example %s", exampleOf(place, schema)))
	}
	given, problem := members(text)
	if problem != "" {
		return fail(problem)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(schema, func(k transform.KeyAttribute) bool { return k.Name == name }) {
			return fail(fmt.Sprintf("%q is not part of the primary key %s", name, Names(schema)))
		}
	}
	keys := make([]attribute.Attribute, 0, len(schema))
	for _, k := range schema {
		raw, ok := given[k.Name]
		if !ok {
			return fail(fmt.Sprintf("attribute %q is missing; the primary key is %s", k.Name, Names(schema)))
		}
		v, problem := keyValue(raw, k.Type)
		if problem != "" {
			return fail(fmt.Sprintf("attribute %q %s", k.Name, problem))
		}
		keys = append(keys, attribute.Attribute{Name: k.Name, Value: v})
	}
	return attribute.NewItem(keys), nil
}

// members parses a JSON object. If there is a problem, it returns text that completes a sentence. Text
// that would become another key is refused: the wrong item would be compared, and be equal if it
// does not exist.
func members(text string) (given map[string]json.RawMessage, problem string) {
	const noObject = "it is not a JSON object"
	if !utf8.ValidString(text) {
		return nil, "it is not valid UTF-8"
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil, noObject
	}
	given = map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		name, isName := token.(string)
		var value json.RawMessage
		if err != nil || !isName || decoder.Decode(&value) != nil {
			return nil, noObject
		}
		if _, twice := given[name]; twice {
			return nil, fmt.Sprintf("attribute %q is given twice", name)
		}
		given[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, noObject
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, "there is text after the JSON object"
	}
	return given, ""
}

// keyValue parses one value of a key. If there is a problem, it returns text that completes a
// sentence, after the attribute's name.
func keyValue(raw json.RawMessage, kind attribute.Kind) (attribute.Value, string) {
	var typed map[string]json.RawMessage
	if json.Unmarshal(raw, &typed) == nil && typed != nil {
		inner, ok := typed[kind.String()]
		if !ok || len(typed) != 1 {
			return attribute.Value{}, "is of type " + kind.String() + " in the table, but its type here is another"
		}
		raw = inner
	}
	var text string
	if string(raw) == "null" || json.Unmarshal(raw, &text) != nil {
		var number json.Number
		if kind != attribute.KindN || string(raw) == "null" || json.Unmarshal(raw, &number) != nil {
			return attribute.Value{}, "is of type " + kind.String() + " in the table; write it as text in quotes"
		}
		text = number.String()
	}
	if text == "" && kind != attribute.KindN {
		return attribute.Value{}, "is empty; DynamoDB allows no empty key"
	}
	switch kind {
	case attribute.KindN:
		v, err := attribute.Number(text)
		if err != nil {
			return attribute.Value{}, "is not a valid DynamoDB number"
		}
		return v, ""
	case attribute.KindB:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return attribute.Value{}, "is binary in the table; write it in base64"
		}
		return attribute.Binary(b), ""
	default:
		return attribute.String(text), ""
	}
}

// Names lists the attributes of a primary key with their types.
func Names(schema []transform.KeyAttribute) string {
	var names []string
	for _, k := range schema {
		names = append(names, fmt.Sprintf("%s (%s)", k.Name, k.Type))
	}
	return strings.Join(names, ", ")
}

// exampleOf returns an example of a primary key, as it is written at a place.
func exampleOf(place string, schema []transform.KeyAttribute) string {
	if strings.HasPrefix(place, "--") {
		return place + " '" + exampleKey(schema) + "'"
	}
	return exampleKey(schema)
}

// exampleKey returns an example of a primary key with the given schema.
func exampleKey(schema []transform.KeyAttribute) string {
	var members []string
	for _, k := range schema {
		name, _ := json.Marshal(k.Name) // cannot fail for a string
		example := `"…"`
		if k.Type == attribute.KindN {
			example = "1"
		}
		members = append(members, string(name)+":"+example)
	}
	return "{" + strings.Join(members, ",") + "}"
}
