package engine

import "sync/atomic"

// RecheckNumber is the number of the verify since which a table's changes are rechecked, as the
// table's record was last read; 0: they are not.
type RecheckNumber struct{ number atomic.Uint32 }

// Set notes the number.
func (n *RecheckNumber) Set(number uint32) { n.number.Store(number) }

// Get returns the number.
func (n *RecheckNumber) Get() uint32 { return n.number.Load() }
