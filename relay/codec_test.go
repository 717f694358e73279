package relay

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The oracles of codec.go: the CloudEvents library and encoding/json.

func libraryEncode(c Change) ([]byte, error) {
	subject, err := Subject(c.Table, c.Keys)
	if err != nil {
		return nil, err
	}
	body := Body{
		Schema: SchemaV1, Table: c.Table, Event: c.EventName(), Version: string(c.Version()), Time: stamp(c.Time), Expired: c.Expired, Omitted: c.Omitted,
		Sequence: c.Sequence.String(), Stream: c.Label, Shard: c.Shard, Number: c.Number, Generation: c.Generation, Hop: c.Hop,
		Ledger: c.Ledger, MappingHash: c.MappingHash, CellTime: stamp(c.CellTime),
	}
	if body.Keys, err = attribute.MarshalItem(c.Keys); err != nil {
		return nil, err
	}
	if c.Omitted == "" {
		if body.Old, err = image(c.Old); err != nil {
			return nil, err
		}
		if body.New, err = image(c.New); err != nil {
			return nil, err
		}
	}
	id := c.Shard + "/" + c.Sequence.String()
	if c.Loaded {
		id += "/" + subject
	}
	return libraryEvent(Type, id, c.StreamARN, subject, c.Time, body)
}

func libraryEvent(kind, id, source, subject string, at time.Time, body any) ([]byte, error) {
	e := event.New(event.CloudEventsVersionV1)
	e.SetID(id)
	e.SetSource(source)
	e.SetType(kind)
	e.SetSubject(subject)
	e.SetTime(at.UTC())
	e.DataEncoded = marshal(body)
	e.SetDataContentType(event.ApplicationJSON)
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return e.MarshalJSON()
}

// libraryDecode reads the envelope with the library, and leaves the body to decodeAny.
func libraryDecode(data []byte) (Change, error) {
	var e event.Event
	if err := e.UnmarshalJSON(data); err != nil {
		return Change{}, err
	}
	text, err := json.Marshal(map[string]any{"specversion": e.SpecVersion(), "type": e.Type(), "source": e.Source(), "data": json.RawMessage(e.Data())})
	if err != nil {
		return Change{}, err
	}
	p, err := decodeAny(text)
	if err != nil {
		return Change{}, err
	}
	return p.change()
}

