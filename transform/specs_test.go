package transform

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// when is a conjunction of conditions for tests: "a=x" (equal), "a^x" (begins with), "a==b" (two
// attributes are equal).
type when []string

func (w when) Match(i attribute.Item) bool {
	for _, text := range w {
		name, operator, value := w.split(text)
		v, ok := i.Get(name)
		other, _ := i.Get(value)
		if !ok || operator == "=" && v.Text() != value || operator == "^" && !strings.HasPrefix(v.Text(), value) || operator == "==" && !v.Equal(other) {
			return false
		}
	}
	return true
}

func (w when) split(text string) (name, operator, value string) {
	for _, operator := range []string{"==", "=", "^"} {
		if name, value, ok := strings.Cut(text, operator); ok {
			return name, operator, value
		}
	}
	panic(text)
}

func (w when) Attributes() []string {
	var names []string
	for _, text := range w {
		name, operator, value := w.split(text)
		if names = append(names, name); operator == "==" {
			names = append(names, value)
		}
	}
	return names
}

func (w when) Fixed(attr string) (attribute.Value, bool) {
	for _, text := range w {
		if name, operator, value := w.split(text); name == attr && operator == "=" {
			return attribute.String(value), true
		}
	}
	return attribute.Value{}, false
}

func (w when) Prefix(attr string) (string, bool) {
	for _, text := range w {
		if name, operator, value := w.split(text); name == attr && operator == "^" {
			return value, true
		}
	}
	return "", false
}

func (w when) Equal(attr string) []string {
	var same []string
	for _, text := range w {
		if name, operator, value := w.split(text); operator == "==" && name == attr {
			same = append(same, value)
		} else if operator == "==" && value == attr {
			same = append(same, name)
		}
	}
	return same
}

func template(text string) *Template {
	t, err := ParseTemplate(text)
	if err != nil {
		panic(err)
	}
	return t
}

func families(list ...string) []Family {
	var all []Family
	for _, text := range list {
		name, rule, _ := strings.Cut(text, "=")
		if rule == "" {
			rule = "maxversions=1"
		}
		f, err := ParseFamily(name, rule)
		if err != nil {
			panic(err)
		}
		all = append(all, f)
	}
	return all
}

var compositeKey = []KeyAttribute{{"PK", attribute.KindS}, {"SK", attribute.KindS}}

// videoSpec is the single-table design of the complete example: one wide row of a video, its comments and counters.
func videoSpec() Spec {
	return Spec{
		Source: "VideoApp", Table: "videos", PrimaryKey: compositeKey,
		Families: families("d", "comments", "tags", "counters=never:intsum"), Drop: []string{"GSI1PK", "GSI1SK", "entityType"},
		Rules: []Rule{
			{Name: "video", When: when{"PK^VIDEO#", "SK=META"}, Writes: []Write{{RowKey: template("{tenantId}#{PK | after('VIDEO#')}"), Columns: []ColumnRule{
				{Attribute: "*", To: "d"}, {Attribute: "durationMs", To: "d:duration_ms", As: AsInt64}, {Attribute: "tags", To: "tags", As: AsColumns},
				{Attribute: "encoding", To: "d", As: AsColumns}, {Attribute: "chapters", To: "d:chapters", As: AsJSON},
				{Attribute: "views", To: "counters:views", As: AsCounter}, {Attribute: "likes", To: "counters:likes", As: AsCounter}}}}},
			{Name: "comment", When: when{"PK^VIDEO#", "SK^COMMENT#"}, Writes: []Write{{RowKey: template("{tenantId}#{PK | after('VIDEO#')}"),
				Cell: &CellRule{Family: "comments", Qualifier: template("{SK | after('COMMENT#')}"), As: AsJSON, Only: []string{"author", "body", "createdAt"}}}}},
			{Name: "presence", When: when{"PK^PRESENCE#"}, Ignore: true},
		},
	}
}

