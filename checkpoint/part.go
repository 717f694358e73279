package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// Phase is a phase of a load. The first phase copies, and each later one is a pass of the sweep.
// Each phase has its own parts.
type Phase string

// PhaseCopy is the phase in which the source is copied.
const PhaseCopy Phase = "copy"

// PhaseSweep returns the phase of a pass of the sweep.
func PhaseSweep(pass int) Phase { return Phase(fmt.Sprint("sweep-", pass)) }

// PartState is the state of a part.
type PartState string

// The states of a part.
const (
	PartOpen PartState = "open"
	PartDone PartState = "done" // all its work is durable
)

// Part is the ledger's row of one part of a load or of a verify: a segment of a scan, some files of
// an export, a range of a sweep. A part without a row is free, and no worker has begun it.
type Part struct {
	header
	Source     string `json:"source"` // source table
	Generation uint32 `json:"generation"`
	Number     uint32 `json:"number"` // of the load
	Phase      Phase  `json:"phase"`  // such as copy, sweep-1 or verify-1
	// Index is 0 to Total-1. A part is valid only while its phase has Total parts.
	Index int       `json:"index"`
	Total int       `json:"total"`
	State PartState `json:"state"` // open or done
	// Epoch rises with every change of owner. Owner is the worker that holds the lease; "" if none
	// does.
	Epoch uint64 `json:"epoch"`
	Owner string `json:"owner,omitempty"`
	// Begun is when the part was first leased, on the service's clock if the worker knew it. Begun
	// is only for display.
	Begun time.Time `json:"begun,omitzero"`
	PartProgress
	Heartbeat

	// Counter is the row's counter when it was read; 0 if there is no row.
	Counter uint64 `json:"-"`
}

// PartProgress is the progress of a part.
type PartProgress struct {
	// Position is where the next page begins, in the source's own format; nil before the first page
	// and after the last. It contains item keys.
	Position json.RawMessage `json:"position,omitempty"`
	// Items is how many items were copied durably. Items that are read again after a crash count
	// again.
	Items int64   `json:"items,omitempty"`
	Bytes int64   `json:"bytes,omitempty"`
	Units float64 `json:"units,omitempty"` // read capacity units consumed
	Rate  float64 `json:"rate,omitempty"`  // items a second over the last minutes; 0 while no worker copies it
	Counts
	// Compared is the result of a part of a verify. Kept names further rows of the part, which hold
	// partial sums and findings. The part's Position names the rows that wait for another check.
	Compared VerifyCounts `json:"compared,omitzero"`
	Kept     []string     `json:"kept,omitempty"`
}

func (p *Part) key(l *Ledger) string {
	return fmt.Sprintf("%s%07d", l.phasePrefix(p.Source, p.Generation, p.Number, p.Phase), p.Index)
}

func (l *Ledger) partPrefix(source string) string { return l.name + "/part/" + source + "/" }

func (l *Ledger) phasePrefix(source string, generation, number uint32, phase Phase) string {
	if phase.verifies() {
		return l.verifyRun(source, number) + "part/" + string(phase) + "/"
	}
	return fmt.Sprintf("%s%08d/%04d/%s/", l.partPrefix(source), generation, number, phase)
}

// RunningPhase returns the phase in which workers lease parts of the table's load, and its number
// of parts; 0 if there is none.
func (s TableState) RunningPhase() (phase Phase, total int) {
	switch s.Stage() {
	case StageCopying:
		return PhaseCopy, s.Load.Parts
	case StageSweeping:
		return PhaseSweep(s.Load.Sweep.Pass), s.Load.Sweep.Parts
	}
	return "", 0
}

// LoadPart returns a part of the running phase of the table's load in its first state. The caller
// must set its Index. Its Total is 0 if no phase is running.
func (s TableState) LoadPart() Part {
	phase, total := s.RunningPhase()
	return Part{Source: s.Source, Generation: s.Generation, Number: s.Load.Number, Phase: phase, Total: total, State: PartOpen}
}

// VerifyPart does the same as LoadPart for the table's verify.
func (s TableState) VerifyPart() Part {
	return Part{Source: s.Source, Number: s.Verify.Number, Phase: phaseVerify(s.Verify.Phase), Total: s.Verify.Parts, State: PartOpen}
}

// SamePhase reports whether two parts of a table belong to the same phase with the same number of
// parts.
func (p Part) SamePhase(o Part) bool {
	return p.Generation == o.Generation && p.Number == o.Number && p.Phase == o.Phase && p.Total == o.Total
}

