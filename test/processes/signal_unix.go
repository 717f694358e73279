//go:build unix

package processes

import (
	"os"
	"syscall"
)

// signals reports whether this system can freeze a process and ask one to end.
const signals = true

// freeze stops a process, like a machine without CPU time or a suspended virtual machine.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// thaw resumes a frozen process.
func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate asks a process to end, as a service manager does.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
