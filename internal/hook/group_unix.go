//go:build unix

package hook

import (
	"os/exec"
	"syscall"
)

// inGroup gives a command a process group of its own, all of which is killed when its time is up.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