// runs reports whether the part belongs to the running phase of the table's load or verify.
func (s TableState) runs(p Part) bool {
	of := s.LoadPart()
	if p.Phase.verifies() {
		of = s.VerifyPart()
	}
	return of.Total > 0 && p.SamePhase(of)
}

// pauses returns why parts of the phase are not leased; "" if they are.
func (s TableState) pauses(phase Phase) string {
	if phase.verifies() {
		return s.Verify.Paused
	}
	return s.Load.Paused
}

// PartsOf reads the rows of one phase, ordered by index. The argument must come from LoadPart or
// VerifyPart. It names the phase.
func (l *Ledger) PartsOf(ctx context.Context, of Part) ([]Part, error) {
	source := of.Source
	if of.Phase.verifies() {
		source += "/verify"
	}
	prefix := l.phasePrefix(of.Source, of.Generation, of.Number, of.Phase)
	rows, err := l.phaseRows(ctx, source, prefix)
	if err != nil {
		return nil, err
	}
	parts, err := l.decodeParts(source, rows)
	if err == nil {
		l.rememberDone(source, prefix, parts, rows)
	}
	return parts, err
}

// Parts reads the rows of a phase of the table's load, ordered by index.
func (l *Ledger) Parts(ctx context.Context, table TableState, phase Phase) ([]Part, error) {
	return l.PartsOf(ctx, Part{Source: table.Source, Generation: table.Load.Generation, Number: table.Load.Number, Phase: phase})
}

func (l *Ledger) readParts(ctx context.Context, source, prefix string) ([]Part, error) {
	rows, err := l.store.Read(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return l.decodeParts(source, rows)
}

func (l *Ledger) decodeParts(source string, rows []Row) ([]Part, error) {
	parts, err := l.parts.decode(source, rows)
	for i := range parts {
		parts[i].Counter = rows[i].Counter
	}
	return parts, err
}

// Sums are the totals of the rows of a phase's parts.
type Sums struct {
	Total, Done, Held int // parts
	Items, Bytes      int64
	Units, Rate       float64
	Counts
}

// Complete reports whether every part is done.
func (s Sums) Complete() bool { return s.Total > 0 && s.Done == s.Total }

// PartsDone adds up the rows of a phase that has total parts. Rows with another Total do not count.
func PartsDone(rows []Part, total int) Sums {
	sums := Sums{Total: total}
	seen := map[int]bool{}
	for _, p := range rows {
		if p.Total != total || p.Index < 0 || p.Index >= total || seen[p.Index] {
			continue
		}
		seen[p.Index] = true
		switch {
		case p.State == PartDone:
			sums.Done++
		case p.Owner != "":
			sums.Held++
		}
		sums.Items, sums.Bytes, sums.Units, sums.Rate = sums.Items+p.Items, sums.Bytes+p.Bytes, sums.Units+p.Units, sums.Rate+p.Rate
		sums.Counts = sums.add(p.Counts)
	}
	return sums
}

func (c Counts) add(o Counts) Counts {
	return Counts{Seen: c.Seen + o.Seen, Put: c.Put + o.Put, Removed: c.Removed + o.Removed, Bare: c.Bare + o.Bare, Left: c.Left + o.Left, Unexplained: c.Unexplained + o.Unexplained}
}

// RemoveParts deletes the part rows of completed loads.
func (l *Ledger) RemoveParts(ctx context.Context, source string) error {
	table, _, err := l.Table(ctx, source) // read before the rows: parts of a load that is sealed meanwhile have a higher number
	if err != nil {
		return err
	}
	parts, err := l.readParts(ctx, source, l.partPrefix(source))
	if err != nil {
		return err
	}
	stage := table.Stage()
	for _, p := range parts {
		going := p.Number == table.Load.Number && (stage == StageCopying || stage == StageSweeping)
		if going || p.Number > table.Load.Number {
			continue
		}
		if _, err := l.swap(ctx, l.store, p.key(l), p.Counter, nil); err != nil {
			return err
		}
	}
	return nil
}

// PartLease is the right to advance one part while its context is not done.
type PartLease struct {
	*rowLease
	ctx  context.Context
	part Part
	note Trouble // guarded by mu
}

// TakePart leases a part. It fails with ErrTaken if another worker was faster, or if the part is no
// longer available. A part is not available if its load or verify is paused, if another phase runs,
// or if the generation was raised.
func (l *Ledger) TakePart(ctx context.Context, p Part) (*PartLease, error) {
	lease := &PartLease{}
	encode := func() ([]byte, error) {
		table, _, err := l.Table(ctx, p.Source) // read as late as possible
		if err != nil {
			return nil, err
		}
		if err := l.checkHash(table); err != nil {
			return nil, err
		}
		if !p.Phase.verifies() && table.Halted() {
			return nil, ErrHalted
		}
		if !table.runs(p) || table.pauses(p.Phase) != "" || p.State == PartDone {
			return nil, ErrTaken
		}
		p.State, p.Owner = PartOpen, l.worker
		p.Heartbeat, p.Rate = l.heartbeat(ctx, Trouble{}), 0
		if p.Begun.IsZero() {
			p.Begun = p.ByService(p.WrittenAt)
		}
		p.Epoch++
		return l.stamp(&p.header, &p), nil
	}
	t, held, err := l.begin(ctx, l.store, p.key(l), p.Counter, encode, func() bool { lease.part = p; return false })
	if err != nil {
		return nil, err
	}
	lease.rowLease, lease.ctx = t, held
	return lease, nil
}

// Part returns the record as last written.
func (l *PartLease) Part() Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.part
}

