package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
)

// exportBucket is the bucket in each of the stores.
const exportBucket = "conformance-exports"

// The credentials that the S3 of test/conformance/stores knows.
const (
	accessKey = "conformance"
	secretKey = "conformance-secret"
)

// objectStore is an independent object store with a bucket.
type objectStore struct {
	name, scheme string
	put          func(ctx context.Context, key string, content []byte) error
	open         func(ctx context.Context, p bucket.Place) (exports.Store, error)
	// noBucket is part of the error for a missing bucket. Cloud Storage gives the same error as for
	// a missing object.
	noBucket string
	// forbidden opens the store with credentials that may not read. It is nil if the store does not
	// check credentials.
	forbidden func(p bucket.Place) exports.Store
}

// serveStores starts the program of test/conformance/stores and returns its addresses.
func serveStores(ctx context.Context, executable string) (s3Address, gcsAddress string, stop func(), err error) {
	c := exec.CommandContext(ctx, executable)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	in, err := c.StdinPipe()
	if err != nil {
		return "", "", nil, err
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return "", "", nil, err
	}
	stop = func() { _, _ = in.Close(), c.Wait() } // the exit status does not matter
	line, err := bufio.NewReader(out).ReadString('\n')
	s3Address, gcsAddress, found := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !found {
		stop()
		return "", "", nil, fmt.Errorf("%s printed %q: %w: %s", executable, line, err, stderr.String())
	}
	return s3Address, gcsAddress, stop, nil
}

// amazonLike returns the S3 at an address, with an empty bucket.
func amazonLike(ctx context.Context, address string) (objectStore, error) {
	config := func(secret string) aws.Config {
		return aws.Config{Region: "us-east-1", BaseEndpoint: aws.String("http://" + address), Credentials: credentials.NewStaticCredentialsProvider(accessKey, secret, "")}
	}
	client := s3.NewFromConfig(config(secretKey), func(o *s3.Options) { o.UsePathStyle = true })
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(exportBucket)})
	return objectStore{
		name: "gofakes3", scheme: "s3", noBucket: "NoSuchBucket",
		put: func(ctx context.Context, key string, content []byte) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(exportBucket), Key: &key, Body: bytes.NewReader(content)})
			return err
		},
		open: func(_ context.Context, p bucket.Place) (exports.Store, error) {
			return bucket.NewS3(config(secretKey), p), nil
		},
		forbidden: func(p bucket.Place) exports.Store { return bucket.NewS3(config("another"), p) },
	}, err
}

// googleLike returns the Cloud Storage at an address, with an empty bucket.
func googleLike(ctx context.Context, address string) (objectStore, error) {
	options := []option.ClientOption{option.WithEndpoint("http://" + address + "/storage/v1/"), option.WithoutAuthentication()}
	service, err := storage.NewService(ctx, options...)
	if err != nil {
		return objectStore{}, err
	}
	_, err = service.Buckets.Insert("p", &storage.Bucket{Name: exportBucket}).Context(ctx).Do()
	return objectStore{
		name: "fake-gcs-server", scheme: "gs", noBucket: "there is no such file",
		put: func(ctx context.Context, key string, content []byte) error {
			object := &storage.Object{Name: key}
			if strings.HasSuffix(key, ".gz") {
				object.ContentEncoding = "gzip" // as after a copy with gsutil -Z, or a transfer
			}
			_, err := service.Objects.Insert(exportBucket, object).Media(bytes.NewReader(content)).Context(ctx).Do()
			return err
		},
		open: func(ctx context.Context, p bucket.Place) (exports.Store, error) {
			return bucket.NewCloudStorage(ctx, p, options...)
		},
	}, err
}

// fill copies a bucket's directory into the store, except the files that left excludes.
func (s objectStore) fill(ctx context.Context, dir, prefix string, left func(key string) bool) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		local, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(local)
		if left(key) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := s.put(ctx, prefix+key, content); err != nil {
			return fmt.Errorf("put %s: %w", prefix+key, err)
		}
		return nil
	})
}

