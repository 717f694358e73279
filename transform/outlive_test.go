package transform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Items that the time to live removes may stay only if an item's key determines what it owns,
// because a later insert has no old image.
func TestExpireKeepNeedsTheKeyAlone(t *testing.T) {
	star := func(family string) []ColumnRule { return []ColumnRule{{Attribute: "*", To: family}} }
	cell := func(row, qualifier string) Write {
		return Write{RowKey: template(row), Cell: &CellRule{Family: "o", Qualifier: template(qualifier), As: AsJSON}}
	}
	rules := func(condition when, first, second Write) []Rule {
		return []Rule{{Name: "open", When: condition, Text: fmt.Sprint(condition), Writes: []Write{first}}, {Name: "rest", Writes: []Write{second}}}
	}
	for name, c := range map[string]struct {
		rules   []Rule
		known   string // part of the finding with the key schema; "" for none
		unknown string // and without it
	}{
		"none":                      {nil, "", ""},
		"default keys":              {rules(when{"SK^o"}, Write{Columns: star("o")}, Write{Columns: star("c")}), "", ""},
		"the key decides":           {rules(when{"SK^o"}, Write{RowKey: template("o#{PK}#{SK}"), Columns: star("o")}, cell("c#{PK}", "{SK}")), "", ""},
		"an attribute decides":      {rules(when{"s=open"}, Write{Columns: star("o")}, Write{Columns: star("c")}), `the condition of rule open uses "s"`, ""},
		"an attribute of the row":   {rules(when{"SK^o"}, Write{RowKey: template("o#{t}#{PK}#{SK}"), Columns: star("o")}, Write{RowKey: template("c#{PK}#{SK}"), Columns: star("c")}), `the row key of rule open uses "t"`, `"SK", "t" and "PK"`},
		"an attribute that ignores": {[]Rule{{Name: "open", When: when{"s=open"}, Ignore: true}, {Writes: []Write{{Columns: star("o")}}}}, `the condition of rule open uses "s"`, ""},
	} {
		spec := Spec{Source: "T", Table: "t", PrimaryKey: compositeKey, Families: families("o", "c"), Rules: c.rules, TTL: TTL{"until", KeepExpired}}
		if c.rules == nil {
			spec.Families = families("o")
		}
		for _, want := range []string{c.known, c.unknown} {
			var found []Finding
			for _, f := range Check(spec) {
				if f.Problem == Outlives {
					found = append(found, f)
				}
			}
			switch {
			case want == "" && len(found) > 0:
				t.Errorf("%s: %+v", name, found)
			case want != "" && (len(found) != 1 || found[0].Warning || found[0].Field != "ttl" || !strings.Contains(found[0].What, want)):
				t.Errorf("%s: %+v, want %q", name, found, want)
			}
			spec.PrimaryKey = nil
		}
		spec.PrimaryKey, spec.TTL.Expire = compositeKey, FollowDeletes
		if text := describeFindings(Check(spec)); strings.Contains(text, "expire: keep") {
			t.Errorf("%s: refused without expire: keep: %s", name, text)
		}
	}
}

// The reason for the refusal: an item that is inserted again would have the columns of both rules.
func TestWhatExpireKeepWouldLeave(t *testing.T) {
	spec := Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("o", "c"), TTL: TTL{"until", KeepExpired}, Rules: []Rule{
		{When: when{"s=open"}, Writes: []Write{{Columns: []ColumnRule{{Attribute: "*", To: "o"}}}}}, {Writes: []Write{{Columns: []ColumnRule{{Attribute: "*", To: "c"}}}}}}}
	if _, err := New(spec); err == nil {
		t.Error("accepted")
	}
	m, _ := compile(&spec, true)
	of := func(s string) attribute.Item { return item("PK", attribute.String("p"), "s", attribute.String(s)) }
	s := newStore()
	for n, c := range []cdc.Change{{Event: cdc.Insert, New: of("open")}, {Event: cdc.Remove, Old: of("open"), Expired: true}, {Event: cdc.Insert, New: of("done")}} {
		c.Keys, c.Sequence, c.Time = item("PK", attribute.String("p")), cdc.SequenceOf(uint64(n+1)), time.Unix(1000, 0)
		for _, r := range Fold(m, []cdc.Change{c}, stamp).Rows {
			s.apply(r)
		}
	}
	if got := s.String(); !strings.Contains(got, `o:"s"`) || !strings.Contains(got, `c:"s"`) {
		t.Errorf("nothing is left behind, so that there is no reason to refuse it:\n%s", got)
	}
}
