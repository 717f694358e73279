package standing

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

const lease = 15 * time.Second

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// reading returns a shard that a worker found empty a second ago.
func reading(id string) checkpoint.Shard {
	s := checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Reading, Owner: "w", CaughtUp: true, ReadAt: ago(time.Second), AppliedTo: ago(time.Second), FirstRead: ago(time.Hour)}
	s.WrittenAt = ago(time.Second)
	return s
}

// readAgo returns a shard that was found empty some time ago, and whose owner wrote its row a
// second ago.
func readAgo(id string, d time.Duration) checkpoint.Shard {
	s := reading(id)
	s.ReadAt, s.AppliedTo, s.FirstRead = ago(d), ago(d), ago(100*time.Hour)
	return s
}

// inSync returns the facts of a table that is in sync.
func inSync() Facts {
	return Facts{
		Table: checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7, Base: 7,
			Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: ago(time.Hour), DoneAt: ago(50 * time.Minute), SweptAt: ago(40 * time.Minute)}},
		Named: true, Shards: []checkpoint.Shard{reading("s")}, Coordinator: checkpoint.Heartbeat{WrittenAt: ago(time.Second)}, Lease: lease, Now: noon,
	}
}

// facts returns the facts of a table in sync, with one change.
func facts(change func(f *Facts)) Facts {
	f := inSync()
	change(&f)
	return f
}

