package checkpoint

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// fill gives every field of a record that is stored another value than its zero.
func fill(v reflect.Value, n int) int {
	for i := range v.NumField() {
		f, of := v.Field(i), v.Type().Field(i)
		if of.Tag.Get("json") == "-" {
			continue
		}
		n++
		at := time.Date(2026, 11, 1, 0, 0, 0, n*1001, time.UTC)
		switch {
		case of.Type == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(at))
		case of.Type == reflect.TypeFor[cdc.SequenceNumber]():
			f.Set(reflect.ValueOf(cdc.SequenceOf(uint64(n))))
		case of.Name == "header":
			n++ // not to be set from here; its own test does
		case f.Kind() == reflect.Struct:
			n = fill(f, n)
		case f.Kind() == reflect.String:
			f.SetString(strings.Repeat("é\"<", n))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanUint():
			f.SetUint(math.MaxUint32 - uint64(n))
		case f.CanFloat():
			f.SetFloat(1 / float64(n))
		default:
			panic(of.Name)
		}
	}
	return n
}

func fullShard() Shard {
	var s Shard
	fill(reflect.ValueOf(&s).Elem(), 0)
	s.header = header{Format: Format, By: "worker", N: math.MaxUint64}
	return s
}

// TestShardsAreReadAsEncodingJSONReadsThem, with every field and with each alone: a field that is added to Shard must be added to read.
func TestShardsAreReadAsEncodingJSONReadsThem(t *testing.T) {
	full := fullShard()
	shards := []Shard{full, {}, {header: header{Format: 7}}}
	for i := range reflect.TypeFor[Shard]().NumField() {
		var one Shard
		if field := reflect.ValueOf(&one).Elem().Field(i); field.CanSet() {
			field.Set(reflect.ValueOf(full).Field(i))
			shards = append(shards, one)
		}
	}
	for _, want := range shards {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var have Shard
		if !have.read(string(text)) {
			t.Fatalf("not read: %s", text)
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s\nis read as %+v", text, have)
		}
	}
}

// sameShard holds read against encoding/json: what it takes is the same, and what it does not take is left to encoding/json.
func sameShard(t *testing.T, text string) (read bool) {
	t.Helper()
	var have, want Shard
	if !have.read(text) {
		return false
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(have, want) {
		t.Fatalf("%s\nis read as      %+v\nencoding/json: %+v, %v", text, have, want, err)
	}
	return true
}

func TestOtherTextsOfShardsAreLeftToEncodingJSON(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `{`, `{}x`, `{"Hop":1}`, `{"hop":4294967296}`, `{"hop":-1}`, `{"hop":1.0}`, `{"hop":null}`, `{"hop":"1"}`, `{"rate":1e999}`,
		`{"position":"x"}`, `{"read_at":"today"}`, `{"read_at":"2026-11-01T00:00:00+01:00"}`, `{"read_at":"2026-11-01T24:00:00Z"}`, `{"from_the_future":1}`,
		`{"holder":{"more":1}}`, `{"trouble":{"more":1}}`, `{"trouble":null}`, `{"format":99999999999}`, "{\"id\":\"\xff\"}",
	} {
		if sameShard(t, text) {
			t.Errorf("%s is taken", text)
		}
	}
	if s, err := ReadShard(`{"format":1,"ID":"s","more":1}`); err != nil || s.ID != "s" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ReadShard(`{"format":2}`); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func FuzzReadShard(f *testing.F) {
	text, err := json.Marshal(fullShard())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`{"format":1,"holder":{"host":"a"},"holder":{"version":"b"},"rate":1e-7,"position":"007","read_at":"2026-11-01T00:00:00.1Z"}`)
	f.Fuzz(func(t *testing.T, text string) { sameShard(t, text) })
}

// BenchmarkReadShard is what a worker does with every row that another one has written.
func BenchmarkReadShard(b *testing.B) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 123456789, time.UTC)
	s := Shard{
		header: header{Format: Format, By: "host-1/7f3a", N: 4711}, Source: "Orders", StreamARN: "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-01T00:00:00.000",
		Label: "2026-11-01T00:00:00.000", ID: "shardId-00000001732175999000-a1b2c3d4", Parent: "shardId-00000001732161599000-d4c3b2a1", State: Reading, Hop: 500_000,
		Generation: 29_000_000, Epoch: 12, Owner: "host-1/7f3a", Position: cdc.SequenceOf(4_700_000_000_012_345_678), EventTime: at, CellTime: at, CoveredTo: at, FirstRead: at,
		ReadAt: at, Applied: 1_000_000, Rate: 123.4, Sign: Sign{WrittenAt: at, Holder: About{"host-1", "1.2.3"}},
	}
	text, err := json.Marshal(&s)
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{"as written": text, "by encoding_json": append([]byte(`{"":0,`), text[1:]...)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s Shard
				if err := decode(Row{Data: data}, &s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
