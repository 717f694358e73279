//go:build unix

package processes

import (
	"os"
	"syscall"
)

// signals tells whether this system can freeze a process and ask one to end.
const signals = true

// freeze stops a process where it stands, as a starved machine or a suspended virtual one does.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// thaw lets a frozen process go on.
func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate asks a process to end, as a service manager does.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