// cases has at least one case for each state and reason.
var cases = []struct {
	name   string
	change func(f *Facts)
	state  State
	reason Reason
	since  time.Time // zero: not checked
	next   string    // without the first word; "" if there is none
}{
	{"in sync", func(*Facts) {}, InSync, "", ago(40 * time.Minute), ""},
	{"in sync, since a shard was last behind", func(f *Facts) { f.Shards[0].Sighted.BehindAt = ago(time.Minute) }, InSync, "", ago(time.Minute), ""},

	{"done", step(checkpoint.CutoverDone), Done, "", ago(time.Minute), "finalize --dry-run"},
	{"finalized", func(f *Facts) {
		step(checkpoint.CutoverDone)(f)
		f.Cutover.FinalizedAt = noon
	}, Done, finalized, ago(time.Minute), ""},
	{"of another table", func(f *Facts) {
		step(checkpoint.CutoverDone)(f)
		f.Cutover.Tables = []string{"Billing"}
	}, InSync, "", time.Time{}, ""},
	{"watched", step(checkpoint.CutoverWatching), Cutover, watching, ago(time.Minute), "cutover status"},
	{"watched while a rollback checks its gates", rollback(checkpoint.CutoverChecks, func(r *checkpoint.Cutover) { r.FreezeBegunAt = time.Time{} }), Cutover, watching, ago(time.Minute), "cutover status"},
	{"frozen by a rollback", rollback(checkpoint.CutoverDrain, nil), Cutover, Reason(checkpoint.CutoverDrain), ago(30 * time.Second), "cutover status"},
	{"being moved back", rollback(checkpoint.CutoverSwitching, nil), Cutover, Reason(checkpoint.CutoverSwitching), ago(30 * time.Second), "cutover status"},
	{"a rollback is being cancelled", rollback(checkpoint.CutoverCancelling, nil), Cutover, Reason(checkpoint.CutoverCancelling), ago(30 * time.Second), "cutover status"},
	{"watched after a cancelled rollback", rollback(checkpoint.CutoverCancelled, nil), Cutover, watching, ago(time.Minute), "cutover status"},
	{"moved back", movedBack(nil), NeedsLoad, rolledBack, ago(10 * time.Second), ""},
	{"moved back, of another table", movedBack(func(f *Facts) { f.Cutover.Tables = []string{"Billing"} }), InSync, "", time.Time{}, ""},
	{"moved back, and ready for a load", movedBack(func(f *Facts) {
		gap(checkpoint.KindRolledBack, 8)(f)
		f.Table.Halt.Over, f.Table.Load, f.Table.Base = 2, checkpoint.Load{}, 7
	}), NeedsLoad, rolledBack, ago(time.Minute), ""},
	{"moved back, and loaded", movedBack(func(f *Facts) { f.Table.Halt.Over = 2 }), InSync, "", ago(40 * time.Minute), ""},
	{"being switched", step(checkpoint.CutoverSwitching), Cutover, Reason(checkpoint.CutoverSwitching), ago(time.Hour), "cutover status"},
	{"frozen", step(checkpoint.CutoverDrain), Cutover, Reason(checkpoint.CutoverDrain), ago(time.Hour), "cutover status"},
	{"being cancelled", step(checkpoint.CutoverCancelling), Cutover, Reason(checkpoint.CutoverCancelling), ago(time.Hour), "cutover status"},
	{"cancelled", step(checkpoint.CutoverCancelled), InSync, "", time.Time{}, ""},
	{"before the freeze", func(f *Facts) {
		step(checkpoint.CutoverChecks)(f)
		f.Cutover.FreezeBegunAt = time.Time{}
	}, InSync, "", time.Time{}, ""},
	{"rehearsed, which freezes nothing", func(f *Facts) {
		step(checkpoint.CutoverVerify)(f)
		f.Cutover.FreezeBegunAt, f.Cutover.Rehearse = time.Time{}, true
	}, InSync, "", time.Time{}, ""},

	{"the ledger was read three leases ago", func(f *Facts) { f.ReadAt = ago(3 * lease) }, InSync, "", time.Time{}, ""},
	{"and before that", func(f *Facts) { f.ReadAt = ago(3*lease + 1) }, Unknown, ledgerUnreadable, ago(3*lease + 1), "status"},
	{"target lost", doubt(TargetLost), Unknown, TargetLost, ago(time.Minute), "run"},
	{"target unreadable", doubt(TargetUnreadable), Unknown, TargetUnreadable, ago(time.Minute), "plan"},
	{"another cluster", doubt(OtherCluster), Unknown, OtherCluster, ago(time.Minute), "failover --dry-run"},
	{"read in the future", func(f *Facts) {
		f.Shards[0].ReadAt, f.Shards[0].AppliedTo = noon.Add(3*lease+1), noon.Add(3*lease+1)
	}, Unknown, clocksDiffer, time.Time{}, "status --shards"},
	{"read in the future, by a clock that is known to be wrong", func(f *Facts) {
		f.Shards[0].ReadAt, f.Shards[0].WrittenAt, f.Shards[0].ClockOffset = noon.Add(time.Hour), noon.Add(time.Hour), 3600
	}, InSync, "", time.Time{}, ""},
	{"read in the past, by a clock that is known to be wrong", func(f *Facts) {
		f.Shards[0].ReadAt, f.Shards[0].WrittenAt, f.Shards[0].ClockOffset, f.Shards[0].AppliedTo = ago(time.Hour), ago(time.Hour), -3600, time.Time{}
	}, InSync, "", time.Time{}, ""},

	{"released by a worker whose clock was wrong", func(f *Facts) {
		f.Shards[0] = readAgo("s", time.Hour)
		f.Shards[0].Owner, f.Shards[0].ReadAt = "", noon
	}, Stalled, noWorker, ago(time.Hour), "run"},
	{"taken from a worker whose clock was wrong", func(f *Facts) {
		f.Shards[0] = readAgo("s", time.Hour)
		f.Shards[0].ReadAt, f.Shards[0].WrittenAt = ago(time.Second), ago(2*time.Second)
	}, Stalled, notRead, ago(time.Hour), look1},

	{"paused", func(f *Facts) { f.Table.Pause.Since = ago(time.Hour); f.Shards[0] = readAgo("s", time.Hour) }, Paused, byOperator, ago(time.Hour), "resume --table Orders"},

	{"a gap", gap(checkpoint.KindStream, 7), NeedsLoad, Reason(checkpoint.KindStream), ago(time.Minute), "backfill repair Orders"},
	{"a gap that is loaded by itself", func(f *Facts) { gap(checkpoint.KindStream, 7)(f); f.LoadsAgain = true }, NeedsLoad, Reason(checkpoint.KindStream), time.Time{}, ""},
	{"loads do not end", func(f *Facts) {
		gap(checkpoint.KindTargetLost, 7)(f)
		f.LoadsAgain, f.Table.Tries = true, checkpoint.MaxTries
	}, NeedsLoad, Reason(checkpoint.KindTargetLost), time.Time{}, "backfill repair Orders"},
	{"a sweep left rows", gap(checkpoint.KindSweep, 8), NeedsLoad, leftRows, time.Time{}, "verify --table Orders"},
	{"a sweep left rows, and a verify named them", leftAndVerified(1), NeedsLoad, leftRows, time.Time{}, "verify --repair --dry-run --table Orders"},
	{"a sweep left rows, and they are repaired", leftAndVerified(0), NeedsLoad, leftRows, time.Time{}, "backfill redo --table Orders"},
	{"a sweep left rows that appliers write", func(f *Facts) { leftAndVerified(1)(f); f.Table.Apply = checkpoint.Topic }, NeedsLoad, leftRows, time.Time{}, "backfill redo --table Orders"},
	{"a gap of an older record", gap("", 7), NeedsLoad, Reason(checkpoint.KindUnknown), time.Time{}, "backfill repair Orders"},
	{"a gap that nobody declared", func(f *Facts) {
		f.Shards = append(f.Shards, checkpoint.Shard{ID: "lost", Label: "L", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7, DoneAt: ago(time.Minute)})
	}, NeedsLoad, undeclared, ago(time.Minute), "run"},

	{"read three leases ago", func(f *Facts) { f.Shards[0] = readAgo("s", 3*lease) }, InSync, "", time.Time{}, ""},
	{"read before that", func(f *Facts) { f.Shards[0] = readAgo("s", 3*lease+1) }, Stalled, notRead, ago(3*lease + 1), look1},
	{"one of two shards is read", func(f *Facts) { f.Shards = append(f.Shards, readAgo("t", 3*lease+1)) }, Stalled, notRead, ago(3*lease + 1), look1},
	{"without an owner", func(f *Facts) {
		f.Shards[0] = readAgo("s", time.Hour)
		f.Shards[0].Owner = ""
	}, Stalled, noWorker, ago(time.Hour), "run"},
	{"released just now", func(f *Facts) { f.Shards[0].Owner = "" }, InSync, "", time.Time{}, ""},
	{"no shard, and no coordinator", func(f *Facts) { f.Shards, f.Coordinator.WrittenAt = nil, ago(3*lease+1) }, Stalled, noWorker, ago(3*lease + 1), "run"},
	{"no shard, and a coordinator", func(f *Facts) { f.Shards, f.Coordinator.WrittenAt = nil, ago(3*lease) }, InSync, "", time.Time{}, ""},
	{"the owner is silent", func(f *Facts) {
		f.Shards[0] = readAgo("s", time.Hour)
		f.Shards[0].WrittenAt = ago(3*lease + 1)
	}, Stalled, workerSilent, ago(time.Hour), "run"},
	{"reads are denied", func(f *Facts) {
		f.Shards[0] = readAgo("s", time.Hour)
		f.Shards[0].Trouble = checkpoint.Trouble{Step: "read a shard", Cause: "denied", Since: ago(time.Hour)}
	}, Stalled, stepFails, ago(time.Hour), look1},
	{"the coordinator's step fails", trouble(3*lease+1, false, 0), Stalled, stepFails, ago(3*lease + 1), look1},
	{"for three leases", trouble(3*lease, false, 0), InSync, "", time.Time{}, ""},
	{"it is throttled", trouble(time.Hour, true, 0), InSync, "", time.Time{}, ""},
	{"it was, until it ended", trouble(time.Hour, false, 3*lease+1), InSync, "", time.Time{}, ""},
	{"never listed", func(f *Facts) {
		f.Table.Listed, f.Shards, f.Table.Generation = 0, nil, uint32(ago(10*time.Minute).Unix()/60)
	}, Stalled, notListed, ago(9 * time.Minute), look1},
	{"never listed, since an unknown time", func(f *Facts) { f.Table.Listed, f.Shards, f.Table.Generation = 0, nil, 1 }, Stalled, notListed, time.Time{}, look1},
	{"children that nobody listed", func(f *Facts) { f.Shards = append(f.Shards, ended("e", time.Hour)) }, Stalled, noChildren, ago(time.Hour), look1},
	{"a listing that is late", func(f *Facts) { f.Shards = append(f.Shards, ended("e", 5*time.Minute)) }, InSync, "", time.Time{}, ""},
	{"suspended", func(f *Facts) {
		f.Table.Suspended = checkpoint.Suspension{Reason: "no stream", Since: ago(time.Minute)}
	}, Stalled, suspended, ago(time.Minute), look1},
	{"dropped", func(f *Facts) { f.Table.Suspended = checkpoint.Suspension{Reason: Gone, Since: ago(time.Minute)} }, Stalled, dropped, ago(time.Minute), ""},
	{"its stream was disabled", func(f *Facts) { f.Table.StreamEnded = true }, Stalled, streamEnded, time.Time{}, look1},
	{"dead letter", func(f *Facts) {
		f.Table.Apply, f.DeadLetter = checkpoint.Topic, checkpoint.DeadLetter{Messages: 1, Since: ago(time.Hour)}
	}, Stalled, deadLetter, ago(time.Hour), "relay dead-letter list"},

	{"not started", func(f *Facts) { *f = Facts{Table: checkpoint.TableState{Source: "Orders"}, Now: noon, Lease: lease} }, Preparing, notStarted, time.Time{}, "run"},
	{"being listed", func(f *Facts) { f.Table.Listed, f.Shards, f.Table.Generation = 0, nil, uint32(noon.Unix()/60) }, Preparing, "", noon, ""},

	{"nobody asked for a load", load(checkpoint.Load{}), Copying, notAsked, time.Time{}, "backfill start --table Orders"},
	{"a load of an older generation", func(f *Facts) { f.Table.Load.Generation, f.Table.Base = 6, 6 }, Copying, notAsked, time.Time{}, "backfill start --table Orders"},
	{"asked for", load(checkpoint.Load{AskedAt: ago(time.Minute)}), Copying, asked, ago(time.Minute), ""},
	{"no export", load(checkpoint.Load{AskedAt: ago(time.Minute), Request: checkpoint.ExportRequest{To: "s3://b", Failed: "denied"}}), Copying, exportRefused, ago(time.Minute), "backfill status"},
	{"copying", load(copying("")), Copying, "", ago(time.Hour), ""},
	{"copying after a gap", func(f *Facts) { load(copying(""))(f); f.Table.NeedsLoad = true }, Copying, "", ago(time.Hour), ""},
	{"copy paused", load(copying(checkpoint.PausedByOperator)), Copying, byOperator, ago(time.Hour), "backfill resume --table Orders"},
	{"copy paused for the stream", load(copying(checkpoint.PausedForHeadroom)), Copying, lowHeadroom, ago(time.Hour), ""},
	{"fast copy", func(f *Facts) { load(copying(""))(f); f.Table.Load.Fast = true }, Copying, fastLoad, ago(time.Hour), ""},
	{"fast copy paused for the target", func(f *Facts) { load(copying("busy"))(f); f.Table.Load.Fast = true }, Copying, targetBusy, ago(time.Hour), ""},
	{"sweep of a fast load", sweep(func(l *checkpoint.Load) { l.Fast = true }), Sweeping, fastLoad, time.Time{}, ""},
	{"sweep of a fast load whose fence is open", sweep(func(l *checkpoint.Load) { l.Fast, l.Paused = true, checkpoint.PausedForFence+"orders" }), Sweeping, openFence, time.Time{},
		"backfill redo --table Orders"},
	{"copy paused for the target", load(copying("target CPU 80% > 70%")), Copying, targetBusy, ago(time.Hour), ""},

	{"sweeping", sweep(func(*checkpoint.Load) {}), Sweeping, "", ago(50 * time.Minute), ""},
	{"sweep waits", sweep(func(l *checkpoint.Load) { l.Sweep.Waiting = true }), Sweeping, approval, time.Time{}, "backfill resume --table Orders --yes"},
	{"sweep paused", sweep(func(l *checkpoint.Load) { l.Paused = checkpoint.PausedByOperator }), Sweeping, byOperator, time.Time{}, "backfill resume --table Orders"},
	{"first load beside another migration", load(checkpoint.Load{AskedAt: ago(time.Minute), Paused: checkpoint.PausedForStranger + "other"}), Copying, sharedTarget, ago(time.Minute), ""},
	{"sweep beside another migration", sweep(func(l *checkpoint.Load) { l.Paused = checkpoint.PausedForStranger + "other" }), Sweeping, sharedTarget, time.Time{}, ""},
	{"sweep paused for the stream", sweep(func(l *checkpoint.Load) { l.Paused = checkpoint.PausedForHeadroom }), Sweeping, lowHeadroom, time.Time{}, ""},
	{"sweep paused for the target", sweep(func(l *checkpoint.Load) { l.Paused = "busy" }), Sweeping, targetBusy, time.Time{}, ""},

	{"parked", func(f *Facts) { f.Parked = 1 }, Parked, "", time.Time{}, "parked list --table Orders"},

	{"a verify found rows", verified(1, 0, 7), Differs, byVerify, ago(time.Minute), "verify --repair --dry-run --table Orders"},
	{"a full one did, and one of a part did not", verified(0, 1, 7), Differs, byVerify, ago(time.Hour), "verify --repair --dry-run --table Orders"},
	{"before the load", verified(1, 1, 6), InSync, "", time.Time{}, ""},
	{"clean", verified(0, 0, 7), InSync, "", time.Time{}, ""},
	{"a verify found rows of others", func(f *Facts) {
		verified(0, 0, 7)(f)
		f.Table.Verify.Result.Foreign = 2
	}, Differs, byVerify, ago(time.Minute), "verify --repair --remove-foreign --dry-run --table Orders"},
	{"a verify in mode topic found rows", func(f *Facts) { verified(1, 0, 7)(f); f.Table.Apply = checkpoint.Topic }, Differs, byVerify, ago(time.Minute), "backfill redo --table Orders"},
	{"a sample differs", func(f *Facts) { f.Table.Sampled = checkpoint.Sampled{At: ago(time.Minute), Differing: 1} }, Differs, bySample, ago(time.Minute), "verify --repair --dry-run --table Orders"},

	{"not adopted", func(f *Facts) { f.Table.Adopted = 6 }, CatchingUp, newGeneration, time.Time{}, ""},
	{"three leases behind", behind(3 * lease), InSync, "", time.Time{}, ""},
	{"further behind", behind(3*lease + 1), CatchingUp, lagging, ago(3*lease + 1), ""},
	{"for as long as the stream is kept", behind(cdc.Retention), CatchingUp, beyondStream, ago(cdc.Retention), look1},
	{"a root that was not read yet", func(f *Facts) {
		s := checkpoint.Shard{ID: "r", Label: "L", State: checkpoint.Waiting}
		s.WrittenAt = ago(time.Second)
		f.Shards = append(f.Shards, s)
	}, CatchingUp, unread, time.Time{}, ""},
	{"published and applied", topic(3, time.Hour, time.Hour), InSync, "", time.Time{}, ""},
	{"published three leases ago", topic(1, 3*lease, time.Second), InSync, "", time.Time{}, ""},
	{"published before that", topic(1, 3*lease+1, time.Second), CatchingUp, unapplied, ago(3*lease + 1), ""},
	{"the last one waits, after a rest", topic(2, time.Hour, time.Second), InSync, "", time.Time{}, ""},
	{"the last one waits for long", topic(2, time.Hour, 3*lease+1), CatchingUp, unapplied, ago(3*lease + 1), ""},
	{"published, and none is known to be applied", topic(0, 0, time.Second), CatchingUp, unapplied, noon, ""},
}

