package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// wayBackTable returns a table of a configuration's entry, with the primary key id.
func wayBackTable(t *testing.T, entry string, replicas ...string) Table {
	t.Helper()
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: ["+entry+"]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	d := backfill.Description{PrimaryKey: []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}, Replicas: replicas}
	m, err := cfg.Tables[0].Mapping(d.PrimaryKey)
	if err != nil {
		t.Fatal(err)
	}
	return Table{Config: cfg.Tables[0], Description: d, Mapping: m}
}

// columns returns an entry whose rule has these columns.
func columns(columns, more string) string {
	return `{ from: Orders, families: { d: maxversions=1 }, rules: [{ columns: { ` + columns + ` } }]` + more + ` }`
}

const typed = `"*": { to: d, as: dynamodb_json }`

// The mapping decides whether items can follow rows, and the description adds what only the source
// shows. What rows do not hold is a loss and no obstacle.
func TestWayBackOfATable(t *testing.T) {
	for name, c := range map[string]struct {
		table           Table
		obstacle, loses string
	}{
		"default":       {wayBackTable(t, "{ from: Orders }"), "", ""},
		"typed":         {wayBackTable(t, columns(typed, "")), "", ""},
		"replicas":      {wayBackTable(t, "{ from: Orders }", "us-east-1", "eu-west-2"), "replicas in us-east-1, eu-west-2", ""},
		"by collection": {wayBackTable(t, `{ from: Orders, families: { d: maxversions=1 || maxage=1d }, ttl: { attribute: until, expire: gc } }`), "expire: gc", ""},
		"flattened":     {wayBackTable(t, columns(`"*": { to: d, as: flattened }`, "")), "as: flattened", ""},
		"dropped":       {wayBackTable(t, columns(typed, ", drop_attributes: [x, y]")), "", `do not hold attributes "x", "y": they stay`},
		"named":         {wayBackTable(t, columns(`id: { to: "d:id" }, a: { to: "d:a", as: dynamodb_json }`, "")), "", "only the attributes that the rules name"},
	} {
		w := WayBackOf(c.table)
		obstacles, losses := strings.Join(w.Obstacles, "; "), strings.Join(w.Losses, "; ")
		if (c.obstacle == "") != (obstacles == "") || !strings.Contains(obstacles, c.obstacle) || (c.loses == "") != (losses == "") || !strings.Contains(losses, c.loses) {
			t.Errorf("%s: obstacles %q, losses %q", name, obstacles, losses)
		}
	}
}

// H97: if only replicator's own column holds the items' keys, there is no way back.
func TestH97_KeysThatFinalizeRemoves(t *testing.T) {
	keys := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}}
	for rule, hidden := range map[string]bool{
		`row_key: "order#{pk}#{sk}", columns: { ` + typed + ` }`:              false,
		`row_key: "{pk}", cell: { to: "d:{sk}", as: dynamodb_json }`:          true,
		`row_key: "{pk | before('#')}#{pk}#{sk}", columns: { ` + typed + ` }`: false,
	} {
		cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, families: { d: maxversions=1 }, rules: [{ "+rule+" }] }]\n"),
			func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		m, err := cfg.Tables[0].Mapping(keys)
		if err != nil {
			t.Fatal(err)
		}
		got := WayBackOf(Table{Config: cfg.Tables[0], Mapping: m}).Obstacles
		if hidden != strings.Contains(strings.Join(got, "; "), "does not show") {
			t.Errorf("%s: %q", rule, got)
		}
	}
}

// sampled is a source with items and a time to live.
type sampled struct {
	expires      string
	items        []attribute.Item
	denied, fail error
	asked        int // items
}

func (s *sampled) Attribute(context.Context, string) (string, error) { return s.expires, s.denied }

func (s *sampled) Sample(_ context.Context, _ string, n int) ([]attribute.Item, float64, error) {
	s.asked = n
	return s.items, 1, s.fail
}

func itemOf(attributes ...attribute.Attribute) attribute.Item {
	return attribute.NewItem(append(attributes, attribute.Attribute{Name: "id", Value: attribute.String("1")}))
}

