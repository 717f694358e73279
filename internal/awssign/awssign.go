// Package awssign signs requests to DynamoDB with a time that is chosen.
//
// DynamoDB refuses a request whose signature is older than its window. So the time of a signature
// bounds how long a request may still be executed. The AWS SDK signs each attempt with the time of
// the attempt, so it gives no bound that is known beforehand.
package awssign

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Client returns a client with the options of another one. It signs each request with the time of
// its context (At), or with the present time if there is none. It makes one attempt of each
// request.
func Client(client *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(client.Options(), func(o *dynamodb.Options) {
		o.HTTPSignerV4 = &signer{v4.NewSigner()}
		o.AuthSchemes = nil // the client makes them of the signer
		o.Retryer = aws.NopRetryer{}
	})
}

// signedAt is the key of a context with the time of the signature.
type signedAt struct{}

// At returns a context whose requests are signed with the given time.
func At(ctx context.Context, signed time.Time) context.Context {
	return context.WithValue(ctx, signedAt{}, signed)
}

// signer signs with the time in the context, if there is one.
type signer struct{ *v4.Signer }

// SignHTTP implements dynamodb.HTTPSignerV4.
func (s *signer) SignHTTP(ctx context.Context, credentials aws.Credentials, r *http.Request, payloadHash, service, region string, signingTime time.Time, options ...func(*v4.SignerOptions)) error {
	if at, ok := ctx.Value(signedAt{}).(time.Time); ok {
		signingTime = at
	}
	return s.Signer.SignHTTP(ctx, credentials, r, payloadHash, service, region, signingTime, options...)
}

// tooOldCodes are the codes of an answer to a request whose signature is too old, or from the
// future. DynamoDB has not looked at the request itself.
var tooOldCodes = []string{"InvalidSignatureException", "RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch"}

// TooOld reports whether an error is the answer to a request whose signature is too old, or from
// the future.
func TooOld(err error) bool {
	var answer smithy.APIError
	return errors.As(err, &answer) && slices.Contains(tooOldCodes, answer.ErrorCode())
}

// Rejected returns the code of an answer that promises that the request is not executed: one with a
// status between 400 and 499, except a timeout. DynamoDB gives no such promise with any other
// error.
func Rejected(err error) (code string, rejected bool) {
	var answered *smithyhttp.ResponseError
	var named smithy.APIError
	if !errors.As(err, &answered) || answered.HTTPStatusCode()/100 != 4 || answered.HTTPStatusCode() == http.StatusRequestTimeout || !errors.As(err, &named) {
		return "", false
	}
	return named.ErrorCode(), true
}
