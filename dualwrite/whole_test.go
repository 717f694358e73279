package dualwrite_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
)

// The complete text of an error for each pair of outcomes: what both stores have, and what the
// caller does next.
func TestTextsOfErrors(t *testing.T) {
	why := errors.New("why")
	for want, e := range map[string]dualwrite.Error{
		"Put: DynamoDB: not written, Bigtable: not written; read the item again: the item's number has changed since it was read":                                 {"Put", dualwrite.NotWritten, dualwrite.NotWritten, true, dualwrite.ErrConflict},
		"Update: DynamoDB: not written, Bigtable: not written; repeating the call is safe: why":                                                                   {"Update", dualwrite.NotWritten, dualwrite.NotWritten, true, why},
		"Delete: DynamoDB: unknown, Bigtable: not written; repeating the call is safe: it fails with ErrConflict if this call was executed after all: why":        {"Delete", dualwrite.Unknown, dualwrite.NotWritten, true, why},
		"Put: DynamoDB: not written, Bigtable: not written; nothing was written; the call must be changed: why":                                                   {"Put", dualwrite.NotWritten, dualwrite.NotWritten, false, why},
		"Put: DynamoDB: unknown, Bigtable: not written; read the item before you repeat it: why":                                                                  {"Put", dualwrite.Unknown, dualwrite.NotWritten, false, why},
		"Transact: DynamoDB: written, Bigtable: partly written; replicator will write it to Bigtable; do not repeat it: why":                                      {"Transact", dualwrite.Written, dualwrite.PartlyWritten, false, why},
		"Put: DynamoDB: written, Bigtable: unknown; replicator will write it to Bigtable; do not repeat it: replicator is not ready for the application's writes": {"Put", dualwrite.Written, dualwrite.Unknown, false, dualwrite.ErrNotReady},
	} {
		if got := e.Error(); got != want || !errors.Is(&e, e.Err) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A transaction has one request, with each item's image or key and with its own condition.
func TestRequestOfATransaction(t *testing.T) {
	a := &answering{status: 200, body: `{}`}
	source := a.source(t).(dualwrite.Transactor)
	key := item(t, `{"pk":{"S":"1"},"sk":{"S":"b"}}`)
	changes := []dualwrite.Change{
		{Keys: item(t, `{"pk":{"S":"1"},"sk":{"S":"a"}}`), Image: item(t, order1), Attribute: "rev", Number: "6"},
		{Keys: key, Attribute: "rev", Number: "8"},
		{Keys: key, Image: item(t, `{"pk":{"S":"1"},"sk":{"S":"b"},"rev":{"N":"1"}}`), Attribute: "rev"},
	}
	if err := source.Transact(t.Context(), changes); err != nil || a.op != "TransactWriteItems" || a.asked != 1 {
		t.Fatalf("%s, asked %d times, %v", a.op, a.asked, err)
	}
	want := `[
		{"Put":{"TableName":"Orders","Item":` + order1 + `,"ConditionExpression":"#v = :v","ExpressionAttributeNames":{"#v":"rev"},"ExpressionAttributeValues":{":v":{"N":"6"}}}},
		{"Delete":{"TableName":"Orders","Key":{"pk":{"S":"1"},"sk":{"S":"b"}},"ConditionExpression":"#v = :v","ExpressionAttributeNames":{"#v":"rev"},"ExpressionAttributeValues":{":v":{"N":"8"}}}},
		{"Put":{"TableName":"Orders","Item":{"pk":{"S":"1"},"sk":{"S":"b"},"rev":{"N":"1"}},"ConditionExpression":"attribute_not_exists(#v)","ExpressionAttributeNames":{"#v":"rev"}}}]`
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if got := a.request["TransactItems"]; !reflect.DeepEqual(got, wanted) {
		t.Errorf("%v\nwant %v", got, wanted)
	}
}

// A cancelled transaction is a conflict if any of its items was written by another writer, and is
// otherwise one that was not executed. The text names the code, and no item.
func TestWhyATransactionIsCancelled(t *testing.T) {
	cancelled := func(codes ...string) string {
		var reasons []string
		for _, code := range codes {
			reasons = append(reasons, `{"Code":"`+code+`","Message":"secret"}`)
		}
		return `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"secret","CancellationReasons":[` + strings.Join(reasons, ",") + `]}`
	}
	const refused = "DynamoDB refused the write: "
	for name, c := range map[string]struct {
		body, text string
		conflict   bool
	}{
		"a condition":          {cancelled("None", "ConditionalCheckFailed"), dualwrite.ErrConflict.Error(), true},
		"another transaction":  {cancelled("TransactionConflict", "None"), dualwrite.ErrConflict.Error(), true},
		"too large":            {cancelled("None", "ItemCollectionSizeLimitExceeded"), refused + "TransactionCanceledException", false},
		"throttled":            {cancelled("ThrottlingError"), refused + "TransactionCanceledException", false},
		"the request is wrong": {`{"__type":"com.amazonaws.dynamodb.v20120810#ValidationException","message":"secret"}`, refused + "ValidationException", false},
	} {
		a := &answering{status: 400, body: c.body}
		err := a.source(t).(dualwrite.Transactor).Transact(t.Context(), []dualwrite.Change{{Keys: item(t, order1), Image: item(t, order1)}})
		var not *dualwrite.NotExecuted
		if err == nil || err.Error() != c.text || errors.Is(err, dualwrite.ErrConflict) != c.conflict || errors.As(err, &not) == c.conflict || a.asked != 1 {
			t.Errorf("%s: %v, asked %d times", name, err, a.asked)
		}
	}
}

// An item is sent to DynamoDB with each of its types, also where they are empty or within others.
func TestEachTypeIsSent(t *testing.T) {
	const all = `{"pk":{"S":"1"},"sk":{"S":"a"},"n":{"N":"12.5"},"b":{"B":"AAEC"},"t":{"BOOL":true},"f":{"BOOL":false},"null":{"NULL":true},"e":{"S":""},` +
		`"l":{"L":[{"M":{"x":{"L":[]}}},{"N":"1"}]},"m":{"M":{}},"ss":{"SS":["a","b"]},"ns":{"NS":["1","2"]},"bs":{"BS":["AA==","AQ=="]}}`
	a := &answering{status: 200, body: `{}`}
	old, err := a.source(t).Write(t.Context(), dualwrite.Change{Keys: item(t, `{"pk":{"S":"1"},"sk":{"S":"a"}}`), Image: item(t, all)})
	var want any
	if failed := json.Unmarshal([]byte(all), &want); failed != nil || err != nil || old.Exists() || !reflect.DeepEqual(a.request["Item"], want) {
		t.Errorf("%v, want %v, %v", a.request["Item"], want, err)
	}
}

// Each call asks DynamoDB for exactly its change: the key, the image with the next number, and the
// number that the caller had read. An image that moves to another row makes two requests to
// Bigtable.
func TestChangesThatCallsAskFor(t *testing.T) {
	const stored = `{"pk":{"S":"1"},"sk":{"S":"a"},"customer":{"S":"y"},"rev":{"N":"7"}}`
	keys := item(t, `{"pk":{"S":"1"},"sk":{"S":"a"}}`)
	next := item(t, strings.Replace(order1, `"7"`, `"8"`, 1))
	for name, c := range map[string]struct {
		call func(w *dualwrite.Writer) (attribute.Item, error)
		want dualwrite.Change
	}{
		"put": {func(w *dualwrite.Writer) (attribute.Item, error) { return w.Put(t.Context(), item(t, order1)) }, dualwrite.Change{Keys: keys, Image: next, Attribute: "rev", Number: "7"}},
		"delete": {func(w *dualwrite.Writer) (attribute.Item, error) {
			return attribute.Item{}, w.Delete(t.Context(), item(t, order1))
		}, dualwrite.Change{Keys: keys, Attribute: "rev", Number: "7"}},
		"update": {func(w *dualwrite.Writer) (attribute.Item, error) {
			return w.Update(t.Context(), item(t, order1), func(read attribute.Item) (attribute.Item, error) {
				if !read.Equal(item(t, stored)) {
					t.Errorf("it reads %v", read)
				}
				return item(t, unnumbered(order1)), nil // the function may ignore the number
			})
		}, dualwrite.Change{Keys: keys, Image: withNumber(item(t, unnumbered(order1)), "8"), Attribute: "rev", Number: "7"}},
		"update to nothing": {func(w *dualwrite.Writer) (attribute.Item, error) {
			return w.Update(t.Context(), keys, func(attribute.Item) (attribute.Item, error) { return attribute.Item{}, nil })
		}, dualwrite.Change{Keys: keys, Attribute: "rev", Number: "7"}},
	} {
		m := mapping()
		source, target := &table{item: item(t, stored)}, newRecorder(m)
		got, err := c.call(dualwrite.New(m, source, target))
		if err != nil || !got.Equal(c.want.Image) || len(source.asked) != 1 || !reflect.DeepEqual(sortedChange(source.asked[0]), sortedChange(c.want)) || len(target.sent) != map[bool]int{true: 2, false: 1}[c.want.Image.Exists()] {
			t.Errorf("%s: %+v, want %+v, %d rows, %v", name, source.asked, c.want, len(target.sent), err)
		}
	}
}

// sortedChange returns a change in a form that can be compared.
func sortedChange(c dualwrite.Change) []string {
	var all []string
	for _, i := range []attribute.Item{c.Keys, c.Image} {
		text, err := attribute.MarshalItem(i)
		if i.Exists() && err != nil {
			panic(err)
		}
		parts := strings.Split(strings.Trim(string(text), "{}"), ",")
		slices.Sort(parts)
		all = append(all, strings.Join(parts, ","))
	}
	return append(all, c.Attribute, c.Number)
}

func withNumber(i attribute.Item, number string) attribute.Item {
	n, err := attribute.Number(number)
	if err != nil {
		panic(err)
	}
	return attribute.NewItem(append(slices.Clone(i.Attributes()), attribute.Attribute{Name: "rev", Value: n}))
}