// The census reads items only if cells do not show their types. It refuses an attribute by its name
// if its values have types that cells do not distinguish.
func TestCensus(t *testing.T) {
	text := itemOf(attribute.Attribute{Name: "note", Value: attribute.String("a")})
	null := itemOf(attribute.Attribute{Name: "note", Value: attribute.Null()})
	named := columns(`id: { to: "d:id" }, note: { to: "d:note" }, size: { to: "d:size", as: dynamodb_json }`, "")
	var many []attribute.Item
	for i := range mostTyped + 1 {
		many = append(many, itemOf(attribute.Attribute{Name: fmt.Sprint("a", i), Value: attribute.String("x")}))
	}
	for name, c := range map[string]struct {
		table    Table
		items    []attribute.Item
		asked    bool
		obstacle string
		loses    []string
		types    string
	}{
		"typed":     {wayBackTable(t, columns(typed, "")), []attribute.Item{text, null}, false, "", nil, ""},
		"one type":  {wayBackTable(t, "{ from: Orders }"), []attribute.Item{text}, true, "", []string{"an attribute that no item of a sample of 1 has is parked"}, "id note"},
		"two types": {wayBackTable(t, "{ from: Orders }"), []attribute.Item{text, null}, true, `attribute "note" has values of types S, NULL`, []string{"an attribute that no item of a sample of 2"}, "id note"},
		"named":     {wayBackTable(t, named), []attribute.Item{text}, true, "", []string{"only the attributes that the rules name"}, "note"},
		"unseen":    {wayBackTable(t, named), []attribute.Item{itemOf()}, true, "", []string{"only the attributes that the rules name", `no item of a sample of 1 has attributes "note"`}, ""},
		"too many":  {wayBackTable(t, "{ from: Orders }"), many, true, "more than 2000 attributes", []string{"is parked"}, "*"},
		"replicas":  {wayBackTable(t, "{ from: Orders }", "us-east-1"), []attribute.Item{text}, false, "replicas", nil, ""},
	} {
		s := &sampled{items: c.items}
		w, err := TakeCensus(t.Context(), s, c.table)
		if err != nil {
			t.Fatal(err)
		}
		obstacles := strings.Join(w.Obstacles, "; ")
		if (s.asked > 0) != c.asked || (c.obstacle == "") != (obstacles == "") || !strings.Contains(obstacles, c.obstacle) || len(w.Losses) != len(c.loses) {
			t.Errorf("%s: asked for %d; obstacles %q, losses %q", name, s.asked, obstacles, w.Losses)
			continue
		}
		for i, want := range c.loses {
			if !strings.Contains(w.Losses[i], want) {
				t.Errorf("%s: %q, want %q", name, w.Losses[i], want)
			}
		}
		var types []string
		for attribute := range w.Types {
			types = append(types, attribute)
		}
		slices.Sort(types)
		if got := strings.Join(types, " "); c.types != "*" && got != c.types {
			t.Errorf("%s: types of %q, want %q", name, got, c.types)
		}
	}
}

// The source decides by which attribute its items expire. The configuration may not name it, or may
// name one that the source does not use. The table then needs a column for it.
func TestCensusTakesTheTimeToLiveOfTheSource(t *testing.T) {
	one, err := attribute.Number("995000")
	if err != nil {
		t.Fatal(err)
	}
	past := itemOf(attribute.Attribute{Name: "until", Value: one})
	now := time.Unix(1_000_000, 0)
	const follows = ", ttl: { attribute: until, expire: follow_deletes }"
	for name, c := range map[string]struct {
		entry, expires string
		expired        bool
		obstacle       string
	}{
		"neither":    {columns(typed, ""), "", false, ""},
		"source":     {columns(typed, ""), "until", true, ""},
		"both":       {columns(typed, follows), "until", true, ""},
		"configured": {columns(typed, follows), "", false, ""},
		"another":    {columns(typed, follows), "expires", false, ""},
		"no column":  {columns(`id: { to: "d:id" }`, ""), "until", true, `no column holds the time to live "until"`},
	} {
		table := wayBackTable(t, c.entry)
		w, err := TakeCensus(t.Context(), &sampled{expires: c.expires}, table)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Mapping.Expired(past, now); got != c.expired || w.Expires != c.expires {
			t.Errorf("%s: expired %t, by %q", name, got, w.Expires)
		}
		if got := strings.Join(w.Obstacles, "; "); (got == "") != (c.obstacle == "") || !strings.Contains(got, c.obstacle) {
			t.Errorf("%s: %q", name, got)
		}
		a, _ := table.Mapping.Map(past, now)
		b, _ := w.Mapping.Map(past, now)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: the mappings write other cells", name)
		}
	}
}

// Without the time to live or the sample, nothing is known.
func TestCensusThatFails(t *testing.T) {
	refused := &cdc.Error{Op: "DescribeTimeToLive", Reason: cdc.Denied, Err: errors.New("denied")}
	table := wayBackTable(t, "{ from: Orders }")
	for name, s := range map[string]*sampled{"time to live": {denied: refused}, "sample": {fail: refused}} {
		if _, err := TakeCensus(t.Context(), s, table); !diag.Has(err, diag.SourceDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
