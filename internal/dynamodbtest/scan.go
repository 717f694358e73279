package dynamodbtest

import (
	"encoding/binary"
	"math/bits"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/internal/dynamodbtest/item"
)

// Limits of Scan (API reference).
const (
	maxPageBytes = 1 << 20
	maxSegments  = 1000000
)

type scanRequest struct {
	tableRef
	Limit                  *int
	ExclusiveStartKey      item.Item
	Segment, TotalSegments *int
	ConsistentRead         bool
	Select                 string
	ReturnConsumedCapacity string
}

// segment is a share of the hashes, [low, high]; the zero Segment of one is all.
type segment struct{ number, total int }

// of is the segment to which a hash belongs: equal parts of the space of hashes, in
// order.
func (g segment) of(hash uint64) int {
	high, _ := bits.Mul64(hash, uint64(g.total))
	return int(high)
}

// start is a key order below all of the segment's and above all before it.
func (g segment) start() string {
	// The least hash h with h·total ≥ number·2^64.
	low, remainder := bits.Div64(uint64(g.number), 0, uint64(g.total))
	if remainder > 0 {
		low++
	}
	return string(binary.BigEndian.AppendUint64(nil, low))
}

func readSegment(req *scanRequest) (segment, error) {
	if req.Segment == nil && req.TotalSegments == nil {
		return segment{0, 1}, nil
	}
	if req.Segment == nil {
		return segment{}, validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	}
	if req.TotalSegments == nil {
		return segment{}, validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	}
	g := segment{*req.Segment, *req.TotalSegments}
	if g.total < 1 || g.total > maxSegments {
		return segment{}, validation("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value between 1 and %d", g.total, maxSegments)
	}
	if g.number < 0 || g.number >= g.total {
		return segment{}, validation("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", g.number, g.total)
	}
	return g, nil
}

// scanPage is what one call evaluated.
type scanPage struct {
	items []*stored
	bytes int
	more  bool // there may be items after the last
}

func (s *Server) scan(req *scanRequest) (any, error) {
	m, err := newMeter(req.ReturnConsumedCapacity, req.name())
	if err != nil {
		return nil, err
	}
	switch req.Select {
	case "", "ALL_ATTRIBUTES", "COUNT":
	default:
		return nil, unsupported("Select " + strconv.Quote(req.Select))
	}
	if req.Limit != nil && *req.Limit < 1 {
		return nil, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *req.Limit)
	}
	g, err := readSegment(req)
	if err != nil {
		return nil, err
	}
	t, err := s.find(req.tableRef)
	if err != nil {
		return nil, err
	}
	from, after := g.start(), false
	if req.ExclusiveStartKey != nil {
		key, err := t.schema.ofKey(req.ExclusiveStartKey)
		if err != nil {
			return nil, validation("The provided starting key is invalid: The provided key element does not match the schema")
		}
		if g.of(key.hash) != g.number {
			return nil, validation("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", g.total, g.number)
		}
		from, after = key.order, true
	}
	page := t.scanPage(g, from, after, req.Limit)
	m.read(page.bytes, req.ConsistentRead)
	return t.answerScan(page, req.Select == "COUNT", &m)
}

// scanPage collects items of a segment up to the limit and up to 1 MB.
func (t *table) scanPage(g segment, from string, after bool, limit *int) scanPage {
	var page scanPage
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.items.ascend(from, after, func(e entry) bool {
		if g.of(binary.BigEndian.Uint64([]byte(e.key[:8]))) != g.number {
			return false
		}
		if page.bytes > 0 && page.bytes+e.item.size > maxPageBytes {
			page.more = true
			return false
		}
		page.items = append(page.items, e.item)
		page.bytes += e.item.size
		if limit != nil && len(page.items) == *limit {
			// As with DynamoDB, a page that fills its limit has a last key even when
			// nothing follows.
			page.more = true
			return false
		}
		return true
	})
	return page
}

func (t *table) answerScan(page scanPage, countOnly bool, m *meter) (wire, error) {
	r := &response{json: append(make([]byte, 0, 2*page.bytes+256), '{')}
	if !countOnly {
		r.member("Items")
		r.json = append(r.json, '[')
		for i, it := range page.items {
			if i > 0 {
				r.json = append(r.json, ',')
			}
			r.json = append(r.json, it.wire...)
		}
		r.json = append(r.json, ']')
	}
	count := strconv.AppendInt(nil, int64(len(page.items)), 10)
	r.raw("Count", count)
	r.raw("ScannedCount", count)
	if page.more {
		last, err := item.Parse(page.items[len(page.items)-1].wire)
		if err != nil {
			return nil, err
		}
		key, err := t.schema.ofItem(last)
		if err != nil {
			return nil, err
		}
		r.raw("LastEvaluatedKey", key.item.AppendJSON(nil))
	}
	r.capacity(m)
	return r.close(), nil
}
