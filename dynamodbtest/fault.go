package dynamodbtest

import (
	"slices"
	"sync"
	"time"
)

// Fault makes calls fail in the way in which the services fail: throttled, expired, broken or late.
type Fault struct {
	// Operation is the API name, such as "GetRecords"; empty means every operation.
	Operation string `json:"operation"`
	// Table and Shard limit the fault to one table and one shard. An empty value means all. Shard
	// applies only to operations that name a shard.
	Table string `json:"table"`
	Shard string `json:"shard"`
	// Error is the type of the error, such as "LimitExceededException"; default
	// "InternalServerError", which has HTTP status 500.
	Error string `json:"error"`
	// Message is the error's message; if empty, a default is used.
	Message string `json:"message"`
	// Skip lets this many matching calls pass first.
	Skip int `json:"skip"`
	// Times is how many calls fail. 0 means one call, and a negative number means all calls.
	Times int `json:"times"`
	// AfterEffect lets the call take effect and makes only its answer fail. So the client does not
	// know the outcome.
	AfterEffect bool `json:"after_effect"`
	// Late lets the call in when it arrives, cuts the client's connection without an answer, and
	// executes the call this much later, by the server's clock. Authorization and the check of the
	// signature's time happen when the call arrives. A control gives it as "after".
	Late time.Duration `json:"-"`

	writes bool // only operations that write items
}

// writeOperations lists the operations that write items.
var writeOperations = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}

func (f *Fault) error() error {
	message := f.Message
	if message == "" {
		message = "Injected fault"
	}
	return newError(f.Error, message)
}

func (f *Fault) matches(operation, table, shard string) bool {
	return (f.Operation == "" || f.Operation == operation) &&
		(!f.writes || slices.Contains(writeOperations, operation)) &&
		(f.Table == "" || f.Table == table) &&
		(f.Shard == "" || f.Shard == shard)
}

// faultList holds the pending faults and counts the calls.
type faultList struct {
	mu     sync.Mutex
	faults []*Fault
	calls  map[string]int
}

func (l *faultList) add(f Fault) {
	if f.Error == "" {
		f.Error = "InternalServerError"
	}
	if f.Times == 0 {
		f.Times = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, &f)
}

// arrived counts a call.
func (l *faultList) arrived(operation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string]int{}
	}
	l.calls[operation]++
}

// take returns the fault that applies to the call; nil if there is none. Of several matching
// faults, the one that was added first applies.
func (l *faultList) take(operation, table, shard string) *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.faults {
		if !f.matches(operation, table, shard) {
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

func (l *faultList) count(operation string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[operation]
}
