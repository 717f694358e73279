package terminal

import (
	"cmp"
	"os"
	"os/user"
)

// Caller returns user@host of this process, for audit records. It comes from the system, but a
// process that may write the record could use another name.
func Caller() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // an unknown name does no harm
	return cmp.Or(name, "unknown") + "@" + cmp.Or(host, "unknown")
}
