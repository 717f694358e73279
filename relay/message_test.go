package relay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var update = flag.Bool("update", false, "write the schema and the golden messages")

func parse(t testing.TB, text string) attribute.Item {
	t.Helper()
	i, err := attribute.UnmarshalItem([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func sequence(t testing.TB, text string) cdc.SequenceNumber {
	t.Helper()
	s, err := cdc.ParseSequenceNumber(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var origin = relay.Origin{
	Ledger: "7d0c", Table: "Orders", StreamARN: "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-02T00:00:00.000",
	Label: "2026-11-02T00:00:00.000", Shard: "shardId-00000001794000000000-1a2b3c4d", Generation: 29878560, Hop: 500001, MappingHash: "9f86d081",
}

// examples returns the golden messages by name.
func examples(t testing.TB) map[string]relay.Change {
	at := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	keys := parse(t, `{"PK":{"S":"ORDER#42"},"SK":{"N":"7"}}`)
	small := parse(t, `{"PK":{"S":"ORDER#42"},"SK":{"N":"7"},"state":{"S":"new"}}`)
	large := parse(t, `{"PK":{"S":"ORDER#42"},"SK":{"N":"7"},"state":{"S":"paid & <sent>"},"total":{"N":"12.50"},"lines":{"L":[{"M":{"sku":{"S":"ü\"\\"}}},{"NULL":true}]},"tags":{"SS":["a","b"]},"raw":{"B":"AAEC"}}`)
	change := func(n uint64, seq string, c cdc.Change) relay.Change {
		c.Sequence, c.Keys, c.Time = sequence(t, seq), keys, at.Add(time.Duration(n)*time.Second)
		return relay.Change{Origin: origin, Number: n, Change: c, CellTime: c.Time}
	}
	dropped := change(1, "111100000000000000000001", cdc.Change{Event: cdc.Insert, New: small})
	dropped.Omitted = relay.BeforeStart
	loaded := change(0, "1793613600", cdc.Change{Event: cdc.Insert, New: small})
	loaded.Loaded, loaded.Hop, loaded.Shard = true, 0, "load-1/part-3"
	return map[string]relay.Change{
		"dropped": dropped,
		"load":    loaded,
		"insert":  change(2, "111100000000000000000002", cdc.Change{Event: cdc.Insert, New: small}),
		"modify":  change(3, "111100000000000000000003", cdc.Change{Event: cdc.Modify, Old: small, New: large}),
		"remove":  change(4, "111100000000000000000004", cdc.Change{Event: cdc.Remove, Old: large, Expired: true}),
	}
}

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("message.json", doc); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("message.json")
}

// golden compares a message with its file, and validates it.
func golden(t *testing.T, schema *jsonschema.Schema, name string, data []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != strings.TrimRight(string(want), "\n") {
		t.Errorf("%s: got %s", name, data)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// A message of a parked item has the whole change, unless it does not fit.
func TestGoldenParked(t *testing.T) {
	change := examples(t)["modify"]
	p := transform.Parked{Source: "Orders", Key: "key", Version: change.Version(), Reason: "an attribute name is too long", Change: change.Change}
	m, err := relay.EncodeParked("default", "Orders/2c26b46b/v", p)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, compiled(t, relay.ParkedJSONSchema()), "parked", m.Data)
	if subject, err := relay.Subject("Orders", change.Keys); err != nil || m.Key != subject || m.Attributes["schema"] != relay.ParkedSchemaV1 {
		t.Errorf("key %q, attributes %v, %v", m.Key, m.Attributes, err)
	}
	if m.Attributes["table"] != "Orders" || m.Attributes["event"] != "MODIFY" || m.Attributes["version"] != string(p.Version) {
		t.Errorf("attributes %v", m.Attributes)
	}
	p.Change.New = attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(strings.Repeat("x", relay.MaxMessage))}})
	if m, err = relay.EncodeParked("default", "Orders/2c26b46b/v", p); err != nil || len(m.Data) > 2000 || !strings.Contains(string(m.Data), `"omitted":"too_large"`) {
		t.Errorf("%d bytes, %v", len(m.Data), err)
	}
}

func TestGoldenMessages(t *testing.T) {
	schema := compiled(t, relay.JSONSchema())
	for name, c := range examples(t) {
		m, _, err := relay.Encode(c)
		if err != nil {
			t.Fatal(name, err)
		}
		golden(t, schema, name, m.Data)
		got, err := relay.Decode(m.Data)
		if err != nil {
			t.Fatal(name, err)
		}
		if c.Omitted != "" {
			c.Old, c.New = attribute.Item{}, attribute.Item{}
		}
		if !reflect.DeepEqual(got, c) {
			t.Errorf("%s: decoded as %+v", name, got)
		}
		var attributes []string
		for k := range m.Attributes {
			attributes = append(attributes, k)
		}
		if len(attributes) != 5 || m.Attributes["table"] != "Orders" || c.Loaded == (m.Attributes["event"] == c.Event.String()) {
			t.Errorf("%s: attributes %v", name, m.Attributes)
		}
	}
}

// TestSchemaIsGenerated compares the schemas with the tags of the bodies.
func TestSchemaIsGenerated(t *testing.T) {
	generated(t, "message.schema.json", relay.Type, "A change of a DynamoDB table, as replicator publishes it", reflect.TypeOf(relay.Body{}), relay.JSONSchema())
	generated(t, "parked.schema.json", relay.ParkedType, "An item that the target cannot hold, as replicator publishes it", reflect.TypeOf(relay.ParkedBody{}), relay.ParkedJSONSchema())
}

// numbered requires a number of all messages but items of a load.
var numbered = map[string]any{
	"if":   map[string]any{"properties": map[string]any{"event": map[string]any{"const": relay.LoadEvent}}},
	"then": map[string]any{"not": map[string]any{"required": []string{"number"}}},
	"else": map[string]any{"required": []string{"number"}},
}

func generated(t *testing.T, path, kind, title string, body reflect.Type, embedded []byte) {
	dynamo := map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": "object", "minProperties": 1, "maxProperties": 1}}
	members, required := map[string]any{}, []string{}
	for i := range body.NumField() {
		f := body.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := map[string]any{"description": f.Tag.Get("desc")}
		switch {
		case f.Type == reflect.TypeOf(json.RawMessage{}):
			for k, v := range dynamo {
				member[k] = v
			}
		case f.Type.Kind() == reflect.Bool:
			member["type"] = "boolean"
		case f.Type.Kind() == reflect.String:
			member["type"] = "string"
		default:
			member["type"], member["minimum"] = "integer", 0
			if f.Tag.Get("min") != "" {
				member["minimum"] = 1
			}
		}
		for _, key := range []string{"const", "pattern", "format"} {
			if v := f.Tag.Get(key); v != "" {
				member[key] = v
			}
		}
		if v := f.Tag.Get("enum"); v != "" {
			member["enum"] = strings.Split(v, ",")
		}
		members[name] = member
		if option == "" {
			required = append(required, name)
		}
	}
	text := map[string]any{"type": "string", "minLength": 1}
	doc := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, "type": "object",
		"required": []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"},
		"properties": map[string]any{
			"specversion": map[string]any{"const": "1.0"}, "id": text, "source": text, "subject": map[string]any{"type": "string", "pattern": "^[0-9a-f]{64}$"},
			"type": map[string]any{"const": kind}, "time": map[string]any{"type": "string", "format": "date-time"}, "datacontenttype": map[string]any{"const": "application/json"},
			"data": map[string]any{"type": "object", "required": required, "properties": members},
		},
	}
	if members["number"] != nil {
		data := doc["properties"].(map[string]any)["data"].(map[string]any)
		for key, rule := range numbered {
			data[key] = rule
		}
	}
	want, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, embedded) {
		t.Errorf("%s is not what the body's tags say; run go test ./relay -update", path)
	}
}

