package dynamodbtest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// writeOptions are the parameters that all single writes share.
type writeOptions struct {
	tableRef
	conditionParameters
	ReturnValues                string
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

// check validates the options. The argument `allowed` lists the values of ReturnValues, other than
// NONE, that the operation accepts.
func (o *writeOptions) check(allowed ...string) (meter, error) {
	if o.TableName == nil {
		return meter{}, missingMember("tableName")
	}
	if err := checkName(o.name(), "tableName", 1); err != nil {
		return meter{}, err
	}
	if err := constraints(
		enumCapacity(o.ReturnConsumedCapacity), enumMetrics(o.ReturnItemCollectionMetrics),
		enum("returnValues", o.ReturnValues, returnValues...),
		enum("returnValuesOnConditionCheckFailure", o.ReturnValuesOnConditionCheckFailure, "ALL_OLD", "NONE"),
		enum("conditionalOperator", o.ConditionalOperator, "OR", "AND"),
	); err != nil {
		return meter{}, err
	}
	if o.ReturnValues != "" && o.ReturnValues != "NONE" && !slices.Contains(allowed, o.ReturnValues) {
		return meter{}, validation("ReturnValues can only be %s or NONE", strings.Join(allowed, ", "))
	}
	return newMeter(o.ReturnConsumedCapacity, o.name()), nil
}

// answer returns the answer to a single write. It has the attributes that ReturnValues requests, if
// any, and the capacity.
func (o *writeOptions) answer(m *meter, did outcome, update *expression.Update) (wire, error) {
	m.write(max(sizeOf(did.old), sizeOf(did.new)), did.indexes)
	shown := did.old
	if o.ReturnValues == "ALL_NEW" || o.ReturnValues == "UPDATED_NEW" {
		shown = did.new
	}
	r := newResponse()
	switch o.ReturnValues {
	case "ALL_OLD", "ALL_NEW":
		if shown != nil {
			r.raw("Attributes", shown.wire)
		}
	case "UPDATED_OLD", "UPDATED_NEW":
		if shown != nil && update != nil {
			it, err := item.Parse(shown.wire)
			if err != nil {
				return nil, err
			}
			if written := update.Written().Of(it); written.Exists() {
				r.raw("Attributes", attribute.AppendItem(nil, written))
			}
		}
	}
	r.capacity(m)
	if o.ReturnItemCollectionMetrics == "SIZE" && did.table.hasLocalIndex() {
		r.raw("ItemCollectionMetrics", did.table.collectionMetrics(did.key))
	}
	return r.close(), nil
}

// collections adds the ItemCollectionMetrics of operations on more than one item. It does so if the
// request wants them and a table has local indexes. The argument `keys` lists the keys of the
// written items.
func (r *response) collections(wanted string, keys map[*table][]primaryKey) {
	if wanted != "SIZE" {
		return
	}
	metrics := newResponse()
	for _, t := range sortedTables(keys) {
		if !t.hasLocalIndex() {
			continue
		}
		metrics.member(t.name)
		told := map[string]bool{}
		for _, key := range keys[t] {
			of := string(t.collectionMetrics(key))
			if told[of] {
				continue
			}
			separator := byte(',')
			if len(told) == 0 {
				separator = '['
			}
			told[of] = true
			metrics.json = append(append(metrics.json, separator), of...)
		}
		metrics.json = append(metrics.json, ']')
	}
	if len(metrics.json) > 1 {
		r.raw("ItemCollectionMetrics", metrics.close())
	}
}

// collectionMetrics returns the ItemCollectionMetrics structure of the items that share the
// partition key. This server does not estimate the size, because its collections do not reach a
// gigabyte.
func (t *table) collectionMetrics(key primaryKey) []byte {
	name := t.schema.hash[0].name
	hash, _ := key.item.Get(name)
	dst := append([]byte(`{"ItemCollectionKey":`), attribute.AppendItem(nil, attribute.NewItem([]attribute.Attribute{{Name: name, Value: hash}}))...)
	return append(dst, `,"SizeEstimateRangeGB":[0,1]}`...)
}

func missingMember(name string) error {
	return validation("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", name)
}

type putItemRequest struct {
	writeOptions
	Item item.Item
}

func (s *Server) putItem(req *putItemRequest) (any, error) {
	m, err := req.check("ALL_OLD")
	if err != nil {
		return nil, err
	}
	w, err := s.planPut(req.tableRef, &req.conditionParameters, req.Item)
	if err != nil {
		return nil, err
	}
	did, err := w.commit()
	if err != nil {
		return nil, err
	}
	return req.answer(&m, did, nil)
}

// planPut validates a put of a whole item.
func (s *Server) planPut(ref tableRef, c *conditionParameters, it item.Item) (write, error) {
	if !it.Given {
		return write{}, missingMember("item")
	}
	w, err := c.parse(nil)
	if err != nil {
		return write{}, err
	}
	if w.table, err = s.find(ref); err != nil {
		return write{}, err
	}
	image, err := w.table.newImage(it.Item)
	w.key, w.image = image.key, image.image
	return w, err
}

type deleteItemRequest struct {
	writeOptions
	Key item.Item
}

func (s *Server) deleteItem(req *deleteItemRequest) (any, error) {
	m, err := req.check("ALL_OLD")
	if err != nil {
		return nil, err
	}
	w, err := s.planKeyed(req.tableRef, &req.conditionParameters, req.Key, nil)
	if err != nil {
		return nil, err
	}
	w.delete = true
	did, err := w.commit()
	if err != nil {
		return nil, err
	}
	return req.answer(&m, did, nil)
}

// planKeyed validates a write that names an item by its key. Such a write is a deletion, an update
// or a check.
func (s *Server) planKeyed(ref tableRef, c *conditionParameters, key item.Item, update *string) (write, error) {
	if !key.Given {
		return write{}, missingMember("key")
	}
	w, err := c.parse(update)
	if err != nil {
		return write{}, err
	}
	if w.table, err = s.find(ref); err != nil {
		return write{}, err
	}
	w.key, err = w.table.schema.ofKey(key.Item)
	return w, err
}

type updateItemRequest struct {
	writeOptions
	Key              item.Item
	UpdateExpression *string
	AttributeUpdates map[string]attributeUpdate
}

func (s *Server) updateItem(req *updateItemRequest) (any, error) {
	if violation := enum("returnValues", req.ReturnValues, returnValues...); violation != "" && checkName(req.name(), "tableName", 1) == nil {
		return nil, constraints(violation) // for an update the service reports only this violation
	}
	m, err := req.check("ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")
	if err != nil {
		return nil, err
	}
	if err := exclusive(parameter{"AttributeUpdates", req.AttributeUpdates != nil, true}, parameter{"Expected", req.Expected != nil, true},
		parameter{"UpdateExpression", req.UpdateExpression != nil, false}, parameter{"ConditionExpression", req.ConditionExpression != nil, false}); err != nil {
		return nil, err
	}
	changes, err := legacyUpdate(req.AttributeUpdates)
	if err != nil {
		return nil, err
	}
	w, err := s.planUpdate(req.tableRef, &req.conditionParameters, req.Key, req.UpdateExpression, changes)
	if err != nil {
		return nil, err
	}
	did, err := w.commit()
	if err != nil {
		return nil, err
	}
	return req.answer(&m, did, w.update)
}

// planUpdate validates an update, given as text or as changes. The update must not change the key.
// An update with neither text nor changes only creates a missing item.
func (s *Server) planUpdate(ref tableRef, c *conditionParameters, key item.Item, text *string, changes *expression.Update) (write, error) {
	w, err := s.planKeyed(ref, c, key, text)
	if err != nil {
		return w, err
	}
	if w.update == nil {
		w.update = cmp.Or(changes, &expression.Update{})
	}
	for _, name := range w.update.Attributes() {
		if w.table.schema.contains(name) {
			return write{}, validation("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return w, nil
}

type getItemRequest struct {
	tableRef
	Key                      item.Item
	ConsistentRead           bool
	ReturnConsumedCapacity   string
	AttributesToGet          []string
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}

func (s *Server) getItem(req *getItemRequest) (any, error) {
	if err := constraints(enumCapacity(req.ReturnConsumedCapacity)); err != nil {
		return nil, err
	}
	m := newMeter(req.ReturnConsumedCapacity, req.name())
	if !req.Key.Given {
		return nil, missingMember("key")
	}
	projection, err := parseProjection(req.ProjectionExpression, req.ExpressionAttributeNames, req.AttributesToGet)
	if err != nil {
		return nil, err
	}
	t, err := s.find(req.tableRef)
	if err != nil {
		return nil, err
	}
	key, err := t.schema.ofKey(req.Key.Item)
	if err != nil {
		return nil, err
	}
	it := t.get(key)
	m.read(sizeOf(it), req.ConsistentRead)
	r := newResponse()
	if it != nil {
		shown, err := project(it.wire, projection)
		if err != nil {
			return nil, err
		}
		r.raw("Item", shown)
	}
	r.capacity(&m)
	return r.close(), nil
}

func (t *table) get(key primaryKey) *stored {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.items.get(key.order)
}

// parseProjection reads the projection of a request that has no other expression. It returns nil if
// the request has no projection.
func parseProjection(text *string, names map[string]string, attributes []string) (*expression.Projection, error) {
	if err := exclusive(parameter{"AttributesToGet", attributes != nil, true}, parameter{"ProjectionExpression", text != nil, false}); err != nil {
		return nil, err
	}
	if attributes != nil {
		return expression.LegacyProjection(attributes)
	}
	parameters := expressionParameters{ExpressionAttributeNames: names}
	b, err := parameters.bind(text != nil)
	if err != nil || text == nil {
		return nil, err
	}
	projection, err := expression.ParseProjection(*text, b)
	if err != nil {
		return nil, err
	}
	return projection, b.CheckUsed()
}

// project applies a projection to an item's JSON. A nil projection selects everything.
func project(wire []byte, projection *expression.Projection) ([]byte, error) {
	if projection == nil {
		return wire, nil
	}
	it, err := item.Parse(wire)
	if err != nil {
		return nil, err
	}
	return attribute.AppendItem(nil, projection.Of(it)), nil
}
