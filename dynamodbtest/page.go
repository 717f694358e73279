package dynamodbtest

import (
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// maxPageBytes bounds the items that one call of Scan or Query evaluates, in bytes: 1 MB.
const maxPageBytes = 1 << 20

// readOptions are the parameters that Scan and Query share.
type readOptions struct {
	tableRef
	expressionParameters
	IndexName              *string
	Limit                  *int
	ExclusiveStartKey      item.Item
	ConsistentRead         bool
	Select                 string
	ReturnConsumedCapacity string
	FilterExpression       *string
	ProjectionExpression   *string
	AttributesToGet        []string
	ConditionalOperator    string
}

// selection is the part of the evaluated items that a read request returns.
type selection struct {
	filter     *expression.Condition
	projection *expression.Projection
	countOnly  bool
	consistent bool
	// whole makes a local index read the items of its entries from the table. This is necessary if
	// the index does not have all requested attributes.
	whole bool
	meter meter
}

// selection validates the shared parameters except the source. The filter and the projection must
// then have used every placeholder.
func (o *readOptions) selection(b *expression.Bindings, filter legacyTests) (*selection, error) {
	m := newMeter(o.ReturnConsumedCapacity, o.name())
	sel := &selection{consistent: o.ConsistentRead, meter: m}
	if o.Limit != nil && *o.Limit < 1 {
		return nil, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *o.Limit)
	}
	var err error
	if o.FilterExpression != nil {
		if sel.filter, err = expression.ParseCondition("FilterExpression", *o.FilterExpression, b); err != nil {
			return nil, err
		}
	} else if sel.filter, err = filter.filter(o.ConditionalOperator); err != nil {
		return nil, err
	}
	switch {
	case o.ProjectionExpression != nil:
		sel.projection, err = expression.ParseProjection(*o.ProjectionExpression, b)
	case o.AttributesToGet != nil:
		sel.projection, err = expression.LegacyProjection(o.AttributesToGet)
	}
	if err != nil {
		return nil, err
	}
	if err := o.checkSelect(sel); err != nil {
		return nil, err
	}
	return sel, b.CheckUsed()
}

func (o *readOptions) checkSelect(sel *selection) error {
	switch {
	case o.Select == "SPECIFIC_ATTRIBUTES" && sel.projection == nil:
		return validation("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case o.Select != "" && o.Select != "SPECIFIC_ATTRIBUTES" && sel.projection != nil:
		what := o.Select
		if what == "COUNT" {
			what = "only the Count"
		}
		member := "ProjectionExpression"
		if o.AttributesToGet != nil {
			member = "AttributesToGet"
		}
		return validation("Cannot specify the %s when choosing to get %s", member, what)
	case o.Select == "ALL_PROJECTED_ATTRIBUTES" && o.IndexName == nil:
		return validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	sel.countOnly = o.Select == "COUNT"
	return nil
}

// checkIndex rejects attributes that a global index does not have. For a local index it makes the
// request read them from the table.
func (o *readOptions) checkIndex(sel *selection, src *source) error {
	x := src.index
	if x == nil || x.project == projectAll {
		return nil
	}
	if o.Select == "ALL_ATTRIBUTES" {
		if x.global {
			return validation("One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", x.name)
		}
		sel.whole = true
	}
	if sel.projection == nil {
		return nil
	}
	var missing []string
	for _, name := range sel.projection.Attributes() {
		if !x.projects(src.table.schema, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 && x.global {
		return validation("One or more parameter values were invalid: Global secondary index %s does not project [%s]", x.name, strings.Join(missing, ", "))
	}
	sel.whole = sel.whole || len(missing) > 0
	return nil
}

// page holds the items that one call evaluates.
type page struct {
	limit *int
	items []*stored
	bytes int
	more  bool // more items may follow the last item
}

// take adds an item and reports whether there is room for another.
func (p *page) take(it *stored) bool {
	if p.bytes > 0 && p.bytes+it.size > maxPageBytes {
		p.more = true
		return false
	}
	p.items = append(p.items, it)
	p.bytes += it.size
	if p.limit != nil && len(p.items) == *p.limit {
		// As in DynamoDB, a page that reaches its limit has a last key even if no item follows.
		p.more = true
		return false
	}
	return true
}

// answerPage encodes a page. It needs no lock, because stored items never change.
func (src *source) answerPage(p *page, sel *selection) (wire, error) {
	r := &response{json: append(make([]byte, 0, 2*p.bytes+256), '{')}
	if !sel.countOnly {
		r.member("Items")
		r.json = append(r.json, '[')
	}
	count := 0
	for _, it := range p.items {
		shown, err := sel.show(src, it)
		if err != nil {
			return nil, err
		}
		if shown == nil {
			continue
		}
		if !sel.countOnly {
			if count > 0 {
				r.json = append(r.json, ',')
			}
			r.json = append(r.json, shown...)
		}
		count++
	}
	if !sel.countOnly {
		r.json = append(r.json, ']')
	}
	r.raw("Count", strconv.AppendInt(nil, int64(count), 10))
	r.raw("ScannedCount", strconv.AppendInt(nil, int64(len(p.items)), 10))
	if p.more {
		last, err := item.Parse(p.items[len(p.items)-1].wire)
		if err != nil {
			return nil, err
		}
		r.raw("LastEvaluatedKey", src.lastKey(last))
	}
	if src.index != nil {
		sel.meter.readIndex(src.index, p.bytes, sel.consistent)
	} else {
		sel.meter.read(p.bytes, sel.consistent)
	}
	r.capacity(&sel.meter)
	return r.close(), nil
}

// show returns the JSON of the selected part of an item. It returns nil if the filter excludes the
// item.
func (sel *selection) show(src *source, it *stored) ([]byte, error) {
	if sel.filter == nil && sel.projection == nil && !sel.whole {
		return it.wire, nil
	}
	parsed, err := item.Parse(it.wire)
	if err != nil {
		return nil, err
	}
	if sel.whole {
		it, parsed, err = sel.fetch(src, it, parsed)
		if err != nil {
			return nil, err
		}
	}
	if sel.filter != nil && !sel.filter.Match(parsed) {
		return nil, nil
	}
	if sel.projection == nil {
		return it.wire, nil
	}
	return attribute.AppendItem(nil, sel.projection.Of(parsed)), nil
}

// fetch reads the item of a local index's entry from the table. It is billed as a read of the
// table.
func (sel *selection) fetch(src *source, entry *stored, it attribute.Item) (*stored, attribute.Item, error) {
	whole := src.whole(it, entry)
	sel.meter.read(whole.size, sel.consistent)
	parsed, err := item.Parse(whole.wire)
	return whole, parsed, err
}