const look1 = "status --shards --table Orders"

func TestOf(t *testing.T) {
	for _, c := range cases {
		s := Of(facts(c.change))
		got := s.Conditions[0]
		step, leads := got.NextStep("Orders", "")
		if s.State() != c.state || got.Reason != c.reason || leads != (c.next != "") || leads && step.Command != "replicator "+c.next || got.Text() == "" {
			t.Errorf("%s: %s (%s), %q, %+v; want %s (%s), %q", c.name, s.State(), got.Reason, got.Text(), step, c.state, c.reason, c.next)
		}
		if !c.since.IsZero() && !got.Since.Equal(c.since) {
			t.Errorf("%s: since %s, want %s", c.name, got.Since, c.since)
		}
		for i, o := range s.Conditions[1:] {
			if o.State.rank() < s.Conditions[i].State.rank() || o.State == InSync {
				t.Errorf("%s: %s after %s", c.name, o.State, s.Conditions[i].State)
			}
		}
	}
}

// Whatever other states apply, the first one of the list wins.
func TestTheFirstStateWins(t *testing.T) {
	all := []func(f *Facts){
		step(checkpoint.CutoverDone), step(checkpoint.CutoverDrain), doubt(TargetLost), func(f *Facts) { f.Table.Pause.Since = ago(time.Hour) },
		func(f *Facts) {
			f.Shards = append(f.Shards, checkpoint.Shard{ID: "lost", Label: "L", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7})
		},
		func(f *Facts) { f.Shards = append(f.Shards, readAgo("t", time.Hour)) }, nil, nil,
		sweep(func(*checkpoint.Load) {}), func(f *Facts) { f.Parked = 1 }, verified(1, 0, 7), func(f *Facts) { f.Table.Adopted = 6 }, func(*Facts) {},
	}
	all[6] = func(f *Facts) { f.Table.Listed, f.Table.Generation = 0, uint32(noon.Unix()/60) } // preparing
	all[7] = load(copying(""))
	for first, state := range States {
		f := inSync()
		for i := len(all) - 1; i >= first; i-- {
			// A table in preparation has no copied items and no known shards, and a load is in only
			// one stage.
			if i == 6 && first != 6 || i == 7 && first != 7 || i == 0 && first != 0 {
				continue
			}
			all[i](&f)
		}
		if s := Of(f); s.State() != state {
			t.Errorf("%s: %s, of %+v", state, s.State(), s.Conditions)
		}
	}
	if len(all) != len(States) {
		t.Errorf("%d cases of %d states", len(all), len(States))
	}
}

