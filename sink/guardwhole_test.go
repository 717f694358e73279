package sink_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// operations names the operations of a request, in order.
func operations(r sink.Request) string {
	names := map[sink.OpKind]string{sink.DeleteFamily: "family", sink.DeleteColumn: "column", sink.SetCell: "set", sink.AddToCell: "add", sink.DeleteFrom: "from", sink.DeleteBefore: "before"}
	lines := []string{fmt.Sprintf("%s/%s unless %s:%s", r.Table, r.Row, strings.Join(r.Refuse.Families, "|"), r.Refuse.Qualifier)}
	for _, op := range r.Ops {
		line := fmt.Sprintf("%s %s:%s", names[op.Kind], op.Family, op.Qualifier)
		if op.Timestamp != 0 || op.Kind == sink.SetCell {
			line += fmt.Sprint(" @", op.Timestamp)
		}
		if op.Kind == sink.SetCell || op.Kind == sink.AddToCell {
			value := string(op.Value)
			if _, err := transform.ParseVersion(value); err == nil {
				value = "version"
			}
			line += " " + value
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// The whole request of each kind of mutation: what it deletes, what it sets, and the columns of its
// versions. An item of a shared row touches only its own version and origin. An item that has its
// row alone first removes the marks of all others. A first write under dual writes deletes named
// cells up to and including their second, but what the item inherits from former mappings at once.
func TestTheWholeGuard(t *testing.T) {
	base := func(edit func(m *transform.RowMutation)) transform.RowMutation {
		m := transform.RowMutation{
			Table: "t", Row: "r", Version: version(7), Families: []string{"d"}, Columns: []transform.Column{{Family: "e", Qualifier: "c"}},
			InheritedFamilies: []string{"f"}, InheritedColumns: []transform.Column{{Family: "g", Qualifier: "i"}},
			Cells: []transform.Cell{{Family: "d", Qualifier: "a", Timestamp: 2_000_000, Value: []byte("1")}, {Family: "h", Qualifier: "n", Timestamp: 2_000_000, Value: []byte("2"), Add: true}},
		}
		edit(&m)
		return m
	}
	named := func(m *transform.RowMutation) {
		m.Timestamped, m.Second = true, 2_000_000
		m.Named = []transform.Cell{{Family: "d", Qualifier: "a"}, {Family: "h", Qualifier: "n", Add: true}}
	}
	const inherited = "\nfamily f:\ncolumn g:i"
	const owned = inherited + "\nfamily d:\ncolumn e:c"
	const cells = "\nset d:a @2000000 1\ncolumn h:n\nadd h:n @2000000 2"
	for name, c := range map[string]struct {
		edit func(m *transform.RowMutation)
		want string
	}{
		"put": {func(*transform.RowMutation) {}, "t/r unless _cdc|_cdc_gone:v" + owned + cells + "\ncolumn _cdc_gone:v\nset _cdc:v @0 version"},
		"put with an origin": {func(m *transform.RowMutation) { m.Origin = "o" },
			"t/r unless _cdc|_cdc_gone:v" + owned + cells + "\nset _cdc:k @0 o\ncolumn _cdc_gone:v\nset _cdc:v @0 version"},
		"put into a shared row": {func(m *transform.RowMutation) { m.Owner, m.Origin = "x", "o" },
			"t/r unless _cdc|_cdc_gone:v:x" + owned + cells + "\nset _cdc:k:x @0 o\ncolumn _cdc_gone:v:x\nset _cdc:v:x @0 version"},
		"put alone": {func(m *transform.RowMutation) { m.Alone = true },
			"t/r unless _cdc|_cdc_gone:v" + owned + cells + "\nfamily _cdc:\nfamily _cdc_gone:\ncolumn _cdc_gone:v\nset _cdc:v @0 version"},
		"first put": {named, "t/r unless _cdc|_cdc_gone:v" + inherited + "\nbefore d:a @2001000\ncolumn h:n" + cells + "\ncolumn _cdc_gone:v\nset _cdc:v @0 version"},
		"remove": {func(m *transform.RowMutation) { m.Remove = true },
			"t/r unless _cdc|_cdc_gone:v" + owned + "\ncolumn _cdc:k\ncolumn _cdc:v\ncolumn _cdc_gone:v\nset _cdc_gone:v @-1 version"},
		"remove from a shared row": {func(m *transform.RowMutation) { m.Remove, m.Owner = true, "x" },
			"t/r unless _cdc|_cdc_gone:v:x" + owned + "\ncolumn _cdc:k:x\ncolumn _cdc:v:x\ncolumn _cdc_gone:v:x\nset _cdc_gone:v:x @-1 version"},
		"first remove, alone": {func(m *transform.RowMutation) { named(m); m.Remove, m.Alone = true, true },
			"t/r unless _cdc|_cdc_gone:v" + inherited + "\nbefore d:a @2001000\ncolumn h:n\nfamily _cdc:\nfamily _cdc_gone:\ncolumn _cdc:k\ncolumn _cdc:v\ncolumn _cdc_gone:v\nset _cdc_gone:v @-1 version"},
	} {
		r := sink.Guard(base(c.edit))
		if got := operations(r); got != c.want || r.Refuse.AtLeast != version(7) || r.Refuse.Exactly {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
}

// The size of a request counts its row, its columns and each operation's names and value.
func TestSizeOfARequest(t *testing.T) {
	r := sink.Request{Row: "row", Refuse: sink.Predicate{Families: []string{"a", "b"}, Qualifier: "v"}}
	bare := r.Size()
	r.Ops = []sink.Op{{Kind: sink.SetCell, Family: strings.Repeat("f", 10), Qualifier: strings.Repeat("q", 100), Value: make([]byte, 1000)}, {Kind: sink.DeleteFamily, Family: "d"}}
	if n := r.Size() - bare; n < 1111 || n > 1211 || bare < 5 || bare > 1000 {
		t.Errorf("%d bytes, beside %d", n, bare)
	}
}
