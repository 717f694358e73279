package fallback

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func keyOf(item attribute.Item) string { v, _ := item.Get("k"); return v.Text() }

func itemOf(key, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(value)}})
}

// plainForm maps the attribute v to the cell f:v.
type plainForm struct{}

func (plainForm) Key(row string) (attribute.Item, error) {
	if strings.HasPrefix(row, "bad") {
		return attribute.Item{}, errors.New("no key")
	}
	return attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String(row)}}), nil
}

func (plainForm) Row(key attribute.Item) (string, error) { return keyOf(key), nil }

func (plainForm) Invert(row string, cells []transform.Cell) (attribute.Item, error) {
	if strings.HasPrefix(string(cells[0].Value), "?") {
		return attribute.Item{}, fmt.Errorf("column %s: no value", cells[0].Qualifier)
	}
	return itemOf(row, string(cells[0].Value)), nil
}

func (plainForm) Differences(item, row attribute.Item) (set []attribute.Attribute, remove []string) {
	a, _ := item.Get("v")
	if b, _ := row.Get("v"); a.Text() != b.Text() {
		set = append(set, attribute.Attribute{Name: "v", Value: b})
	}
	return set, nil
}

func (plainForm) Expired(item attribute.Item, _ time.Time) bool {
	v, _ := item.Get("v")
	return strings.HasPrefix(v.Text(), "expired")
}