// Every state and reason has a case here, and its own sentence or that of its state.
func TestEveryWordingHasACase(t *testing.T) {
	found := map[State]map[Reason]bool{}
	for _, c := range cases {
		if found[c.state] == nil {
			found[c.state] = map[Reason]bool{}
		}
		found[c.state][c.reason] = true
	}
	for _, state := range States {
		if words[state][""].text == "" || len(found[state]) == 0 {
			t.Errorf("%s has no sentence, or no case", state)
		}
		for reason := range words[state] {
			if reason != "" && !found[state][reason] {
				t.Errorf("no case of %s for the reason %s", state, reason)
			}
		}
	}
	if len(words) != len(States) {
		t.Errorf("%d states have sentences, of %d", len(words), len(States))
	}
}

func TestPhaseOfAState(t *testing.T) {
	want := map[State]string{Preparing: "prepare", InSync: "in_sync", Cutover: "cutover", Done: "done"}
	for _, s := range States {
		phase := want[s]
		if phase == "" {
			phase = "copy"
		}
		if s.Phase() != phase || s.Text() == "" {
			t.Errorf("%s: %s", s, s.Phase())
		}
	}
}

func TestOverall(t *testing.T) {
	of := func(change func(f *Facts)) Standing { return Of(facts(change)) }
	synced, stalled, parked := of(func(*Facts) {}), of(func(f *Facts) { f.Shards[0] = readAgo("s", time.Hour) }), of(func(f *Facts) { f.Parked = 1 })
	frozen, watched, done := of(step(checkpoint.CutoverDrain)), of(step(checkpoint.CutoverWatching)), of(step(checkpoint.CutoverDone))
	passed := of(func(f *Facts) {
		f.Named, f.Table.Suspended = false, checkpoint.Suspension{Reason: Gone, Since: ago(time.Minute)}
	})
	for _, c := range []struct {
		name   string
		tables []Standing
		want   int
	}{
		{"none", nil, -1},
		{"one", []Standing{synced}, 0},
		{"the first of the list", []Standing{synced, parked, stalled}, 2},
		{"the first of two alike", []Standing{parked, parked}, 0},
		{"one between freeze and switch", []Standing{stalled, frozen, done}, 1},
		{"watching, and another is in sync", []Standing{watched, synced}, 1},
		{"watching and done", []Standing{done, watched}, 1},
		{"done, and another stalls", []Standing{done, stalled}, 1},
		{"all are done", []Standing{done, done}, 0},
		{"passed, and another is in sync", []Standing{passed, synced}, 1},
		{"passed, and another is done", []Standing{passed, done}, 1},
		{"passed alone", []Standing{passed}, 0},
	} {
		if got := Overall(c.tables); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if !passed.Passed || stalled.Passed {
		t.Error("one that was dropped is passed, and no other")
	}
}

// No migration waits for a pattern's table that was in sync until it was dropped. It does wait for
// one that is named or lost changes.
func TestPassed(t *testing.T) {
	gone := func(since time.Duration) func(f *Facts) {
		return func(f *Facts) {
			f.Named, f.Table.Suspended = false, checkpoint.Suspension{Reason: Gone, Since: ago(since)}
			f.Shards, f.Coordinator = []checkpoint.Shard{ended("e", since)}, checkpoint.Heartbeat{}
		}
	}
	for _, c := range []struct {
		name             string
		change           func(f *Facts)
		passed, longGone bool
	}{
		{"of a pattern", gone(time.Hour), true, false},
		{"long ago", gone(48 * time.Hour), true, true},
		{"a day ago", gone(cdc.Retention), true, false},
		{"named", func(f *Facts) { gone(time.Hour)(f); f.Named = true }, false, false},
		{"and lost changes", func(f *Facts) { gone(time.Hour)(f); f.Table.NeedsLoad = true }, false, false},
		{"and was not loaded", func(f *Facts) { gone(time.Hour)(f); f.Table.Load, f.Table.Base = checkpoint.Load{}, 0 }, false, false},
		{"and a shard was not read to its end", func(f *Facts) { gone(48 * time.Hour)(f); f.Shards = []checkpoint.Shard{readAgo("s", 49*time.Hour)} }, false, false},
		{"and it was", func(f *Facts) { gone(48 * time.Hour)(f); f.Shards = []checkpoint.Shard{readAgo("s", 47*time.Hour)} }, true, true},
		{"not dropped", func(f *Facts) { f.Named = false }, false, false},
	} {
		if s := Of(facts(c.change)); s.Passed != c.passed || s.LongGone != c.longGone {
			t.Errorf("%s: passed %t, long gone %t, %+v", c.name, s.Passed, s.LongGone, s.Conditions)
		}
	}
}

// A cutover first checks whether everything is loaded, swept and followed since, even if it was not
// read in time.
func TestUnloaded(t *testing.T) {
	for _, c := range cases {
		s := Of(facts(c.change))
		_, unloaded := s.Unloaded()
		want := slices.Contains([]State{Paused, NeedsLoad, Preparing, Copying, Sweeping}, c.state) || slices.Contains([]Reason{suspended, dropped, streamEnded, newGeneration, notListed}, c.reason)
		if unloaded != want {
			t.Errorf("%s: unloaded %t", c.name, unloaded)
		}
		_, unapplied := s.Unapplied()
		want = c.reason != lagging && !unloaded && slices.Contains([]State{Unknown, Stalled, CatchingUp}, c.state)
		if unapplied != want && !unloaded { // an unloaded table may also be unread
			t.Errorf("%s: unapplied %t", c.name, unapplied)
		}
	}
}

func step(at checkpoint.CutoverStep) func(f *Facts) {
	return func(f *Facts) {
		f.Cutover = checkpoint.Cutover{Attempt: 1, Step: at, FreezeBegunAt: ago(time.Hour), SwitchedAt: ago(time.Minute)}
		f.Cutover.Tables = []string{"Orders"}
	}
}

// rollback returns a change to a table that was cut over, and whose rollback froze the application 30 s
// ago.
func rollback(at checkpoint.CutoverStep, more func(r *checkpoint.Cutover)) func(f *Facts) {
	return func(f *Facts) {
		step(checkpoint.CutoverWatching)(f)
		r := &checkpoint.Cutover{Attempt: 2, Step: at, FreezeBegunAt: ago(30 * time.Second), CutoverPlan: checkpoint.CutoverPlan{Direction: checkpoint.Back}}
		if more != nil {
			more(r)
		}
		f.Cutover.Rollback = r
	}
}

// movedBack returns a change to a table whose application a rollback moved back ten seconds ago.
func movedBack(more func(f *Facts)) func(f *Facts) {
	return func(f *Facts) {
		rollback(checkpoint.CutoverWatching, func(r *checkpoint.Cutover) { r.SwitchedAt = ago(10 * time.Second) })(f)
		f.Cutover.Step = checkpoint.CutoverRolledBack
		if more != nil {
			more(f)
		}
	}
}

func doubt(r Reason) func(f *Facts) {
	return func(f *Facts) { f.Doubts = []Doubt{{Reason: r, Cause: "it is so", Since: ago(time.Minute)}} }
}

// gap adds a declared gap, in a generation that is loaded up to the given one.
func gap(kind checkpoint.GapKind, generation uint32) func(f *Facts) {
	return func(f *Facts) {
		f.Table.Generation, f.Table.Adopted = 8, 8
		f.Table.Load.Generation = generation
		f.Table.NeedsLoad, f.Table.Kind, f.Table.Gaps = true, kind, []checkpoint.DeclaredGap{{At: ago(time.Minute)}}
	}
}

// leftAndVerified adds a gap of a sweep, after which a verify found a number of rows.
func leftAndVerified(rows int64) func(f *Facts) {
	return func(f *Facts) {
		gap(checkpoint.KindSweep, 8)(f)
		verified(rows, 0, 8)(f)
	}
}

func trouble(since time.Duration, throttled bool, beat time.Duration) func(f *Facts) {
	return func(f *Facts) {
		f.Coordinator = checkpoint.Heartbeat{WrittenAt: ago(beat), Trouble: checkpoint.Trouble{Step: "list shards", Cause: "denied", Since: ago(since), Throttled: throttled}}
	}
}

// ended returns a shard that was read to its end.
func ended(id string, before time.Duration) checkpoint.Shard {
	return checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Done, CaughtUp: true, DoneAt: ago(before), ReadAt: ago(before), FirstRead: ago(before + time.Hour)}
}

