package sim

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// An operator repairs rows beside the stream, loads and sweeps: rows that only differ because a
// change is in flight, and rows as he saw them long ago. The checkers compare each write with the
// item's history (I2, I8, I9). After the faults he repairs the damaged rows that a verify found.
// All of them must be repaired, and no other row may change.

// repairs lets an operator repair some rows from time to time, as he saw them minutes before.
func (s *simulation) repairs(ctx context.Context) {
	if !s.options.Verifies {
		return
	}
	rng := stream(s.plan.seed, "repairer")
	for task.Sleep(ctx, time.Duration((5+90*rng.Float64())*float64(time.Minute))) == nil && !s.peaceful {
		found := s.sighted(rng)
		if task.Sleep(ctx, time.Duration(rng.Float64()*rng.Float64()*float64(10*time.Minute))) != nil {
			return
		}
		limited, cancel := task.WithTimeout(ctx, 30*time.Minute)
		d, err := s.repairAll(limited, found)
		cancel()
		s.World.Tracef("the operator repairs %d rows: %d are repaired, %v", len(found), d.Repaired, err)
		if d.Repaired > 0 {
			s.World.Inject("row repaired beside the load")
		}
	}
}

// sighted returns findings about rows of some items, whether they differ or not: at current,
// former, and wrong addresses.
func (s *simulation) sighted(rng *rand.Rand) []verify.Finding {
	var found []verify.Finding
	keys := slices.Sorted(maps.Keys(s.rec.latest))
	for range 1 + rng.IntN(4) {
		if len(keys) == 0 {
			break
		}
		last := s.rec.latest[keys[rng.IntN(len(keys))]]
		images := []attribute.Item{last.Old, last.New}
		item := last.New
		if !item.Exists() {
			item = last.Old
		}
		if !item.Exists() {
			continue
		}
		for _, at := range sink.Removals(s.Mapping, s.Mapping.Keys(item), images) {
			held := heldBy(s.Target.Row(at.Table, at.Row), at.Owner)
			found = append(found, verify.Finding{Source: s.Source.Name, Table: at.Table, Row: at.Row, Owner: at.Owner, Keys: s.Mapping.Keys(item), Kind: verify.Different, Version: transform.Version(held)})
		}
	}
	return found
}

// repairAll runs the second half of the command.
func (s *simulation) repairAll(ctx context.Context, found []verify.Finding) (repair.Document, error) {
	target := &hasty{Target: model.Target{Bigtable: s.Target}, s: s}
	r, err := repair.Of(ctx, s.config(), s.Entry, desk{s}, target, "cannot repair")
	if err != nil {
		return repair.Document{}, err
	}
	defer r.Leave(ctx)
	return repair.Findings(ctx, r.Repairer, found, slog.New(slog.DiscardHandler))
}

// repairInPeace repairs the rows that a verify found, and checks the result. Each row that is left
// must have a reason.
func (s *simulation) repairInPeace(found []verify.Finding) {
	if len(found) == 0 || s.bad() {
		return
	}
	before := map[string]*model.Row{}
	for _, table := range s.Mapping.Tables() {
		for key, row := range s.Target.Snapshot(table) {
			before[table+"/"+key] = row
		}
	}
	about, nobodys := map[string]bool{}, map[string]bool{}
	for _, f := range found {
		nobodys[f.Table+"/"+f.Row] = nobodys[f.Table+"/"+f.Row] || !f.Keys.Exists() || f.Version == ""
		about[f.Table+"/"+f.Row] = true
		s.rec.strange[rowID{f.Table, f.Row}] = true
	}
	p, done := s.World.NewProcess("repairer in peace"), s.World.NewEvent()
	var d repair.Document
	var err error
	p.Go("repair", func() { defer done.Set(); d, err = s.repairAll(p.Context(), found) })
	if waited := done.Wait(s.ctx); waited != nil {
		return
	}
	state := s.State()
	if err != nil || d.NotReached > 0 {
		// No generation accepts a row without a version then.
		if s.bad() || state.Generation != state.Adopted || !state.Loaded() {
			return
		}
		s.fail("I9", "a repair in peace fails: %v, %+v", err, d)
		return
	}
	if d.Repaired > 0 {
		s.World.Inject("row repaired in peace")
	}
	defer s.forgetStrange()
	left := map[string]string{}
	for _, row := range d.Left {
		left[row.RowHash] = row.Outcome
	}
	wrong := s.wrongRows()
	for at := range inOrder(about) {
		table, row, _ := strings.Cut(at, "/")
		outcome := left[sink.HashOf(at)]
		switch {
		case s.doubtful(table, row), outcome == string(sink.Foreign) && nobodys[at], outcome == string(sink.Unmappable), outcome == string(sink.Exhausted):
		case wrong[at]:
			s.fail("I9", "row %q is not as it should be after its repair (%s)", row, outcome)
		case outcome == string(sink.MovedOn):
			s.fail("I9", "row %q moved on in peace", row)
		}
	}
	for _, table := range s.Mapping.Tables() {
		for key, row := range s.Target.Snapshot(table) {
			at := table + "/" + key
			if !about[at] && row != before[at] && !strings.HasPrefix(key, transform.WitnessPrefix) {
				s.fail("I9", "a repair touches row %q, of which nothing was found", key)
			}
		}
	}
}

// forgetStrange removes rows of another writer that a repair has emptied. They never had an item,
// and the final checks do not know them.
func (s *simulation) forgetStrange() {
	for _, table := range s.Mapping.Tables() {
		for _, key := range slices.Clone(s.Target.Rows(table)) {
			if id := (rowID{table, key}); s.rec.strange[id] && s.rec.rows[id] == nil {
				s.Target.Hurt(table, key, nil)
			}
		}
	}
}

// checkSampled: rows that workers report as different, among those just applied, do differ.
func (s *simulation) checkSampled(after *model.Row) {
	record := recordOf[struct {
		Findings []json.RawMessage `json:"findings"`
	}](after)
	for _, text := range record.Findings {
		if s.sampled[string(text)] {
			continue
		}
		s.sampled[string(text)] = true
		var f verify.Finding
		if err := json.Unmarshal(text, &f); err != nil {
			s.fail("I9", "a row that is known to differ: %v", err)
			continue
		}
		s.World.Inject("sample differs")
		if heldBy(s.Target.Row(f.Table, f.Row), f.Owner) != string(f.Version) || s.doubtful(f.Table, f.Row) || s.wrongRows()[f.Table+"/"+f.Row] {
			continue
		}
		if f.Keys.Exists() {
			if _, id := s.Source.KeyOf(f.Keys); s.World.Now().Sub(s.rec.latest[id].At) < 10*time.Minute {
				continue // its item changed meanwhile
			}
		}
		s.fail("I9", "a comparison of what was applied found row %q %s, which is as it should be", f.Row, f.Kind)
	}
}
