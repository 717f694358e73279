package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// S3Store is the store of an S3 bucket's objects below a prefix.
type S3Store struct {
	client       *s3.Client
	bucket, root string
}

// NewS3 returns the store of a place with the scheme S3. The bucket may be in a region other than
// the client's.
func NewS3(cfg aws.Config, p Place, options ...func(*s3.Options)) *S3Store {
	return &S3Store{s3.NewFromConfig(cfg, append([]func(*s3.Options){func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: watchSilence(transportOf(cfg))}
		o.UsePathStyle = o.BaseEndpoint != nil // only Amazon's servers have a host name for each bucket
		o.RetryMaxAttempts = 1                 // the caller retries, and attempts would multiply
		// Manifests have checksums of their own, and the client cannot check composite checksums of
		// S3.
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}}, options...)...), p.Bucket, p.Root}
}

// RequesterPays is an option of NewS3: the caller's account pays for requests and transfer, which a
// bucket with this setting requires
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/ObjectsinRequesterPaysBuckets.html). Other
// buckets ignore it.
func RequesterPays(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue("X-Amz-Request-Payer", "requester"))
}

// transportOf returns the configuration's transport, which has the certificates of AWS_CA_BUNDLE or
// of a profile's ca_bundle. It leaves out the time limit, because that limit is for requests of a
// few seconds.
func transportOf(cfg aws.Config) *http.Transport {
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		return client.GetTransport()
	}
	return awshttp.NewBuildableClient().GetTransport()
}

// Open opens an object. If the connection breaks, reading resumes at the next byte. The error wraps
// fs.ErrNotExist if there is no such object. It wraps fs.ErrPermission if access is denied. S3 also
// denies access to a missing object if the caller may not list the bucket.
func (s *S3Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(s.root + name)}
	out, err := s.get(ctx, in)
	if err != nil {
		return nil, err
	}
	return newObject(ctx, answerOf(out), func(ctx context.Context, at int64) (answer, error) {
		rest := *in
		rest.Range, rest.IfMatch = aws.String(rangeFrom(at)), out.ETag
		more, err := s.get(ctx, &rest)
		if err != nil {
			return answer{}, err
		}
		if !answersRange(aws.ToString(more.ContentRange), at) {
			return answer{}, errors.Join(errReplaced, more.Body.Close())
		}
		return answerOf(more), nil
	}), nil
}

func answerOf(out *s3.GetObjectOutput) answer {
	if out.ContentLength == nil {
		return answer{out.Body, -1}
	}
	return answer{out.Body, *out.ContentLength}
}

// get requests an object in the bucket's region.
func (s *S3Store) get(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	out, err := s.client.GetObject(ctx, in)
	if region := elsewhere(err); region != "" {
		out, err = s.client.GetObject(ctx, in, func(o *s3.Options) { o.Region = region })
	}
	if err == nil {
		return out, nil
	}
	var answer *smithyhttp.ResponseError
	var said smithy.APIError
	if !errors.As(err, &answer) || !errors.As(err, &said) {
		return nil, fmt.Errorf("s3://%s/%s: %w", s.bucket, *in.Key, err)
	}
	reason := err
	switch answer.HTTPStatusCode() {
	case http.StatusNotFound:
		if said.ErrorCode() != "NoSuchBucket" {
			reason = fs.ErrNotExist
		}
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		reason = errReplaced
	case http.StatusForbidden:
		reason = forbidden{err, said.ErrorCode() + ": " + said.ErrorMessage()}
	}
	return nil, fmt.Errorf("s3://%s/%s: %w", s.bucket, *in.Key, reason)
}

// elsewhere returns the bucket's region if the error reports that the bucket is in another region.
func elsewhere(err error) string {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) {
		return ""
	}
	if status := answer.HTTPStatusCode(); status != http.StatusMovedPermanently && status != http.StatusBadRequest {
		return ""
	}
	return answer.Response.Header.Get("X-Amz-Bucket-Region")
}

// forbidden is S3's answer that access to an object is denied.
type forbidden struct {
	error
	said string
}

func (f forbidden) Error() string { return f.said }

func (f forbidden) Unwrap() []error { return []error{fs.ErrPermission, f.error} }
