package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The rows and cells that the presets make of an item, by key schema.
func TestPresets(t *testing.T) {
	c, err := parseFile(t, "testdata/accepted/presets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	key := func(kind attribute.Kind, names ...string) []transform.KeyAttribute {
		var keys []transform.KeyAttribute
		for _, name := range names {
			keys = append(keys, transform.KeyAttribute{Name: name, Type: kind})
		}
		return keys
	}
	one, err := attribute.Number("0.0000001")
	if err != nil {
		t.Fatal(err)
	}
	s, n, b := attribute.String("x"), one, attribute.Binary([]byte{0, 255})
	for _, test := range []struct {
		table int
		key   []transform.KeyAttribute
		item  []attribute.Attribute
		row   string
		cells string
	}{
		{0, key(attribute.KindS, "u"), []attribute.Attribute{{Name: "u", Value: s}, {Name: "a", Value: b}}, "x", "cf1:a=QVA4PQ=="},
		{0, key(attribute.KindN, "u"), []attribute.Attribute{{Name: "u", Value: n}, {Name: "a", Value: n}}, "1E-7", "cf1:a=1E-7"},
		{0, key(attribute.KindB, "u"), []attribute.Attribute{{Name: "u", Value: b}, {Name: "a", Value: attribute.Null()}}, "QVA4PQ==", "cf1:a="},
		{1, key(attribute.KindS, "u"), []attribute.Attribute{{Name: "u", Value: s}, {Name: "a", Value: b}, {Name: "etag", Value: s}}, "x", "d:a=AP8= d:u=x"},
		{1, key(attribute.KindS, "u", "a"), []attribute.Attribute{{Name: "u", Value: s}, {Name: "a", Value: s}}, "x#x", "d:a=x d:u=x"},
		{2, key(attribute.KindS, "user", "at"), []attribute.Attribute{{Name: "user", Value: s}, {Name: "at", Value: s}, {Name: "v", Value: b}}, "x#x", "cf1:at=x cf1:user=x cf1:v=QVA4PQ=="},
		{2, key(attribute.KindS, "user", "at"), []attribute.Attribute{{Name: "user", Value: s}, {Name: "at", Value: s}, {Name: "photo", Value: b}}, "x#x", "cf1:at=x cf1:photo=\x00\xff cf1:user=x"},
	} {
		m, err := c.Tables[test.table].Mapping(test.key)
		if err != nil {
			t.Fatal(err)
		}
		placed, err := m.Map(attribute.NewItem(test.item), time.Unix(0, 0))
		if err != nil || len(placed.Rows) != 1 {
			t.Fatal(placed, err)
		}
		var cells []string
		for _, cell := range placed.Rows[0].Cells {
			cells = append(cells, cell.Family+":"+cell.Qualifier+"="+string(cell.Value))
		}
		if got := strings.Join(cells, " "); placed.Rows[0].Row != test.row || got != test.cells {
			t.Errorf("%q %q, want %q %q", placed.Rows[0].Row, got, test.row, test.cells)
		}
	}
	if name, at := c.Tables[0].rule(0); name != "preset google-migration-utility" || at.Line != 5 {
		t.Error(name, at)
	}
	if families := readerFamilies(c); len(families) != 1 || families[0] != transform.UtilityFamily {
		t.Error(families)
	}
	if c.Hash(c.Tables[0]) == c.Hash(Table{From: c.Tables[0].From, To: c.Tables[0].To}) {
		t.Error("the hash does not cover the preset")
	}
}

// The utility omits the sort key, so items overwrite each other. That is refused, with both fixes.
func TestPresetWithoutSortKey(t *testing.T) {
	c, err := parseFile(t, "testdata/accepted/presets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Tables[0].Mapping([]transform.KeyAttribute{{Name: "user", Type: attribute.KindS}, {Name: "at", Type: attribute.KindN}})
	var list diag.List
	if !errors.As(err, &list) || len(list) != 1 || list[0].Code != diag.AddressAmbiguous || list[0].Pos.Line != 5 ||
		list[0].Fix != `set a row key: rules: [{ row_key: "{user}#{at}" }]; or write preset: google-migration-utility-corrected` {
		t.Error(err)
	}
}