// plain reports whether no encoder escapes anything in the texts.
func plain(texts ...string) bool {
	return !strings.ContainsFunc(strings.Join(texts, ""), func(r rune) bool { return r < 0x20 || r > 0x7e || strings.ContainsRune(`"\`, r) })
}

// Encode writes what the library writes, byte by byte unless a text needs escapes, and refuses what
// the library refuses. The library and Decode read it as the same change.
func FuzzEncode(f *testing.F) {
	var many Decoder
	item := `{"PK":{"S":"ORDER#42"},"n":{"N":"12.5"},"l":{"L":[{"M":{"sku":{"S":"ü\"\\"}}},{"NULL":true}]},"ss":{"SS":["a","b"]},"b":{"B":"AAEC"}}`
	f.Add("Orders", "arn:aws:dynamodb:eu-west-1:1:table/Orders/stream/2026", "2026", "shardId-1", "ledger", "hash", uint64(7), uint32(3), uint32(500_001), uint64(1_790_000_000), int64(5), uint8(0), item, item, item)
	f.Add("ü\u2028\x01", "a b%zz", "<&>", "\"", "\\", "\x7f", uint64(0), uint32(1), uint32(0), uint64(1), int64(999_999_999), uint8(7), `{"k":{"N":"1"}}`, "", "")
	f.Add("T", " ", "l", " ", "l", "h", uint64(1), uint32(1), uint32(1), uint64(1), int64(1), uint8(0), `{"k":{"N":"1"}}`, item, item)
	f.Add("T", "/replicator/a b", "l", "s", "l", "h", uint64(1), uint32(1), uint32(1), uint64(1), int64(1), uint8(0x15), `{"k":{"N":"1"}}`, item, item)
	f.Fuzz(func(t *testing.T, table, source, label, shard, ledger, hash string, number uint64, generation, hop uint32, sequence uint64, nanos int64, bits uint8, keys, old, next string) {
		c := Change{Origin: Origin{Ledger: ledger, Table: table, StreamARN: source, Label: label, Shard: shard, Generation: generation % (transform.MaxGeneration + 1),
			Hop: hop % (transform.MaxHop + 1), MappingHash: hash}, Number: number}
		c.Sequence, c.Time = cdc.SequenceOf(sequence), time.Unix(1_790_000_000, nanos%1e9).UTC()
		c.CellTime, c.Expired, c.Loaded = c.Time.Add(time.Duration(nanos%1e12)), bits&1 > 0, bits&2 > 0
		c.Event = []cdc.Event{cdc.Insert, cdc.Modify, cdc.Remove, cdc.Insert}[bits>>2&3]
		c.Omitted = []Omission{"", BeforeStart, TooLarge, ""}[bits>>4&3]
		if c.Loaded {
			c.Number = 0
		}
		for text, to := range map[string]*attribute.Item{keys: &c.Keys, old: &c.Old, next: &c.New} {
			*to, _ = attribute.UnmarshalItem([]byte(text))
		}
		texts := []string{table, label, shard, ledger, hash, source}
		for _, text := range texts {
			if !utf8.ValidString(text) {
				return // the library writes it as other text
			}
		}
		m, err := encode(c)
		if (c.Number == 0) != c.Loaded || c.Generation == 0 {
			if err == nil {
				t.Fatalf("a change without a number: %s", m.Data)
			}
			return
		}
		want, refused := libraryEncode(c)
		if (err != nil) != (refused != nil) {
			t.Fatalf("%v, the library says %v", err, refused)
		}
		if err != nil {
			return
		}
		if plain(texts...) && string(m.Data) != string(want) {
			t.Fatalf("encoded as\n%s, by the library as\n%s", m.Data, want)
		}
		got, err := Decode(m.Data)
		for name, data := range map[string][]byte{"ours": m.Data, "the library's": want} {
			oracle, refused := libraryDecode(data)
			again, failed := many.Decode(data) // which has decoded other messages
			if (refused != nil) != (err != nil) || (failed != nil) != (err != nil) || !reflect.DeepEqual(got, oracle) && err == nil || !reflect.DeepEqual(got, again) {
				t.Fatalf("%s: decoded as %+v, %v; by the library as %+v, %v; %s", name, got, err, oracle, refused, data)
			}
		}
		if _, own := new(Decoder).decodeOwn(m.Data); !own && err == nil {
			t.Errorf("not read by hand: %s", m.Data)
		}
	})
}

// What is read by hand is what decodeAny reads, and what the library reads.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		for from, to := range map[string]string{`"number":3`: `"number":03`, `"old":{`: `"old":{},"old":{`, `"MODIFY"`: `"\u004dODIFY"`, `,"new":`: ` ,"new": `, `"time"`: `"Time"`, `"hop":`: `"hop":1,"hop":`} {
			f.Add([]byte(strings.ReplaceAll(string(text), from, to)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		own, ok := new(Decoder).decodeOwn(data)
		if !ok {
			_, _ = Decode(data) // does not panic
			return
		}
		got, err := own.change()
		slow, failed := decodeAny(data)
		if failed != nil {
			t.Fatalf("only read by hand, %v: %s", failed, data)
		}
		if want, refused := slow.change(); (err != nil) != (refused != nil) || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v, and %+v, %v", got, err, want, refused)
		}
		want, refused := libraryDecode(data)
		if u, parse := url.Parse(own.source); refused != nil && err == nil {
			// The attributes that only the library checks.
			var e struct{ Time string }
			must := json.Unmarshal(data, &e)
			if _, late := time.Parse(time.RFC3339Nano, e.Time); must == nil && parse == nil && own.source != "" && late == nil {
				t.Fatalf("the library refuses it, %v: %s", refused, data)
			}
		} else if err == nil && u != nil && u.String() == own.source && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, and %+v by the library", got, want)
		}
	})
}

// A message of a parked item is the library's, too.
func TestParkedMessagesAreTheLibrarys(t *testing.T) {
	key := attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String("1")}})
	for _, name := range []string{"default", "a b", "ü"} {
		p := transform.Parked{Source: "Orders", Reason: "too <large>", Version: transform.NewVersion(1, 2, cdc.SequenceOf(3), 1),
			Change: cdc.Change{Sequence: cdc.SequenceOf(3), Time: time.Unix(1_790_000_000, 5), Keys: key, New: key}}
		m, err := EncodeParked(name, "Orders/h/v", p)
		var e struct {
			Subject string
			Data    ParkedBody
		}
		if err != nil || json.Unmarshal(m.Data, &e) != nil {
			t.Fatal(name, err)
		}
		want, err := libraryEvent(ParkedType, "Orders/h/v", "/replicator/"+name, e.Subject, p.Change.Time, e.Data)
		if err != nil || string(m.Data) != string(want) {
			t.Errorf("%s, %v", m.Data, err)
		}
	}
}

// A message is read with few allocations: its text, its items and the texts that it alone has.
func TestAMessageIsReadWithFewAllocations(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "modify.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Decode(text) }); n > 12 {
		t.Errorf("%v allocations", n)
	}
}

// A Decoder leaves out the old images of the tables that it is told, in every form of a message.
func TestADecoderSkipsOldImages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "modify.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Decode(text)
	if err != nil || !want.Old.Exists() {
		t.Fatal(want, err)
	}
	for _, data := range []string{string(text), strings.ReplaceAll(string(text), `,"new":`, ` ,"new": `)} {
		d := Decoder{SkipOld: func(table string) bool { return table != want.Table }}
		if got, err := d.Decode([]byte(data)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		d.SkipOld = func(table string) bool { return table == want.Table }
		got, err := d.Decode([]byte(data))
		if got.Old.Exists() {
			t.Errorf("%s: the old image is decoded", data)
		}
		got.Old = want.Old
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
