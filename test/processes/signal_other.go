//go:build !unix

package processes

import (
	"errors"
	"os"
)

// signals reports whether this system can freeze a process and ask one to end. It cannot, so
// workers are only killed.
const signals = false

var errNoSignals = errors.New("this system has no such signal")

func freeze(*os.Process) error    { return errNoSignals }
func thaw(*os.Process) error      { return errNoSignals }
func terminate(*os.Process) error { return errNoSignals }
