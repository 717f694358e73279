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
	KeyConditions          legacyTests
	QueryFilter            legacyTests
	ScanIndexForward       *bool
}

func (s *Server) query(req *queryRequest) (any, error) {
	if err := req.checkEnums(); err != nil {
		return nil, err
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	if req.KeyConditionExpression == nil && req.KeyConditions == nil {
		return nil, validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	src, err := req.source(s)
	if err != nil {
		return nil, err
	}
	b, err := req.bind(req.KeyConditionExpression != nil || req.FilterExpression != nil || req.ProjectionExpression != nil)
	if err != nil {
		return nil, err
	}
	condition, err := req.keyCondition(&src, b)
	if err != nil {
		return nil, err
	}
	sel, err := req.selection(b, req.QueryFilter)
	if err != nil {
		return nil, err
	}
	if err := req.checkIndex(sel, &src); err != nil {
		return nil, err
	}
	if sel.filter != nil {
		for _, name := range sel.filter.Attributes() {
			if src.keys.contains(name) && req.QueryFilter != nil {
				return nil, validation("QueryFilter can only contain non-primary key attributes: Primary key attribute: %s", name)
			}
			if src.keys.contains(name) {
				return nil, validation("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
			}
		}
	}
	prefix, _ := hashPrefix(hashText(condition.Hash()))
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

// check makes the checks that have other messages for Query than for Scan. It also rejects a
// mixture of expressions and the parameters that they replaced.
func (req *queryRequest) check() error {
	if req.Limit != nil && *req.Limit < 1 {
		return validation("1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
	}
	if req.Select == "SPECIFIC_ATTRIBUTES" && req.ProjectionExpression == nil && req.AttributesToGet == nil {
		return validation("1 validation error detected: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	}
	// KeyConditions may be combined with all expressions except KeyConditionExpression.
	return exclusive(parameter{"KeyConditions", req.KeyConditions != nil && req.KeyConditionExpression != nil, true}, parameter{"QueryFilter", req.QueryFilter != nil, true},
		parameter{"AttributesToGet", req.AttributesToGet != nil, true}, parameter{"ConditionalOperator", req.ConditionalOperator != "", true},
		parameter{"KeyConditionExpression", req.KeyConditionExpression != nil, false}, parameter{"FilterExpression", req.FilterExpression != nil, false},
		parameter{"ProjectionExpression", req.ProjectionExpression != nil, false})
}

// keyCondition parses the key condition and checks it against the keys of the source.
func (req *queryRequest) keyCondition(src *source, b *expression.Bindings) (*expression.KeyCondition, error) {
	var condition *expression.KeyCondition
	var err error
	hash, sort := src.keys.hash, src.keys.sort
	if req.KeyConditionExpression != nil {
		condition, err = expression.ParseKeyCondition(*req.KeyConditionExpression, namesOf(hash), namesOf(sort), b)
	} else {
		condition, err = expression.LegacyKeyCondition(req.KeyConditions.all(), namesOf(hash), namesOf(sort))
	}
	if err != nil {
		return nil, err
	}
	if err := condition.CheckTypes(kindsOf(hash), kindsOf(sort)); err != nil {
		return nil, err
	}
	for i, v := range condition.Hash() {
		if err := checkKeyValue(hash[i], v); err != nil {
			return nil, err
		}
	}
	return condition, nil
}

// queryPage returns the items of a partition that match the key condition, in the order of the
// query. If `from` is not empty, the page begins after that key.
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

// partition returns the entries of a partition. If `before` is not empty, it returns only the
// entries up to that key.
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
