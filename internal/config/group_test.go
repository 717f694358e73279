package config

import (
	"fmt"
	"strings"
	"testing"
)

const grouped = `version: 1
target: { project: p, instance: i }
tables:
  - from: Orders
    families: { d: maxversions=1 }
    rules: [{ row_key: "o#{id}", columns: { "*": d } }]
  - from: Lines
    to: Orders
    families: { d: maxversions=1 }
    rules: [{ row_key: "l#{id}", columns: { "*": d } }]
  - from: Users
  - from: Logs_{year:4}
    to: logs
    families: { d: maxversions=1 }
    rules: [{ row_key: "{$year}#{id}", columns: { "*": d } }]
  - from: Audit
`

// Tables with a common target are a group, a pattern is one, and a configured group joins others.
func TestGroupsHoldAllSourcesOfTheirTargets(t *testing.T) {
	for name, test := range map[string]struct{ add, want string }{
		"by common targets": {"", "Orders=Orders,Lines Users=Users Logs_{year:4}=Logs_2024,Logs_2025/Logs_{year:4} Audit=Audit"},
		"as configured": {"cutover: { groups: { all: [Audit, Users], logs: ['Logs_{year:4}'] } }",
			"Orders=Orders,Lines all=Users,Audit logs=Logs_2024,Logs_2025/Logs_{year:4}"},
		"one": {"cutover: { groups: { one: [Audit, Users, Orders, Lines, 'Logs_{year:4}'] } }", "one()=Orders,Lines,Users,Logs_2024,Logs_2025,Audit/Logs_{year:4}"},
	} {
		c, err := Parse("replicator.yaml", []byte(grouped+test.add), none)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, g := range c.Groups(c.Expand([]string{"Logs_2025", "Logs_2024", "Other"})) {
			var from []string
			for _, table := range g.Tables {
				from = append(from, table.From)
			}
			text := g.Name
			if g.Row != g.Name {
				text += fmt.Sprintf("(%s)", g.Row)
			}
			text += "=" + strings.Join(from, ",")
			if len(g.Patterns) > 0 {
				text += "/" + strings.Join(g.Patterns, ",")
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}

// A group that lacks a source of its targets could not be cut over by itself.
func TestGroupsThatCannotBeCutOverAreRefused(t *testing.T) {
	for groups, want := range map[string]string{
		"{ a: [Users], b: [Users] }":  "table Users is already in group a",
		"{ a: [Useres] }":             `is not under "tables"`,
		"{ a: [Orders] }":             "cutover.groups.a lacks table Lines",
		"{ a: [Orders], b: [Lines] }": "share a target table",
		"{ Audit: [Users] }":          "cutover.groups.Audit lacks table Audit",
		"{ a: [] }":                   "the list is empty",
	} {
		_, err := Parse("replicator.yaml", []byte(grouped+"cutover: { groups: "+groups+" }"), none)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", groups, err, want)
		}
	}
}

// The groups that remain keep their names, and each table its entry.
func TestTheRestOfAConfigurationExpandsAsBefore(t *testing.T) {
	c, err := Parse("replicator.yaml", []byte(grouped), none)
	if err != nil {
		t.Fatal(err)
	}
	rest := c.Without(func(t Table) bool { return t.From == "Orders" || t.From == "Lines" })
	var got []string
	for _, table := range rest.Expand([]string{"Logs_2024"}) {
		got = append(got, table.From)
	}
	if text := strings.Join(got, " "); text != "Users Logs_2024 Audit" || len(c.Tables) != 5 {
		t.Error(text, len(c.Tables))
	}
}
