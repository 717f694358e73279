package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// MaxGeneration is what fits a version's field.
const MaxGeneration = 99_999_999

// TableState is what the ledger holds of one source table.
type TableState struct {
	header
	Source string `json:"source"`
	// StreamARN and Label name the stream that is followed.
	StreamARN string `json:"stream_arn,omitempty"`
	Label     string `json:"label,omitempty"`
	// Generation rises whenever continuity is broken. Adopted is the last one that every unfinished shard carries.
	Generation uint32 `json:"generation"`
	Adopted    uint32 `json:"adopted"`
	// AdoptedAt is when that was, on the service's clock; zero if no answer had a time.
	AdoptedAt time.Time `json:"adopted_at,omitzero"`
	// Listed is the generation in which the stream was first listed completely; 0: not yet. Nothing is read before.
	Listed uint32 `json:"listed,omitempty"`
	// Enabling reports that the stream was being enabled when it was last listed. EnabledAt is when
	// it was first listed as enabled after that, on the service's clock.
	Enabling  bool      `json:"enabling,omitempty"`
	EnabledAt time.Time `json:"enabled_at,omitzero"`
	// StreamEnded reports that the stream was found disabled and the gap declared.
	StreamEnded bool   `json:"stream_ended,omitempty"`
	MappingHash string `json:"mapping_hash,omitempty"`
	// Mapping is the source text of the current mapping, and Targets are its target tables; empty
	// if unknown. Former are earlier mappings whose rows may still exist.
	Mapping string   `json:"mapping,omitempty"`
	Targets []string `json:"targets,omitempty"`
	Former  []Former `json:"former_mappings,omitempty"`
	// Apply is the mode in which changes are applied; "" is direct.
	Apply Mode `json:"apply,omitempty"`
	// NeedsLoad suspends the promise until the table is loaded again; Reason says why.
	NeedsLoad bool          `json:"needs_load,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Gaps      []DeclaredGap `json:"gaps,omitempty"`
	GapCount  int           `json:"gap_count,omitempty"`
	// Earlier are the generations that ended with gaps no longer listed. This ledger or a lost one
	// wrote the rows of all generations below Inherited.
	Earlier   []uint32 `json:"earlier_generations,omitempty"`
	Inherited uint32   `json:"inherited,omitempty"`
	// Base is the last generation that was loaded and swept; 0 before the first. The members after
	// it count from then.
	Base uint32 `json:"base,omitempty"`
	// Kind is the widest kind of loss that needs repair, "" if none does. LostFrom is the earliest
	// event time at which a stream's loss begins: a field of its own, because the list of gaps is
	// bounded.
	Kind     GapKind   `json:"kind,omitempty"`
	LostFrom time.Time `json:"lost_from,omitzero"`
	// Tries is how many loads began since Base; none of them has completed, since that would raise
	// Base.
	Tries int  `json:"tries,omitempty"`
	Load  Load `json:"load,omitzero"`
	// ExportsAsked is how many exports were requested, over all loads.
	ExportsAsked uint32 `json:"exports_asked,omitempty"`
	// Limits are those that an operator set for the loads of the table.
	Limits Limits `json:"limits,omitzero"`
	// Verify is the comparison with the target that runs or ran last.
	Verify Verify `json:"verify,omitzero"`
	// Sampled is the comparison of recently applied changes.
	Sampled Sampled `json:"sampled,omitzero"`
	// MadeByUs reports that replicator created the target, or found it empty, when the first
	// generation began.
	MadeByUs bool `json:"made_by_us,omitempty"`
	// AdoptRows is an operator's permission to write the first generation into a target that has
	// rows.
	AdoptRows bool `json:"adopt_rows,omitempty"`
	// Aside reports that the table, found by a pattern, cannot be followed now; zero if it can.
	Suspended Suspension `json:"aside,omitzero"`
	// Halt is a cutover's request to all processes that write rows of the table.
	Halt Halt `json:"halt,omitzero"`
	// Pause is an operator's pause of the table.
	Pause Pause `json:"pause,omitzero"`
	// WitnessBeat is the counter that the witness row of the target must have.
	WitnessBeat uint64 `json:"witness_beat,omitempty"`
	// WitnessBeats are those of further target tables, by table.
	WitnessBeats map[string]uint64 `json:"witness_beats,omitempty"`
	// Cut is the event time before which changes are dropped (start: now); zero: none are.
	Cut time.Time `json:"cut,omitzero"`
	// Since is the event time from which a table without a load is followed, if nothing is cut
	// (start: trim_horizon).
	Since time.Time `json:"since,omitzero"`
	// Changed is when the record was last written, on the writer's clock; for people.
	Changed time.Time `json:"changed,omitzero"`
}

// Aside is why a table of a pattern cannot be followed, and since when, in words that hold no item data.
type Suspension struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Owed is the event time from which on every change is to be applied of a table that is not loaded: what is trimmed of that, before a root is first
// read, no load makes up for. Zero for one that is loaded.
func (s TableState) Owed() time.Time { return later(s.Cut, s.Since) }

// reserve is what clocks may not use up: a worker whose clock is wrong by centuries must leave generations to raise to.
const reserve = 1_000_000

// NextGeneration is the generation after previous. It is at least the number of whole minutes since 1970, so that a ledger that
// was begun anew outranks the one that was lost (H68). After MaxGeneration there is none: it is returned again.
func NextGeneration(previous uint32, now time.Time) uint32 {
	clock := uint32(min(max(now.Unix()/60, 1), MaxGeneration-reserve))
	return max(min(previous, MaxGeneration-1)+1, clock)
}

// Table reads the record of a source table; false if there is none.
func (l *Ledger) Table(ctx context.Context, source string) (TableState, bool, error) {
	state, _, found, err := l.table(ctx, source)
	return state, found, err
}

// Tables reads the records of all source tables, by name.
func (l *Ledger) Tables(ctx context.Context) ([]TableState, error) {
	rows, err := l.store.Read(ctx, l.name+"/table/")
	if err != nil {
		return nil, err
	}
	states := make([]TableState, len(rows))
	for i, row := range rows {
		if err := decode(row, &states[i]); err != nil {
			return nil, err
		}
		states[i].takeOver()
	}
	return states, nil
}

func (l *Ledger) table(ctx context.Context, source string) (TableState, uint64, bool, error) {
	row, found, err := readRow(ctx, l.store, l.tableKey(source))
	if err != nil || !found {
		return TableState{Source: source}, 0, false, err
	}
	state, err := l.tables.one(row)
	if err != nil {
		return TableState{}, 0, false, err
	}
	state.Gaps = slices.Clone(state.Gaps) // the caller may change them
	state.takeOver()
	return state, row.Counter, true, nil
}

// UpdateTable changes the record of a source table, creating it if need be. The change is made again on a fresh record whenever
// somebody else was faster, or may have been: it must be idempotent. It writes nothing if change leaves the record as it is.
func (l *Ledger) UpdateTable(ctx context.Context, source string, change func(*TableState) error) (TableState, error) {
	for range tries {
		state, counter, found, err := l.table(ctx, source)
		if err != nil {
			return TableState{}, err
		}
		before := state
		before.Gaps = slices.Clone(state.Gaps)
		if err := change(&state); err != nil {
			return TableState{}, err
		}
		if found && reflect.DeepEqual(before, state) {
			return state, nil
		}
		state.Changed = task.Now(ctx).UTC()
		done, err := l.swap(ctx, l.store, l.tableKey(source), counter, l.stamp(&state.header, &state))
		if err != nil {
			return TableState{}, err
		}
		if done {
			return state, nil
		}
	}
	return TableState{}, ErrConflict
}

// written is the format that a record needs (Format).
func (s *TableState) written() int {
	if s.Load.Export.Address != "" || s.Load.Request.Wanted() || len(s.Former) > 0 {
		return Format
	}
	return plainFormat
}

// takeOver reads a record of format 1, which knew neither kinds of gaps nor sweeps: what it lost
// takes a copy, and a table that was loaded and has lost nothing counts as swept. The record must
// be the caller's own.
func (s *TableState) takeOver() {
	if s.format() > 1 {
		return
	}
	for i := range s.Gaps {
		s.Gaps[i].Kind = KindUnknown
	}
	switch {
	case s.NeedsLoad:
		s.Kind = KindUnknown
	case s.Loaded() && s.GapCount == 0:
		s.Base = s.Generation
	}
}

// Raise ends the generation from, because of gap, and begins the next: the table's row first, then every unfinished shard is
// adopted with a new epoch, so that no older holder can commit (H70). Change, if not nil, alters the record in the same write.
// When the generation is above from already, somebody else has raised it: the gap is noted and no new generation begins; but if the record is
// not as change would leave it, nothing is written, and the error is ErrRaised. If it fails midway, Adopt completes it.
func (l *Ledger) Raise(ctx context.Context, source string, from uint32, gap DeclaredGap, change func(*TableState)) (TableState, error) {
	now := task.Now(ctx)
	gap.At, gap.Generation = now.UTC(), from
	if gap.Kind == KindStream {
		counted, err := l.count(ctx, source, &gap)
		if err != nil {
			return TableState{}, err
		}
		if counted {
			return l.Adopt(ctx, source)
		}
	}
	state, err := l.UpdateTable(ctx, source, func(s *TableState) error {
		if s.Generation > from && change != nil && changes(*s, change) {
			return ErrRaised
		}
		noteGap(s, gap)
		if s.Generation > from {
			return nil
		}
		s.Generation = NextGeneration(s.Generation, now)
		s.eachFormer(nil, func(f *Former) { f.Contested = false }) // all is written again
		if change != nil {
			change(s)
		}
		if s.Generation <= from || s.Generation > MaxGeneration {
			return fmt.Errorf("checkpoint: no generation is left after %d", from)
		}
		return nil
	})
	if err != nil {
		return TableState{}, err
	}
	return l.Adopt(ctx, state.Source)
}

// changes reports whether the record is another after change.
func changes(s TableState, change func(*TableState)) bool {
	before := s
	change(&s)
	return !reflect.DeepEqual(before, s)
}

// Adopt gives every unfinished shard of the table's stream the table's generation and a new epoch without an owner, until all
// have it, and then says so in the table's record. Unfinished shards of a stream before are lost: it was replaced (H24).
// Anyone may complete an adoption that its beginner did not. It looks at the rows even when the record says that all is done,
// because a row may have been created since by somebody who had not seen the raise.
func (l *Ledger) Adopt(ctx context.Context, source string) (TableState, error) {
	for range tries {
		state, found, err := l.Table(ctx, source)
		if err != nil {
			return TableState{}, err
		}
		if !found || state.Generation == 0 {
			return state, nil
		}
		shards, err := l.Shards(ctx, source)
		if err != nil {
			return TableState{}, err
		}
		// Between the two reads another stream may have taken the place of this one, and rows of its shards may be among these.
		if slices.ContainsFunc(shards, func(s Shard) bool { return s.Label != state.Label && !s.Finished() }) {
			now, _, err := l.Table(ctx, source)
			if err != nil {
				return TableState{}, err
			}
			if now.Label != state.Label {
				continue
			}
		}
		settled := true
		for i := range shards {
			s := &shards[i]
			if s.Finished() || s.Label == state.Label && s.Generation >= state.Generation {
				continue
			}
			settled = false // look again afterwards: a row may have been created or taken meanwhile
			s.Epoch++
			s.Owner = ""
			s.beat(l.unowned(ctx))
			s.Rate = 0
			if s.Label == state.Label {
				s.Generation = state.Generation
				s.NumberedFrom = s.Applied
			} else {
				s.State, s.Loss, s.Reason = Gap, Replaced, "the stream was replaced before the shard was read to its end"
				s.DoneAt = l.ServiceTime(ctx)
			}
			if _, err := l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, s)); err != nil {
				return TableState{}, err
			}
		}
		if !settled {
			continue
		}
		generation := state.Generation
		state, err = l.UpdateTable(ctx, source, func(s *TableState) error {
			// Who raised it for an operator may never have heard the service's time. A later one will do.
			timeless := s.GapCount > 0 && s.AdoptedAt.IsZero()
			if s.Generation == generation && (s.Adopted != generation || timeless) {
				s.Adopted, s.AdoptedAt = generation, l.ServiceTime(ctx)
			}
			return nil
		})
		if err != nil {
			return TableState{}, err
		}
		if state.Adopted == state.Generation {
			return state, nil
		}
	}
	return TableState{}, ErrConflict
}

// ChangedMapping is why a generation begins under another mapping, and what is needed from then on.
const ChangedMapping = "the mapping was changed: load all rows again, then sweep those of the old mapping"

// ErrRanked is returned for a mapping without a version attribute where rows are ranked by one: whatever is written without a
// number would be refused by those rows for ever.
var ErrRanked = errors.New("dual_writes.version_attribute ranks the rows, so it cannot be switched off")

// rankedSuffix ends the hash of a mapping with a version attribute.
const rankedSuffix = "n"

// CheckRanked refuses to go from rows with numbers to a mapping that writes none.
func CheckRanked(stored, hash string) error {
	if strings.HasSuffix(stored, rankedSuffix) && !strings.HasSuffix(hash, rankedSuffix) {
		return ErrRanked
	}
	return nil
}

// CheckMapping compares the hash of a table's mapping with the stored one; until the first generation begins, and with it any
// writing, it is stored as it comes. A changed mapping is
// refused with ErrMappingChanged, or, if accept, begins a new generation, because what the old mapping wrote has to be asserted
// again: then raised is true, and the ledger keeps the old one until a sweep is over. From then on leases of this table are taken only while the ledger holds this hash (H60).
func (l *Ledger) CheckMapping(ctx context.Context, source string, m Mapping, accept bool) (state TableState, raised bool, err error) {
	state, err = l.UpdateTable(ctx, source, func(s *TableState) error {
		if s.MappingHash == "" || s.Generation == 0 {
			s.MappingHash, s.Mapping, s.Targets = m.Hash, "", nil
		}
		if err := CheckRanked(s.MappingHash, m.Hash); err != nil {
			return err
		}
		if s.MappingHash != m.Hash && !accept {
			return ErrMappingChanged
		}
		if s.MappingHash == m.Hash {
			s.know(m)
			return nil
		}
		probe := *s
		return probe.replace(m, time.Time{})
	})
	if err != nil {
		return TableState{}, false, err
	}
	if state.MappingHash != m.Hash {
		at := l.Now(ctx)
		gap := DeclaredGap{Kind: KindMappingChanged, Reason: ChangedMapping}
		state, err = l.Raise(ctx, source, state.Generation, gap, func(s *TableState) { _ = s.replace(m, at) })
		if err != nil {
			return TableState{}, false, err
		}
		if state.MappingHash != m.Hash {
			return TableState{}, false, fmt.Errorf("%w: another process raised the generation meanwhile", ErrConflict)
		}
		raised = true
	}
	l.mu.Lock()
	l.hashes[source] = m.Hash
	l.mu.Unlock()
	return state, raised, nil
}

// checkHash refuses to go on under a mapping that another worker has replaced.
func (l *Ledger) checkHash(s TableState) error {
	l.mu.Lock()
	hash, checked := l.hashes[s.Source]
	l.mu.Unlock()
	if checked && s.MappingHash != hash {
		return ErrMappingChanged
	}
	return nil
}
