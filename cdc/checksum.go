package cdc

import (
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
)

// ErrChecksum is returned for an answer that was changed on its way, by a proxy or by a hardware
// fault.
var ErrChecksum = errors.New("the answer's checksum does not match its text")

// Checked returns the body of an answer of DynamoDB or of its streams. Reading the body ends with
// an error if the text does not match the service's checksum. The clients do not do this: the
// streams client ignores the checksum, and the tables client (dynamodb 1.72.3) only logs a
// mismatch. Without the check, a changed letter of LastEvaluatedKey would end a segment early, and
// a changed letter of a value would be copied. An answer without a checksum is accepted. A
// compressed answer is accepted too, because its checksum covers another text and gzip has its own
// checksum. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
// (response format).
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
	_, _ = c.read.Write(b[:n]) // a hash returns no error
	if err == io.EOF {
		if want, bad := strconv.ParseUint(c.want, 10, 32); bad != nil || uint32(want) != c.read.Sum32() {
			err = ErrChecksum
		}
	}
	return n, err
}
