package preflight

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/aws/smithy-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// askAgain asks a service, again while that may help, until ctx ends.
func askAgain[T any](ctx context.Context, ask func(context.Context) (T, error)) (answer T, err error) {
	err = repeat(ctx, mayPass, func(ctx context.Context) (err error) {
		answer, err = ask(ctx)
		return err
	})
	return answer, err
}

// again is a question that is asked again while that may help.
func again(question func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return askAgain(ctx, question) }
}

// mayPass reports whether Bigtable or Pub/Sub throttles, or fails for the moment. A connection that
// cannot be made is no answer of a service: that shows at once.
func mayPass(err error) bool {
	var target *sink.Error
	if errors.As(err, &target) {
		return target.Reason == sink.Throttled || target.Reason == sink.Unknown && !neverSent(target.Text)
	}
	var topic *relay.Error
	if errors.As(err, &topic) {
		return topic.Reason == relay.Throttled || topic.Reason == relay.Unavailable && !neverSent(topic.Text)
	}
	switch status.Code(err) { // of the ledger's store
	case codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.DeadlineExceeded:
		return true
	case codes.Unavailable:
		return !neverSent(err.Error())
	}
	return false
}

// mayPassAtAWS is the same of AWS. Unlike Google's clients, which wait for a connection, those of
// AWS are asked once, so that a probe repeats whatever it asks.
func mayPassAtAWS(err error) bool {
	var dialled *net.OpError
	if errors.As(err, &dialled) && dialled.Op == "dial" {
		return false
	}
	var noKey *credentialsError
	if !errors.As(err, &noKey) {
		return cdc.Is(err, cdc.Throttled) || cdc.Is(err, cdc.Unavailable)
	}
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorFault() == smithy.FaultServer || cdc.ReasonOf(answer.ErrorCode(), 0) == cdc.Throttled
	}
	var broken *net.OpError
	return errors.As(err, &broken)
}

// neverSent recognizes what gRPC says on this side if it cannot connect.
func neverSent(text string) bool {
	return strings.Contains(text, "connection error: desc = ") || strings.Contains(text, "name resolver error: ")
}

// unanswered reports whether a request had no answer in its time, rather than one that came late.
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
	if status.Code(err) == codes.DeadlineExceeded {
		return true
	}
	var slow net.Error // context.DeadlineExceeded is one
	return errors.As(err, &slow) && slow.Timeout() || errors.Is(err, context.Canceled)
}
