package fallback

import (
	"errors"
	"fmt"
	"time"
)

// Ages are the ages of the signatures with which the signature window is measured, from the shortest
// to the longest. A window of five minutes accepts the first and refuses the second. A window of
// fifteen minutes accepts the second and refuses the third.
type Ages [3]time.Duration

// defaultAges are the ages for DynamoDB.
var defaultAges = Ages{4 * time.Minute, 6 * time.Minute, 16 * time.Minute}

// windows returns the windows that the ages tell apart: DynamoDB's five minutes, and the bound that
// the last age proves.
func (a Ages) windows() [2]time.Duration {
	return [2]time.Duration{a[0] * 5 / 4, a[2]}
}

// Errors of a source to which no way back is possible.
var (
	errNoWindow = errors.New("this endpoint does not bound late writes: it accepted a request that was signed long ago, so a lost request could overwrite an item at any time")
	errClocks   = errors.New("the clocks of this host and of the source differ, or the source accepts signatures for less time than is known: it refused a request that was signed a short time ago")
)

// window returns how long the source accepts a signature. The function `accepts` makes a request
// that reads, signed the given time ago, and reports whether the source accepted it. It is not
// called for a longer age than necessary.
func (a Ages) window(accepts func(age time.Duration) (bool, error)) (time.Duration, error) {
	windows := a.windows()
	for i, age := range a {
		accepted, err := accepts(age)
		switch {
		case err != nil:
			return 0, fmt.Errorf("measure the source's signature window: %w", err)
		case accepted:
		case i == 0:
			return 0, errClocks
		default:
			return windows[i-1], nil
		}
	}
	return 0, errNoWindow
}
