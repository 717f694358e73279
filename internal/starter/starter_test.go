package starter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func item(members ...string) attribute.Item {
	var attributes []attribute.Attribute
	for i := 0; i < len(members); i += 2 {
		attributes = append(attributes, attribute.Attribute{Name: members[i], Value: attribute.String(members[i+1])})
	}
	return attribute.NewItem(attributes)
}

func stringKey(names ...string) []transform.KeyAttribute {
	var key []transform.KeyAttribute
	for _, name := range names {
		key = append(key, transform.KeyAttribute{Name: name, Type: attribute.KindS})
	}
	return key
}

// accepted parses a proposal, and maps every sampled item with it.
func accepted(t *testing.T, text string, tables ...Table) *config.Config {
	t.Helper()
	c, err := config.Parse("replicator.yaml", []byte(text), none)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := config.Lint(c).Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for i, source := range tables {
		m, err := c.Tables[i].Mapping(source.PrimaryKey)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, one := range source.Items {
			if _, err := m.Map(one, time.Unix(0, 0)); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
	return c
}

// If a stream cannot be read, the proposal shows the commands that fix it, the same ones as plan,
// whatever the problem.
func TestStreamsThatCannotBeRead(t *testing.T) {
	for view, want := range map[string][]string{
		"":                   {"table Orders has no stream", "--table-name Orders --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES"},
		"KEYS_ONLY":          {"view type KEYS_ONLY", "StreamEnabled=false", "StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES"},
		"OLD_IMAGE":          {"view type OLD_IMAGE", "StreamEnabled=false", "StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES"},
		"NEW_IMAGE":          nil,
		"NEW_AND_OLD_IMAGES": nil,
	} {
		problem := streamProblem(backfill.Description{Name: "Orders", StreamEnabled: view != "", ViewType: view})
		for _, minimal := range []bool{false, true} {
			source := Table{Name: "Orders", PrimaryKey: stringKey("id"), Stream: problem}
			text := Propose("", Target{}, []Table{source}, minimal).Config
			accepted(t, text, source)
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("%s: no %q in\n%s", view, part, text)
				}
			}
			if want == nil && strings.Contains(text, "stream") {
				t.Errorf("%s:\n%s", view, text)
			}
		}
	}
}

func videos() Table {
	t := Table{Name: "VideoApp", PrimaryKey: stringKey("PK", "SK")}
	for i := range 5 {
		id := fmt.Sprintf("VIDEO#%d", i)
		t.Items = append(t.Items, item("PK", id, "SK", "META"), item("PK", id, "SK", fmt.Sprintf("COMMENT#%d", 7*i)), item("PK", id, "SK", "STATS"))
	}
	t.Items = append(t.Items, item("PK", "bob@example.com", "SK", "secret"), item("PK", "VIDEO#9", "SK", "x y z"))
	return t
}

func TestOneFormOfKeysIsAnOrdinaryTable(t *testing.T) {
	orders := Table{Name: "Shop", PrimaryKey: stringKey("customer", "order")}
	for i := range 20 {
		orders.Items = append(orders.Items, item("customer", fmt.Sprintf("eu#%d", i%5), "order", fmt.Sprintf("order#%d", i)))
	}
	p := Propose("eu-west-1", Target{}, []Table{orders}, false)
	if c := accepted(t, p.Config, orders); len(c.Tables[0].Rules) != 0 || len(p.Tables[0].Types) != 0 {
		t.Errorf("types %v:\n%s", p.Tables[0].Types, p.Config)
	}
}

// billing is an adjacency list: invoices and payments, and items that link them.
func billing() Table {
	t := Table{Name: "Billing", PrimaryKey: stringKey("PK", "SK")}
	for i := range 4 {
		invoice, payment := fmt.Sprintf("INVOICE#%d", i), fmt.Sprintf("PAYMENT#%d", 10+i)
		t.Items = append(t.Items, item("PK", invoice, "SK", invoice), item("PK", payment, "SK", payment), item("PK", invoice, "SK", payment))
	}
	return t
}

