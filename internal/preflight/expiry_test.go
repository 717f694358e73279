package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Only if no sampled value is a time that DynamoDB accepts is there a hint, which fits the values.
func TestNoExpiry(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	number := func(text string) attribute.Value {
		v, err := attribute.Number(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	soon, millis := number("1796083200"), number("1796083200000")
	const seconds, notNumbers, milliseconds, others = "", "none is a number", "all look like milliseconds", "less than five years ago"
	for name, c := range map[string]struct {
		values []attribute.Value
		want   string
	}{
		"no items":              {nil, ""},
		"seconds":               {[]attribute.Value{soon}, seconds},
		"one of seconds":        {[]attribute.Value{millis, attribute.String("never"), soon}, seconds},
		"four years ago":        {[]attribute.Value{number("1669766400")}, seconds},
		"six years ago":         {[]attribute.Value{number("1606694400")}, others},
		"milliseconds":          {[]attribute.Value{millis, number("1796083200123")}, milliseconds},
		"microseconds":          {[]attribute.Value{number("1796083200000000")}, others},
		"texts":                 {[]attribute.Value{attribute.String("1796083200"), attribute.Null()}, notNumbers},
		"texts and an old time": {[]attribute.Value{attribute.String("x"), number("1")}, others},
		"milliseconds and zero": {[]attribute.Value{millis, number("0")}, others},
	} {
		s := Sampled{Items: []attribute.Item{attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("without")}})}}
		for _, v := range c.values {
			s.Items = append(s.Items, attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "until", Value: v}}))
		}
		cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n  - from: Orders\n    families: {d: maxversions=1 || maxage=30d}\n    ttl: {attribute: until, expire: gc}\n"),
			func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		cause, fix := s.NoExpiry(Table{Config: cfg.Tables[0], Mapping: m}, at)
		if (cause == "") != (c.want == "") || !strings.Contains(cause, c.want) || (fix == "") != (cause == "") {
			t.Errorf("%s: %q, %q, want %q", name, cause, fix, c.want)
		}
	}
}
