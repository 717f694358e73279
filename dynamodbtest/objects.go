package dynamodbtest

import (
	"crypto/md5"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// objects stores the buckets to which exports are written. It keeps them as files of a directory or
// in memory.
type objects struct {
	dir string

	mu    sync.RWMutex
	known map[string][]byte // by bucket/key; used only if there is no directory
}

func (o *objects) put(bucket, key string, content []byte) error {
	if o.dir == "" {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.known[bucket+"/"+key] = content
		return nil
	}
	name, err := filepath.Localize(bucket + "/" + key)
	if err != nil {
		return fmt.Errorf("object %s of bucket %s: %w", key, bucket, err)
	}
	file := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// get returns an object by bucket/key; fs.ErrNotExist if there is none.
func (o *objects) get(path string) ([]byte, error) {
	if o.dir == "" {
		o.mu.RLock()
		defer o.mu.RUnlock()
		if content, ok := o.known[path]; ok {
			return content, nil
		}
		return nil, fs.ErrNotExist
	}
	name, err := filepath.Localize(path)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile(filepath.Join(o.dir, name))
}

// list returns the keys of a bucket with a prefix, in order.
func (o *objects) list(bucket, prefix string) (keys []string, err error) {
	if o.dir == "" {
		o.mu.RLock()
		defer o.mu.RUnlock()
		for _, path := range slices.Sorted(maps.Keys(o.known)) {
			if key, ok := strings.CutPrefix(path, bucket+"/"); ok && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		return keys, nil
	}
	name, err := filepath.Localize(bucket)
	if err != nil {
		return nil, nil
	}
	err = fs.WalkDir(os.DirFS(filepath.Join(o.dir, name)), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(path, prefix) {
			keys = append(keys, path)
		}
		return err
	})
	slices.Sort(keys)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return keys, err
}

// serveObjects answers like S3 in path style: GET and HEAD of an object, with ranges, and
// ListObjectsV2 of a bucket.
func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request) {
	s.finishExports()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("X-Amz-Request-Id", s.requestID())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		objectError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "objects can be read here, and are written by exports")
		return
	}
	if key == "" {
		s.serveBucket(w, r, bucket)
		return
	}
	content, err := s.objects.get(bucket + "/" + key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		objectError(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	case err != nil:
		objectError(w, http.StatusInternalServerError, "InternalError", "the object cannot be read")
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(content)))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	}
}

type bucketListing struct {
	XMLName     xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name        string
	Prefix      string
	KeyCount    int
	MaxKeys     int
	IsTruncated bool
	Next        string `xml:"NextContinuationToken,omitempty"`
	Contents    []listedObject
}

type listedObject struct {
	Key  string
	Size int
}

func (s *Server) serveBucket(w http.ResponseWriter, r *http.Request, bucket string) {
	q := r.URL.Query()
	keys, err := s.objects.list(bucket, q.Get("prefix"))
	if err != nil {
		objectError(w, http.StatusInternalServerError, "InternalError", "the bucket cannot be listed")
		return
	}
	most := 1000
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil && n > 0 && n < most {
		most = n
	}
	l := bucketListing{Name: bucket, Prefix: q.Get("prefix"), MaxKeys: most}
	for _, key := range keys {
		if key <= max(q.Get("continuation-token"), q.Get("start-after")) {
			continue
		}
		if len(l.Contents) == most {
			l.IsTruncated, l.Next = true, l.Contents[most-1].Key
			break
		}
		content, err := s.objects.get(bucket + "/" + key)
		if err == nil {
			l.Contents = append(l.Contents, listedObject{key, len(content)})
		}
	}
	l.KeyCount = len(l.Contents)
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(l) // after a failed write the client no longer listens
}

func objectError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: message}) // after a failed write the client no longer listens
}