// H95: keys of DynamoDB may be 3 KB long and binary. Subjects and ordering keys are short text.
// Different items have different subjects.
func TestH95_OrderingKeysAreShortText(t *testing.T) {
	seen := map[string]bool{}
	binary := attribute.NewItem([]attribute.Attribute{{Name: "p", Value: attribute.Binary(bytes.Repeat([]byte{0, 255, '\n'}, 700))}, {Name: "s", Value: attribute.String(strings.Repeat("\x00ü", 400))}})
	for _, c := range []struct {
		table string
		keys  attribute.Item
	}{
		{"T", binary}, {"U", binary},
		{"T", parse(t, `{"p":{"S":"1"}}`)}, {"T", parse(t, `{"p":{"N":"1"}}`)}, {"T1", parse(t, `{"p":{"S":"1"}}`)},
		{"T", parse(t, `{"p":{"S":"a"},"s":{"S":"bc"}}`)}, {"T", parse(t, `{"p":{"S":"ab"},"s":{"S":"c"}}`)},
	} {
		key, err := relay.Subject(c.table, c.keys)
		if bucket := relay.Keying(relay.MaxKeying).Key(c.table, key); len(bucket) > 14 || strings.Trim(bucket, "-0123456789abcdef") != "" || relay.Keying(0).Key(c.table, key) != key {
			t.Errorf("%s: a bucket has key %q", c.table, bucket)
		}
		if err != nil || len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" || seen[key] {
			t.Errorf("%s: %q, %v", c.table, key, err)
		}
		seen[key] = true
	}
}

