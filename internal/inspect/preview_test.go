package inspect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestOnDelete(t *testing.T) {
	row := transform.RowMutation{Families: []string{"d"}}
	both := transform.RowMutation{Families: []string{"counters", "d"}}
	cell := transform.RowMutation{Owner: "o", Columns: []transform.Column{{Family: "c", Qualifier: "1"}}}
	columns := transform.RowMutation{Owner: "o", Columns: []transform.Column{{Family: "c", Qualifier: "1"}, {Family: "c", Qualifier: "2"}}}
	mixed := transform.RowMutation{Owner: "o", Families: []string{"d"}, Columns: []transform.Column{{Family: "c", Qualifier: "1"}}}
	for _, c := range []struct {
		rows     []transform.RowMutation
		ignored  bool
		families int
		want     string
	}{
		{nil, true, 1, "nothing, because there is no row"},
		{nil, false, 1, "nothing, because there is no row"},
		{[]transform.RowMutation{row}, false, 1, "removes the row"},
		{[]transform.RowMutation{row}, false, 2, "removes family d of the row"},
		{[]transform.RowMutation{both}, false, 3, "removes families counters, d of the row"},
		{[]transform.RowMutation{cell}, false, 3, "removes this one cell"},
		{[]transform.RowMutation{cell, cell}, false, 3, "removes this one cell, in each of 2 rows"},
		{[]transform.RowMutation{row, columns}, false, 1, "removes the row; 2 columns of the row"},
		{[]transform.RowMutation{mixed}, false, 2, "removes 1 column and families d of the row"},
	} {
		if got := onDelete(transform.Placement{Rows: c.rows, Ignored: c.ignored}, c.families); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestOctets(t *testing.T) {
	for text, want := range map[string][2]string{
		"plain ä": {"plain ä", `"plain ä"`}, "": {`""`, `""`}, "a\nb": {`"a\nb"`, `"a\nb"`}, "\xff": {`"\xff"`, `{"base64":"/w=="}`},
	} {
		document, err := Octets(text).MarshalJSON()
		if Octets(text).String() != want[0] || string(document) != want[1] || err != nil {
			t.Errorf("%q: %s, %s, %v", text, Octets(text), document, err)
		}
	}
}

// Keys, columns, values and reasons come from outside. In no form may they control a terminal or
// forge a line.
func TestHostileItems(t *testing.T) {
	for _, hostile := range []string{"\x1b[2J\x1b[1;31mall good", "a\n----\nforged", "\u009b2J", "a\rforged", "\u202eforged", "a\u2028forged"} {
		reason := "the attribute " + hostile
		previews := []Preview{{Source: "Orders", Rule: rule{hostile, hostile, 1}, OnDelete: "removes the row", Unmappable: &reason,
			Rows: []previewRow{{Table: "orders", Row: Octets(hostile), Cells: []previewCell{{Family: "d", Qualifier: Octets(hostile), Value: Octets(hostile)}}}}}}
		explained := &Explanation{Table: "Orders", Rule: previews[0].Rule, Rows: []explainedRow{{Table: "orders", Row: Octets(hostile),
			Differs: []differingAt{{Column: Octets("d:" + hostile), Want: Octets(hostile), WantBytes: new(int), HaveBytes: new(int)}}}}}
		explained.Source.Unmappable = &reason
		for _, as := range []string{"text", "cbt", "json", "explain"} {
			var out bytes.Buffer
			console := &terminal.Console{Stdout: &out, Env: func(string) (string, bool) { return "", false }}
			if as == "explain" {
				if err := explained.Render(&out); err != nil {
					t.Fatal(err)
				}
			} else if err := ShowPreviews(console, previews, as); !diag.Has(err, diag.ItemsParked) {
				t.Fatal(err)
			}
			if shown := out.String(); diag.PrintableLines(shown) != shown || strings.Contains(shown, "\nforged") {
				t.Errorf("%q, %s: %q", hostile, as, shown)
			}
		}
	}
}
