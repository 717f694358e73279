package sim

import (
	"encoding/json"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// strike takes a worker away at the moment at which a write of its to the ledger takes place: what it did before the write is done, and
// what should follow it is not, the answer to the write included. Killing at random instants seldom comes between two writes of one
// decision, and what is unsafe is unsafe there. Common writes are struck seldom, so that the rest of the work goes on.
func (s *simulation) strike(table, key string, before, after *Row) {
	if s.strikes == 0 || table != stateTable {
		return
	}
	p := s.strikes
	if !isTurn(key, before, after) {
		p /= 100
	}
	var record struct{ By string }
	text, ok := after.Value(ledgerFamily, recordColumn)
	if !ok || json.Unmarshal([]byte(text), &record) != nil || !s.World.Chance(p) {
		return
	}
	for _, m := range s.crew {
		if m.worker == nil || m.worker.Name() != record.By || m.worker.Over || m.worker.Dead() {
			continue
		}
		s.World.Inject("worker gone after a ledger write")
		s.World.Tracef("%s goes with its write of %s", m.worker.Name(), key)
		if s.World.Chance(0.25) {
			s.ask(m)
		} else {
			m.worker.Kill()
		}
	}
}

// isTurn tells whether a write of the ledger is a step of something that takes several: anything but a renewal or a checkpoint.
func isTurn(key string, before, after *Row) bool {
	switch {
	case strings.HasPrefix(key, "default/table/"):
		var was, is checkpoint.TableState
		decodeRow(before, &was)
		decodeRow(after, &is)
		return is.Generation != was.Generation || is.Adopted != was.Adopted || is.Label != was.Label || is.GapCount != was.GapCount || is.Load != was.Load
	case strings.HasPrefix(key, "default/shard/"):
		var was, is checkpoint.Shard
		decodeRow(before, &was)
		decodeRow(after, &is)
		return is.State != was.State || is.Generation != was.Generation
	case strings.HasPrefix(key, "default/keeper/"):
		var was, is struct{ Scan json.RawMessage }
		decodeRow(before, &was)
		decodeRow(after, &is)
		return string(is.Scan) != string(was.Scan)
	}
	return false
}

func decodeRow(r *Row, into any) {
	if text, ok := r.Value(ledgerFamily, recordColumn); ok {
		_ = json.Unmarshal([]byte(text), into)
	}
}
