package dynamodbtest

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

type queryRequest struct {
	readOptions
	KeyConditionExpression *string
	ScanIndexForward       *bool
}

func (s *Server) query(req *queryRequest) (any, error) {
	if req.KeyConditionExpression == nil {
		return nil, validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	t, err := s.find(req.tableRef)
	if err != nil {
		return nil, err
	}
	b, err := req.bind(true)
	if err != nil {
		return nil, err
	}
	condition, err := expression.ParseKeyCondition(*req.KeyConditionExpression, t.schema.hash.name, t.schema.sort.name, b)
	if err != nil {
		return nil, err
	}
	if err := condition.CheckTypes(t.schema.hash.kind, t.schema.sort.kind); err != nil {
		return nil, err
	}
	if err := checkKeyValue(t.schema.hash, condition.Hash()); err != nil {
		return nil, err
	}
	sel, err := req.selection(b)
	if err != nil {
		return nil, err
	}
	if sel.filter != nil {
		for _, name := range sel.filter.Attributes() {
			if t.schema.contains(name) {
				return nil, validation("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
			}
		}
	}
	prefix, _ := hashPrefix(condition.Hash().Text())
	from := ""
	if req.ExclusiveStartKey.Given {
		key, err := t.startKey(req.ExclusiveStartKey.Item)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(key.order, string(prefix)) {
			return nil, validation("The provided starting key is outside query boundaries based on provided conditions")
		}
		from = key.order
	}
	backward := req.ScanIndexForward != nil && !*req.ScanIndexForward
	p, err := t.queryPage(condition, string(prefix), from, backward, req.Limit)
	if err != nil {
		return nil, err
	}
	return t.answerPage(p, sel)
}

// queryPage takes the items of a partition that are within the key condition and come
// after the key from, if it is not empty, in the order of the query.
func (t *table) queryPage(condition *expression.KeyCondition, prefix, from string, backward bool, limit *int) (*page, error) {
	var entries []entry
	t.mu.RLock()
	t.items.ascend(prefix, false, func(e entry) bool {
		if !strings.HasPrefix(e.key, prefix) {
			return false
		}
		entries = append(entries, e)
		return true
	})
	t.mu.RUnlock()
	if backward {
		slices.Reverse(entries)
	}
	p := &page{limit: limit}
	for _, e := range entries {
		if from != "" && (backward && e.key >= from || !backward && e.key <= from) {
			continue
		}
		it, err := item.Parse(e.item.wire)
		if err != nil {
			return nil, err
		}
		if condition.Match(it) && !p.take(e.item) {
			break
		}
	}
	return p, nil
}
