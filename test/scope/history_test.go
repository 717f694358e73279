package scope

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// changesOf is the number of changes in a history.
const changesOf = 3

// address is the first part of the item's row key, in the mapping whose row key begins with a
// non-key attribute.
type address string

const (
	absent  address = ""  // there is no item
	lacking address = "-" // the item lacks the attribute, so that it cannot be mapped
)

// history is the life of one item: its address before the first change and after each change.
type history struct {
	mapping *transform.Mapping
	moving  bool // the row key begins with the attribute tenant
	at      [changesOf + 1]address
}

// The two mappings.
var (
	keyOnly = mapping("pk")
	tenants = mapping("tenant", "pk")
)

func mapping(rowKey ...string) *transform.Mapping {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, rowKey...)
	if err != nil {
		panic(err)
	}
	return m
}

// histories lists all lives with three changes that DynamoDB records. Only whether two addresses
// are equal matters, so a new address is always the next letter. The shortest histories come first.
func histories(moving bool) []history {
	h := history{mapping: keyOnly, moving: moving}
	first := []address{"a", absent}
	if moving {
		h.mapping = tenants
		first = append(first, lacking)
	}
	var all []history
	for _, h.at[0] = range first {
		all = h.continued(all, 1)
	}
	return all
}

func (h history) continued(all []history, n int) []history {
	if n > changesOf {
		return append(all, h)
	}
	for _, h.at[n] = range h.next(n) {
		all = h.continued(all, n+1)
	}
	return all
}

// next lists the possible addresses after the n-th change.
func (h history) next(n int) []address {
	var list []address
	fresh := address("a")
	for _, a := range h.at[:n] {
		if a >= fresh {
			fresh = address(a[0] + 1)
		}
	}
	if h.moving {
		for a := byte('a'); address(a) <= fresh; a++ {
			list = append(list, address(a))
		}
		list = append(list, lacking)
	} else {
		list = append(list, "a")
	}
	if h.at[n-1] != absent {
		list = append(list, absent)
	}
	return list
}

// image returns the item after n changes. Every image has one attribute of its own, and one whose
// value differs, so that leftovers of any other image would show.
func (h history) image(n int) attribute.Item {
	if h.at[n] == absent {
		return attribute.Item{}
	}
	number, err := attribute.Number(strconv.Itoa(n))
	if err != nil {
		panic(err)
	}
	attributes := []attribute.Attribute{
		{Name: "pk", Value: attribute.String("k")}, {Name: "n", Value: number}, {Name: fmt.Sprint("only", n), Value: attribute.String("x")},
	}
	if h.moving && h.at[n] != lacking {
		attributes = append(attributes, attribute.Attribute{Name: "tenant", Value: attribute.String(string(h.at[n]))})
	}
	return attribute.NewItem(attributes)
}

// row returns the item's row key and cells after n changes. It does not use the code under test.
func (h history) row(n int) (key string, cells map[column]string) {
	if h.at[n] == absent || h.at[n] == lacking {
		return "", nil
	}
	cells = map[column]string{{"d", "pk"}: "k", {"d", "n"}: strconv.Itoa(n), {"d", fmt.Sprint("only", n)}: "x"}
	if !h.moving {
		return "k", cells
	}
	cells[column{"d", "tenant"}] = string(h.at[n])
	return string(h.at[n]) + "#k", cells
}

// change returns the record of the n-th change, counted from 1, without its place in the stream.
func (h history) change(n int) cdc.Change {
	c := cdc.Change{
		Event: cdc.Modify, Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}}),
		Old: h.image(n - 1), New: h.image(n), Time: changeTime(n),
	}
	switch {
	case !c.Old.Exists():
		c.Event = cdc.Insert
	case !c.New.Exists():
		c.Event = cdc.Remove
	}
	return c
}

func (h history) String() string {
	var words []string
	for _, a := range h.at {
		switch a {
		case absent:
			words = append(words, "no item")
		case lacking:
			words = append(words, "unmappable")
		default:
			words = append(words, string(a))
		}
	}
	return strings.Join(words, " → ")
}
