package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	transport "google.golang.org/api/transport/http"
)

// CloudStore are the objects of a bucket of Cloud Storage below a prefix.
type CloudStore struct {
	objects      *storage.ObjectsService
	bucket, root string
}

// NewCloudStorage gives the store that a place of scheme CloudStorage is in, with the credentials of
// the environment unless an option says otherwise.
func NewCloudStorage(ctx context.Context, p Place, options ...option.ClientOption) (*CloudStore, error) {
	options = append([]option.ClientOption{option.WithScopes(storage.DevstorageReadOnlyScope)}, options...)
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

// Open gets an object. The error wraps fs.ErrNotExist if there is none, and fs.ErrPermission if it
// must not be read.
func (s *CloudStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object := s.root + name
	answer, err := s.objects.Get(s.bucket, object).Context(ctx).Download()
	if err == nil {
		return answer.Body, nil
	}
	var said *googleapi.Error
	if errors.As(err, &said) {
		switch said.Code {
		case http.StatusNotFound:
			err = fs.ErrNotExist
		case http.StatusForbidden, http.StatusUnauthorized:
			err = fmt.Errorf("%w: %s", fs.ErrPermission, said.Message)
		}
	}
	return nil, fmt.Errorf("gs://%s/%s: %w", s.bucket, object, err)
}

// asStored asks for objects as they are stored. Without the header, one that was uploaded as
// "Content-Encoding: gzip" arrives unpacked, and its checksum is another.
type asStored struct{ http.RoundTripper }

func (s asStored) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "gzip")
	return s.RoundTripper.RoundTrip(r)
}
