package preflight

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A missing configuration has status 2, after which the shipped systemd unit does not restart. A
// failure of a service has status 1.
func TestExplainCredentials(t *testing.T) {
	operation := func(service string, cause error) error {
		return fmt.Errorf("failed to retrieve credentials, %w", &smithy.OperationError{ServiceID: service, OperationName: "Get", Err: cause})
	}
	answer := func(code string, fault smithy.ErrorFault) error {
		return operation("STS", &smithy.GenericAPIError{Code: code, Fault: fault})
	}
	silent := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		name string
		err  error
		code string
		exit int
	}{
		{"nothing is configured", fmt.Errorf("no EC2 IMDS role found, %w", operation("ec2imds", silent)), diag.NoAWSCredentials, 1},
		{"a role without anything to ask for it with", operation("STS", fmt.Errorf("no EC2 IMDS role found, %w", operation("ec2imds", silent))), diag.NoAWSCredentials, 1},
		{"a profile that does not fit", errors.New("profile is not configured properly"), diag.NoAWSCredentials, 1},
		{"STS does not answer", operation("STS", silent), diag.SourceUnreachable, 1},
		{"STS fails", answer("InternalFailure", smithy.FaultServer), diag.SourceUnreachable, 1},
		{"STS throttles", answer("Throttling", smithy.FaultClient), diag.SourceUnreachable, 1},
		{"STS refuses", answer("AccessDenied", smithy.FaultClient), diag.SourceDenied, 1},
		{"an instance's role", fmt.Errorf("failed to get r EC2 IMDS role credentials, %w", operation("ec2imds", silent)), diag.SourceUnreachable, 1},
		{"a container's endpoint", fmt.Errorf("failed to load credentials, %w", silent), diag.SourceUnreachable, 1},
	} {
		if err := explainCredentials("cannot get AWS credentials", c.err); !diag.Has(err, c.code) || diag.ExitCode(err) != c.exit {
			t.Errorf("%s: exit status %d, want %d: %v", c.name, diag.ExitCode(err), c.exit, err)
		}
	}
}

// If DynamoDB refuses a request, the network is not at fault.
func TestExplainSource(t *testing.T) {
	for reason, code := range map[cdc.Reason]string{
		cdc.Unavailable: diag.SourceUnreachable, cdc.Throttled: diag.SourceUnreachable, cdc.Denied: diag.SourceDenied,
		cdc.NotFound: diag.SourceNotFound, cdc.Malformed: diag.SourceMalformed,
	} {
		if err := ExplainSource("cannot read", "Orders", &cdc.Error{Op: "GetItem", Reason: reason, Err: errors.New("no")}); !diag.Has(err, code) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
