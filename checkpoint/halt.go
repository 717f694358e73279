package checkpoint

// Halt is a cutover's request to all processes that write rows of a table. A process reads the
// request each time it proves its right to write. So once the fence is raised, no process can prove
// that right any more.
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
	// Switched reports that the application no longer uses the source. It is never reset.
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

// HaltFor halts the table for an attempt. It fails if that attempt was cancelled or a later one has
// halted the table.
func (s *TableState) HaltFor(attempt uint32) error {
	if attempt <= s.Halt.Over || attempt < s.Halt.Attempt {
		return &CutoverError{"halt the tables for", "a later attempt has begun", "see replicator cutover check"}
	}
	s.Halt.Attempt, s.Halt.On = attempt, true
	return nil
}

// Unhalt resumes the table after a cancelled attempt.
func (s *TableState) Unhalt(attempt uint32) error {
	if s.Halt.Switched {
		return &CutoverError{"cancel", "the application has switched", "see replicator cutover check"}
	}
	if attempt >= s.Halt.Attempt {
		s.Halt.On = false
	}
	s.Halt.Over = max(s.Halt.Over, attempt)
	return nil
}
