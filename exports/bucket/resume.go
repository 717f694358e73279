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

// again are the pauses before an object is asked for again after its connection broke. Each byte that
// arrives begins them anew.
var again = []time.Duration{0, time.Second, 4 * time.Second}

// errReplaced: what is left of an object cannot be had, because another one lies there by now, or the
// server gives whole objects alone. Whoever reads it begins anew.
var errReplaced = errors.New("the object was replaced while it was read, or is not given in parts")

// answer is what a server gives of an object.
type answer struct {
	body io.ReadCloser
	size int64 // of the body; below 0 if it is not told
}

// object reads an object on from the byte at which its connection broke: a file of gigabytes would
// begin anew with each break, and might never end.
type object struct {
	ctx context.Context
	// from asks for the object from a byte on, which is above 0.
	from func(ctx context.Context, at int64) (answer, error)

	body   io.ReadCloser
	at     int64
	size   int64 // of the object; below 0 if it is not told
	broken int   // how often in a row
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
			return n, nil // the body fails in the same way with the next read
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

// reopen asks for what is left, after the connection broke with an error.
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

// rest waits, and reports whether the context is still alive then.
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

// rangeFrom returns the header that asks for an object from a byte on, and begins what answers it.
func rangeFrom(at int64) string { return fmt.Sprintf("bytes=%d-", at) }

// answersRange reports whether a Content-Range begins at a byte. A server that knows no ranges gives
// the whole object.
func answersRange(header string, at int64) bool {
	return strings.HasPrefix(header, fmt.Sprintf("bytes %d-", at))
}
