package relay_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Decode returns each member of the change that Encode got, and the message has the attributes by
// which subscriptions filter. The keying is not in the message.
func TestAMessageHasTheWholeChange(t *testing.T) {
	for name, c := range examples(t) {
		c.Keying = 8
		c.CellTime = c.Time.Add(1500 * time.Microsecond)
		m, omitted, err := relay.Encode(c)
		if err != nil || omitted != c.Omitted {
			t.Fatalf("%s: omitted %q, %v", name, omitted, err)
		}
		event := map[string]string{"dropped": "INSERT", "load": "LOAD", "insert": "INSERT", "modify": "MODIFY", "remove": "REMOVE"}[name]
		attributes := map[string]string{"content-type": relay.ContentType, "table": "Orders", "event": event, "version": string(c.Version()), "schema": relay.SchemaV1}
		if !maps.Equal(m.Attributes, attributes) {
			t.Errorf("%s: attributes %q", name, m.Attributes)
		}
		subject, err := relay.Subject("Orders", c.Keys)
		if err != nil || m.Key != c.Keying.Key("Orders", subject) || m.Key == subject {
			t.Errorf("%s: ordering key %q, %v", name, m.Key, err)
		}
		want := c
		if want.Keying = 0; want.Omitted != "" {
			want.Old, want.New = attribute.Item{}, attribute.Item{}
		}
		// Another producer may put spaces between the members, and leave the content type out.
		other := strings.Replace(strings.Replace(string(m.Data), `{"specversion"`, `{ "specversion"`, 1), `"datacontenttype":"application/json",`, "", 1)
		for _, text := range []string{string(m.Data), other} {
			if got, err := relay.Decode([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: decoded as %+v, want %+v, %v", name, got, want, err)
			}
		}
	}
}

// A message does not depend on the zone of the process's times. So two readers of a page publish
// the same bytes.
func TestAMessageHasNoZone(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	c := examples(t)["modify"]
	want, _, err := relay.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Time, c.CellTime = c.Time.In(zone), c.CellTime.In(zone)
	if got, _, err := relay.Encode(c); err != nil || string(got.Data) != string(want.Data) {
		t.Errorf("%s, %v", got.Data, err)
	}
	parked := func(at time.Time) string {
		change := c.Change
		change.Time = at
		m, err := relay.EncodeParked("m", "Orders/k/v", transform.Parked{Source: "Orders", Version: c.Version(), Change: change})
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Data)
	}
	if got, want := parked(c.Time), parked(c.Time.UTC()); got != want {
		t.Errorf("parked: %s", got)
	}
}

// A message is JSON, so each of its texts must be text, and DynamoDB must be able to hold its
// images. Otherwise no message is made, because no reader could decode it.
func TestWhatIsNoTextIsNotEncoded(t *testing.T) {
	const bytes = "a\xff"
	bad := attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(bytes)}})
	for name, spoil := range map[string]func(c *relay.Change){
		"table":   func(c *relay.Change) { c.Table = bytes },
		"label":   func(c *relay.Change) { c.Label = bytes },
		"shard":   func(c *relay.Change) { c.Shard = bytes },
		"ledger":  func(c *relay.Change) { c.Ledger = bytes },
		"hash":    func(c *relay.Change) { c.MappingHash = bytes },
		"omitted": func(c *relay.Change) { c.Omitted = bytes },
		"keys":    func(c *relay.Change) { c.Keys = bad },
		"old":     func(c *relay.Change) { c.Old = bad },
		"new":     func(c *relay.Change) { c.New = bad },
	} {
		c := examples(t)["modify"]
		if spoil(&c); attribute.CheckItem(bad) == nil {
			t.Fatal("an item of bytes counts as valid")
		}
		if m, _, err := relay.Encode(c); err == nil {
			t.Errorf("%s: %q", name, m.Data)
		}
	}
}

// A number that does not fit is refused. It is not cut to a number that might be valid. The highest
// generation and hop that a version can hold are accepted.
func TestNumbersOfAMessageAreNotCut(t *testing.T) {
	c := examples(t)["modify"]
	c.Generation, c.Hop = transform.MaxGeneration, transform.MaxHop
	m, _, err := relay.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := relay.Decode(m.Data); err != nil || got.Generation != transform.MaxGeneration || got.Hop != transform.MaxHop {
		t.Errorf("%+v, %v", got.Origin, err)
	}
	for from, to := range map[string]string{`"generation":99999999,`: `"generation":4394967295,`, `"hop":999999,`: `"hop":4295967295,`, `"number":3,`: `"number":18446744073709551619,`} {
		text := strings.Replace(string(m.Data), from, to, 1)
		if got, err := relay.Decode([]byte(text)); text == string(m.Data) || !errors.Is(err, relay.ErrMessage) {
			t.Errorf("%s: %+v, %v", to, got.Origin, err)
		}
	}
}