func TestSingleTable(t *testing.T) {
	source := videos()
	p := Propose("eu-west-1", Target{}, []Table{source}, false)
	c := accepted(t, p.Config, source)
	if got := strings.Join(p.Tables[0].Types, ", "); got != "VIDEO# META, VIDEO# STATS, VIDEO# COMMENT#" {
		t.Errorf("types: %s", got)
	}
	m, err := c.Tables[0].Mapping(source.PrimaryKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ sort, row, column string }{
		{"META", "VIDEO#3", "d:PK"}, {"COMMENT#21", "VIDEO#3", "comment:21"}, {"STATS", "VIDEO#3", "stats:STATS"}, {"x y", "other/VIDEO%233#x y", "d:PK"},
	} {
		placed, err := m.Map(item("PK", "VIDEO#3", "SK", want.sort), time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		row := placed.Rows[0]
		if column := row.Cells[0].Family + ":" + row.Cells[0].Qualifier; row.Row != want.row || column != want.column {
			t.Errorf("%s: row %s, column %s", want.sort, row.Row, column)
		}
	}
	for _, secret := range []string{"bob", "example", "secret", "x y"} {
		if strings.Contains(p.Config, secret) {
			t.Errorf("%s is shown:\n%s", secret, p.Config)
		}
	}
}

func TestAdjacencyList(t *testing.T) {
	source := billing()
	p := Propose("", Target{}, []Table{source}, false)
	c := accepted(t, p.Config, source)
	m, err := c.Tables[0].Mapping(source.PrimaryKey)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := m.Map(item("PK", "INVOICE#1", "SK", "PAYMENT#11"), time.Unix(0, 0))
	if err != nil || len(placed.Rows) != 2 || placed.Rows[0].Row != "INVOICE#1" || placed.Rows[1].Row != "PAYMENT#11" {
		t.Errorf("%v, %v\n%s", placed.Rows, err, p.Config)
	}
}

// A key with many different beginnings may contain names of customers, so they are not shown.
func TestManyPrefixesAreNoTypes(t *testing.T) {
	source := Table{Name: "Notes", PrimaryKey: stringKey("PK", "SK")}
	for i := range 60 {
		name := "customer" + string(rune('a'+i/4))
		source.Items = append(source.Items, item("PK", fmt.Sprintf("%s#%d", name, i), "SK", "NOTE"))
	}
	if p := Propose("", Target{}, []Table{source}, false); strings.Contains(p.Config, "customer") || len(p.Tables[0].Types) > 0 {
		t.Error(p.Config)
	}
}

func TestHotKeys(t *testing.T) {
	for name, want := range map[string]struct {
		value func(i int) attribute.Value
		why   string
	}{
		"sequence": {func(i int) attribute.Value { v, _ := attribute.Number(fmt.Sprint(1000 + 3*i)); return v }, "looks like a sequence of numbers"},
		"digits":   {func(i int) attribute.Value { return attribute.String(fmt.Sprint(1000 + 3*i)) }, "looks like a sequence of numbers"},
		"seconds":  {func(i int) attribute.Value { v, _ := attribute.Number(fmt.Sprint(1_700_000_000 + 99_999*i)); return v }, "looks like a time"},
		"millis":   {func(i int) attribute.Value { return attribute.String(fmt.Sprint(1_700_000_000_000 + 99_999_999*i)) }, "looks like a time"},
		"dates":    {func(i int) attribute.Value { return attribute.String(fmt.Sprintf("2026-11-%02dT10:00:00Z", i+1)) }, "begins with a date"},
		"ulids":    {func(i int) attribute.Value { return attribute.String(fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G5F%02d", i)) }, "looks like a ULID, which begins with a time"},
		"random": {func(i int) attribute.Value {
			v, _ := attribute.Number(fmt.Sprint(7_777_777_777_777 * (i + 1) % 999_999_999))
			return v
		}, ""},
		"emails": {func(i int) attribute.Value { return attribute.String(fmt.Sprintf("%c@example.com", 'a'+i)) }, ""},
	} {
		source := Table{Name: "Events"}
		for i := range 20 {
			v := want.value(i)
			source.PrimaryKey = []transform.KeyAttribute{{Name: "id", Type: v.Kind()}, {Name: "at", Type: attribute.KindS}}
			source.Items = append(source.Items, attribute.NewItem([]attribute.Attribute{{Name: "id", Value: v}, {Name: "at", Value: attribute.String("x")}}))
		}
		p := Propose("", Target{}, []Table{source}, false)
		accepted(t, p.Config, source)
		if p.Tables[0].Hot != want.why {
			t.Errorf("%s: %q", name, p.Tables[0].Hot)
		}
		if want.why == "" {
			continue
		}
		// The proposal is in a comment. Without the comment marks it is accepted.
		_, proposal, _ := strings.Cut(p.Config, "    # families:")
		proposal = "    families:" + strings.ReplaceAll(proposal, "    # ", "    ")
		proposal = strings.ReplaceAll(proposal, "    #", "    ")
		head, _, _ := strings.Cut(p.Config, "    # The partition key")
		accepted(t, head+proposal, source)
	}
}

func TestNamesOfTables(t *testing.T) {
	long := strings.Repeat("x", 60)
	var tables []Table
	for _, name := range []string{"Keyword_iPhone_2015_01", "Keyword_iPhone_2015_02", "null", "123", "-dash", long + "1", long + "2", "replicator_state", "Single_2015_01"} {
		tables = append(tables, Table{Name: name, PrimaryKey: stringKey("pk"), TimeToLive: "it's $5"})
	}
	p := Propose("eu-west-1", Target{"p", "i"}, tables, false)
	c := accepted(t, p.Config, tables...)
	if c.Tables[0].TTL.Attribute != "it's $5" || c.Source.Region != "eu-west-1" || c.Target.Instance != "i" {
		t.Error(p.Config)
	}
	for i, want := range []string{"Keyword_iPhone_{year:4}_{month:2}", "Keyword_iPhone_{year:4}_{month:2}", "", "", "", "", "", "", ""} {
		if c.Tables[i].From != tables[i].Name || p.Tables[i].Series != want {
			t.Errorf("%s: from %s, series %q", tables[i].Name, c.Tables[i].From, p.Tables[i].Series)
		}
	}
	if !strings.Contains(p.Config, "from: Keyword_iPhone_{year:4}_{month:2}") {
		t.Error(p.Config)
	}
	minimal := Propose("", Target{}, tables, true)
	accepted(t, minimal.Config, tables...)
	if strings.Contains(minimal.Config, "#") {
		t.Error(minimal.Config)
	}
}

// TestAnyTableIsAccepted: whatever keys look like, the proposal can be run, and no sampled item
// would be parked.
func TestAnyTableIsAccepted(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	words := []string{"USER", "User", "user", "d", "other", "_cdc", "A-B", "ORDER", "PK", "id", "META", "size", "a_b"}
	delimiters := []string{"#", "|", ":", "", "/", "#'", `#"`, "%"}
	key := func() string {
		text := words[r.IntN(len(words))]
		if r.IntN(3) > 0 {
			text += delimiters[r.IntN(len(delimiters))] + fmt.Sprint(r.IntN(9))
		}
		return text
	}
	names := []string{"PK", "pk", "size", "order", "a-b", "SK", "sk"}
	ruled := 0
	for range 1200 {
		source := Table{Name: "Some", PrimaryKey: stringKey(names[r.IntN(5)], names[5+r.IntN(2)])}
		few := words[:1+r.IntN(len(words))]
		all := words
		words = few
		for range 20 + r.IntN(60) {
			partition := key()
			sort := key()
			if r.IntN(3) == 0 {
				sort = partition
			}
			source.Items = append(source.Items, item(source.PrimaryKey[0].Name, partition, source.PrimaryKey[1].Name, sort))
		}
		words = all
		p := Propose("", Target{}, []Table{source}, false)
		accepted(t, p.Config, source)
		if strings.Contains(p.Config, "when:") {
			ruled++
		}
	}
	if ruled < 40 {
		t.Errorf("rules for %d tables only", ruled)
	}
}
