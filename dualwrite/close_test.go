package dualwrite

import (
	"errors"
	"testing"
)

// Close closes the connections that Open made, at each call, and returns the result. A Writer built
// from existing parts closes nothing, because the connections belong to the caller.
func TestCloseEndsTheConnections(t *testing.T) {
	if err := New(nil, nil, nil).Close(); err != nil {
		t.Errorf("of parts: %v", err)
	}
	closed, failed := 0, errors.New("the connection broke")
	w := &Writer{close: func() error { closed++; return failed }}
	if err := w.Close(); !errors.Is(err, failed) || closed != 1 {
		t.Errorf("closed %d times, %v", closed, err)
	}
}
