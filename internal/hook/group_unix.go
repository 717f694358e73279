//go:build unix

package hook

import (
	"os/exec"
	"syscall"
)

// inGroup gives a command its own process group, which is killed as a whole when the command's time
// is over.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
