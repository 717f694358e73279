package processes

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestCell(t *testing.T) {
	n := func(s string) value { return &types.AttributeValueMemberN{Value: s} }
	s := func(s string) value { return &types.AttributeValueMemberS{Value: s} }
	for _, c := range []struct {
		v    value
		want string
	}{
		{s(`a"<é`), `a"<é`},
		{n("-0"), "0"},
		{n("+007.500"), "7.5"},
		{n("9e40"), "9" + strings.Repeat("0", 40)},
		{n("12E-3"), "0.012"},
		{n("-1.10"), "-1.1"},
		{n("12345678901234567890123456789012345678"), "12345678901234567890123456789012345678"},
		{n("1e-130"), "0." + strings.Repeat("0", 129) + "1"},
		{&types.AttributeValueMemberB{Value: []byte{0, 255}}, "\x00\xff"},
		{&types.AttributeValueMemberBOOL{Value: true}, "true"},
		{&types.AttributeValueMemberNULL{Value: true}, "null"},
		{&types.AttributeValueMemberSS{Value: []string{"b", "a", "é"}}, `["a","b","é"]`},
		{&types.AttributeValueMemberNS{Value: []string{"10", "9.50", "-2"}}, `[-2,9.5,10]`},
		{&types.AttributeValueMemberBS{Value: [][]byte{{2}, {1, 0}}}, `["AQA=","Ag=="]`},
		{&types.AttributeValueMemberM{Value: item{"b": n("1.0"), "B": s("<\"\\\n\x01é"), "": &types.AttributeValueMemberL{Value: []value{n("2")}}}},
			`{"":[2],"B":"<\"\\\n\u0001é","b":1}`},
		{&types.AttributeValueMemberL{}, "[]"},
		{&types.AttributeValueMemberM{}, "{}"},
	} {
		if got := cell(c.v); got != c.want {
			t.Errorf("%T: %q, want %q", c.v, got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	for _, table := range tables {
		seen := map[string]bool{}
		for n := range 5000 {
			row := table.row(table.key(n))
			if seen[row] {
				t.Fatalf("table %s: item %d shares its row", table.name, n)
			}
			seen[row] = true
		}
	}
	if got, want := tables[0].row(tables[0].key(61)), mark+"%2301%2523é#-4"; !strings.HasPrefix(got, want) {
		t.Errorf("row %q, want %q…", got, want)
	}
}

// cellsOf returns a row of Bigtable from pairs of family:qualifier and value.
func cellsOf(cells ...string) bigtable.Row {
	row := bigtable.Row{}
	for i := 0; i < len(cells); i += 2 {
		family, _, _ := strings.Cut(cells[i], ":")
		row[family] = append(row[family], bigtable.ReadItem{Row: "r", Column: cells[i], Value: []byte(cells[i+1])})
	}
	return row
}

// An oracle that overlooks differences proves nothing.
func TestDiffers(t *testing.T) {
	want := map[string]string{"a": "1", "b": "2"}
	for _, c := range []struct {
		row  bigtable.Row
		what string
	}{
		{cellsOf("d:a", "1", "d:b", "2", "_cdc:v", "7"), ""},
		{cellsOf("d:a", "1", "d:b", "2", "_cdc:b", "7.1"), ""},
		{cellsOf("d:a", "1", "d:b", "2", "_cdc:v", "7", "_cdc:b", "7.1"), "its versions are not those of a live row"},
		{cellsOf("d:a", "1", "_cdc:v", "7"), "no b"},
		{cellsOf("d:a", "1", "d:b", "3", "_cdc:v", "7"), "other value in b"},
		{cellsOf("d:a", "1", "d:b", "2", "d:c", "3", "_cdc:v", "7"), "surplus c"},
		{cellsOf("d:a", "1", "d:b", "2", "d:b", "2", "_cdc:v", "7"), "several cells in b"},
		{cellsOf("d:a", "1", "d:b", "2"), "its versions are not those of a live row"},
		{cellsOf("d:a", "1", "d:b", "2", "_cdc:v", "7", "_cdc_gone:v", "6"), "its versions are not those of a live row"},
		{cellsOf("d:a", "1", "d:b", "2", "_cdc:v", "7", "x:y", ""), "family x"},
	} {
		if got := differs(want, c.row); got != c.what {
			t.Errorf("%v: %q, want %q", c.row, got, c.what)
		}
	}
	for _, c := range []struct {
		row  bigtable.Row
		gone bool
	}{
		{cellsOf("_cdc_gone:v", "7"), true},
		{cellsOf("d:a", "1"), false},
		{cellsOf("_cdc:v", "7"), false},
		{cellsOf("_cdc_gone:v", "7", "_cdc_gone:v", "6"), false},
		{cellsOf("_cdc_gone:v", "7", "d:a", "1"), false},
	} {
		if got := notGone(c.row) == ""; got != c.gone {
			t.Errorf("%v: gone %t, want %t", c.row, got, c.gone)
		}
	}
}

func TestVersionsDoNotFall(t *testing.T) {
	o := newOracle(nil, nil)
	c := &comparison{}
	row := func(family, version string) bigtable.Row { return cellsOf(family+":v", version) }
	for _, r := range []bigtable.Row{row("_cdc", "3"), row("_cdc_gone", "4"), row("_cdc", "4")} {
		if o.follow(c, tables[0], r); len(c.broken) > 0 {
			t.Fatalf("%v", c.broken)
		}
	}
	if o.follow(c, tables[0], row("_cdc_gone", "3")); len(c.broken) != 1 {
		t.Errorf("a version that fell was overlooked")
	}
}

// The same seed gives the same plans, and ten rounds of a world have every kind of fault.
func TestPlans(t *testing.T) {
	for seed := range uint64(50) {
		kinds := map[Fault]bool{}
		for n := range roundsPerWorld {
			p := newPlan(seed, n)
			if again := newPlan(seed, n); !reflect.DeepEqual(p, again) {
				t.Fatalf("%v is not %v", p, again)
			}
			if p.killed == p.frozen || p.killed == p.severed || p.frozen == p.severed {
				t.Errorf("%v hits a worker twice", p)
			}
			if p.freeze.lasts <= lease {
				t.Errorf("%v freezes for less than a lease", p)
			}
			kinds[p.partition.fault] = true
		}
		if len(kinds) != 4 {
			t.Errorf("seed %d: only the faults %v", seed, kinds)
		}
	}
}

// Items have attributes of all ten types.
func TestItems(t *testing.T) {
	kinds := map[string]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		for _, v := range tables[0].newItem(r, n) {
			kinds[reflect.TypeOf(v).Elem().Name()] = true
		}
	}
	if len(kinds) != 10 {
		t.Errorf("types %v, want ten", kinds)
	}
}
