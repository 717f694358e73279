package preflight

import (
	"context"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// mayPass tells whether Bigtable or Pub/Sub throttles, or fails for the moment. Where no connection
// could be made nobody answered: whoever started waits for nothing, and sees it at once.
func mayPass(err error) bool {
	var target *sink.Error
	if errors.As(err, &target) {
		return target.Reason == sink.Throttled || target.Reason == sink.Unknown && !neverSent(target.Text)
	}
	var topic *relay.Error
	return errors.As(err, &topic) && (topic.Reason == relay.Throttled || topic.Reason == relay.Unavailable && !neverSent(topic.Text))
}

// neverSent recognizes what gRPC says on this side if it cannot connect.
func neverSent(text string) bool {
	return strings.Contains(text, "connection error: desc = ") || strings.Contains(text, "name resolver error: ")
}

// unanswered tells whether a request had no answer in its time, rather than one that came late.
func unanswered(err error) bool {
	late := func(code string) bool {
		return code == codes.DeadlineExceeded.String() || code == codes.Canceled.String()
	}
	var target *sink.Error
	if errors.As(err, &target) {
		return late(target.Code)
	}
	var topic *relay.Error
	if errors.As(err, &topic) {
		return late(topic.Code)
	}
	var slow net.Error // context.DeadlineExceeded is one
	return errors.As(err, &slow) && slow.Timeout() || errors.Is(err, context.Canceled)
}
