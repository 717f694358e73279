package standing

import "github.com/dynamodb-bigtable/replicator/checkpoint"

// LoadState is the state of a table's load.
type LoadState string

const (
	LoadNotStarted LoadState = "not_started"
	LoadAsked      LoadState = "asked"
	LoadCopying    LoadState = "copying"
	LoadSweeping   LoadState = "sweeping"
	LoadApproval   LoadState = "waiting_for_approval"
	LoadDone       LoadState = "done"
)

// Load is the judged load of a table.
type Load struct {
	State  LoadState
	Needed bool // changes or rows are missing until a load ends
	// UnderWay says that the load was requested and is not over.
	UnderWay bool
	// Over says that everything is loaded, and swept if a sweep is needed.
	Over bool
	// Waits is the reason why a needed load does not start automatically; "" if it does, or if none
	// is needed.
	Waits string
	// Leads is the command to run, in the form of Command, if a load is needed and none is in
	// progress; "" if the load starts automatically.
	Leads string
	// FirstIntoOwn says that the next load is the first one into a target of only this pipeline,
	// which needs no sweep.
	FirstIntoOwn bool
}

// LoadOf judges the load of a table. Again says that a load after a gap starts automatically.
func LoadOf(s checkpoint.TableState, again bool) Load {
	l := Load{State: loadStateOf(s), Needed: s.NeedsLoad, FirstIntoOwn: s.MadeByUs && s.Base == 0 && !s.NeedsLoad}
	l.UnderWay = l.State != LoadNotStarted && l.State != LoadDone
	l.Over = !s.NeedsLoad && (l.State == LoadDone || l.State == LoadNotStarted && s.Generation > 0 && s.Base == s.Generation)
	if s.NeedsLoad && !l.UnderWay {
		if asks, waits := s.AsksItself(false, again); !asks {
			l.Waits = waits
		}
		switch {
		case l.State == LoadDone:
			l.Leads = afterSweep(s)
		case l.Waits != "":
			l.Leads = repairGap
		}
	}
	return l
}

// afterSweep returns the command to run if a load and its sweep are over and left rows that they
// cannot judge. Another load of this generation would find the same rows. A verify names them, a
// repair removes those of this migration, and the load of a new generation proves that none is
// left.
func afterSweep(s checkpoint.TableState) string {
	r := s.Verify.Result
	switch {
	case !r.Known() || r.Generation != s.Generation || !r.EndedAt.After(s.Load.SweptAt):
		return list
	case r.Differing() == 0, s.Apply == checkpoint.Topic:
		return redo
	case r.Differing() == r.Foreign:
		return foreign
	}
	return repair
}

func loadStateOf(s checkpoint.TableState) LoadState {
	switch s.Stage() {
	case checkpoint.StageAsked:
		return LoadAsked
	case checkpoint.StageCopying:
		return LoadCopying
	case checkpoint.StageSweeping:
		if s.Load.Sweep.Waiting {
			return LoadApproval
		}
		return LoadSweeping
	case checkpoint.StageOver:
		return LoadDone
	}
	return LoadNotStarted
}

// Lost reports whether a table's record says that changes or rows are missing until a load ends.
func Lost(s checkpoint.TableState) bool { return s.NeedsLoad }

// needed reports whether changes or rows are missing until a load ends, and why. Either the record
// says so, or only the rows of shards do, because the worker that found the gap ended before it
// declared it.
func needed(f Facts) (yes bool, why string, gaps []checkpoint.Shard) {
	yes, why = f.Table.NeedsLoad, f.Table.Reason
	for _, s := range f.Shards {
		if s.Undeclared(f.Table) {
			yes, why, gaps = true, s.Reason, append(gaps, s)
		}
	}
	return yes, why, gaps
}
