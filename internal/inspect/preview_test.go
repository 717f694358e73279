package inspect

import (
	"testing"

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
		{nil, true, 1, "nothing is there"},
		{nil, false, 1, "nothing is there"},
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
