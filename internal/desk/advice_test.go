package desk_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/lever"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// advised is a migration of the table Orders in a state in which something is advised.
type advised struct {
	*testing.T
	ends    *ends
	cfg     *config.Config
	console *terminal.Console
	ledger  *checkpoint.Ledger
	facts   standing.Facts // facts that are in no table's record
}

// advice is a case: the ledger's state, and the effect of the advised command on it.
type advice struct {
	name    string
	seed    func(a *advised)
	command string // the advised command, without the first word
	follow  func(a *advised)
	then    string // what is advised next; "" if it is another state, or nothing
}

// Every command that a state advises is accepted in that state, and is not advised again once it
// has had its effect.
func TestAdviceLeadsOut(t *testing.T) {
	found := map[string]bool{}
	for _, c := range walked {
		a := newAdvised(t)
		c.seed(a)
		if got := a.first(); got != c.command {
			t.Errorf("%s: advised is %q, want %q", c.name, got, c.command)
			continue
		}
		found[strings.ReplaceAll(c.command, " Orders", " TABLE")] = true
		a.accepts(c.name, c.command)
		c.follow(a)
		if got := a.first(); got == c.command || c.then != "" && got != c.then {
			t.Errorf("%s: after %q advised is %q, want %q", c.name, c.command, got, c.then)
		}
	}
	for _, command := range standing.Advised() {
		if !found[command] {
			t.Errorf("no case of an advice to run %s", command)
		}
	}
}

func newAdvised(t *testing.T) *advised {
	t.Helper()
	nothing := func(string) (string, bool) { return "", false }
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), nothing)
	if err != nil {
		t.Fatal(err)
	}
	a := &advised{T: t, cfg: cfg, ends: &ends{store: &checkpointtest.Memory{}, cluster: "c1"}, console: &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Env: nothing}}
	a.ledger, err = checkpoint.Open(t.Context(), a.ends.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
	if err == nil {
		err = a.ledger.CheckCluster(t.Context(), "c1")
	}
	a.must(err)
	a.facts = standing.Facts{Named: true, Lease: 15 * time.Second, Coordinator: checkpoint.Heartbeat{WrittenAt: now}}
	a.facts.Shards = []checkpoint.Shard{{ID: "s", Label: "L", State: checkpoint.Reading, Owner: "w", CaughtUp: true, Generation: 7, ReadAt: now, AppliedTo: now,
		FirstRead: now.Add(-time.Hour), Position: cdc.SequenceOf(9)}}
	a.table(func(s *checkpoint.TableState) {
		s.StreamARN, s.Label, s.MappingHash = followed, "L", cfg.Hash(cfg.Tables[0])
		s.Generation, s.Adopted, s.Listed, s.Base = 7, 7, 7, 7
		s.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: now.Add(-time.Hour), DoneAt: now.Add(-50 * time.Minute), SweptAt: now.Add(-40 * time.Minute)}
	})
	return a
}

func (a *advised) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// table changes the record of the table.
func (a *advised) table(change func(s *checkpoint.TableState)) {
	a.Helper()
	_, err := a.ledger.UpdateTable(a.Context(), "Orders", func(s *checkpoint.TableState) error { change(s); return nil })
	a.must(err)
}

// cutover changes the record of the cutover.
func (a *advised) cutover(change func(c *checkpoint.Cutover)) {
	a.Helper()
	_, err := a.ledger.UpdateCutover(a.Context(), "", func(c *checkpoint.Cutover) error { change(c); return nil })
	a.must(err)
}

// first returns what the first condition of the table with advice advises.
func (a *advised) first() string {
	a.Helper()
	f := a.facts
	var err error
	if f.Table, _, err = a.ledger.Table(a.Context(), "Orders"); err == nil {
		f.Cutover, err = a.ledger.Cutover(a.Context(), "")
	}
	a.must(err)
	f.Now = now
	s := standing.Of(f)
	for _, c := range s.Conditions {
		if step, leads := c.NextStep("Orders", ""); leads {
			return strings.TrimPrefix(step.Command, "replicator ")
		}
	}
	return ""
}

// accepts asks the desk, which refuses commands, for one.
func (a *advised) accepts(name, line string) {
	a.Helper()
	words := strings.Fields(line)
	command := words[0]
	if len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		command += " " + words[1]
	}
	if command == "relay dead-letter" {
		command += " " + words[2]
	}
	if slices.Contains(words, "--repair") {
		command += " --repair"
	}
	if command == "run" || command == "plan" {
		return // these commands open no migration
	}
	m, err := a.both().Open(a.Context(), a.console, a.cfg, desk.Request{Command: command, Table: "Orders"})
	if err != nil {
		a.Errorf("%s: %s is refused: %v", name, line, err)
		return
	}
	_ = m.Close()
}

