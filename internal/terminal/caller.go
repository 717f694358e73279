package terminal

import (
	"cmp"
	"os"
	"os/user"
)

// Caller returns user@host of this process, for audit records. The name comes from the system. It
// proves nothing, because a process that may write the record can also write another name.
func Caller() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // the name may be empty if it is unknown
	return cmp.Or(name, "unknown") + "@" + cmp.Or(host, "unknown")
}
