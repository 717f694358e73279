package dynamodbtest

import (
	"encoding/binary"
	"math/bits"
)

// maxSegments is the maximum number of segments of a parallel scan (API reference, Scan).
const maxSegments = 1000000

type scanRequest struct {
	readOptions
	ScanFilter             legacyTests
	Segment, TotalSegments *int
}

// segment is one of total equal, ordered parts of the hash space.
type segment struct{ number, total int }

// of returns the number of the segment to which a hash belongs.
func (g segment) of(hash uint64) int {
	high, _ := bits.Mul64(hash, uint64(g.total))
	return int(high)
}

// start returns the lowest order of a key in the segment.
func (g segment) start() string {
	// low becomes the least hash h with h·total ≥ number·2^64.
	low, remainder := bits.Div64(uint64(g.number), 0, uint64(g.total))
	if remainder > 0 {
		low++
	}
	return string(binary.BigEndian.AppendUint64(nil, low))
}

func (req *scanRequest) segment() (segment, error) {
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
	if g.number < 0 {
		return segment{}, validation("1 validation error detected: Value '%d' at 'segment' failed to satisfy constraint: Member must have value greater than or equal to 0", g.number)
	}
	if g.number >= g.total {
		return segment{}, validation("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", g.number, g.total)
	}
	return g, nil
}

func (s *Server) scan(req *scanRequest) (any, error) {
	if err := req.checkEnums(); err != nil {
		return nil, err
	}
	g, err := req.segment()
	if err != nil {
		return nil, err
	}
	if err := exclusive(parameter{"ScanFilter", req.ScanFilter != nil, true}, parameter{"AttributesToGet", req.AttributesToGet != nil, true},
		parameter{"ConditionalOperator", req.ConditionalOperator != "", true}, parameter{"FilterExpression", req.FilterExpression != nil, false},
		parameter{"ProjectionExpression", req.ProjectionExpression != nil, false}); err != nil {
		return nil, err
	}
	b, err := req.bind(req.FilterExpression != nil || req.ProjectionExpression != nil)
	if err != nil {
		return nil, err
	}
	sel, err := req.selection(b, req.ScanFilter)
	if err != nil {
		return nil, err
	}
	src, err := req.source(s)
	if err != nil {
		return nil, err
	}
	if err := req.checkIndex(sel, &src); err != nil {
		return nil, err
	}
	from, after := g.start(), false
	if req.ExclusiveStartKey.Given {
		start, err := src.startKey(req.ExclusiveStartKey.Item)
		if err != nil {
			return nil, err
		}
		if g.of(start.hash) != g.number {
			return nil, validation("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", g.total, g.number)
		}
		from, after = start.order, true
	}
	p := page{limit: req.Limit}
	src.table.mu.RLock()
	src.entries().ascend(from, after, func(e entry) bool {
		return g.of(binary.BigEndian.Uint64([]byte(e.key[:8]))) == g.number && p.take(e.item)
	})
	src.table.mu.RUnlock()
	return src.answerPage(&p, sel)
}
