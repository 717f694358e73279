package dynamodbtest

import (
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// maxExpiryAge bounds the age of an expiry time. The service regards older times as mistakes, and
// never expires their items ("Using time to live", five years).
const maxExpiryAge = 5 * 365 * 24 * time.Hour

type timeToLiveSpecification struct {
	AttributeName string
	Enabled       bool
}

type updateTTLRequest struct {
	tableRef
	TimeToLiveSpecification *timeToLiveSpecification
}

func (s *Server) updateTTL(req *updateTTLRequest) (any, error) {
	spec := req.TimeToLiveSpecification
	if spec == nil || len(spec.AttributeName) < 1 || len(spec.AttributeName) > 255 {
		return nil, missingMember("timeToLiveSpecification.attributeName")
	}
	t, err := s.findNamed(req.tableRef)
	if err != nil {
		return nil, err
	}
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	switch {
	case spec.Enabled && t.ttlAttribute != "":
		return nil, validation("TimeToLive is already enabled")
	case !spec.Enabled && t.ttlAttribute == "":
		return nil, validation("TimeToLive is already disabled")
	case !spec.Enabled && t.ttlAttribute != spec.AttributeName:
		return nil, validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttlAttribute)
	case spec.Enabled:
		t.ttlAttribute = spec.AttributeName
	default:
		t.ttlAttribute = ""
	}
	return struct{ TimeToLiveSpecification timeToLiveSpecification }{*spec}, nil
}

func (s *Server) describeTTL(ref *tableRef) (any, error) {
	t, err := s.findNamed(*ref)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	type description struct {
		AttributeName    string `json:",omitempty"`
		TimeToLiveStatus string
	}
	d := description{TimeToLiveStatus: "DISABLED"}
	if t.ttlAttribute != "" {
		d = description{t.ttlAttribute, "ENABLED"}
	}
	return struct{ TimeToLiveDescription description }{d}, nil
}

// sweep deletes the items whose expiry has passed, in the order of their keys, and returns their
// number. The caller holds mu.
func (t *table) sweep(now time.Time) (int, error) {
	if t.ttlAttribute == "" {
		return 0, nil
	}
	var due []change
	var failed error
	t.items.ascend("", false, func(e entry) bool {
		it, err := item.Parse(e.item.wire)
		if err != nil {
			failed = err
			return false
		}
		if v, _ := it.Get(t.ttlAttribute); !expired(v, now) {
			return true
		}
		key, err := t.schema.ofItem(it)
		if err != nil {
			failed = err
			return false
		}
		due = append(due, change{key: key, expired: true})
		return true
	})
	if failed != nil {
		return 0, failed
	}
	for _, c := range due {
		t.apply(c, now)
	}
	return len(due), nil
}

// expired reports whether the value is a number of Unix seconds that has passed.
func expired(v attribute.Value, now time.Time) bool {
	if v.Kind() != attribute.KindN {
		return false
	}
	at, err := strconv.ParseFloat(v.Text(), 64)
	if err != nil {
		return false
	}
	current := float64(now.UnixMilli()) / 1000
	return at <= current && at > current-maxExpiryAge.Seconds()
}
