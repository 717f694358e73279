package dynamodbtest

import (
	"strconv"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// maxPageBytes is how much one call of Scan or Query evaluates: 1 MB of items.
const maxPageBytes = 1 << 20

// readOptions are the parameters that Scan and Query share.
type readOptions struct {
	tableRef
	expressionParameters
	Limit                  *int
	ExclusiveStartKey      item.Item
	ConsistentRead         bool
	Select                 string
	ReturnConsumedCapacity string
	FilterExpression       *string
	ProjectionExpression   *string
}

// selection is what a reading request wants to see of the items it evaluates.
type selection struct {
	filter     *expression.Condition
	projection *expression.Projection
	countOnly  bool
	consistent bool
	meter      meter
}

// selection validates the shared parameters. The placeholders must all be used when it
// has parsed the filter and the projection.
func (o *readOptions) selection(b *expression.Bindings) (*selection, error) {
	m, err := newMeter(o.ReturnConsumedCapacity, o.name())
	if err != nil {
		return nil, err
	}
	sel := &selection{consistent: o.ConsistentRead, meter: m}
	if o.Limit != nil && *o.Limit < 1 {
		return nil, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *o.Limit)
	}
	if o.FilterExpression != nil {
		if sel.filter, err = expression.ParseCondition("FilterExpression", *o.FilterExpression, b); err != nil {
			return nil, err
		}
	}
	if o.ProjectionExpression != nil {
		if sel.projection, err = expression.ParseProjection(*o.ProjectionExpression, b); err != nil {
			return nil, err
		}
	}
	switch o.Select {
	case "", "SPECIFIC_ATTRIBUTES":
		if o.Select != "" && sel.projection == nil {
			return nil, validation("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
		}
	case "ALL_ATTRIBUTES", "COUNT":
		if sel.projection != nil {
			return nil, validation("Cannot specify the ProjectionExpression when choosing to get %s", o.Select)
		}
		sel.countOnly = o.Select == "COUNT"
	case "ALL_PROJECTED_ATTRIBUTES":
		return nil, validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	default:
		return nil, validation("1 validation error detected: Value at 'select' failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]")
	}
	return sel, b.CheckUsed()
}

// startKey reads an ExclusiveStartKey.
func (t *table) startKey(key cdc.Item) (primaryKey, error) {
	k, err := t.schema.ofKey(key)
	if err != nil {
		return k, validation("The provided starting key is invalid: The provided key element does not match the schema")
	}
	return k, nil
}

// page is what one call evaluates.
type page struct {
	limit *int
	items []*stored
	bytes int
	more  bool // there may be items after the last
}

// take adds an item and tells whether there is room for another.
func (p *page) take(it *stored) bool {
	if p.bytes > 0 && p.bytes+it.size > maxPageBytes {
		p.more = true
		return false
	}
	p.items = append(p.items, it)
	p.bytes += it.size
	if p.limit != nil && len(p.items) == *p.limit {
		// As with DynamoDB, a page that fills its limit has a last key even when nothing
		// follows.
		p.more = true
		return false
	}
	return true
}

// answerPage encodes a page. It needs no lock: stored items never change.
func (t *table) answerPage(p *page, sel *selection) (wire, error) {
	r := &response{json: append(make([]byte, 0, 2*p.bytes+256), '{')}
	if !sel.countOnly {
		r.member("Items")
		r.json = append(r.json, '[')
	}
	count := 0
	for _, it := range p.items {
		shown, err := sel.show(it)
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
		key, err := t.schema.ofItem(last)
		if err != nil {
			return nil, err
		}
		r.raw("LastEvaluatedKey", item.AppendJSON(nil, key.item))
	}
	sel.meter.read(p.bytes, sel.consistent)
	r.capacity(&sel.meter)
	return r.close(), nil
}

// show is the JSON of what is to be seen of an item; nil if the filter drops it.
func (sel *selection) show(it *stored) ([]byte, error) {
	if sel.filter == nil && sel.projection == nil {
		return it.wire, nil
	}
	parsed, err := item.Parse(it.wire)
	if err != nil {
		return nil, err
	}
	if sel.filter != nil && !sel.filter.Match(parsed) {
		return nil, nil
	}
	if sel.projection == nil {
		return it.wire, nil
	}
	return item.AppendJSON(nil, sel.projection.Of(parsed)), nil
}
