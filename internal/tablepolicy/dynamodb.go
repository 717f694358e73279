package tablepolicy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/internal/awssign"
)

// noPolicy is the expected revision of a policy that must not exist.
const noPolicy = "NO_POLICY"

// DynamoDB reads and changes the policies of tables. It implements Policies.
type DynamoDB struct{ client *dynamodb.Client }

// NewDynamoDB makes a DynamoDB from a client that was built with backfill.ClientOptions.
func NewDynamoDB(client *dynamodb.Client) *DynamoDB { return &DynamoDB{awssign.Client(client)} }

// Get implements Policies. An answer that the table has no policy may also come directly after a
// change.
func (d *DynamoDB) Get(ctx context.Context, table string) (Policy, error) {
	out, err := d.client.GetResourcePolicy(ctx, &dynamodb.GetResourcePolicyInput{ResourceArn: &table})
	var absent *types.PolicyNotFoundException
	switch {
	case errors.As(err, &absent):
		return Policy{}, nil
	case err != nil:
		return Policy{}, err
	}
	return Policy{Text: aws.ToString(out.Policy), Revision: aws.ToString(out.RevisionId)}, nil
}

// NoAPI reports whether an error of Get means that the endpoint has no resource policies.
func NoAPI(err error) bool {
	code, rejected := awssign.Rejected(err)
	return rejected && code == "UnknownOperationException"
}

// Put implements Policies. ConfirmRemoveSelfResourceAccess is not set: a policy that locks this
// program out is refused.
func (d *DynamoDB) Put(ctx context.Context, table, text, revision string, signed time.Time) Answer {
	if revision == "" {
		revision = noPolicy
	}
	_, err := d.client.PutResourcePolicy(awssign.At(ctx, signed), &dynamodb.PutResourcePolicyInput{
		ResourceArn: &table, Policy: &text, ExpectedRevisionId: &revision,
	})
	return answerOf(err)
}

// Delete implements Policies.
func (d *DynamoDB) Delete(ctx context.Context, table, revision string, signed time.Time) Answer {
	if revision == "" {
		return Answer{Outcome: Changed} // there is nothing to delete
	}
	_, err := d.client.DeleteResourcePolicy(awssign.At(ctx, signed), &dynamodb.DeleteResourcePolicyInput{
		ResourceArn: &table, ExpectedRevisionId: &revision,
	})
	return answerOf(err)
}

// The codes of answers to changes. A policy that rests is not documented to have a code of its own.
// ResourceInUseException is DynamoDB's code for a resource that is being updated.
const (
	changedCode = "PolicyNotFoundException"
	restingCode = "ResourceInUseException"
)

// unfittingCodes are the codes of an answer to a change that DynamoDB does not accept until its
// sender does something.
var unfittingCodes = []string{"AccessDeniedException", "ResourceNotFoundException", "SerializationException", "UnknownOperationException", "ValidationException"}

// answerOf returns what an error says about a change.
func answerOf(err error) Answer {
	code, rejected := awssign.Rejected(err)
	switch {
	case err == nil:
		return Answer{Outcome: Done}
	case !rejected:
		return Answer{Outcome: Unknown}
	case awssign.TooOld(err):
		return Answer{Outcome: Expired}
	case code == changedCode:
		return Answer{Outcome: Changed}
	case code == restingCode:
		return Answer{Outcome: Resting}
	case slices.Contains(unfittingCodes, code):
		return Answer{Outcome: Unfitting, Reason: "DynamoDB does not accept the change: " + err.Error()}
	}
	return Answer{Outcome: Refused, Reason: err.Error()}
}
