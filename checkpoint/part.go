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

// Phase is what a load does with its parts: first it copies, then it sweeps, pass by pass. Each
// phase has parts of its own.
type Phase string

// PhaseCopy is the phase in which the source is copied.
const PhaseCopy Phase = "copy"

// PhaseSweep is the phase of a pass of the sweep.
func PhaseSweep(pass int) Phase { return Phase(fmt.Sprint("sweep-", pass)) }

// PartState is where a part stands.
type PartState string

// The states of a part.
const (
	PartOpen PartState = "open"
	PartDone PartState = "done" // everything of it is durable
)

// Part is the ledger's row of one part of a load or of a verify: a segment of a scan, some files of an
// export, a range of a sweep. One without a row is free, and nothing of it is done.
type Part struct {
	header
	Source     string `json:"source"` // source table
	Generation uint32 `json:"generation"`
	Number     uint32 `json:"number"` // of the load
	Phase      Phase  `json:"phase"`
	// Index is 0 to Total-1; a part is valid only for its Total.
	Index int       `json:"index"`
	Total int       `json:"total"`
	State PartState `json:"state"`
	// Epoch rises with every change of owner. Owner is the worker that holds the lease; "" if none
	// does.
	Epoch uint64 `json:"epoch"`
	Owner string `json:"owner,omitempty"`
	// Begun is when it was first leased, on the service's clock as far as the worker knew it; for people.
	Begun time.Time `json:"begun,omitzero"`
	PartProgress
	Heartbeat

	// Counter is the row's counter when it was read; 0 if there is no row.
	Counter uint64 `json:"-"`
}

// PartProgress is how far a part has come.
type PartProgress struct {
	// Position is where the next page begins, in the source's own form; nil before the first page
	// and after the last. It has keys.
	Position json.RawMessage `json:"position,omitempty"`
	// Items are durable. Items that are read again after a crash count again.
	Items int64   `json:"items,omitempty"`
	Bytes int64   `json:"bytes,omitempty"`
	Units float64 `json:"units,omitempty"` // read capacity units consumed
	Rate  float64 `json:"rate,omitempty"`  // items a second over the last minutes; 0 while no worker copies it
	Counts
	// Compared is the result of a part of a verify. Kept are the names of its further rows: pieces
	// of sums, and findings.
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

// RunningPhase is the phase in which the table's load leases parts, and into how many it is
// divided; 0 if there is none.
func (s TableState) RunningPhase() (phase Phase, total int) {
	switch s.Stage() {
	case StageCopying:
		return PhaseCopy, s.Load.Parts
	case StageSweeping:
		return PhaseSweep(s.Load.Sweep.Pass), s.Load.Sweep.Parts
	}
	return "", 0
}

// LoadPart is what each part is as that the table's load leases now, but for its index, before
// anybody has begun it. Its Total is 0 if there is none.
func (s TableState) LoadPart() Part {
	phase, total := s.RunningPhase()
	return Part{Source: s.Source, Generation: s.Generation, Number: s.Load.Number, Phase: phase, Total: total, State: PartOpen}
}

// VerifyPart is LoadPart for the table's verify.
func (s TableState) VerifyPart() Part {
	return Part{Source: s.Source, Number: s.Verify.Number, Phase: phaseVerify(s.Verify.Phase), Total: s.Verify.Parts, State: PartOpen}
}

// SamePhase reports whether two parts of a table are of one phase, under one division.
func (p Part) SamePhase(o Part) bool {
	return p.Generation == o.Generation && p.Number == o.Number && p.Phase == o.Phase && p.Total == o.Total
}

// runs reports whether the part is one of those that the table's load or verify leases now.
func (s TableState) runs(p Part) bool {
	of := s.LoadPart()
	if p.Phase.verifies() {
		of = s.VerifyPart()
	}
	return of.Total > 0 && p.SamePhase(of)
}

// pauses is why parts of the phase are not leased; "" if they are.
func (s TableState) pauses(phase Phase) string {
	if phase.verifies() {
		return s.Verify.Paused
	}
	return s.Load.Paused
}

// PartsOf reads the rows of the phase that LoadPart or VerifyPart gave, by index.
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

// Parts reads the rows of a phase of the table's load, by index.
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

// Sums are what the rows of a phase's parts add up to.
type Sums struct {
	Total, Done, Held int // parts
	Items, Bytes      int64
	Units, Rate       float64
	Counts
}

// Complete reports whether every part is done.
func (s Sums) Complete() bool { return s.Total > 0 && s.Done == s.Total }

// PartsDone adds up the rows of a phase that is divided into so many parts. Rows of another
// division do not count.
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

// RemoveParts deletes the rows of parts of loads that are over.
func (l *Ledger) RemoveParts(ctx context.Context, source string) error {
	table, _, err := l.Table(ctx, source) // before the rows: those of a load that is sealed meanwhile have a higher number
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

// PartLease is the right to move one part on, for as long as its context lives.
type PartLease struct {
	*rowLease
	ctx  context.Context
	part Part
	note Trouble // guarded by mu
}

// TakePart leases a part that LookParts gave. It fails with ErrTaken when another worker was
// faster, or the table's load does not lease this part any more: it is paused, another phase runs,
// or the generation was raised.
func (l *Ledger) TakePart(ctx context.Context, p Part) (*PartLease, error) {
	lease := &PartLease{}
	encode := func() ([]byte, error) {
		table, _, err := l.Table(ctx, p.Source) // read as late as can be
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

// Part is the record as last written.
func (l *PartLease) Part() Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.part
}

// Context ends, with the cause ErrLeaseLost, when the lease can no longer be trusted. Work under
// the lease runs in it.
func (l *PartLease) Context() context.Context { return l.ctx }

// Keep renews the lease until its context ends; run it as a task beside the work.
func (l *PartLease) Keep() error {
	return l.keep(l.ctx, l.Renew)
}

// Renew writes the lease's row now. When it returns nil, nobody had taken the part when that write
// took place.
func (l *PartLease) Renew(ctx context.Context) error {
	return l.change(ctx, func(*Part) error { return nil })
}

// Note says what keeps the part from getting on, or with the zero value that nothing does. It is
// written with the next renewal or commit.
func (l *PartLease) Note(t Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note = t
}

// Commit moves the part on: everything before the position must be durable. It refuses to move
// back.
func (l *PartLease) Commit(ctx context.Context, to PartProgress) error {
	return l.change(ctx, func(p *Part) error { return p.advance(to) })
}

// Finish commits the last page of the part: it is done.
func (l *PartLease) Finish(ctx context.Context, to PartProgress) error {
	to.Position = nil
	return l.conclude(ctx, PartDone, func(p *Part) error { return p.advance(to) })
}

// Release gives the part up after a clean stop: another worker may take it at once.
func (l *PartLease) Release(ctx context.Context) error {
	return l.conclude(ctx, PartOpen, func(*Part) error { return nil })
}

// conclude is the last write of a lease, as that of a shard's.
func (l *PartLease) conclude(ctx context.Context, state PartState, change func(*Part) error) error {
	err := l.change(ctx, func(p *Part) error {
		if err := change(p); err != nil {
			return err
		}
		p.State, p.Owner = state, ""
		p.Heartbeat, p.Rate = l.ledger.unowned(ctx), 0
		p.ClockOffset = l.ledger.wrongBy() // its times are those of the rate
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

// PartsToTake are the free parts that a worker leases now, so that each of so many live workers
// comes to hold about parts ÷ workers, and this one at most limit. Held counts parts by worker.
// Nobody takes a part over from another: parts are short, and who comes late finds others free.
// Workers begin at different parts, so that they seldom want the same one.
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
