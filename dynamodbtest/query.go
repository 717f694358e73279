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
	src, err := req.source(s)
	if err != nil {
		return nil, err
	}
	b, err := req.bind(true)
	if err != nil {
		return nil, err
	}
	condition, err := req.keyCondition(&src, b)
	if err != nil {
		return nil, err
	}
	sel, err := req.selection(b)
	if err != nil {
		return nil, err
	}
	if err := req.checkIndex(sel, &src); err != nil {
		return nil, err
	}
	if sel.filter != nil {
		for _, name := range sel.filter.Attributes() {
			if src.keys.contains(name) {
				return nil, validation("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
			}
		}
	}
	prefix, _ := hashPrefix(condition.Hash().Text())
	from := ""
	if req.ExclusiveStartKey.Given {
		start, err := src.startKey(req.ExclusiveStartKey.Item)
		if err != nil {
			return nil, validation("The provided starting key is invalid")
		}
		if !strings.HasPrefix(start.order, string(prefix)) {
			return nil, validation("The provided starting key is outside query boundaries based on provided conditions")
		}
		from = start.order
	}
	backward := req.ScanIndexForward != nil && !*req.ScanIndexForward
	p, err := src.queryPage(condition, string(prefix), from, backward, req.Limit)
	if err != nil {
		return nil, err
	}
	return src.answerPage(p, sel)
}

// keyCondition parses the key condition and checks it against the keys of the source.
func (req *queryRequest) keyCondition(src *source, b *expression.Bindings) (*expression.KeyCondition, error) {
	condition, err := expression.ParseKeyCondition(*req.KeyConditionExpression, src.keys.hash.name, src.keys.sort.name, b)
	if err != nil {
		return nil, err
	}
	if err := condition.CheckTypes(src.keys.hash.kind, src.keys.sort.kind); err != nil {
		return nil, err
	}
	return condition, checkKeyValue(src.keys.hash, condition.Hash())
}

// queryPage takes the items of a partition that are within the key condition and come
// after the key from, if it is not empty, in the order of the query.
func (src *source) queryPage(condition *expression.KeyCondition, prefix, from string, backward bool, limit *int) (*page, error) {
	p := &page{limit: limit}
	var failed error
	evaluate := func(e entry) bool {
		it, err := item.Parse(e.item.wire)
		if err != nil {
			failed = err
			return false
		}
		return !condition.Match(it) || p.take(e.item)
	}
	if backward {
		for _, e := range slices.Backward(src.partition(prefix, from)) {
			if !evaluate(e) {
				break
			}
		}
		return p, failed
	}
	src.table.mu.RLock()
	defer src.table.mu.RUnlock()
	start, after := prefix, false
	if from != "" {
		start, after = from, true
	}
	src.entries().ascend(start, after, func(e entry) bool {
		return strings.HasPrefix(e.key, prefix) && evaluate(e)
	})
	return p, failed
}

// partition lists the entries of a partition, up to the key before unless it is empty.
func (src *source) partition(prefix, before string) []entry {
	src.table.mu.RLock()
	defer src.table.mu.RUnlock()
	var entries []entry
	src.entries().ascend(prefix, false, func(e entry) bool {
		if !strings.HasPrefix(e.key, prefix) || before != "" && e.key >= before {
			return false
		}
		entries = append(entries, e)
		return true
	})
	return entries
}