// worst returns items of nearly 400 KB, DynamoDB's limit, whose JSON is large.
func worst(t *testing.T) map[string]attribute.Item {
	const limit = 400 << 10
	list := func(v attribute.Value, n int) attribute.Value {
		l := make([]attribute.Value, n)
		for i := range l {
			l[i] = v
		}
		return attribute.List(l)
	}
	of := func(v attribute.Value) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "p", Value: attribute.String("1")}, {Name: "x", Value: v}})
	}
	items := map[string]attribute.Item{
		"control characters": of(attribute.String(strings.Repeat("\x01", limit-100))),
		"binary":             of(attribute.Binary(make([]byte, limit-100))),
		"empty strings":      of(list(attribute.String(""), limit-100)),
		"nulls":              of(list(attribute.Null(), limit/2-100)),
		"empty lists":        of(list(attribute.List(nil), limit/4-100)),
	}
	for name, i := range items {
		if size := item.Size(i); size > limit || size < limit*9/10 {
			t.Errorf("%s: an item of %d bytes", name, size)
		}
	}
	return items
}

// H95: two images of 400 KB, DynamoDB's limit, fit a message.
func TestH95_TwoFullImagesFit(t *testing.T) {
	for name, image := range worst(t) {
		c := examples(t)["modify"]
		c.Old, c.New = image, image
		m, omitted, err := relay.Encode(c)
		if err != nil || omitted != "" || m.Size() > relay.MaxMessage {
			t.Errorf("%s: %d bytes, omitted %q, %v", name, m.Size(), omitted, err)
		}
	}
}

// Only numbers may be longer in text than DynamoDB counts for them. Their message has no images,
// and says so.
func TestH95_WhatDoesNotFitSaysSo(t *testing.T) {
	n, err := attribute.Number("1E125")
	if err != nil {
		t.Fatal(err)
	}
	l := make([]attribute.Value, 100_000)
	for i := range l {
		l[i] = n
	}
	c := examples(t)["modify"]
	c.New = attribute.NewItem([]attribute.Attribute{{Name: "x", Value: attribute.List(l)}})
	m, omitted, err := relay.Encode(c)
	if err != nil || omitted != relay.TooLarge || m.Size() > 10_000 {
		t.Fatalf("%d bytes, omitted %q, %v", m.Size(), omitted, err)
	}
	got, err := relay.Decode(m.Data)
	if err != nil || got.Omitted != relay.TooLarge || got.Number != c.Number || got.New.Exists() {
		t.Errorf("%+v, %v", got, err)
	}
}

