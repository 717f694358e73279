package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// noteMade records the counter with which a missing witness was created.
func (s *simulation) noteMade(table, key string, before, after *model.Row) {
	if table == model.StateTable || !strings.HasPrefix(key, transform.WitnessPrefix) {
		return
	}
	if _, found := s.witness(before); found {
		return
	}
	if w, found := s.witness(after); found {
		s.made[table+"/"+key] = w.Beat
	}
}

// canBeRemade reports whether a witness may be recreated in a lost target exactly as the ledger
// knows it. The request that creates one only requires that there is none. Executed again, or late,
// on the empty target, it creates the same witness, and nothing shows that rows are missing. Once
// the ledger knows a later update, the recreated witness is behind.
func (s *simulation) canBeRemade() bool {
	if s.Target.Twice == 0 && s.Target.Late == 0 {
		return false
	}
	for _, w := range s.witnesses() {
		if made, found := s.made[w.table+"/"+w.key]; found && w.beat <= made {
			return true
		}
	}
	return false
}

// ledgerBackup is the content of the state table at one time.
type ledgerBackup struct {
	rows map[string]*model.Row
	at   time.Time
}

// belongs reports whether a ledger that was set back would accept a target that was set back as its
// own. Both are from the same update of the witness, and changes applied after it may be only in
// the ledger. Nothing could detect that, but real backups of both are never so close in time.
func (s *simulation) belongs(b *ledgerBackup) bool {
	if !s.targetLost().After(b.at) {
		return false
	}
	own := recordOf[pipelineRecord](b.rows["default/pipeline"]).Ledger
	then := func(m *Migration) checkpoint.TableState {
		return *recordOf[checkpoint.TableState](b.rows["default/table/"+m.Source.Name])
	}
	return slices.ContainsFunc(s.witnessesBy(then), func(at witnessRow) bool {
		w, found := s.witness(s.Target.Row(at.table, at.key))
		return found && checkpoint.Judge(w, found, own, checkpoint.TableState{Generation: at.generation, WitnessBeat: at.beat}) == checkpoint.Fine
	})
}

// loseLedger empties the ledger, or sets it back. All processes are stopped first, and their
// requests have arrived, because counters are meaningless if a ledger is exchanged under its
// writers.
func (s *simulation) loseLedger(from *ledgerBackup) {
	const quiet = time.Minute
	for _, m := range s.crew {
		m.away = max(m.away, s.World.Elapsed()+s.Target.LateBy+3*quiet)
		m.worker.Kill()
	}
	s.healthy = max(s.healthy, s.World.Elapsed()+s.Target.LateBy+3*quiet)
	s.loads.leave(s.healthy)
	s.later(s.Target.LateBy+2*quiet, func() {
		if !s.witnessed() {
			return // only clocks would show above which generation the next ledger begins, and here they may be wrong
		}
		if from != nil && s.belongs(from) {
			return
		}
		if from == nil {
			s.World.Inject("ledger lost")
			s.World.Tracef("the ledger is lost")
			s.LoseLedger()
		} else {
			s.World.Inject("ledger restored")
			s.World.Tracef("the ledger is restored")
			s.Target.Restore(model.StateTable, from.rows)
		}
	})
}

func (s *simulation) restoreLedger(e event) {
	if s.TombstoneAge > 0 {
		return // the changes since then may be older than tombstones
	}
	from := &ledgerBackup{s.Target.Snapshot(model.StateTable), s.World.Now()}
	s.later(s.span(e, 10*time.Hour), func() { s.loseLedger(from) })
}

// exchangeLedger replaces the workers' ledger by another that begins as a copy with its own name,
// like a pipeline created from a backup of this one.
func (s *simulation) exchangeLedger(e event) {
	if s.TombstoneAge > 0 {
		return // as in restoreLedger
	}
	from := &ledgerBackup{s.Target.Snapshot(model.StateTable), s.World.Now()}
	if !replaceText(from.rows, "default/pipeline", model.LedgerFamily, "ledger-", "other-") {
		return
	}
	s.later(s.span(e, 10*time.Hour), func() { s.World.Inject("ledger exchanged"); s.loseLedger(from) })
}

// loseTarget empties the target tables.
func (s *simulation) loseTarget(event) {
	if s.canBeRemade() {
		return
	}
	s.World.Inject("target lost")
	s.LoseTarget()
}
