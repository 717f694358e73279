package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// MaxParts bounds the number of parts of each side, because each part has its own sums.
const MaxParts = 16

// Range is a range of rows of a target table.
type Range struct {
	Table string
	sink.Range
}

// Plan is the plan of a comparison. It has two phases, and any worker may process the parts of a
// phase concurrently, in any order. The first phase reads both sides completely. The second phase
// checks the rows of buckets that differ. It is skipped if no bucket differs.
type Plan struct {
	Way Way
	Why string // the reason for choosing Way
	// Segments is the number of segments of the source. Ranges are the ranges of the target.
	Segments int
	Ranges   []Range
	// Key is the key of the sums. It is a secret of the run, so an attacker cannot craft items
	// whose differences cancel out.
	Key   []byte
	Scope Scope
}

// Phases is the number of phases. The phases are numbered from 1.
const Phases = 2

// quietChanges is how many changes a run may see if most buckets should stay equal.
const quietChanges = Buckets / 16

// ChooseWay chooses the way to compare items. Items are read at itemsPerSecond, while
// changesPerSecond arrive. It is a pure function.
func ChooseWay(scope Scope, changesPerSecond float64, items int64, itemsPerSecond float64) (way Way, why string) {
	switch {
	case !scope.Since.IsZero():
		return Live, "rows that changed are read one by one"
	case scope.Sample > 0:
		return Live, "rows of a sample are read one by one"
	}
	takes := float64(items) / max(itemsPerSecond, 1)
	changes := changesPerSecond * takes
	why = fmt.Sprintf("about %.0f changes/s, so about %.0f rows change while %d items are read", changesPerSecond, changes, items)
	if changes > quietChanges {
		return Live, why
	}
	return Quiet, why
}

// NewPlan divides both sides into parts according to the source's size in bytes. Each side has at
// most MaxParts parts.
func (c *Comparison) NewPlan(ctx context.Context, way Way, why string, bytes int64, key []byte) (Plan, error) {
	p := Plan{Way: way, Why: why, Key: key, Scope: c.Scope, Segments: min(backfill.NumberOfParts(bytes, 1), MaxParts)}
	tables := c.Mapping.Tables()
	most := max(1, MaxParts/len(tables))
	for _, table := range tables {
		var ranges []sink.Range
		err := c.retry(ctx, func(ctx context.Context) (err error) {
			ranges, err = backfill.SweepRanges(ctx, c.Target, c.sweeping(table), min(most, p.Segments))
			return err
		})
		if err != nil {
			return Plan{}, err
		}
		for _, r := range ranges {
			p.Ranges = append(p.Ranges, Range{table, r})
		}
	}
	if !c.Scope.Since.IsZero() {
		p.Segments = 0
	}
	return p, nil
}

// Parts returns the number of parts in a phase; 0 if the phase is skipped. The argument
// `differing` is the number of buckets that differ.
func (p Plan) Parts(phase int, differing int) int {
	switch {
	case phase == 1:
		return p.Segments + len(p.Ranges)
	case phase != Phases || differing == 0 || !p.Scope.Since.IsZero():
		return 0
	case p.Way == Live:
		return len(p.Ranges)
	}
	return p.Segments + len(p.Ranges)
}

// Summing reports whether the parts of a phase compute sums.
func (p Plan) Summing(phase int) bool { return phase == 1 && p.Scope.Since.IsZero() }

// subtracts reports whether a part of the first phase reads the target. The sums of such a part are
// subtracted.
func (p Plan) subtracts(index int) bool { return index >= p.Segments }

// Work returns the work of a phase. In the second phase, `picked` holds the buckets that differ.
func (p Plan) Work(c *Comparison, phase int, picked *Picked) *Work {
	w := &Work{Comparison: c, Key: p.Key, Look: true, Addresses: p.Way == Live}
	switch {
	case p.Summing(phase):
		w.Sums, w.Look = NewSums(p.Key), p.Way == Live
	case phase == Phases:
		w.Picked = picked
	}
	return w
}

// Run processes the index-th part of the phase, counted from 0.
func (p Plan) Run(ctx context.Context, w *Work, phase, index int, from Progress) (Progress, []Finding, error) {
	if phase == Phases && p.Way == Live {
		index += p.Segments
	}
	if index < p.Segments {
		return w.source(ctx, index, p.Segments, from)
	}
	at := p.Ranges[index-p.Segments]
	return w.target(ctx, at.Table, at.Range, from)
}

