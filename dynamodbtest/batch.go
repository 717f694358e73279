package dynamodbtest

import (
	"encoding/json"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// Limits of BatchWriteItem and BatchGetItem (API reference).
const (
	maxBatchWrites = 25
	maxBatchGets   = 100
	maxBatchBytes  = 16 << 20
)

type batchWriteRequest struct {
	RequestItems                map[string][]writeRequest
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

type writeRequest struct {
	PutRequest    *struct{ Item item.Item }
	DeleteRequest *struct{ Key item.Item }
}

func (r *batchWriteRequest) subject() (string, string) { return onlyTable(r.RequestItems) }

// onlyTable returns the table of a batch that names only one table. Other batches have no subject.
func onlyTable[V any](items map[string]V) (string, string) {
	if len(items) != 1 {
		return "", ""
	}
	for name := range items {
		ref := refTo(name)
		return ref.name(), ""
	}
	return "", ""
}

// tableBatch is the part of a batch that concerns one table, after validation.
type tableBatch struct {
	table   *table
	changes []change
	meter   meter
}

func (s *Server) batchWrite(req *batchWriteRequest) (any, error) {
	if err := constraints(enumCapacity(req.ReturnConsumedCapacity), enumMetrics(req.ReturnItemCollectionMetrics)); err != nil {
		return nil, err
	}
	if len(req.RequestItems) == 0 {
		return nil, validation("The requestItems parameter is required for BatchWriteItem")
	}
	total := 0
	for _, name := range sortedKeys(req.RequestItems) {
		n := len(req.RequestItems[name])
		if total += n; n == 0 || n > maxBatchWrites {
			// The service shows all requests in this message. This server shows only their number,
			// because its errors contain no item data.
			return nil, validation("1 validation error detected: Value '{%s=[%d requests]}' at 'requestItems' failed to satisfy constraint: Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]", name, n)
		}
	}
	if total > maxBatchWrites {
		return nil, validation("Too many items requested for the BatchWriteItem call")
	}
	var batches []tableBatch
	size := 0
	for _, name := range sortedKeys(req.RequestItems) {
		b, err := s.prepareBatch(name, req.RequestItems[name], req.ReturnConsumedCapacity)
		if err != nil {
			return nil, err
		}
		for _, c := range b.changes {
			size += sizeOf(c.image)
		}
		batches = append(batches, b)
	}
	if size > maxBatchBytes {
		return nil, validation("Size of the batch exceeds the limit of 16 MB")
	}
	for i := range batches {
		if err := batches[i].write(); err != nil {
			return nil, err
		}
	}
	r := newResponse()
	r.raw("UnprocessedItems", []byte("{}"))
	meters := make([]*meter, len(batches))
	for i := range batches {
		meters[i] = &batches[i].meter
	}
	r.capacities(meters)
	keys := map[*table][]primaryKey{}
	for _, b := range batches {
		for _, c := range b.changes {
			keys[b.table] = append(keys[b.table], c.key)
		}
	}
	r.collections(req.ReturnItemCollectionMetrics, keys)
	return r.close(), nil
}

// prepareBatch validates everything before anything is written.
func (s *Server) prepareBatch(name string, requests []writeRequest, returned string) (tableBatch, error) {
	t, err := s.find(refTo(name))
	if err != nil {
		return tableBatch{}, err
	}
	b := tableBatch{table: t, meter: newMeter(returned, t.name)}
	seen := map[string]bool{}
	for _, request := range requests {
		var c change
		switch put, del := request.PutRequest, request.DeleteRequest; {
		case put != nil && del == nil && put.Item.Given:
			if c, err = t.newImage(put.Item.Item); isMismatch(err) {
				err = validation("The provided key element does not match the schema")
			}
		case put == nil && del != nil && del.Key.Given:
			c.key, err = t.schema.ofKey(del.Key.Item)
		default:
			err = validation("Supplied WriteRequest must contain exactly one of a PutRequest with an Item and a DeleteRequest with a Key")
		}
		if err != nil {
			return tableBatch{}, err
		}
		if seen[c.key.order] {
			return tableBatch{}, validation("Provided list of item keys contains duplicates")
		}
		seen[c.key.order] = true
		b.changes = append(b.changes, c)
	}
	return b, nil
}

func (b *tableBatch) write() error {
	if err := b.table.lock(); err != nil {
		return err
	}
	defer b.table.mu.Unlock()
	now := b.table.server.Now()
	for _, c := range b.changes {
		old, indexes := b.table.apply(c, now)
		b.meter.write(max(sizeOf(old), sizeOf(c.image)), indexes)
	}
	return nil
}

// capacities adds the list of ConsumedCapacity that batches return.
func (r *response) capacities(meters []*meter) {
	if len(meters) == 0 || !meters[0].wanted() {
		return
	}
	r.member("ConsumedCapacity")
	r.json = append(r.json, '[')
	for i, m := range meters {
		if i > 0 {
			r.json = append(r.json, ',')
		}
		r.json = m.appendJSON(r.json)
	}
	r.json = append(r.json, ']')
}

type batchGetRequest struct {
	RequestItems           map[string]keysAndAttributes
	ReturnConsumedCapacity string
}

type keysAndAttributes struct {
	Keys                     []item.Item
	AttributesToGet          []string          `json:",omitempty"`
	ConsistentRead           bool              `json:",omitempty"`
	ProjectionExpression     *string           `json:",omitempty"`
	ExpressionAttributeNames map[string]string `json:",omitempty"`
}

func (r *batchGetRequest) subject() (string, string) { return onlyTable(r.RequestItems) }

func (s *Server) batchGet(req *batchGetRequest) (any, error) {
	if err := constraints(enumCapacity(req.ReturnConsumedCapacity)); err != nil {
		return nil, err
	}
	if len(req.RequestItems) == 0 {
		return nil, validation("The requestItems parameter is required for BatchGetItem")
	}
	total := 0
	var projections []parameter
	for _, name := range sortedKeys(req.RequestItems) {
		keys := req.RequestItems[name]
		switch n := len(keys.Keys); {
		case n == 0:
			return nil, validation("1 validation error detected: Value '[]' at 'requestItems.%s.member.keys' failed to satisfy constraint: Member must have length greater than or equal to 1", name)
		case n > maxBatchGets:
			return nil, validation("1 validation error detected: Value at 'RequestItems.%s.member.Keys' failed to satisfy constraint: Member must have length less than or equal to %d", name, maxBatchGets)
		default:
			total += n
		}
		projections = append(projections, parameter{"AttributesToGet", keys.AttributesToGet != nil, true}, parameter{"ProjectionExpression", keys.ProjectionExpression != nil, false})
	}
	if err := exclusive(projections...); err != nil {
		return nil, err
	}
	if total > maxBatchGets {
		return nil, validation("Too many items requested for the BatchGetItem call")
	}
	// The answer leaves the part beyond 16 MB unprocessed, and the client requests that part again.
	answers, unprocessed := newResponse(), newResponse()
	var meters []*meter
	budget := maxBatchBytes
	for _, name := range sortedKeys(req.RequestItems) {
		share := req.RequestItems[name]
		t, err := s.find(refTo(name))
		if err != nil {
			return nil, err
		}
		m := newMeter(req.ReturnConsumedCapacity, t.name)
		keys, err := t.readKeys(share.Keys)
		if err != nil {
			return nil, err
		}
		projection, err := parseProjection(share.ProjectionExpression, share.ExpressionAttributeNames, share.AttributesToGet)
		if err != nil {
			return nil, err
		}
		found, rest := t.getMany(keys, share.ConsistentRead, &budget, &m)
		for i := range found {
			if found[i], err = project(found[i], projection); err != nil {
				return nil, err
			}
		}
		answers.raw(name, joinItems(found))
		if len(rest) > 0 {
			left, err := share.without(rest)
			if err != nil {
				return nil, err
			}
			unprocessed.raw(name, left)
		}
		meters = append(meters, &m)
	}
	r := newResponse()
	r.raw("Responses", answers.close())
	r.raw("UnprocessedKeys", unprocessed.close())
	r.capacities(meters)
	return r.close(), nil
}

func (t *table) readKeys(items []item.Item) ([]primaryKey, error) {
	seen := map[string]bool{}
	keys := make([]primaryKey, 0, len(items))
	for _, it := range items {
		key, err := t.schema.ofKey(it.Item)
		if err != nil {
			return nil, err
		}
		if seen[key.order] {
			return nil, validation("Provided list of item keys contains duplicates")
		}
		seen[key.order] = true
		keys = append(keys, key)
	}
	return keys, nil
}

// getMany reads items until the budget of bytes is used up. It returns the keys that remain.
func (t *table) getMany(keys []primaryKey, consistent bool, budget *int, m *meter) (found [][]byte, rest []primaryKey) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i, key := range keys {
		it := t.items.get(key.order)
		if sizeOf(it) > *budget {
			return found, keys[i:]
		}
		*budget -= sizeOf(it)
		m.read(sizeOf(it), consistent)
		if it != nil {
			found = append(found, it.wire)
		}
	}
	return found, nil
}

func joinItems(items [][]byte) []byte {
	dst := []byte{'['}
	for i, it := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, it...)
	}
	return append(dst, ']')
}

// without returns the request for the remaining keys, in the form of UnprocessedKeys.
func (k *keysAndAttributes) without(rest []primaryKey) ([]byte, error) {
	left := *k
	left.Keys = nil
	for _, key := range rest {
		left.Keys = append(left.Keys, item.Item{Item: key.item, Given: true})
	}
	return json.Marshal(left)
}
