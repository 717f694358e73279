package backfill

import (
	"context"
	"strconv"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// The answer of Scan is decoded in one pass, directly into Items, as package cdc does for
// GetRecords. An answer that is not well-formed is left to the client's decoder, and that decoder's
// result counts.

// decodedScan travels in the context of a call, from Scan to strictProtocol and back.
type decodedScan struct {
	ScanPage
	done bool
}

type decodedScanKey struct{}

// decode reads the body of a good answer. If the body cannot be decoded here, `decode` restores it
// for the client. It reads nothing if the call does not come from Scan.
func (p *decodedScan) decode(r *smithyhttp.Response) bool {
	if p == nil || r.StatusCode < 200 || r.StatusCode > 299 {
		return false
	}
	text, err := cdc.BodyText(r)
	if err == nil {
		p.ScanPage, p.done = decodeScan(text)
	}
	return p.done
}

// decodingOf returns the page into which a call's answer is decoded. It returns nil if the call
// does not come from Scan.
func decodingOf(ctx context.Context) *decodedScan {
	p, _ := ctx.Value(decodedScanKey{}).(*decodedScan)
	return p
}

// decodeScan decodes the text of an answer. It returns false if the text contains anything that the
// service is not known to write.
func decodeScan(text string) (page ScanPage, ok bool) {
	s := attribute.NewScanner(text)
	seen, count := map[string]bool{}, -1
	ok = s.Object(func(name string) (ok bool) {
		if seen[name] {
			return false
		}
		seen[name] = true
		switch name {
		case "Items":
			page.Items, ok = decodeItems(s, len(text))
			return ok
		case "LastEvaluatedKey":
			page.Next, ok = s.Item()
			return ok
		case "Count":
			count, ok = integer(s)
			return ok
		case "ScannedCount":
			_, ok = integer(s)
			return ok
		case "ConsumedCapacity":
			page.Consumed, ok = decodeConsumed(s)
			return ok
		}
		return s.Skip()
	})
	if !ok || !s.End() || page.Items == nil || count != len(page.Items) {
		return ScanPage{}, false
	}
	return page, true
}

func decodeItems(s *attribute.Scanner, length int) ([]attribute.Item, bool) {
	items, begin := []attribute.Item{}, s.Offset()
	ok := s.List(func() bool {
		item, ok := s.Item()
		if !ok || !item.Exists() {
			return false
		}
		if len(items) == 1 { // the other items are about as long as the first
			rest := (length - begin) / ((s.Offset() - begin) / 2)
			items = append(make([]attribute.Item, 0, rest+rest/8+2), items...)
		}
		items = append(items, item)
		return true
	})
	return items, ok
}

func integer(s *attribute.Scanner) (int, bool) {
	text, ok := s.Number()
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), ok && err == nil
}

// decodeConsumed reads ConsumedCapacity in the form that has only the total.
func decodeConsumed(s *attribute.Scanner) (units float64, ok bool) {
	seen := map[string]bool{}
	ok = s.Object(func(name string) (ok bool) {
		again := seen[name]
		seen[name] = true
		switch name {
		case "CapacityUnits":
			text, ok := s.Number()
			var err error
			units, err = strconv.ParseFloat(text, 64)
			return ok && err == nil && !again
		case "TableName":
			_, ok = s.String()
		}
		return ok
	})
	return units, ok
}
