package cdc

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// summed is a service that returns the text of one answer with the checksum of another.
func summed(t *testing.T, text, sumOf string) *DynamoDBStream {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
		rw.Header().Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE([]byte(sumOf))))
		_, _ = io.WriteString(rw, text)
	}))
	t.Cleanup(server.Close)
	return NewSource(newClient(server.URL), "arn")
}

// An answer that was changed on its way is requested again, and not applied.
func TestAnswersAreHeldAgainstTheirChecksums(t *testing.T) {
	sent := page(record(1, `{"pk":{"S":"k"},"price":{"N":"100"}}`))
	if got, err := summed(t, sent, sent).Read(t.Context(), "i"); err != nil || len(got.Changes) != 1 {
		t.Errorf("as it was sent: %+v, %v", got, err)
	}
	for _, changed := range []string{
		strings.Replace(sent, "100", "900", 1),
		strings.Replace(sent, "NextShardIterator", "NextShardIterat0r", 1), // would end the shard
	} {
		if got, err := summed(t, changed, sent).Read(t.Context(), "i"); !Is(err, Unavailable) || !errors.Is(err, ErrChecksum) {
			t.Errorf("changed: %+v, %v", got, err)
		}
	}
}

func TestWhatHasNoChecksumIsTakenAsItIs(t *testing.T) {
	for name, r := range map[string]http.Response{
		"none":     {},
		"packed":   {Header: http.Header{"X-Amz-Crc32": {"1"}, "Content-Encoding": {"gzip"}}},
		"unpacked": {Header: http.Header{"X-Amz-Crc32": {"1"}}, Uncompressed: true},
	} {
		r.Body = io.NopCloser(strings.NewReader("x"))
		if text, err := io.ReadAll(Checked(&r)); err != nil || string(text) != "x" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
