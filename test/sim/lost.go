package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// noteMade notes with which beat a witness was made where there was none.
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

// canBeRemade reports whether a witness may come back to a target that is lost now as the ledger knows it. The request that makes one asks for nothing but
// that there is none: executed again, or late, on the target that is empty then, it makes the same one, and nothing could tell that rows are missing. As
// soon as the ledger knows of a later beat, that one is behind.
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

// ledgerBackup is what the state table held at one time.
type ledgerBackup struct {
	rows map[string]*model.Row
	at   time.Time
}

// belongs reports whether a target that was set back since is taken for its own by a ledger as it was: both are of one beat, and what was applied within it may
// be in the ledger alone. Nothing could tell that, and no backups of both are so close.
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

// loseLedger empties the ledger, or sets it back. Everybody is stopped first and what they have sent has arrived: counters of a ledger
// that was exchanged under its writers mean nothing.
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
			return // only clocks would tell the next ledger above which generation to begin, and here they may be wrong
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
		return // what is read again from then may be older than tombstones
	}
	from := &ledgerBackup{s.Target.Snapshot(model.StateTable), s.World.Now()}
	s.later(s.span(e, 10*time.Hour), func() { s.loseLedger(from) })
}

// exchangeLedger puts another ledger in place of the workers': one that begins as a copy and has its own name, as a pipeline that was set up
// from a backup of this one.
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
