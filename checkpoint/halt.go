package checkpoint

import "time"

// Halt is a cutover's request to all processes that write rows of a source table, or of a target
// table. A process reads the request each time it proves its right to write. So once the fence is
// raised, no process can prove that right any more.
type Halt struct {
	// Attempt is the attempt that last halted the table. On reports whether the table is still
	// halted.
	Attempt uint32 `json:"attempt,omitempty"`
	On      bool   `json:"on,omitempty"`
	// Over is the last cancelled attempt. A delayed driver of that attempt can no longer halt the
	// table.
	Over uint32 `json:"over,omitempty"`
	// Near is the attempt that is about to freeze the application, or has frozen it. Every shard is
	// then read more often.
	Near uint32 `json:"near,omitempty"`
	// Quiet is the last promise of the application about its own writes to the target.
	Quiet Quiet `json:"quiet,omitzero"`
	// Switched reports that the application no longer uses the source. Only a rollback resets it.
	Switched bool `json:"switched,omitempty"`
	// Done reports that the watch for stragglers is over. After that, no worker starts on the
	// table.
	Done bool `json:"done,omitempty"`
}

// Halted reports whether replicator must not write rows of the table.
func (s *TableState) Halted() bool { return s.Halt.On || s.Halt.Switched || s.Halt.Done }

// FreezeNear reports whether an attempt is about to freeze the application, or has frozen it.
func (s *TableState) FreezeNear() bool { return s.Halt.Near > s.Halt.Over }

// Approach records which attempt is about to freeze the application; 0 means that none is. It fails
// if that attempt was cancelled.
func (s *TableState) Approach(attempt uint32) error {
	if attempt > 0 && attempt <= s.Halt.Over {
		return &CutoverError{"begin the freeze of", "the attempt was cancelled", "see replicator cutover check"}
	}
	s.Halt.Near = attempt
	return nil
}

// Quiet is a promise of an application that writes the target too: it froze its writes, and no
// request to the target was in flight any more. Changes that the promise covers need no second wait
// before their exact image is written. The promise stays true after the attempt, because it is
// about the past. All times are on the source's clock.
type Quiet struct {
	// At is when the application gave the promise. It covers all changes up to that time.
	At time.Time `json:"at,omitzero"`
	// To is a time up to which the application certainly stayed frozen. The promise also covers
	// removals by TTL up to that time, because the application writes nothing for them.
	To time.Time `json:"to,omitzero"`
}

// Covers reports whether the promise covers changes of the application up to the time `written`,
// and removals by TTL up to the time `expired`. A zero time means that there are none.
func (q Quiet) Covers(written, expired time.Time) bool {
	return !q.At.IsZero() && !written.After(q.At) && !expired.After(q.To)
}

// Quieten records a promise. The times never fall, because an earlier promise stays true.
func (s *TableState) Quieten(q Quiet) {
	s.Halt.Quiet = Quiet{later(s.Halt.Quiet.At, q.At), later(s.Halt.Quiet.To, q.To)}
}

// HaltFor halts the table for an attempt. It fails if that attempt was cancelled or a later one has
// halted the table.
func (s *TableState) HaltFor(attempt uint32) error { return s.Halt.begin(attempt) }

// Unhalt resumes the table after a cancelled attempt.
func (s *TableState) Unhalt(attempt uint32) error { return s.Halt.end(attempt) }

// Halted reports whether replicator must not write rows of the target table.
func (t *Target) Halted() bool { return t.Halt.On }

// HaltFor is like TableState.HaltFor.
func (t *Target) HaltFor(attempt uint32) error { return t.Halt.begin(attempt) }

// Unhalt is like TableState.Unhalt.
func (t *Target) Unhalt(attempt uint32) error { return t.Halt.end(attempt) }

func (h *Halt) begin(attempt uint32) error {
	if attempt <= h.Over || attempt < h.Attempt {
		return &CutoverError{"halt the tables for", "a later attempt has begun", "see replicator cutover check"}
	}
	h.Attempt, h.On = attempt, true
	return nil
}

func (h *Halt) end(attempt uint32) error {
	if h.Switched {
		return &CutoverError{"cancel", "the application has switched", "see replicator cutover check"}
	}
	if attempt >= h.Attempt {
		h.On = false
	}
	h.Over = max(h.Over, attempt)
	return nil
}
