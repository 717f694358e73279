package sink

import (
	"context"
	"errors"
	"sync"
)

// This file contains the gate.
//
// A cutover hands the target over to the application only if no request of any process can be
// executed afterwards. Each process has one gate. It counts the requests of the process that are in
// flight, and it remembers requests that never got a definite answer. A request without a definite
// answer may be executed at any later time. A cutover closes the gate. Then the process stops
// sending requests, and its count falls to zero.
//
// One rule makes this correct: a request must be counted before it looks at the gate. Otherwise a
// cutover could read a count of zero after the request has passed the gate and before it is
// counted.

// Gate counts the requests of one process by target table. Every proof of a right to write passes
// through it (Prove). Many tasks may use it concurrently.
type Gate struct {
	record func(ctx context.Context, marks map[string]Mark) error

	mu     sync.Mutex
	closed map[string]bool // by target table
	tables map[string]*traffic
}

// traffic is what a process has sent to one target table.
type traffic struct {
	inFlight int // requests without an answer yet
	Traffic
}

// Traffic describes the requests that a process has sent to a target table.
type Traffic struct {
	// InFlight reports that a request has no answer yet.
	InFlight bool
	// Doubt is the highest number of the fence under which a request never got a definite answer; 0
	// if there is none. An answer to a repetition of that request does not help, because the first
	// request may still be executed.
	Doubt uint64
	// Unfenced reports that such a request had no number, because the fence is withheld.
	Unfenced bool
}

// NewGate returns the gate of a process. The function `record` must store durably, before it
// returns, that the process may write under the given marks. The marks are by target table. Each
// proof calls `record` before it reads whether the tables are halted.
func NewGate(record func(ctx context.Context, marks map[string]Mark) error) *Gate {
	return &Gate{record: record, closed: map[string]bool{}, tables: map[string]*traffic{}}
}

// ApplicationGate returns the gate of an application's own writes. The ledger has no record of the
// application, so a cutover cannot ask it whether its requests are answered.
func ApplicationGate() *Gate {
	return NewGate(func(context.Context, map[string]Mark) error { return nil })
}

// Close stops the process from sending requests to target tables. Requests in flight are not
// affected.
func (g *Gate) Close(tables ...string) { g.set(tables, true) }

// Open lets the process send requests to target tables again.
func (g *Gate) Open(tables ...string) { g.set(tables, false) }

func (g *Gate) set(tables []string, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, table := range tables {
		g.closed[table] = closed
	}
}

// Traffic describes the requests to a target table.
func (g *Gate) Traffic(table string) Traffic {
	g.mu.Lock()
	defer g.mu.Unlock()
	sent := g.tables[table]
	if sent == nil {
		return Traffic{}
	}
	t := sent.Traffic
	t.InFlight = sent.inFlight > 0
	return t
}

// enter counts a request that is about to be sent. It returns ErrFenced if the gate is closed. Then
// the caller must not send the request.
func (g *Gate) enter(table string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sent := g.tables[table]
	if sent == nil {
		sent = &traffic{}
		g.tables[table] = sent
	}
	sent.inFlight++
	if g.closed[table] {
		sent.inFlight--
		return ErrFenced
	}
	return nil
}

// leave notes the answer to a request.
func (g *Gate) leave(table string, mark Mark, err error) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sent := g.tables[table]
	sent.inFlight--
	switch {
	case definite(err):
	case mark.Withheld:
		sent.Unfenced = true
	default:
		sent.Doubt = max(sent.Doubt, mark.Number)
	}
}

// definite reports whether the service has answered that a request was executed, or that it never
// will be.
func definite(err error) bool {
	var e *Error
	return err == nil || errors.As(err, &e) && e.Reason != Unknown
}
