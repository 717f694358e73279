package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Formers holds the earlier mappings of a table while rows or columns that they wrote may exist
// (H102). It rebuilds these mappings from the ledger, without families that the target tables no
// longer have.
type Formers struct {
	Source  string
	Ledger  *checkpoint.Ledger
	Mapping *transform.Mapping // the current mapping
	// Families lists the families of target tables. It is nil if this process cannot list them.
	Families sink.Families
	Restore  func(text string) (*transform.Mapping, error)

	mu sync.Mutex
	// made holds mappings by their texts; nil for a mapping that cannot be rebuilt.
	made   map[string]*transform.Mapping
	listed map[string][]string // families by target table
	whole  bool                // the families of every table could be listed
	looked time.Duration       // when the families were last listed; 0 if never
	over   uint32              // the last generation in which no former mapping is left
}

// MappingOf returns a mapping in the form in which the ledger stores it.
func MappingOf(m *transform.Mapping, hash string) checkpoint.Mapping {
	return checkpoint.Mapping{Hash: hash, Text: m.Describe(), Tables: m.Tables()}
}

// relist is the time after which the families are listed again.
const relist = time.Minute

// See stores what Formers needs from a record of the table.
func (f *Formers) See(state checkpoint.TableState) {
	if len(state.Former) > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = max(f.over, state.Generation)
}

func (f *Formers) isOver(generation uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over >= generation
}

// Of returns the former mappings in a record of the table, the oldest first. If a mapping cannot be
// rebuilt, its rows cannot be found. Of then records this in the ledger.
func (f *Formers) Of(ctx context.Context, state checkpoint.TableState) ([]sink.Former, error) {
	var all []sink.Former
	for _, kept := range state.Former {
		if kept.Text == "" {
			continue
		}
		m := f.make(kept.Text)
		if m == nil {
			if err := f.note(ctx, func(s *checkpoint.TableState) { s.Unknow(kept.Hash) }); err != nil {
				return nil, err
			}
			continue
		}
		all = append(all, sink.Former{Mapping: m})
	}
	if len(all) == 0 {
		return nil, nil
	}
	listed, err := f.list(ctx, all, false)
	for i := range all {
		all[i].Families = listed
	}
	return all, err
}

func (f *Formers) make(text string) *transform.Mapping {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, known := f.made[text]
	if !known && f.Restore != nil {
		var err error
		if m, err = f.Restore(text); err != nil || m.Source != f.Source {
			m = nil
		}
	}
	if f.made == nil {
		f.made = map[string]*transform.Mapping{}
	}
	f.made[text] = m
	return m
}

func (f *Formers) note(ctx context.Context, change func(*checkpoint.TableState)) error {
	_, err := f.Ledger.UpdateTable(ctx, f.Source, func(s *checkpoint.TableState) error { change(s); return nil })
	return err
}

// list returns the families of all target tables, including those of the current mapping. A table
// that does not exist has no families. If the families are unknown, the result is nil.
func (f *Formers) list(ctx context.Context, all []sink.Former, anew bool) (map[string][]string, error) {
	if f.Families == nil {
		return nil, nil
	}
	tables := slices.Clone(f.Mapping.Tables())
	for _, former := range all {
		tables = append(tables, former.Mapping.Tables()...)
	}
	slices.Sort(tables)
	tables = slices.Compact(tables)
	f.mu.Lock()
	listed, whole, looked := f.listed, f.whole, f.looked
	f.mu.Unlock()
	now := max(task.Mono(ctx), 1)
	unknown := func(table string) bool { _, known := listed[table]; return !known }
	if anew || looked == 0 || now-looked >= relist || whole && slices.ContainsFunc(tables, unknown) {
		listed, whole = map[string][]string{}, true
		for _, table := range tables {
			names, err := f.Families.ListFamilies(ctx, table)
			var e *sink.Error
			switch {
			case Coded(err, "NotFound"):
				names = nil
			case errors.As(err, &e) && (e.Reason == sink.Denied || e.Code == "Unimplemented"):
				whole = false
			case err != nil:
				return nil, err
			}
			listed[table] = names
		}
		f.mu.Lock()
		f.listed, f.whole, f.looked = listed, whole, now
		f.mu.Unlock()
	}
	if !whole {
		return nil, nil
	}
	return listed, nil
}

// Inherit adds deletions of cells that former mappings left in the batch's rows. If cells cannot be
// deleted, it records this in the ledger before the batch is written.
func (f *Formers) Inherit(ctx context.Context, all []sink.Former, generation uint32, b *transform.Batch) error {
	if len(all) == 0 || f.isOver(generation) {
		return nil
	}
	contested := sink.Inherit(f.Mapping, all, b)
	if len(contested) == 0 {
		return nil
	}
	return f.note(ctx, func(s *checkpoint.TableState) {
		for _, kept := range s.Former {
			if m := f.make(kept.Text); m != nil && slices.Contains(contested, m) && !kept.Contested {
				s.Contest(kept.Hash)
			}
		}
	})
}

// Lighten removes deletions of missing families from a batch that the target has rejected.
func (f *Formers) Lighten(ctx context.Context, all []sink.Former, b *transform.Batch) {
	if len(all) == 0 {
		return
	}
	if listed, err := f.list(ctx, all, true); err == nil && listed != nil {
		sink.Disinherit(f.Mapping, listed, b)
	}
}

// Tables returns, in order, the existing target tables that only former mappings name. A table that
// no longer exists needs no cleanup, and Tables records this in the ledger.
func (f *Formers) Tables(ctx context.Context, all []sink.Former) ([]string, error) {
	var tables []string
	for _, former := range all {
		for _, table := range former.Mapping.Tables() {
			if slices.Contains(f.Mapping.Tables(), table) || slices.Contains(tables, table) {
				continue
			}
			if former.Families != nil && len(former.Families[table]) == 0 {
				if err := f.note(ctx, func(s *checkpoint.TableState) { s.Miss(table) }); err != nil {
					return nil, err
				}
				continue
			}
			tables = append(tables, table)
		}
	}
	slices.Sort(tables)
	return tables, nil
}

// missing reports whether a target table certainly does not exist.
func (f *Formers) missing(ctx context.Context, table string) bool {
	if f.Families == nil {
		return false
	}
	_, err := f.Families.ListFamilies(ctx, table)
	return Coded(err, "NotFound")
}

// Vanishing reads a former target table for a sweep. A table that was deleted meanwhile reads as
// empty.
type Vanishing struct{ sink.MarkReader }

func (v Vanishing) ReadMarks(ctx context.Context, table string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error {
	err := v.MarkReader.ReadMarks(ctx, table, r, unmarked, limit, f)
	if Coded(err, "NotFound") {
		return nil
	}
	return err
}

func Coded(err error, code string) bool {
	var e *sink.Error
	return errors.As(err, &e) && e.Code == code
}
