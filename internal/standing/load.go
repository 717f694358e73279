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

// Load describes the load of a table.
type Load struct {
	State  LoadState
	Needed bool // changes or rows are missing until a load ends
	// UnderWay reports whether a load was requested and is not complete.
	UnderWay bool
	// Over reports whether all items are loaded, and swept if a sweep is needed.
	Over bool
	// Waits is why a needed load does not start automatically. It is "" if the load starts
	// automatically, or if no load is needed.
	Waits string
	// Leads is the command that starts a needed load, without the word replicator (see Command). It
	// is "" if a load is in progress or starts automatically.
	Leads string
	// FirstIntoOwn reports whether the next load is the first load into a target that only this
	// migration writes. Such a load needs no sweep.
	FirstIntoOwn bool
}

// LoadOf judges the load of a table. The argument `again` reports whether loads after a gap start
// automatically.
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

// afterSweep returns the command to run after a complete sweep that left rows of unknown origin.
// Another load of this generation would find the same rows. A verify lists these rows, and a repair
// removes the rows of this migration. The load of a new generation proves that no such row is left.
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

// Lost reports whether changes or rows are missing until a load ends, according to a table's
// record.
func Lost(s checkpoint.TableState) bool { return s.NeedsLoad }

// needed reports whether changes or rows are missing until a load ends, and why. Either the table's
// record says so, or only the rows of shards do. In the second case the worker that found the gap
// ended before it declared the gap.
func needed(f Facts) (yes bool, why string, gaps []checkpoint.Shard) {
	yes, why = f.Table.NeedsLoad, f.Table.Reason
	if reason, moved := f.movedBack(); moved {
		yes, why = true, reason
	}
	for _, s := range f.Shards {
		if s.Undeclared(f.Table) {
			yes, why, gaps = true, s.Reason, append(gaps, s)
		}
	}
	return yes, why, gaps
}
