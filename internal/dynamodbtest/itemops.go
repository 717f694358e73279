package dynamodbtest

import (
	"github.com/dynamodb-bigtable/replicator/internal/dynamodbtest/item"
)

// writeOptions are the parameters that all single writes share.
type writeOptions struct {
	tableRef
	ReturnValues                string
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

// check validates the options; allowed are the ReturnValues beside NONE.
func (o *writeOptions) check(allowed ...string) (meter, error) {
	switch o.ReturnItemCollectionMetrics {
	case "", "NONE", "SIZE": // tables without local indexes have no metrics to return
	default:
		return meter{}, validation("1 validation error detected: Value at 'returnItemCollectionMetrics' failed to satisfy constraint: Member must satisfy enum value set: [SIZE, NONE]")
	}
	if o.ReturnValues == "" {
		o.ReturnValues = "NONE"
	}
	known := o.ReturnValues == "NONE"
	for _, value := range allowed {
		known = known || o.ReturnValues == value
	}
	if !known {
		return meter{}, validation("ReturnValues can only be one of NONE and %v for this operation", allowed)
	}
	return newMeter(o.ReturnConsumedCapacity, o.name())
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
	if req.Item == nil {
		return nil, missingMember("item")
	}
	t, err := s.find(req.tableRef)
	if err != nil {
		return nil, err
	}
	c, err := t.newImage(req.Item)
	if err != nil {
		return nil, err
	}
	old, err := t.writeOne(c)
	if err != nil {
		return nil, err
	}
	return answerWrite(&req.writeOptions, &m, old, c.image), nil
}

// writeOne locks the table and applies one unconditional write.
func (t *table) writeOne(c change) (old *stored, err error) {
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	return t.apply(c, t.server.Now()), nil
}

// answerWrite is the answer to a PutItem or DeleteItem.
func answerWrite(o *writeOptions, m *meter, old, image *stored) wire {
	m.write(max(sizeOf(old), sizeOf(image)))
	r := newResponse()
	if o.ReturnValues == "ALL_OLD" && old != nil {
		r.raw("Attributes", old.wire)
	}
	r.capacity(m)
	return r.close()
}

func missingMember(name string) error {
	return validation("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", name)
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
	if req.Key == nil {
		return nil, missingMember("key")
	}
	t, err := s.find(req.tableRef)
	if err != nil {
		return nil, err
	}
	key, err := t.schema.ofKey(req.Key)
	if err != nil {
		return nil, err
	}
	old, err := t.writeOne(change{key: key})
	if err != nil {
		return nil, err
	}
	return answerWrite(&req.writeOptions, &m, old, nil), nil
}

type getItemRequest struct {
	tableRef
	Key                    item.Item
	ConsistentRead         bool
	ReturnConsumedCapacity string
}

func (s *Server) getItem(req *getItemRequest) (any, error) {
	m, err := newMeter(req.ReturnConsumedCapacity, req.name())
	if err != nil {
		return nil, err
	}
	if req.Key == nil {
		return nil, missingMember("key")
	}
	t, err := s.find(req.tableRef)
	if err != nil {
		return nil, err
	}
	key, err := t.schema.ofKey(req.Key)
	if err != nil {
		return nil, err
	}
	it := t.get(key)
	m.read(sizeOf(it), req.ConsistentRead)
	r := newResponse()
	if it != nil {
		r.raw("Item", it.wire)
	}
	r.capacity(&m)
	return r.close(), nil
}

func (t *table) get(key primaryKey) *stored {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.items.get(key.order)
}
