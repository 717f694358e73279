package dualwrite

import (
	"errors"
	"testing"
)

// Close ends the connections that Open made, each time it is asked to, and hands on what became of
// that. A Writer of parts has none of its own: they are the caller's.
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
