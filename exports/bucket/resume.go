package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// again are the pauses before a broken request for an object is retried. Each byte that arrives
// resets the pauses.
var again = []time.Duration{0, time.Second, 4 * time.Second}

// errReplaced is returned if the rest of an object is not available. Either the object was
// replaced, or the server returns only whole objects. The reader must start again from the
// beginning.
var errReplaced = errors.New("the object was replaced while it was read, or the server returns only whole objects")

// answer is a server's answer to a request for an object.
type answer struct {
	body io.ReadCloser
	size int64 // size of the body; negative if unknown
}

// object reads an object. If the connection breaks, it resumes at the next byte. Without that, a
// file of gigabytes would restart after each break, and might never be read completely.
type object struct {
	ctx context.Context
	// from requests the rest of the object, beginning with byte at. The argument at is above 0.
	from func(ctx context.Context, at int64) (answer, error)

	body   io.ReadCloser
	at     int64
	size   int64 // size of the object; negative if unknown
	broken int   // number of consecutive breaks
	pauses []time.Duration
}

func newObject(ctx context.Context, first answer, from func(ctx context.Context, at int64) (answer, error)) *object {
	return &object{ctx: ctx, from: from, body: first.body, size: first.size, pauses: again}
}

func (o *object) Read(b []byte) (int, error) {
	for {
		n, err := o.body.Read(b)
		o.at += int64(n)
		switch {
		case n > 0:
			o.broken = 0
			return n, nil // the body returns the same error again at the next read
		case err == nil:
			return 0, nil
		case o.size >= 0 && o.at >= o.size, o.size < 0 && err == io.EOF:
			return 0, io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if err := o.reopen(err); err != nil {
			return 0, err
		}
	}
}

// reopen requests the rest of the object after the connection broke with an error.
func (o *object) reopen(err error) error {
	for ; o.broken < len(o.pauses) && o.at > 0 && o.ctx.Err() == nil; o.broken++ {
		if !rest(o.ctx, o.pauses[o.broken]) {
			break
		}
		next, failed := o.from(o.ctx, o.at)
		switch {
		case failed == nil:
			o.broken++
			_ = o.body.Close() // its connection is gone
			o.body = next.body
			return nil
		case errors.Is(failed, errReplaced), errors.Is(failed, fs.ErrNotExist), errors.Is(failed, fs.ErrPermission):
			return failed
		}
		err = failed
	}
	return err
}

func (o *object) Close() error { return o.body.Close() }

// rest waits for d, and reports whether the context is still valid afterwards.
func rest(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// rangeFrom returns the Range header for an object from a byte on. The Content-Range of the
// server's answer begins with this value.
func rangeFrom(at int64) string { return fmt.Sprintf("bytes=%d-", at) }

// answersRange reports whether a Content-Range begins at a byte. A server that does not support
// ranges returns the whole object.
func answersRange(header string, at int64) bool {
	return strings.HasPrefix(header, fmt.Sprintf("bytes %d-", at))
}