// name describes a part of a phase, without item data.
func (p Plan) name(phase, index int) string {
	if phase == Phases && p.Way == Live {
		index += p.Segments
	}
	if index < p.Segments {
		return fmt.Sprintf("segment %d of %d of %s", index+1, p.Segments, "the source")
	}
	return fmt.Sprintf("range %d of %d of target table %s", index-p.Segments+1, len(p.Ranges), p.Ranges[index-p.Segments].Table)
}

// Blind describes differences that a comparison of the scope cannot find.
func (s Scope) Blind() []string {
	switch {
	case !s.Since.IsZero():
		return []string{
			"items whose changes were never applied, and rows that lost cells, because they have no cell of that time",
			"rows whose cells have artificial times: ttl with expire: gc, lists as cells, and cells of other writers",
		}
	case s.Sample > 0:
		return []string{"differences of items outside the sample"}
	}
	return nil
}

// Compare runs a whole plan in this process, with `atOnce` parts concurrently. It returns the first
// error, and the findings that were made before it. Result.Unread names the parts that were not
// read to their end (V2).
func (c *Comparison) Compare(ctx context.Context, p Plan, atOnce int) (Result, error) {
	result := Result{Source: c.Mapping.Source, Scope: p.Scope, Way: p.Way, Why: p.Why, Began: c.now(ctx), Blind: p.Scope.Blind()}
	sums := NewSums(p.Key)
	picked := &Picked{}
	for phase := 1; phase <= Phases; phase++ {
		total := p.Parts(phase, picked.Len())
		done := make([]*Progress, total)
		g := task.NewGroup(ctx, max(atOnce, 1))
		var mu sync.Mutex
		for index := range total {
			g.Go(p.name(phase, index), func(ctx context.Context) error {
				w := p.Work(c, phase, picked)
				progress, found, err := p.Run(ctx, w, phase, index, Progress{})
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				done[index] = &progress
				result.Findings = append(result.Findings, found...)
				switch {
				case w.Sums == nil:
				case p.subtracts(index):
					sums.Subtract(w.Sums)
				default:
					sums.Add(w.Sums)
				}
				return nil
			})
		}
		err := g.Wait()
		for index, progress := range done {
			if progress == nil {
				result.Unread = append(result.Unread, p.name(phase, index))
				continue
			}
			result.Add(progress.Counts)
		}
		if err != nil {
			return result, err
		}
		picked = sums.Differing(p.Way == Live)
	}
	result.Ended = c.now(ctx)
	result.sort()
	return result, nil
}

func (r *Result) sort() {
	slices.SortFunc(r.Findings, func(a, b Finding) int { return strings.Compare(a.ID(), b.ID()) })
}

// storedPlan is the form of a plan in the ledger, with row keys as bytes.
type storedPlan struct {
	Way      Way           `json:"way"`
	Why      string        `json:"why,omitempty"`
	Segments int           `json:"segments"`
	Ranges   []storedRange `json:"ranges"`
	Key      []byte        `json:"key"`
	Scope    Scope         `json:"scope,omitzero"`
}

type storedRange struct {
	Table string `json:"table"`
	From  []byte `json:"from,omitempty"`
	To    []byte `json:"to,omitempty"`
}

// MarshalJSON returns the form in the ledger.
func (p Plan) MarshalJSON() ([]byte, error) {
	s := storedPlan{Way: p.Way, Why: p.Why, Segments: p.Segments, Key: p.Key, Scope: p.Scope}
	for _, r := range p.Ranges {
		s.Ranges = append(s.Ranges, storedRange{r.Table, []byte(r.From), []byte(r.To)})
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (p *Plan) UnmarshalJSON(data []byte) error {
	var s storedPlan
	if json.Unmarshal(data, &s) != nil {
		return errors.New("not the plan of a verify") // without the data, which holds row keys
	}
	*p = Plan{Way: s.Way, Why: s.Why, Segments: s.Segments, Key: s.Key, Scope: s.Scope}
	for _, r := range s.Ranges {
		p.Ranges = append(p.Ranges, Range{r.Table, sink.Range{From: string(r.From), To: string(r.To)}})
	}
	return nil
}
