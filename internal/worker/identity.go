package worker

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
)

// newID returns an id that is unique for each start of a process. The rows of leases contain the
// id, so that an operator sees which process holds a lease.
func newID() string {
	host := hostname()
	if host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), random(3))
}

// hostname returns the name of this machine; "" if it is unknown.
func hostname() string {
	host, _ := os.Hostname()
	return host
}

// random returns random bytes in hex.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // crypto/rand.Read never fails
	return hex.EncodeToString(b)
}
