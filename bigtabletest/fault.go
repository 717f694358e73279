package bigtabletest

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault makes calls fail.
type Fault struct {
	// Method is the name of the method, such as "MutateRow"; empty means every method.
	Method string
	// Table limits the fault to one table, by its full name; empty means all.
	Table string
	// Code is the status code of the error; default Unavailable.
	Code codes.Code
	// Skip lets this many matching calls pass first.
	Skip int
	// Times is how many calls fail. 0 means one call, and a negative number means all calls.
	Times int
	// AfterEffect lets the call take effect and makes only its answer fail. So the client does not
	// know the outcome.
	AfterEffect bool
}

func (f *Fault) error() error {
	return status.Error(f.Code, "injected fault")
}

func (f *Fault) matches(method, table string) bool {
	return (f.Method == "" || f.Method == method) && (f.Table == "" || f.Table == table)
}

// faultList holds the pending faults and counts the calls.
type faultList struct {
	mu     sync.Mutex
	faults []*Fault
	calls  map[string]int
}

func (l *faultList) add(f Fault) {
	if f.Code == codes.OK {
		f.Code = codes.Unavailable
	}
	if f.Times == 0 {
		f.Times = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, &f)
}

// take counts the call and returns the fault that applies to it; nil if there is none. Of several
// matching faults, the one that was added first applies.
func (l *faultList) take(method, table string) *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string]int{}
	}
	l.calls[method]++
	for i, f := range l.faults {
		if !f.matches(method, table) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
			if f.Times == 0 {
				l.faults = slices.Delete(l.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

func (l *faultList) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = nil
}

func (l *faultList) count(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[method]
}
