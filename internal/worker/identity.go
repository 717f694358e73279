package worker

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
)

// newID is unique for every start of a process; leases carry it, so that an operator sees who holds
// what.
func newID() string {
	host := hostname()
	if host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), random(3))
}

// hostname is this machine's name; "" says that it is not known.
func hostname() string {
	host, _ := os.Hostname()
	return host
}

// random is so many random bytes in hex.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // it never fails, says its documentation
	return hex.EncodeToString(b)
}
