package engine

import (
	"sync"
)

// Floors holds the generations of the source tables, as this process last read them. The writer
// calls Floor to skip images of older generations; see sink.Options.
type Floors struct {
	mu          sync.Mutex
	generations map[string]uint32
}

// Floor returns the generation of a source table, 0 if it is unknown.
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
