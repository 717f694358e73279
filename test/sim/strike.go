package sim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// strike kills a worker at the moment when one of its ledger writes is executed. What it did before
// the write is done. What should follow is not done, and the write's answer is lost. Kills at
// random instants seldom hit between two writes of one decision, where unsafe code fails. Frequent
// writes are seldom struck, so that other work continues.
func (s *simulation) strike(table, key string, before, after *model.Row) {
	family, turn := model.LedgerFamily, table == model.StateTable && isTurn(key, before, after)
	if table != model.StateTable && strings.HasPrefix(key, transform.WitnessPrefix) {
		family, turn = sink.LiveFamily, isClaim(before, after)
	} else if table != model.StateTable {
		return
	}
	if turn {
		s.freeze()
	}
	p := s.strikes
	if turn && table != model.StateTable {
		p = min(1, 3*p) // claims are rare
	}
	if !turn {
		p /= 100
	}
	text, ok := after.Value(family, model.RecordColumn)
	// The data of a verify is not a record.
	if !ok || strings.Contains(key, "/data/") || !s.World.Chance(p) {
		return
	}
	var record struct{ By string }
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		panic(err)
	}
	for _, m := range s.crew {
		if m.worker == nil || m.worker.Name() != record.By || m.worker.Over || m.worker.Dead() {
			continue
		}
		s.World.Inject("worker gone after a ledger write")
		s.World.Tracef("%s goes with its write of %.120s", m.worker.Name(), key)
		if s.World.Chance(0.25) {
			s.ask(m)
		} else {
			m.worker.Kill()
		}
	}
}

// freeze pauses a worker, often another than the writer, at one step of a decision with several
// steps. It acts afterwards on what it read before.
func (s *simulation) freeze() {
	if !s.World.Chance(s.stills) {
		return
	}
	m := s.crew[s.World.Rand().IntN(len(s.crew))]
	if m.worker == nil || m.worker.Over || m.worker.Dead() || s.World.Elapsed() < m.paused {
		return
	}
	s.World.Inject("worker stood still at a ledger write")
	s.pause(m, s.World.UpTo(s.limit(2*s.Lease)))
}

// isClaim reports whether a witness is created, or taken over from another ledger or generation.
func isClaim(before, after *model.Row) bool {
	var was, is checkpoint.Witness
	text, found := before.Value(sink.LiveFamily, model.RecordColumn)
	if found && json.Unmarshal([]byte(text), &was) != nil {
		return false
	}
	text, _ = after.Value(sink.LiveFamily, model.RecordColumn)
	return json.Unmarshal([]byte(text), &is) == nil && (!found || was.Ledger != is.Ledger || was.Generation != is.Generation)
}

// isTurn reports whether a ledger write is a step of a decision with several steps: any write
// except a renewal or a checkpoint.
func isTurn(key string, before, after *model.Row) bool {
	switch {
	case strings.HasPrefix(key, "default/table/"):
		was, is := recordOf[checkpoint.TableState](before), recordOf[checkpoint.TableState](after)
		return is.Generation != was.Generation || is.Adopted != was.Adopted || is.Label != was.Label || is.GapCount != was.GapCount || !reflect.DeepEqual(is.Load, was.Load)
	case strings.HasPrefix(key, "default/shard/"):
		was, is := recordOf[shardRecord](before), recordOf[shardRecord](after)
		return is.State != was.State || is.Generation != was.Generation
	case strings.HasPrefix(key, "default/part/"):
		return recordOf[checkpoint.Part](before).State != recordOf[checkpoint.Part](after).State
	}
	return false
}

// recordOf is like decoded, but returns an empty record for a missing row.
func recordOf[T any](r *model.Row) *T {
	if record, ok := decoded[T](r); ok {
		return record
	}
	return new(T)
}

// rival rewrites the table's record just before another process's compare-and-set of it, like a
// worker, a command or an operator that records something unimportant. The compare-and-set must
// then be repeated with the current record. By chance, two such writes seldom meet within one round
// trip.
func (s *simulation) rival(op, table, key string) {
	if s.rivals == 0 || op != "Swap" || table != model.StateTable || !strings.HasPrefix(key, "default/table/") || !s.World.Chance(s.rivals) {
		return
	}
	row := s.Target.Row(table, key)
	counter, ok := row.Value(model.LedgerFamily, model.CounterColumn)
	text, _ := row.Value(model.LedgerFamily, model.RecordColumn)
	if !ok {
		return
	}
	n, err := strconv.ParseUint(counter, 10, 64)
	record := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal([]byte(text), &record) != nil {
		panic("sim: a record of a table that is none")
	}
	s.written++
	record["by"], record["n"] = json.RawMessage(`"rival"`), json.RawMessage(strconv.Itoa(s.written))
	data, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	s.World.Inject("rival write of a table's record")
	s.World.Tracef("a rival writes the table's record")
	_, _ = s.Target.Execute("Swap", table, key, nil, []model.Mutation{
		{Kind: model.SetCell, Family: model.LedgerFamily, Qualifier: model.CounterColumn, Value: strconv.FormatUint(n+1, 10)},
		{Kind: model.SetCell, Family: model.LedgerFamily, Qualifier: model.RecordColumn, Value: string(data)},
	})
}
