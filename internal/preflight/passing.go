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

// askAgain sends a request, and retries temporary failures until ctx ends.
func askAgain[T any](ctx context.Context, ask func(context.Context) (T, error)) (answer T, err error) {
	err = repeat(ctx, mayPass, func(ctx context.Context) (err error) {
		answer, err = ask(ctx)
		return err
	})
	return answer, err
}

// again returns a probe that also retries temporary failures.
func again(question func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return askAgain(ctx, question) }
}

// mayPass reports whether an error of Bigtable or Pub/Sub is temporary, such as throttling. A
// failed connection does not count, so that it is reported immediately.
func mayPass(err error) bool {
	var target *sink.Error
	if errors.As(err, &target) {
		return target.Reason == sink.Throttled || target.Reason == sink.Unknown && !neverSent(target.Text)
	}
	var topic *relay.Error
	if errors.As(err, &topic) {
		return topic.Reason == relay.Throttled || topic.Reason == relay.Unavailable && !neverSent(topic.Text)
	}
	switch status.Code(err) { // the error is from the ledger's store
	case codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.DeadlineExceeded:
		return true
	case codes.Unavailable:
		return !neverSent(err.Error())
	}
	return false
}

// mayPassAtAWS reports whether an error of AWS is temporary. Google's clients wait for a
// connection, but those of AWS try only once. So a failed connection to AWS counts as temporary.
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

// neverSent recognizes gRPC's local error for a failed connection.
func neverSent(text string) bool {
	return strings.Contains(text, "connection error: desc = ") || strings.Contains(text, "name resolver error: ")
}

// unanswered reports whether an error means that a request got no answer in time.
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
	var slow net.Error // includes context.DeadlineExceeded
	return errors.As(err, &slow) && slow.Timeout() || errors.Is(err, context.Canceled)
}