// What another producer wrote is refused with what is wrong, and without its data. Text after the
// message is no part of it.
func TestWhyAMessageIsRefused(t *testing.T) {
	m, _, err := relay.Encode(examples(t)["modify"])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, why string }{
		{`"specversion":"1.0"`, `"specversion":"0.3"`, "not a CloudEvent in structured JSON"},
		{relay.Type + `"`, relay.Type + `s"`, "another type of event"},
		{`"datacontenttype":"application/json"`, `"datacontenttype":"text/xml"`, "the data is not a message body"},
		{`"schema":"replicator.change/v1"`, `"schema":"replicator.change/v9"`, "an unknown schema"},
		{`"keys":{"PK":{"S":`, `"keys":{"PK":{"X":`, "the keys is not DynamoDB JSON"},
		{`"old":{"PK":{"S":`, `"old":{"PK":{"X":`, "the old image is not DynamoDB JSON"},
		{`"new":{"PK":{"S":`, `"new":{"PK":{"X":`, "the new image is not DynamoDB JSON"},
		{`"keys":{"PK":{"S":"ORDER#42"},"SK":{"N":"7"}}`, `"keys":{}`, "no keys"},
		{`"event":"MODIFY"`, `"event":"Modify"`, "no event"},
		{`"cell_time":"2026-`, `"cell_time":"26-`, "no cell time"},
		{`"sequence":"111100000000000000000003"`, `"sequence":"111100000000000000000004"`, "the version does not match generation, hop and sequence number"},
		{`"shard":"shardId-00000001794000000000-1a2b3c4d"`, `"shard":""`, "the number, generation, ledger or shard is missing or not allowed"},
		{`{"specversion"`, `{} {"specversion"`, "not a CloudEvent in structured JSON"},
	} {
		text := strings.Replace(string(m.Data), c.from, c.to, 1)
		_, err := relay.Decode([]byte(text))
		if text == string(m.Data) || !errors.Is(err, relay.ErrMessage) || err.Error() != relay.ErrMessage.Error()+": "+c.why {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	if _, err := relay.Decode(append(slices.Clone(m.Data), '}')); !errors.Is(err, relay.ErrMessage) {
		t.Errorf("text after the message: %v", err)
	}
	if c, err := relay.Decode(append(slices.Clone(m.Data), "\n "...)); err != nil || c.Number != 3 {
		t.Errorf("spaces after the message: %v", err)
	}
}

// A page's messages have the page's origin and their place, whatever the page holds. A page that
// fails in one message has none.
func TestMessagesOfAPage(t *testing.T) {
	changes := page(t, "a", "b", "c")
	at := changes[0].Time.Add(time.Minute) // earlier changes of the shard are younger
	changes[2].Time = at.Add(time.Second)
	p, err := relay.NewPage(origin, relay.Number{Before: 41, CellTime: at}, changes, 2)
	if err != nil || len(p.Open) != 3 || len(p.Oversize) != 0 {
		t.Fatalf("%d messages, oversize %v, %v", len(p.Open), p.Oversize, err)
	}
	for i, m := range p.Open {
		want := relay.Change{Origin: origin, Number: uint64(42 + i), Change: changes[i], CellTime: at}
		if i < 2 {
			want.Omitted, want.Old, want.New = relay.BeforeStart, attribute.Item{}, attribute.Item{}
		} else {
			want.CellTime = changes[2].Time
		}
		if got, err := relay.Decode(m.Data); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("message %d: %+v, want %+v, %v", i, got, want, err)
		}
	}
	changes[1].Keys = attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String("\xff")}})
	if p, err := relay.NewPage(origin, relay.Number{}, changes, 0); err == nil || len(p.Open) != 0 {
		t.Errorf("a page with a change that is no text: %d messages, %v", len(p.Open), err)
	}
}

// Each ordering key names its table and its bucket. One bucket is one key for all items, and
// buckets of two tables differ.
func TestOrderingKeysOfBuckets(t *testing.T) {
	subjects := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		subject, err := relay.Subject("Orders", parse(t, `{"PK":{"S":"`+name+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		subjects[name] = subject
		if key := relay.Keying(1).Key("Orders", subject); key != relay.Keying(1).Key("Orders", subjects["a"]) || !strings.HasSuffix(key, "-0") {
			t.Errorf("%s: the only bucket is %q", name, key)
		}
		if relay.Keying(4).Key("Orders", subject) == relay.Keying(4).Key("Others", subject) {
			t.Errorf("%s: two tables share a bucket", name)
		}
	}
}

// A failure is named with its operation, its topic and the service's message, which may be empty.
func TestTextOfAFailure(t *testing.T) {
	for text, e := range map[string]relay.Error{
		"Publish of projects/p/topics/t: NotFound: no such topic": {Op: "Publish", Name: "projects/p/topics/t", Code: "NotFound", Text: "no such topic", Reason: relay.NotFound},
		"Pull of projects/p/subscriptions/s: Unavailable":         {Op: "Pull", Name: "projects/p/subscriptions/s", Code: "Unavailable"},
	} {
		if got := e.Error(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

// A message of a parked item omits the images only if they do not fit, and then says so.
func TestAParkedItemThatDoesNotFit(t *testing.T) {
	image := func(n int) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(strings.Repeat("x", n))}})
	}
	p := transform.Parked{Source: "Orders", Reason: "too large", Version: transform.NewVersion(1, 2, cdc.SequenceOf(3), 1),
		Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(3), Time: time.Unix(1_790_000_000, 0), Keys: image(1), New: image(1)}}
	small, err := relay.EncodeParked("m", "Orders/k/v", p)
	if err != nil {
		t.Fatal(err)
	}
	for more, omits := range map[int]bool{0: false, 1: true} {
		p.Change.New = image(1 + relay.MaxData - len(small.Data) + more)
		m, err := relay.EncodeParked("m", "Orders/k/v", p)
		text := string(m.Data)
		if err != nil || (len(text) == relay.MaxData) == omits || strings.Contains(text, `"omitted":"too_large"`) != omits || strings.Contains(text, `"new":`) == omits {
			t.Errorf("%d bytes too many: %d bytes, %v", more, len(text), err)
		}
		want := map[string]string{"content-type": relay.ContentType, "table": "Orders", "event": "INSERT", "version": string(p.Version), "schema": relay.ParkedSchemaV1}
		if subject, err := relay.Subject("Orders", p.Change.Keys); err != nil || m.Key != subject || !maps.Equal(m.Attributes, want) {
			t.Errorf("key %q, attributes %q, %v", m.Key, m.Attributes, err)
		}
	}
}
