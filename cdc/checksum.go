package cdc

import (
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
)

// ErrChecksum is returned for an answer that was changed on its way, by something that speaks for the service before it or by a fault of a machine.
var ErrChecksum = errors.New("the answer's checksum is not that of its text")

// Checked is the body of an answer of DynamoDB or of its streams, whose end is an error if the text is not the one that the service's checksum is of.
// Of the clients that of streams does not look at it at all, and that of tables (dynamodb 1.72.3) notes what is wrong in its log and goes on: one changed
// letter of LastEvaluatedKey would end a segment, and one of a value be copied. An answer without a checksum is taken as it is, and so is one that was
// packed, whose checksum is of another text: gzip brings its own.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html (response format).
func Checked(r *http.Response) io.ReadCloser {
	sum := r.Header.Get("X-Amz-Crc32")
	if sum == "" || r.Uncompressed || r.Header.Get("Content-Encoding") != "" {
		return r.Body
	}
	return &checked{r.Body, crc32.NewIEEE(), sum}
}

type checked struct {
	io.ReadCloser
	read hash.Hash32
	want string
}

func (c *checked) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	_, _ = c.read.Write(b[:n]) // never fails
	if err == io.EOF {
		if want, bad := strconv.ParseUint(c.want, 10, 32); bad != nil || uint32(want) != c.read.Sum32() {
			err = ErrChecksum
		}
	}
	return n, err
}
