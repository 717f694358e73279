package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

func decodeJSONString(t *testing.T, text []byte) string {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestH38_ItemsBeyondTheLimitsAreUnmappable(t *testing.T) {
	m := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}})
	secret := "s3cr3t"
	many := []attribute.Attribute{{Name: "pk", Value: attribute.String("k")}}
	for i := range MaxRowCells {
		many = append(many, attribute.Attribute{Name: fmt.Sprint(i), Value: attribute.Null()})
	}
	cases := map[string]struct {
		item attribute.Item
		want string
	}{
		"long attribute name": {item("pk", attribute.String("k"), strings.Repeat(secret, 3000), attribute.Null()), "attribute name has 18000 bytes"},
		"large cell":          {item("pk", attribute.String("k"), "big", attribute.String(strings.Repeat("x", MaxCellBytes+1))), `attribute "big" takes 100000001 bytes`},
		"many attributes":     {attribute.NewItem(many), "99901 attributes"},
		"text that is not UTF-8 inside JSON": {
			item("pk", attribute.String("k"), "l", attribute.List([]attribute.Value{attribute.String(secret + "\xff")})), "not valid UTF-8"},
		"a value that is none": {item("pk", attribute.String("k"), "x", attribute.Value{}), "no value"},
	}
	for name, c := range cases {
		_, err := m.Cells(c.item, 0)
		var u *Unmappable
		if !errors.As(err, &u) || !strings.Contains(u.Reason, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("H65: %s: the error holds data: %v", name, err)
		}
	}
	name := strings.Repeat("n", MaxQualifierBytes)
	cells, err := m.Cells(item("pk", attribute.String("k"), name, attribute.String("a\xff")), 0)
	if err != nil || string(cells[0].Value) != "a\xff" {
		t.Errorf("a name at the limit, top-level text as it is: %v", err)
	}
}

// Bytes inside JSON become one base64 text, however many they are.
func TestBytesOfAnyLengthInJSON(t *testing.T) {
	m := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}})
	for size := range 3000 {
		want := bytes.Repeat([]byte{byte(size), 0xfe, 7}, size/3+1)[:size]
		cells, err := m.Cells(item("pk", attribute.String("k"), "l", attribute.List([]attribute.Value{attribute.Binary(want)})), 0)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]byte
		if err := json.Unmarshal(cells[0].Value, &got); err != nil || len(got) != 1 || !bytes.Equal(got[0], want) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

func TestLargeRowIsUnmappable(t *testing.T) {
	m := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}})
	chunk := attribute.String(strings.Repeat("x", MaxCellBytes))
	_, err := m.Cells(item("pk", attribute.String("k"), "a", chunk, "b", chunk, "c", chunk), 0)
	if err == nil || !strings.Contains(err.Error(), "the item takes") {
		t.Error(err)
	}
}

// Columns of members repeat the names of the maps around them: an item of DynamoDB could need more
// memory than a worker has. The encoder stops before that.
func TestH38_ManyMembersOfALongNameAreUnmappable(t *testing.T) {
	var members []attribute.Attribute
	for i := range 60_000 {
		members = append(members, attribute.Attribute{Name: strconv.FormatInt(int64(i), 36), Value: attribute.Null()})
	}
	image := item("PK", attribute.String("p"), strings.Repeat("n", 16_000), attribute.Map(members))
	for _, as := range []Encoding{AsFlattened, AsColumns} {
		column := ColumnRule{Attribute: "*", To: "d", As: as}
		rules := []ColumnRule{column}
		if as == AsColumns {
			rules = append(rules, ColumnRule{Attribute: "PK", To: "d"})
		}
		m, err := New(Spec{Source: "S", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"), Rules: []Rule{{Writes: []Write{{Columns: rules}}}}})
		if err != nil {
			t.Fatal(err)
		}
		w, e := m.rules[0].writes[0], encoder{}
		c := cells{encoder: &e, w: w}
		if err := c.each(image); err == nil || !strings.Contains(err.Error(), "the item takes") {
			t.Errorf("as: %s: %v", as, err)
		}
		if c.total > MaxRowBytes+MaxQualifierBytes {
			t.Errorf("as: %s: %d bytes were made before that was found", as, c.total)
		}
		if _, err := m.Map(image, time.Unix(1, 0)); err == nil {
			t.Errorf("as: %s: mapped", as)
		}
	}
}

// Cells share their memory; writing to one must not change the next.
func TestCellsDoNotOverlap(t *testing.T) {
	m := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}})
	var e encoder
	var all [][]Cell
	for i := range 100 {
		cells, err := e.write(m, &address{w: m.rules[0].writes[0]}, item("pk", attribute.String(fmt.Sprint(i)), "v", attribute.String(strings.Repeat("v", i*10))), time.Time{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cells)
	}
	for i, cells := range all {
		if string(cells[0].Value) != fmt.Sprint(i) || len(cells[1].Value) != i*10 {
			t.Fatalf("item %d was overwritten", i)
		}
		_ = append(cells, Cell{})
		for j := range cells {
			_ = append(cells[j].Value, "overwrites"...)
		}
	}
	for i, cells := range all {
		if string(cells[0].Value) != fmt.Sprint(i) || cells[1].Qualifier != "v" {
			t.Fatalf("item %d was overwritten by an append", i)
		}
	}
}
