package terminal

import (
	"cmp"
	"os"
	"os/user"
)

// Caller names who runs this process, as user@host, for records of who did what. It is what the
// system says: whoever may write the record may say another name.
func Caller() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // unknown is no harm
	return cmp.Or(name, "unknown") + "@" + cmp.Or(host, "unknown")
}
