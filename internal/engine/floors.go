package engine

import (
	"sync"
)

// Floors are the generations of the source tables as this process last read them. Its Floor is for
// sink.Options: what is older need not be sent.
type Floors struct {
	mu          sync.Mutex
	generations map[string]uint32
}

// Floor is the generation of a source table, 0 if it is not known.
func (f *Floors) Floor(source string) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.generations[source]
}

func (f *Floors) Raise(source string, generation uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.generations == nil {
		f.generations = map[string]uint32{}
	}
	f.generations[source] = max(f.generations[source], generation)
}