// both returns the ends, with a source that answers.
func (a *advised) both() desk.Ends {
	e := a.ends.desk()
	e.Source = func(context.Context, *config.Config) (desk.Source, error) { return describer{stream: followed}, nil }
	return e
}

// steer runs a command of loads.
func steer(action string, r loads.Request) func(a *advised) {
	return func(a *advised) {
		a.Helper()
		r.Action = action
		a.must((&loads.Operator{Console: a.console, Cfg: a.cfg, Ends: a.both(), Table: "Orders", Yes: true}).Steer(a.Context(), r))
	}
}

// with returns a change of the table's record.
func with(change func(s *checkpoint.TableState)) func(a *advised) {
	return func(a *advised) { a.Helper(); a.table(change) }
}

// does returns an action of a worker or an operator outside the table's record.
func does(change func(f *standing.Facts)) func(a *advised) {
	return func(a *advised) { change(&a.facts) }
}

// found returns the findings of a verify that has just ended.
func found(c checkpoint.VerifyCounts) func(a *advised) {
	return with(func(s *checkpoint.TableState) {
		s.Verify.Result = checkpoint.VerifyResult{Number: 1, Generation: s.Generation, EndedAt: now, VerifyCounts: c}
	})
}

func left(a *advised) {
	a.table(func(s *checkpoint.TableState) {
		s.NeedsLoad, s.Reason, s.Kind = true, "rows are left", checkpoint.KindSweep
	})
}

func doubted(r standing.Reason) func(a *advised) {
	return does(func(f *standing.Facts) { f.Doubts = []standing.Doubt{{Reason: r, Cause: "it is so", Since: now}} })
}

func trusted(f *standing.Facts) { f.Doubts = nil }

// unread lets a minute pass since the shard was read.
func unread(change func(s *checkpoint.Shard)) func(a *advised) {
	return does(func(f *standing.Facts) {
		s := &f.Shards[0]
		s.ReadAt, s.AppliedTo = now.Add(-time.Minute), now.Add(-time.Minute)
		change(s)
	})
}

// taken makes a worker read the shard again.
var taken = does(func(f *standing.Facts) {
	s := &f.Shards[0]
	s.Owner, s.ReadAt, s.AppliedTo, s.WrittenAt, s.Trouble = "w2", now, now, now, checkpoint.Trouble{}
})

func unswept(change func(l *checkpoint.Load)) func(a *advised) {
	return with(func(s *checkpoint.TableState) {
		s.Base, s.Load.SweptAt = 0, time.Time{}
		change(&s.Load)
	})
}

func frozen(step checkpoint.CutoverStep) func(a *advised) {
	return func(a *advised) {
		a.cutover(func(c *checkpoint.Cutover) {
			c.Attempt, c.Step, c.FreezeBegunAt, c.SwitchedAt = 1, step, now.Add(-time.Minute), now
			c.Tables = []string{"Orders"}
		})
	}
}

const looks = "status --shards --table Orders"

