package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/exports"
)

const (
	content = "0123456789abcdefghij"
	entity  = `"one"`
)

// breaking serves an object whose answers each break off after three bytes, and records the
// requests.
func breaking(t *testing.T, asked *[]string, change func(n int, w http.ResponseWriter, from int) bool) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/root/big") {
			_, _ = io.WriteString(w, "small")
			return
		}
		from := 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		*asked = append(*asked, r.Header.Get("Range")+r.Header.Get("If-Match")+r.URL.Query().Get("ifGenerationMatch"))
		w.Header().Set("ETag", entity)
		w.Header().Set("X-Goog-Generation", "7")
		if change(len(*asked), w, from) {
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = io.WriteString(w, content[from:min(from+3, len(content))])
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A broken download continues at the next byte of the same object, as often as needed, in both
// kinds of buckets. Content of another object, or a whole object from a server without ranges, is
// never taken for the rest.
func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	whole := func(int, http.ResponseWriter, int) bool { return false }
	second := func(f func(w http.ResponseWriter)) func(int, http.ResponseWriter, int) bool {
		return func(n int, w http.ResponseWriter, _ int) bool {
			if n == 2 {
				f(w)
			}
			return n == 2
		}
	}
	for name, c := range map[string]struct {
		change func(n int, w http.ResponseWriter, from int) bool
		asked  int
		fails  bool
	}{
		"it breaks off":            {whole, 7, false},
		"the server has a trouble": {second(func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }), 8, false},
		"another object":           {second(func(w http.ResponseWriter) { w.WriteHeader(http.StatusPreconditionFailed) }), 2, true},
		"a shorter one":            {second(func(w http.ResponseWriter) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) }), 2, true},
		"it is gone":               {second(func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }), 2, true},
		"it knows no ranges":       {second(func(w http.ResponseWriter) { _, _ = io.WriteString(w, content) }), 2, true},
		"another range": {second(func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 0-19/20")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, content)
		}), 2, true},
	} {
		for kind, open := range map[string]func(url string) (exports.Store, error){
			entity: func(url string) (exports.Store, error) {
				return NewS3(config(url), Place{S3, "b", "root/", "x"}, pathStyle), nil
			},
			"7": func(url string) (exports.Store, error) {
				return NewCloudStorage(t.Context(), Place{CloudStorage, "b", "root/", "x"}, option.WithEndpoint(url+"/"), option.WithoutAuthentication())
			},
		} {
			var asked []string
			store, err := open(breaking(t, &asked, c.change))
			if err != nil {
				t.Fatal(err)
			}
			in, err := store.Open(t.Context(), "big")
			if err != nil {
				t.Fatal(err)
			}
			in.(*object).pauses = make([]time.Duration, 3)
			got, err := io.ReadAll(in)
			if closed := in.Close(); closed != nil && !c.fails {
				t.Errorf("%s: %v", name, closed)
			}
			if (err != nil) != c.fails || !c.fails && string(got) != content || c.fails && string(got) != content[:3] || len(asked) != c.asked {
				t.Errorf("%s of %s: %q, %v after %v", name, kind, got, err, asked)
			}
			if asked[0] != "" || asked[1] != "bytes=3-"+kind {
				t.Errorf("%s of %s: %q", name, kind, asked[:2])
			}
		}
	}
}

// body returns some bytes, and then an error.
type body struct {
	io.Reader
	err    error
	closed *int
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

func (b body) Close() error { *b.closed++; return nil }

// After several attempts in a row without a byte, the download fails with the last error. It fails
// immediately if the context ends. An object of unknown size ends where its body ends.
func TestDownloadsAreGivenUp(t *testing.T) {
	broken, down := errors.New("connection reset"), errors.New("no route")
	for name, c := range map[string]struct {
		size  int64
		first string
		err   error
		again []string // the content of further answers; "-" is none
		ended bool
		text  string
		fails error
		asked int
	}{
		"no byte more":           {9, "abc", broken, []string{"", "", ""}, false, "abc", broken, 3},
		"no answer":              {9, "abc", broken, []string{"-", "-", "-"}, false, "abc", down, 3},
		"a byte now and then":    {9, "abc", broken, []string{"", "d", "", "", "e", "", "", ""}, false, "abcde", broken, 8},
		"too short":              {9, "abc", io.EOF, []string{"", "", ""}, false, "abc", io.ErrUnexpectedEOF, 3},
		"all was there":          {3, "abc", broken, nil, false, "abc", nil, 0},
		"no size":                {-1, "abc", io.EOF, nil, false, "abc", nil, 0},
		"no size, and it breaks": {-1, "abc", broken, []string{"d", "", "", ""}, false, "abcd", broken, 4},
		"nothing came at all":    {9, "", broken, nil, false, "", broken, 0},
		"the reader has ended":   {9, "abc", broken, nil, true, "abc", broken, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked, closed := 0, 0
		o := newObject(ctx, answer{body{strings.NewReader(c.first), c.err, &closed}, c.size}, func(_ context.Context, at int64) (answer, error) {
			asked++
			next := c.again[asked-1]
			if next == "-" {
				return answer{}, down
			}
			return answer{body{strings.NewReader(next), c.err, &closed}, c.size - at}, nil
		})
		o.pauses = make([]time.Duration, 3)
		if c.ended {
			cancel()
		}
		got, err := io.ReadAll(o)
		if string(got) != c.text || !errors.Is(err, c.fails) || asked != c.asked {
			t.Errorf("%s: %q, %v after %d requests", name, got, err, asked)
		}
		if err := o.Close(); err != nil || closed != 1+len(c.again)-strings.Count(strings.Join(c.again, ""), "-") {
			t.Errorf("%s: %d bodies are closed", name, closed)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rest(ctx, 0) || rest(ctx, 1<<40) || !rest(t.Context(), 1) {
		t.Error("how long it rests")
	}
}