// billingSpec is the adjacency list of the complete example, both ways.
func billingSpec() Spec {
	cell := func(family, qualifier string, only ...string) *CellRule {
		return &CellRule{Family: family, Qualifier: template(qualifier), As: AsJSON, Only: only}
	}
	return Spec{
		Source: "Billing", Table: "billing", PrimaryKey: compositeKey, Families: families("i", "payments", "invoices"),
		Rules: []Rule{
			{Name: "invoice", When: when{"PK^INVOICE#", "SK==PK"}, Writes: []Write{{RowKey: template("invoice#{PK | after('INVOICE#')}"), Columns: []ColumnRule{
				{Attribute: "*", To: "i"}, {Attribute: "total", To: "i:total", As: AsText}}}}},
			{Name: "payment", When: when{"PK^PAYMENT#", "SK==PK"}, Writes: []Write{{RowKey: template("payment#{PK | after('PAYMENT#')}"), Columns: []ColumnRule{{Attribute: "*", To: "i"}}}}},
			{Name: "invoice_payment", When: when{"PK^INVOICE#", "SK^PAYMENT#"}, Writes: []Write{
				{RowKey: template("invoice#{PK | after('INVOICE#')}"), Cell: cell("payments", "{SK | after('PAYMENT#')}", "amount", "paidAt", "method")},
				{RowKey: template("payment#{SK | after('PAYMENT#')}"), Cell: cell("invoices", "{PK | after('INVOICE#')}", "amount", "paidAt")}}},
		},
	}
}

// movingSpec has rules that depend on a changing attribute: items move between whole rows, cells,
// their own columns, and nothing.
func movingSpec() Spec {
	return Spec{
		Source: "Moving", Table: "moving", PrimaryKey: compositeKey, Families: families("a", "b", "c", "n=never:intsum"),
		Rules: []Rule{
			{Name: "whole", When: when{"kind=whole"}, Writes: []Write{{RowKey: template("w#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "a"}, {Attribute: "v", To: "n:v", As: AsCounter}}}}},
			{Name: "other", When: when{"kind=other"}, Writes: []Write{{RowKey: template("w#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "b"}}}}},
			{Name: "cell", When: when{"kind=cell"}, Writes: []Write{{RowKey: template("w#{PK}"), Cell: &CellRule{Family: "c", Qualifier: template("{SK}"), As: AsDynamoDBJSON}}}},
			{Name: "both", When: when{"kind=both"}, Writes: []Write{
				{RowKey: template("w#{PK}"), Cell: &CellRule{Family: "c", Qualifier: template("{SK}"), As: AsJSON}},
				{RowKey: template("x#{tenant}#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "b"}}}}},
			{Name: "gone", When: when{"kind=ignored"}, Ignore: true},
		},
	}
}

// shapesSpec has rules whose columns depend on the values: members of maps and sets, elements of
// lists.
func shapesSpec() Spec {
	return Spec{
		Source: "Shapes", Table: "shapes", PrimaryKey: compositeKey, Families: families("a", "t", listFamily+"=never"),
		Rules: []Rule{
			{Name: "flat", When: when{"kind=whole"}, Writes: []Write{{RowKey: template("w#{PK}#{SK}"), Columns: []ColumnRule{
				{Attribute: "*", To: "a", As: AsFlattened}, {Attribute: "tags", To: "t", As: AsColumns}, {Attribute: "log", To: listFamily, As: AsCells}}}}},
			{Name: "utility", When: when{"kind=other"}, Writes: []Write{{RowKey: template("w#{PK}#{SK}"), Columns: []ColumnRule{
				{Attribute: "*", To: "a", As: AsGoogleUtility}, {Attribute: "log", To: listFamily + ":old", As: AsCells}}}}},
			{Name: "apart", When: when{"kind=both"}, Writes: []Write{{RowKey: template("x#{tenant}#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "log", To: listFamily, As: AsCells}}}}},
			{Name: "gone", Ignore: true},
		},
	}
}

// listFamily is a family in which tests keep lists.
const listFamily = "lists"

func ruleMappings(t interface{ Fatal(...any) }) map[string]*Mapping {
	all := map[string]*Mapping{}
	for name, spec := range map[string]Spec{"video": videoSpec(), "billing": billingSpec(), "moving": movingSpec(), "shapes": shapesSpec()} {
		m, err := New(spec)
		if err != nil {
			t.Fatal(name, err)
		}
		all[name] = m
	}
	return all
}
