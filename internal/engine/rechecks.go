package engine

import "sync/atomic"

// RecheckNumber holds the number of the verify for which changes are rechecked; 0 if changes are
// not rechecked. It comes from the last read record of the table.
type RecheckNumber struct{ number atomic.Uint32 }

// Set stores the number.
func (n *RecheckNumber) Set(number uint32) { n.number.Store(number) }

// Get returns the number.
func (n *RecheckNumber) Get() uint32 { return n.number.Load() }