// read reads the manifests of the export at a key.
func (s objectStore) read(ctx context.Context, name, key string) (*exports.Export, error) {
	p, err := bucket.Parse(s.scheme + "://" + name + "/" + key)
	if err != nil {
		return nil, err
	}
	store, err := s.open(ctx, p)
	if err != nil {
		return nil, err
	}
	return exports.Read(ctx, store, p.Folder)
}

// check reads the exports of a bucket's directory from the store, and broken variants of them.
func (s objectStore) check(ctx context.Context, dir string, keys []string) error {
	none := func(string) bool { return false }
	if err := s.fill(ctx, dir, "", none); err != nil {
		return err
	}
	files, items := 0, 0
	for _, key := range keys {
		root, folder := exports.Split(filepath.Join(dir, filepath.FromSlash(key)))
		want, err := exports.Read(ctx, exports.Folder(root), folder)
		if err != nil {
			return err
		}
		got, err := s.read(ctx, exportBucket, key)
		if err != nil {
			return err
		}
		if got.Kind() != want.Kind() || len(got.Files) != len(want.Files) {
			return fmt.Errorf("%s is %s with %d files, and should be %s with %d", key, got.Kind(), len(got.Files), want.Kind(), len(want.Files))
		}
		for i := range want.Files {
			n, err := same(ctx, got, want, i)
			if err != nil {
				return fmt.Errorf("%s: %w", want.Files[i].Name, err)
			}
			items += n
		}
		files += len(want.Files)
	}
	if err := s.refusals(ctx, dir, keys[0]); err != nil {
		return err
	}
	fmt.Printf("%s: %d exports, %d files with %d records read, equal; what is missing or forbidden is named\n", s.name, len(keys), files, items)
	return nil
}

// same reads a file of both exports to its end, with its checksum.
func same(ctx context.Context, got, want *exports.Export, index int) (records int, err error) {
	a, err := got.Open(ctx, index)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	b, err := want.Open(ctx, index)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	for ; ; records++ {
		x, errX := a.Next()
		y, errY := b.Next()
		if errX == io.EOF && errY == io.EOF {
			return records, nil
		}
		if err := errors.Join(errX, errY); err != nil {
			return records, err
		}
		for i, item := range []attribute.Item{y.Keys, y.Old, y.New} {
			if other := [...]attribute.Item{x.Keys, x.Old, x.New}[i]; !bytes.Equal(attribute.AppendItem(nil, other), attribute.AppendItem(nil, item)) || !x.Written.Equal(y.Written) {
				return records, fmt.Errorf("record %d differs", records+1)
			}
		}
	}
}

// refusals reads an export without a summary, one without a data file, one in a missing bucket, and
// one that may not be read.
func (s objectStore) refusals(ctx context.Context, dir, key string) error {
	place := func(what string, err error, want string) error {
		var fault *exports.Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%s: %v; wanted %q", what, err, want)
		}
		return nil
	}
	if err := s.fill(ctx, dir, "no-summary/", func(key string) bool { return strings.HasSuffix(key, "manifest-summary.json") }); err != nil {
		return err
	}
	_, err := s.read(ctx, exportBucket, "no-summary/"+key)
	if err := place("no summary", err, "manifest-summary.json: there is no such file"); err != nil {
		return err
	}
	if err := s.fill(ctx, dir, "no-data/", func(key string) bool { return strings.HasSuffix(key, ".json.gz") }); err != nil {
		return err
	}
	e, err := s.read(ctx, exportBucket, "no-data/"+key)
	if err != nil {
		return err
	}
	_, err = e.Open(ctx, 0)
	if err := place("no data", err, ".json.gz: there is no such file, but the manifest lists it"); err != nil {
		return err
	}
	if _, err = s.read(ctx, "another-bucket", key); err == nil || !strings.Contains(err.Error(), s.noBucket) {
		return fmt.Errorf("another bucket: %v", err)
	}
	if s.forbidden == nil {
		return nil
	}
	p, err := bucket.Parse(s.scheme + "://" + exportBucket + "/" + key)
	if err != nil {
		return err
	}
	if _, err = exports.Read(ctx, s.forbidden(p), p.Folder); !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("with a wrong key: %v", err)
	}
	return nil
}