// A loaded item that does not fit a message is not a removal. A removal that a load has read
// remains one, however large the item was.
func TestALoadedItemThatDoesNotFitIsNoRemoval(t *testing.T) {
	n, err := attribute.Number("1E125")
	if err != nil {
		t.Fatal(err)
	}
	huge := attribute.NewItem([]attribute.Attribute{{Name: "x", Value: attribute.List(slices.Repeat([]attribute.Value{n}, 100_000))}})
	for event, omits := range map[cdc.Event]relay.Omission{cdc.Insert: relay.TooLarge, cdc.Remove: ""} {
		c := examples(t)["modify"]
		c.Loaded, c.Number, c.Event, c.Old, c.New = true, 0, event, attribute.Item{}, huge
		if event == cdc.Remove {
			c.Old, c.New = huge, attribute.Item{}
		}
		m, omitted, err := relay.Encode(c)
		if err != nil || omitted != omits || m.Size() > 10_000 {
			t.Fatalf("%s: %d bytes, omitted %q, %v", event, m.Size(), omitted, err)
		}
		if got, err := relay.Decode(m.Data); err != nil || got.Event != event || got.Omitted != omits || got.New.Exists() {
			t.Errorf("%s is read as %s, omitted %q, %v", event, got.Event, got.Omitted, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	refuses := func(example, from, to string) {
		t.Helper()
		m, _, err := relay.Encode(examples(t)[example])
		text := strings.Replace(string(m.Data), from, to, 1)
		if err != nil || text == string(m.Data) {
			t.Fatalf("%s is not in the message, %v", from, err)
		}
		if _, err := relay.Decode([]byte(text)); !errors.Is(err, relay.ErrMessage) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
	refuses("load", `"shard":"load-1/part-3"`, `"shard":"load-1/part-3","number":4`)
	refuses("insert", `"new":`, `"gnu":`)
	refuses("remove", `"event":"REMOVE"`, `"event":"INSERT"`)
	for from, to := range map[string]string{
		`"number":3`: `"number":0`, `replicator.change/v1`: `replicator.change/v2`, `"hop":500001`: `"hop":500002`, `"MODIFY"`: `"TOUCH"`,
		`"keys":{`: `"kees":{`, `{"N":"12.5"}`: `{"N":"secret"}`, `"new":`: `"gnu":`, `"specversion":"1.0"`: `"specversion":"7"`, `"ledger":"7d0c"`: `"ledger":""`,
		`"shard":"shardId-00000001794000000000-1a2b3c4d"`: `"shard":""`, `"generation":29878560`: `"generation":0`, `replicator.change"`: `replicator.secret"`,
		`"sequence":"1`: `"sequence":"secret`, `"cell_time":"2026`: `"cell_time":"secret`, `"version":"2`: `"version":"3`, `{"schema"`: `["schema"`,
		`"table":"Orders","event":"MODIFY","version":"29878560.500001.0000000000000000111100000000000000000003.0001","time":"2026`: `"table":"Orders","event":"MODIFY","version":"29878560.500001.0000000000000000111100000000000000000003.0001","time":"secret`,
	} {
		refuses("modify", from, to)
	}
}

// Generation 0 is invalid, even if the version agrees: appliers would drop such a change as one
// that a load has asserted.
func TestDecodeRefusesNoGeneration(t *testing.T) {
	m, _, err := relay.Encode(examples(t)["modify"])
	text := strings.NewReplacer(`"generation":29878560`, `"generation":0`, `"29878560.`, `"00000000.`).Replace(string(m.Data))
	if err != nil || strings.Count(text, "29878560") > 0 {
		t.Fatal(text, err)
	}
	if _, err := relay.Decode([]byte(text)); !errors.Is(err, relay.ErrMessage) || !strings.Contains(err.Error(), "generation, ledger") {
		t.Errorf("%v", err)
	}
}

// H131: a generation or hop that no version can hold is refused. It must not end the applier.
func TestH131_NumbersBeyondAVersionAreRefused(t *testing.T) {
	m, _, err := relay.Encode(examples(t)["modify"])
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{`"generation":29878560`: `"generation":100000000`, `"hop":500001`: `"hop":1000000`} {
		text := strings.Replace(string(m.Data), from, to, 1)
		if _, err := relay.Decode([]byte(text)); text == string(m.Data) || !errors.Is(err, relay.ErrMessage) || !strings.Contains(err.Error(), "does not fit") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// H95: a message has its images up to the last byte that fits. A load's message that does not fit
// still says that the item exists, with its keys, number and version.
func TestH95_TheLastByteThatFits(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		c := examples(t)[map[bool]string{false: "insert", true: "load"}[loaded]]
		grow := func(n int) {
			c.New = attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(strings.Repeat("x", n))}})
		}
		grow(1)
		small, _, err := relay.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		for more, want := range map[int]relay.Omission{0: "", 1: relay.TooLarge} {
			if loaded && more == 0 {
				continue // it takes a while
			}
			grow(1 + relay.MaxData - len(small.Data) + more)
			m, omitted, err := relay.Encode(c)
			if err != nil || omitted != want || (len(m.Data) == relay.MaxData) != (want == "") {
				t.Errorf("%d bytes too many: %d bytes, omitted %q, %v", more, len(m.Data), omitted, err)
			}
			if want == "" {
				continue
			}
			got, err := relay.Decode(m.Data)
			if err != nil || got.Omitted != want || got.Event != cdc.Insert || got.Number != c.Number || got.Loaded != loaded || !got.Keys.Equal(c.Keys) {
				t.Errorf("%d bytes too many: decoded as %+v, %v", more, got.Origin, err)
			}
		}
		sum := len(small.Data) + len(small.Key)
		for name, value := range small.Attributes {
			sum += len(name) + len(value)
		}
		if size := small.Size(); size < sum || size > sum+relay.MaxMessage-relay.MaxData {
			t.Errorf("a message of %d bytes counts as %d", sum, size)
		}
	}
}

// An item that a load found missing decodes as a removal.
func TestALoadOfAnItemThatIsGone(t *testing.T) {
	c := examples(t)["load"]
	c.Event, c.New = cdc.Remove, attribute.Item{}
	m, _, err := relay.Encode(c)
	if err != nil || m.Attributes["event"] != relay.LoadEvent {
		t.Fatal(m.Attributes, err)
	}
	if got, err := relay.Decode(m.Data); err != nil || got.Event != cdc.Remove || !got.Loaded || got.New.Exists() {
		t.Errorf("%+v, %v", got, err)
	}
	other := examples(t)["load"]
	other.Keys = parse(t, `{"PK":{"S":"ORDER#43"},"SK":{"N":"7"}}`)
	if n, _, err := relay.Encode(other); err != nil || idOf(t, n.Data) == idOf(t, m.Data) {
		t.Errorf("items that were read in one second have one id, %v", err)
	}
}

func idOf(t *testing.T, data []byte) string {
	t.Helper()
	var event struct{ ID string }
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatal(err)
	}
	return event.ID
}

// A dead letter has the unchanged data and the reason. Names, which a publisher may invent, are cut to
// the limit of an attribute, between two characters.
func TestADeadLetterSaysWhy(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		c := relay.Change{Origin: origin, Number: 7, Loaded: loaded, Change: cdc.Change{Event: cdc.Modify, Sequence: sequence(t, "12")}}
		c.Table = "Orders"
		m := relay.DeadLetter([]byte("data"), c, "why")
		want := map[string]string{"content-type": relay.ContentType, "table": "Orders", "event": "MODIFY", "version": string(c.Version()), "schema": relay.SchemaV1, relay.ReasonAttribute: "why"}
		if loaded {
			want["event"] = "LOAD"
		}
		if string(m.Data) != "data" || m.Key != "" || !maps.Equal(m.Attributes, want) {
			t.Errorf("loaded %t: %q, key %q, %q", loaded, m.Data, m.Key, m.Attributes)
		}
	}
	for text, want := range map[string]string{
		strings.Repeat("a", 512):       strings.Repeat("a", 512),
		strings.Repeat("a", 513):       strings.Repeat("a", 512),
		strings.Repeat("a", 511) + "ü": strings.Repeat("a", 511),
		"a\xffb":                       "ab",
	} {
		m := relay.DeadLetter(nil, relay.Change{Origin: relay.Origin{Table: text}}, text)
		if m.Attributes["table"] != want || m.Attributes[relay.ReasonAttribute] != want {
			t.Errorf("%d bytes became %d and %d", len(text), len(m.Attributes["table"]), len(m.Attributes[relay.ReasonAttribute]))
		}
	}
}

// R4: every change has a number, except for items that a load has read. All have a generation.
func TestOnlyWhatIsNumberedIsEncoded(t *testing.T) {
	for name, change := range map[string]func(c *relay.Change){
		"insert": func(c *relay.Change) { c.Number = 0 },
		"load":   func(c *relay.Change) { c.Number = 1 },
		"remove": func(c *relay.Change) { c.Generation = 0 },
		"modify": func(c *relay.Change) { c.StreamARN = "" },
	} {
		c := examples(t)[name]
		change(&c)
		if m, _, err := relay.Encode(c); err == nil {
			t.Errorf("%s: %s", name, m.Data)
		}
	}
}
