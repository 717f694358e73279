package worker

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
)

// newID returns an ID that is unique for each start of a process. Leases carry it, so that an
// operator sees which process holds them.
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
	_, _ = rand.Read(b) // documented never to fail
	return hex.EncodeToString(b)
}