// walked has a case for every advised command.
var walked = []advice{
	{"done", frozen(checkpoint.CutoverDone), "finalize --dry-run", func(a *advised) { a.cutover(func(c *checkpoint.Cutover) { c.FinalizedAt = now }) }, ""},
	{"frozen", frozen(checkpoint.CutoverDrain), "cutover status", frozen(checkpoint.CutoverDone), "finalize --dry-run"},
	{"being cancelled", frozen(checkpoint.CutoverCancelling), "cutover status", frozen(checkpoint.CutoverCancelled), ""},
	{"watched", frozen(checkpoint.CutoverWatching), "cutover status", frozen(checkpoint.CutoverDone), "finalize --dry-run"},
	{"the ledger cannot be read", does(func(f *standing.Facts) { f.ReadAt = now.Add(-time.Hour) }), "status", does(func(f *standing.Facts) { f.ReadAt = now }), ""},
	{"the target is lost", doubted(standing.TargetLost), "run", func(a *advised) {
		trusted(&a.facts)
		a.table(func(s *checkpoint.TableState) {
			s.Generation, s.Adopted, s.NeedsLoad, s.Kind = 8, 8, true, checkpoint.KindTargetLost
		})
	}, "backfill repair Orders"},
	{"the target is silent", doubted(standing.TargetUnreadable), "plan", does(trusted), ""},
	{"another cluster", doubted(standing.OtherCluster), "failover --dry-run", does(trusted), ""},
	{"a clock is wrong", does(func(f *standing.Facts) {
		f.Shards[0].ReadAt, f.Shards[0].AppliedTo = now.Add(time.Hour), now.Add(time.Hour)
	}), "status --shards", taken, ""},
	{"paused", with(func(s *checkpoint.TableState) { s.Pause.Since = now }), "resume --table Orders", func(a *advised) {
		a.must((&lever.Operator{Console: a.console, Cfg: a.cfg, Ends: a.both(), Table: "Orders"}).Resume(a.Context()))
	}, ""},
	{"a gap", with(func(s *checkpoint.TableState) {
		s.Generation, s.Adopted, s.NeedsLoad, s.Kind = 8, 8, true, checkpoint.KindStream
	}), "backfill repair Orders", steer(loads.ActionStart, loads.Request{Repair: true}), ""},
	{"a sweep left rows", left, "verify --table Orders", found(checkpoint.VerifyCounts{Extra: 2}), "verify --repair --dry-run --table Orders"},
	{"a sweep left rows that are named", func(a *advised) { left(a); found(checkpoint.VerifyCounts{Extra: 2, Foreign: 1})(a) },
		"verify --repair --dry-run --table Orders", found(checkpoint.VerifyCounts{Foreign: 1}), "verify --repair --remove-foreign --dry-run --table Orders"},
	{"a sweep left rows that are repaired", func(a *advised) { left(a); found(checkpoint.VerifyCounts{})(a) },
		"backfill redo --table Orders", steer(loads.ActionRedo, loads.Request{}), ""},
	{"a dead letter", func(a *advised) {
		a.table(func(s *checkpoint.TableState) { s.Apply = checkpoint.Topic })
		a.facts.DeadLetter = checkpoint.DeadLetter{Messages: 1, Since: now}
	}, "relay dead-letter list", does(func(f *standing.Facts) { f.DeadLetter = checkpoint.DeadLetter{} }), ""},
	{"an undeclared gap", does(func(f *standing.Facts) {
		f.Shards = append(f.Shards, checkpoint.Shard{ID: "g", Label: "L", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7, DoneAt: now})
	}), "run", does(func(f *standing.Facts) { f.Shards = f.Shards[:1] }), ""},
	{"not read", unread(func(*checkpoint.Shard) {}), looks, taken, ""},
	{"reads fail", unread(func(s *checkpoint.Shard) {
		s.Trouble = checkpoint.Trouble{Step: "read a shard", Cause: "denied", Since: now.Add(-time.Hour)}
	}), looks, taken, ""},
	{"no worker", unread(func(s *checkpoint.Shard) { s.Owner = "" }), "run", taken, ""},
	{"a silent worker", unread(func(s *checkpoint.Shard) { s.WrittenAt = now.Add(-time.Minute) }), "run", taken, ""},
	{"not started", with(func(s *checkpoint.TableState) {
		*s = checkpoint.TableState{Source: "Orders", StreamARN: s.StreamARN}
	}), "run", with(func(s *checkpoint.TableState) { s.Generation, s.Adopted, s.Listed, s.Label, s.Base = 8, 8, 8, "L", 8 }), ""},
	{"nobody asked for a load", with(func(s *checkpoint.TableState) { s.Base, s.Load = 0, checkpoint.Load{} }), "backfill start --table Orders",
		steer(loads.ActionStart, loads.Request{}), ""},
	{"a paused copy", unswept(func(l *checkpoint.Load) { l.DoneAt, l.Paused = time.Time{}, checkpoint.PausedByOperator }), "backfill resume --table Orders",
		steer(loads.ActionResume, loads.Request{}), ""},
	{"a paused sweep", unswept(func(l *checkpoint.Load) { l.Paused = checkpoint.PausedByOperator }), "backfill resume --table Orders",
		steer(loads.ActionResume, loads.Request{}), ""},
	{"an export failed", with(func(s *checkpoint.TableState) {
		s.Base, s.Load = 0, checkpoint.Load{AskedAt: now, Request: checkpoint.ExportRequest{To: "s3://b", Failed: "denied"}}
	}), "backfill status", steer(loads.ActionStart, loads.Request{}), ""},
	{"a sweep that waits for approval", unswept(func(l *checkpoint.Load) { l.Sweep.Waiting = true }), "backfill resume --table Orders --yes",
		steer(loads.ActionResume, loads.Request{}), ""},
	{"parked", does(func(f *standing.Facts) { f.Parked = 1 }), "parked list --table Orders", does(func(f *standing.Facts) { f.Parked = 0 }), ""},
	{"rows differ", found(checkpoint.VerifyCounts{Different: 1}), "verify --repair --dry-run --table Orders", found(checkpoint.VerifyCounts{}), ""},
	{"rows of others", found(checkpoint.VerifyCounts{Foreign: 1}), "verify --repair --remove-foreign --dry-run --table Orders", found(checkpoint.VerifyCounts{}), ""},
	{"a sample differs", with(func(s *checkpoint.TableState) { s.Sampled.Differing = 1 }), "verify --repair --dry-run --table Orders",
		with(func(s *checkpoint.TableState) { s.Sampled.Differing = 0 }), ""},
	{"rows differ that appliers write", func(a *advised) {
		a.table(func(s *checkpoint.TableState) { s.Apply = checkpoint.Topic })
		found(checkpoint.VerifyCounts{Different: 1})(a)
	}, "backfill redo --table Orders", steer(loads.ActionRedo, loads.Request{}), ""},
}
