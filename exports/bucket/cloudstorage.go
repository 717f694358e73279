package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	transport "google.golang.org/api/transport/http"

	"github.com/dynamodb-bigtable/replicator/internal/build"
)

// CloudStore is the store of a Cloud Storage bucket's objects below a prefix.
type CloudStore struct {
	objects      *storage.ObjectsService
	bucket, root string
}

// NewCloudStorage returns the store of a place with the scheme CloudStorage. It uses the
// credentials of the environment, unless an option says otherwise.
func NewCloudStorage(ctx context.Context, p Place, options ...option.ClientOption) (*CloudStore, error) {
	options = append([]option.ClientOption{option.WithScopes(storage.DevstorageReadOnlyScope), option.WithUserAgent(build.UserAgent())}, options...)
	authorized, err := transport.NewTransport(ctx, watchSilence(http.DefaultTransport.(*http.Transport).Clone()), options...)
	if err != nil {
		return nil, fmt.Errorf("gs://%s: %w", p.Bucket, err)
	}
	client := &http.Client{Transport: asStored{authorized}}
	service, err := storage.NewService(ctx, append(options, option.WithHTTPClient(client))...)
	if err != nil {
		return nil, fmt.Errorf("gs://%s: %w", p.Bucket, err)
	}
	return &CloudStore{service.Objects, p.Bucket, p.Root}, nil
}

// Open opens an object. If the connection breaks, reading resumes at the next byte. The error wraps
// fs.ErrNotExist if there is no such object, and fs.ErrPermission if access is denied.
func (s *CloudStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	name = s.root + name
	call := func() *storage.ObjectsGetCall { return s.objects.Get(s.bucket, name) }
	out, err := s.get(ctx, name, call())
	if err != nil {
		return nil, err
	}
	generation, _ := strconv.ParseInt(out.Header.Get("X-Goog-Generation"), 10, 64)
	return newObject(ctx, answer{out.Body, out.ContentLength}, func(ctx context.Context, at int64) (answer, error) {
		rest := call()
		rest.Header().Set("Range", rangeFrom(at))
		if generation > 0 {
			rest.IfGenerationMatch(generation)
		}
		more, err := s.get(ctx, name, rest)
		if err != nil {
			return answer{}, err
		}
		if !answersRange(more.Header.Get("Content-Range"), at) {
			return answer{}, errors.Join(errReplaced, more.Body.Close())
		}
		return answer{more.Body, more.ContentLength}, nil
	}), nil
}

func (s *CloudStore) get(ctx context.Context, object string, call *storage.ObjectsGetCall) (*http.Response, error) {
	out, err := call.Context(ctx).Download()
	if err == nil {
		return out, nil
	}
	var said *googleapi.Error
	if errors.As(err, &said) {
		switch said.Code {
		case http.StatusNotFound:
			err = fs.ErrNotExist
		case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
			err = errReplaced
		case http.StatusForbidden, http.StatusUnauthorized:
			err = fmt.Errorf("%w: %s", fs.ErrPermission, said.Message)
		}
	}
	return nil, fmt.Errorf("gs://%s/%s: %w", s.bucket, object, err)
}

// asStored requests objects in their stored form. Without the header that asStored sets, an object
// that was uploaded with "Content-Encoding: gzip" arrives decompressed, with another checksum.
type asStored struct{ http.RoundTripper }

func (s asStored) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "gzip")
	return s.RoundTripper.RoundTrip(r)
}
