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

// MaxGeneration is the highest generation that fits into a version.
const MaxGeneration = 99_999_999

// TableState is the ledger's record of one source table.
type TableState struct {
	header
	Source string `json:"source"`
	// StreamARN and Label name the stream that workers read.
	StreamARN string `json:"stream_arn,omitempty"`
	Label     string `json:"label,omitempty"`
	// Generation rises whenever continuity is broken. Adopted is the last generation that every
	// unfinished shard has.
	Generation uint32 `json:"generation"`
	Adopted    uint32 `json:"adopted"`
	// AdoptedAt is when all shards had adopted it, on the service's clock; zero if no response had
	// a time.
	AdoptedAt time.Time `json:"adopted_at,omitzero"`
	// Listed is the generation in which the stream was first listed completely; 0: not yet. No
	// shard is read before that.
	Listed uint32 `json:"listed,omitempty"`
	// Enabling reports that the stream was being enabled when it was last listed. EnabledAt is when
	// it was first listed as enabled after that, on the service's clock.
	Enabling  bool      `json:"enabling,omitempty"`
	EnabledAt time.Time `json:"enabled_at,omitzero"`
	// StreamEnded reports that the stream was found disabled and that its gap was declared.
	StreamEnded bool   `json:"stream_ended,omitempty"`
	MappingHash string `json:"mapping_hash,omitempty"`
	// Mapping is the source text of the current mapping, and Targets are its target tables; empty
	// if unknown. Former are earlier mappings whose rows may still exist.
	Mapping string   `json:"mapping,omitempty"`
	Targets []string `json:"targets,omitempty"`
	Former  []Former `json:"former_mappings,omitempty"`
	// Apply is the mode in which changes are applied; "" means direct.
	Apply Mode `json:"apply,omitempty"`
	// OrderingBuckets is the number of ordering keys of the table's messages in a topic. 0 means a
	// key for each item, as in records of older versions.
	OrderingBuckets int `json:"ordering_buckets,omitempty"`
	// NeedsLoad reports that the target may lack changes until the table is loaded again. Reason
	// explains why.
	NeedsLoad bool          `json:"needs_load,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Gaps      []DeclaredGap `json:"gaps,omitempty"`
	GapCount  int           `json:"gap_count,omitempty"`
	// Earlier lists the generations that ended with a gap that is no longer in Gaps. Rows of all
	// generations below Inherited were written by this ledger or by a lost ledger.
	Earlier   []uint32 `json:"earlier_generations,omitempty"`
	Inherited uint32   `json:"inherited,omitempty"`
	// Base is the last generation that was loaded and swept; 0 before the first. Kind, LostFrom and
	// Tries cover the time since then.
	Base uint32 `json:"base,omitempty"`
	// Kind is the widest kind of loss that needs repair; "" if no loss needs repair. LostFrom is
	// the earliest event time at which changes of the stream were lost. It is a separate field
	// because the list of gaps is bounded.
	Kind     GapKind   `json:"kind,omitempty"`
	LostFrom time.Time `json:"lost_from,omitzero"`
	// Tries is how many loads began since the base generation. None of these loads was completed,
	// because a completed load raises Base.
	Tries int  `json:"tries,omitempty"`
	Load  Load `json:"load,omitzero"`
	// ExportsAsked is how many exports were requested, over all loads.
	ExportsAsked uint32 `json:"exports_asked,omitempty"`
	// Limits are the limits that an operator set for loads of the table.
	Limits Limits `json:"limits,omitzero"`
	// Verify is the current or last comparison with the target.
	Verify Verify `json:"verify,omitzero"`
	// Sampled is the continuous comparison of recently applied changes.
	Sampled Sampled `json:"sampled,omitzero"`
	// MadeByUs reports that replicator created the target, or found it empty, when the first
	// generation began. After a rollback it reports that all rows belong to the table's items.
	MadeByUs bool `json:"made_by_us,omitempty"`
	// AdoptRows is an operator's permission to write the first generation into a target that has
	// rows.
	AdoptRows bool `json:"adopt_rows,omitempty"`
	// Suspended explains why the table, which a pattern selected, cannot be followed now; zero if
	// it can.
	Suspended Suspension `json:"aside,omitzero"`
	// Recheck is a cutover's request to compare the rows of all changes again.
	Recheck Recheck `json:"recheck,omitzero"`
	// Halt is a cutover's request to all processes that write rows of the table.
	Halt Halt `json:"halt,omitzero"`
	// Pause is an operator's pause of the table.
	Pause Pause `json:"pause,omitzero"`
	// WitnessBeat is the counter that the witness row of the target must have.
	WitnessBeat uint64 `json:"witness_beat,omitempty"`
	// WitnessBeats are the counters of further target tables, by table.
	WitnessBeats map[string]uint64 `json:"witness_beats,omitempty"`
	// Cut is the event time before which changes are dropped (start: now); zero: no change is
	// dropped.
	Cut time.Time `json:"cut,omitzero"`
	// Since is the event time from which changes of a table without a load are applied, if there is
	// no cut (start: trim_horizon).
	Since time.Time `json:"since,omitzero"`
	// Changed is when the record was last written, on the writer's clock. It is only for display.
	Changed time.Time `json:"changed,omitzero"`
}

// Suspension explains why a table that a pattern selected cannot be followed, and since when. Its
// text holds no item data.
type Suspension struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// For a table without a load, Owed returns the event time from which every change must be applied.
// If such a change is trimmed before a root is first read, no load copies it. It is zero for a
// table with a load.
func (s TableState) Owed() time.Time { return later(s.Cut, s.Since) }

// reserve is how many of the highest generations no clock can reach. So a worker whose clock is
// centuries ahead still leaves higher generations.
const reserve = 1_000_000

// NextGeneration returns the generation after previous. It is at least the number of whole minutes
// since 1970, so that a recreated ledger outranks the lost one (H68). After MaxGeneration it
// returns MaxGeneration.
func NextGeneration(previous uint32, now time.Time) uint32 {
	clock := uint32(min(max(now.Unix()/60, 1), MaxGeneration-reserve))
	return max(min(previous, MaxGeneration-1)+1, clock)
}

// Table reads the record of a source table. It returns false if there is none.
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
	if err := CheckSource(source, l.readsFrom(source), state.StreamARN); err != nil {
		return TableState{}, 0, false, err
	}
	state.Gaps = slices.Clone(state.Gaps) // the caller may change them
	state.takeOver()
	return state, row.Counter, true, nil
}

// UpdateTable changes the record of a source table, and creates it if necessary. If another writer
// was or may have been faster, it calls change again on a fresh record. So change must be
// idempotent. It writes nothing if change leaves the record as it is.
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

// written returns the lowest format that can hold the record (Format).
func (s *TableState) written() int {
	if s.Load.Request.Incremental {
		return Format
	}
	if s.Load.Fast {
		return fastFormat
	}
	if s.Load.Export.Address != "" || s.Load.Request.Wanted() || len(s.Former) > 0 {
		return exportFormat
	}
	return plainFormat
}

// takeOver converts a record of format 1. That format had neither kinds of gaps nor sweeps. The
// record's losses need a copy, and a table that was loaded without a loss counts as swept. The
// caller must own the record.
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

// Raise ends the generation `from` and begins the next one. The argument `gap` holds the reason. It
// writes the table's row first. Then it adopts every unfinished shard with a new epoch, so that no
// older holder can commit (H70). The function `change`, if not nil, alters the record in the same
// write. If the table's generation is already higher than `from`, another process has raised it.
// Then Raise notes the gap and begins no new generation. However, if `change` would still alter the
// record, Raise writes nothing and returns ErrRaised. If Raise fails midway, Adopt completes it.
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
		s.eachFormer(nil, func(f *Former) { f.Contested = false }) // the next load writes all rows again
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

// changes reports whether change would alter the record.
func changes(s TableState, change func(*TableState)) bool {
	before := s
	change(&s)
	return !reflect.DeepEqual(before, s)
}

// Adopt gives every unfinished shard of the table's stream the table's generation and a new epoch
// without an owner. When all these shards have the generation, Adopt records that in the table's
// row. Unfinished shards of an earlier stream are lost, because that stream was replaced (H24). Any
// process may complete an adoption that another process began. Adopt reads the rows even if the
// record reports that all shards have adopted. A process that had not seen the raise may have
// created a row meanwhile.
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
		// Between the two reads another stream may have replaced this one, and the rows read may
		// include its shards.
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
			settled = false // read again: a row may have been created or leased meanwhile
			s.Epoch++
			s.Owner = ""
			s.beat(l.unowned(ctx))
			s.Rate = 0
			if s.Label == state.Label {
				s.Generation = state.Generation
				s.NumberedFrom = s.Applied
			} else {
				s.State, s.Loss, s.Reason = Gap, Replaced, "the stream was replaced before the shard was read to its end"
				s.Noted = true // the gap that replaced the stream counts all its changes
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
			// A process that raised the generation for an operator may never have seen the
			// service's time. A time later than that raise is safe.
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

// ChangedMapping explains why a generation begins under another mapping, and what the table then
// needs.
const ChangedMapping = "the mapping was changed: load all rows again, then sweep those of the old mapping"

// ErrRanked is returned for a mapping without a version attribute if a version attribute already
// ranks the rows. Those rows would permanently refuse writes without a number.
var ErrRanked = errors.New("dual_writes.version_attribute ranks the rows, so it cannot be switched off")

// rankedSuffix ends the hash of a mapping with a version attribute.
const rankedSuffix = "n"

// CheckRanked refuses a mapping that writes no version numbers if the stored mapping writes them.
func CheckRanked(stored, hash string) error {
	if strings.HasSuffix(stored, rankedSuffix) && !strings.HasSuffix(hash, rankedSuffix) {
		return ErrRanked
	}
	return nil
}

// CheckMapping compares the hash of a table's mapping with the stored one. Until the first
// generation begins, it stores any hash, because nothing is written yet. Later it refuses a changed
// mapping with ErrMappingChanged. If `accept` is set, a changed mapping begins a new generation
// instead, because the rows that the old mapping wrote must be asserted again. Then raised is true,
// and the ledger keeps the old mapping until a sweep is complete. After CheckMapping, this process
// takes leases of the table only while the ledger holds this hash (H60).
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

// checkHash returns ErrMappingChanged if another worker has replaced the mapping that this process
// checked.
func (l *Ledger) checkHash(s TableState) error {
	l.mu.Lock()
	hash, checked := l.hashes[s.Source]
	l.mu.Unlock()
	if checked && s.MappingHash != hash {
		return ErrMappingChanged
	}
	return nil
}
