package sim

import (
	"encoding/json"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// strike takes a worker away at the moment at which a write of its to the ledger takes place: what it did before the write is done, and
// what should follow it is not, the answer to the write included. Killing at random instants seldom comes between two writes of one
// decision, and what is unsafe is unsafe there. Common writes are struck seldom, so that the rest of the work goes on.
func (s *simulation) strike(table, key string, before, after *Row) {
	family, turn := ledgerFamily, table == stateTable && isTurn(key, before, after)
	if table != stateTable && strings.HasPrefix(key, transform.WitnessPrefix) {
		family, turn = sink.LiveFamily, isClaim(before, after)
	} else if table != stateTable {
		return
	}
	if turn {
		s.freeze()
	}
	p := s.strikes
	if turn && table != stateTable {
		p = min(1, 3*p) // claims are rare
	}
	if !turn {
		p /= 100
	}
	text, ok := after.Value(family, recordColumn)
	if !ok || !s.World.Chance(p) {
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

// freeze stops a worker for a while, often another than the one that writes, while a step is made of something that takes several: what it read before it, it acts
// on after it.
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

// isClaim tells whether a witness is made, or taken from another ledger or generation.
func isClaim(before, after *Row) bool {
	var was, is checkpoint.Witness
	text, found := before.Value(sink.LiveFamily, recordColumn)
	if found && json.Unmarshal([]byte(text), &was) != nil {
		return false
	}
	text, _ = after.Value(sink.LiveFamily, recordColumn)
	return json.Unmarshal([]byte(text), &is) == nil && (!found || was.Ledger != is.Ledger || was.Generation != is.Generation)
}

// isTurn tells whether a write of the ledger is a step of something that takes several: anything but a renewal or a checkpoint.
func isTurn(key string, before, after *Row) bool {
	switch {
	case strings.HasPrefix(key, "default/table/"):
		was, is := recordOf[checkpoint.TableState](before), recordOf[checkpoint.TableState](after)
		return is.Generation != was.Generation || is.Adopted != was.Adopted || is.Label != was.Label || is.GapCount != was.GapCount || is.Load != was.Load
	case strings.HasPrefix(key, "default/shard/"):
		was, is := recordOf[shardRecord](before), recordOf[shardRecord](after)
		return is.State != was.State || is.Generation != was.Generation
	case strings.HasPrefix(key, "default/keeper/"):
		return string(recordOf[seatRecord](before).Scan) != string(recordOf[seatRecord](after).Scan)
	}
	return false
}

// recordOf is decoded, with an empty record for a row that is not there.
func recordOf[T any](r *Row) *T {
	if record, ok := decoded[T](r); ok {
		return record
	}
	return new(T)
}