func load(l checkpoint.Load) func(f *Facts) {
	return func(f *Facts) { f.Table.Load, f.Table.Base = l, 0 }
}

func copying(paused string) checkpoint.Load {
	return checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: ago(time.Hour), Paused: paused}
}

func sweep(change func(l *checkpoint.Load)) func(f *Facts) {
	return func(f *Facts) {
		f.Table.Base, f.Table.Load.SweptAt = 0, time.Time{}
		change(&f.Table.Load)
	}
}

// verified adds a verify of a part a minute ago, and one of all an hour ago.
func verified(part, full int64, generation uint32) func(f *Facts) {
	return func(f *Facts) {
		f.Table.Verify.Result = checkpoint.VerifyResult{EndedAt: ago(time.Minute), Generation: generation, VerifyCounts: checkpoint.VerifyCounts{Missing: part}}
		f.Table.Verify.Full = checkpoint.VerifyResult{EndedAt: ago(time.Hour), Generation: generation, VerifyCounts: checkpoint.VerifyCounts{Extra: full}}
	}
}

// behind adds a shard whose last applied change is so old and that has more changes.
func behind(d time.Duration) func(f *Facts) {
	return func(f *Facts) {
		s := &f.Shards[0]
		s.Position, s.CaughtUp, s.EventTime, s.AppliedTo = cdc.SequenceOf(9), false, ago(d), time.Time{}
	}
}

// topic makes the table one with three published messages, the last of the given age. They are
// applied up to a number, whose change has its own age; up to none if the number is 0.
func topic(to uint64, applied, last time.Duration) func(f *Facts) {
	return func(f *Facts) {
		s := &f.Shards[0]
		f.Table.Apply, s.Apply, s.Applied, s.Generation, s.EventTime = checkpoint.Topic, checkpoint.Topic, 3, 7, ago(last)
		if to > 0 {
			f.Merged = []checkpoint.Applied{{Track: checkpoint.Track{Generation: 7, Label: "L", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: to, At: ago(applied)}}}}
		}
	}
}