// Context returns a context that ends, with the cause ErrLeaseLost, when the lease can no longer be
// trusted. All work under the lease must use it.
func (l *PartLease) Context() context.Context { return l.ctx }

// Keep renews the lease until its context ends. Run it as a task in parallel with the work.
func (l *PartLease) Keep() error {
	return l.keep(l.ctx, l.Renew)
}

// Renew writes the lease's row now. If it returns nil, this worker still held the part at the time
// of that write.
func (l *PartLease) Renew(ctx context.Context) error {
	return l.change(ctx, func(*Part) error { return nil })
}

// Note records why the part makes no progress. The zero value clears the note. The next renewal or
// commit writes it.
func (l *PartLease) Note(t Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note = t
}

// Commit advances the part: all work before the new position must be durable. Commit fails if the
// position would move back.
func (l *PartLease) Commit(ctx context.Context, to PartProgress) error {
	return l.change(ctx, func(p *Part) error { return p.advance(to) })
}

// Finish commits the last page of the part and marks the part as done.
func (l *PartLease) Finish(ctx context.Context, to PartProgress) error {
	to.Position = nil
	return l.conclude(ctx, PartDone, func(p *Part) error { return p.advance(to) })
}

// Release returns the part after a clean stop, so that another worker may take it immediately.
func (l *PartLease) Release(ctx context.Context) error {
	return l.conclude(ctx, PartOpen, func(*Part) error { return nil })
}

// conclude makes the last write of a lease, like the conclude of a shard's lease.
func (l *PartLease) conclude(ctx context.Context, state PartState, change func(*Part) error) error {
	err := l.change(ctx, func(p *Part) error {
		if err := change(p); err != nil {
			return err
		}
		p.State, p.Owner = state, ""
		p.Heartbeat, p.Rate = l.ledger.unowned(ctx), 0
		p.ClockOffset = l.ledger.wrongBy() // needed to compute the rate of a done part from its times
		return nil
	})
	if p := l.Part(); errors.Is(err, ErrLeaseLost) && p.Owner == "" && p.State == state {
		return nil
	}
	return err
}

func (l *PartLease) change(ctx context.Context, change func(*Part) error) error {
	var next Part
	return l.write(ctx, func() ([]byte, error) {
		l.mu.Lock()
		note := l.note
		next = l.part
		l.mu.Unlock()
		next.Heartbeat = l.ledger.heartbeat(ctx, note)
		if err := change(&next); err != nil {
			return nil, err
		}
		return l.ledger.stamp(&next.header, &next), nil
	}, func() bool { l.part = next; return next.Owner == "" })
}

func (p *Part) advance(to PartProgress) error {
	if to.Items < p.Items {
		return fmt.Errorf("%w: part %d of %d", ErrPositionBack, p.Index, p.Total)
	}
	to.Position = slices.Clone(to.Position)
	p.PartProgress = to
	return nil
}

// PartsToTake returns the free parts that the worker `me` should lease now. With them each live
// worker holds about the same number of parts, and `me` holds at most `limit`. The map `held`
// counts parts by worker. No worker takes a held part from another: parts are short, and a late
// worker finds other free parts. Workers begin at different parts, so they seldom want the same
// one.
func PartsToTake(free []Part, held map[string]int, me string, workers, limit int) []Part {
	open, others := len(free), 0
	for worker, n := range held {
		open += n
		if worker != me && n > 0 {
			others++
		}
	}
	workers = max(workers, others+1)
	share := (open + workers - 1) / workers
	n := max(0, min(share, limit)-held[me])
	if n >= len(free) {
		return free
	}
	hash := fnv.New32a()
	hash.Write([]byte(me))
	from := int(hash.Sum32() % uint32(len(free)))
	return slices.Concat(free[from:], free[:from])[:n]
}
