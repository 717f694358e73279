package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// A named table that no worker has found, beside a followed one, is shown with advice.
func TestATableThatNoWorkerHasMet(t *testing.T) {
	reading := checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Reading, Owner: "w", CaughtUp: true, ReadAt: noon, AppliedTo: noon, FirstRead: noon}
	reading.WrittenAt = noon
	followed := TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{reading}}
	l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}, {From: "Billing"}}, Inputs: []TableInput{followed, {}}, Begun: true}
	if m := l.Judge(nothingSet, "", noon); len(m.NextSteps) != 1 || m.NextSteps[0].Command != "replicator run" || !strings.Contains(m.NextSteps[0].Why, "Billing: not started yet") {
		t.Errorf("%+v", m.NextSteps)
	}
	l.Inputs[1] = followed
	if m := l.Judge(nothingSet, "", noon); len(m.NextSteps) > 0 {
		t.Errorf("both are followed: %+v", m.NextSteps)
	}
}

// A heartbeat in the future shows that the worker's or the reader's clock is wrong, so other times
// are doubtful too.
func TestAWorkerThatWritesInTheFuture(t *testing.T) {
	for ahead, told := range map[time.Duration]bool{10 * time.Second: false, 20 * time.Minute: true} {
		reading := checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Reading, Owner: "w", CaughtUp: true, ReadAt: noon.Add(ahead), AppliedTo: noon.Add(ahead), FirstRead: noon}
		reading.WrittenAt = noon.Add(ahead)
		m := judged(TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{reading}})
		if got := len(m.NextSteps) == 1 && strings.Contains(m.NextSteps[0].Why, "the clock of worker w is 20m ahead"); got != told {
			t.Errorf("%s ahead: %+v", ahead, m.NextSteps)
		}
	}
}

// The metric and the schema have every state, in the order of the list.
func TestEveryStateIsKnown(t *testing.T) {
	var schema struct {
		Properties struct {
			State struct{ Enum []standing.State }
		}
	}
	if err := json.Unmarshal(Schema, &schema); err != nil || !slices.Equal(schema.Properties.State.Enum, standing.States) {
		t.Errorf("the schema has %v, %v", schema.Properties.State.Enum, err)
	}
	known := func(s standing.State, of string) bool { return string(s) == of }
	if !slices.EqualFunc(standing.States, admin.States, known) {
		t.Errorf("the metric has %v", admin.States)
	}
}

func TestPhase(t *testing.T) {
	with := func(change func(s *checkpoint.TableState)) TableInput {
		in := followed()
		change(&in.State)
		return in
	}
	for _, c := range []struct {
		name string
		in   TableInput
		want string
	}{
		{"nothing was started", TableInput{}, "prepare"},
		{"not listed yet", TableInput{Found: true, State: checkpoint.TableState{Generation: uint32(noon.Unix() / 60)}}, "prepare"},
		{"no load yet", with(func(s *checkpoint.TableState) { s.Load = checkpoint.Load{} }), "copy"},
		{"a load that runs", with(func(s *checkpoint.TableState) { s.Load.DoneAt, s.Load.Parts = time.Time{}, 1 }), "copy"},
		{"a load of an older generation", with(func(s *checkpoint.TableState) { s.Load.Generation = 6 }), "copy"},
		{"loaded", followed(), "in_sync"},
		{"loaded, and nobody follows", TableInput{Found: true, State: loadedTable()}, "copy"},
		{"loaded, but changes were lost", with(func(s *checkpoint.TableState) { s.NeedsLoad, s.Reason = true, "trimmed" }), "copy"},
		{"a generation that not all shards carry", with(func(s *checkpoint.TableState) { s.Adopted = 6 }), "copy"},
	} {
		m := judged(c.in)
		if m.Phase != c.want || m.Tables[0].Phase != c.want {
			t.Errorf("%s: %s, table %s; want %s", c.name, m.Phase, m.Tables[0].Phase, c.want)
		}
	}
}

func TestCopy(t *testing.T) {
	running := loadedTable()
	running.Load.DoneAt, running.Load.Items, running.Load.Parts = time.Time{}, 0, 1
	unknown := running
	unknown.Load.Estimate = 0
	for _, c := range []struct {
		name string
		in   TableInput
		want string
	}{
		{"not started", TableInput{Found: true}, "-"},
		{"done", TableInput{Found: true, State: loadedTable()}, "done (10m)"},
		{"running", TableInput{Found: true, State: running, Parts: copied(3)}, "30%"},
		{"more than was estimated", TableInput{Found: true, State: running, Parts: copied(11)}, "11 items"},
		{"no estimate", TableInput{Found: true, State: unknown, Parts: copied(11)}, "11 items"},
	} {
		if got := judged(c.in).Tables[0].Copy.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// copied returns the only part of a load.
func copied(items int64) []checkpoint.Part {
	return []checkpoint.Part{{Total: 1, PartProgress: checkpoint.PartProgress{Items: items}}}
}

func TestLag(t *testing.T) {
	shard := func(id string, change func(*checkpoint.Shard)) checkpoint.Shard {
		s := checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Reading}
		change(&s)
		return s
	}
	caughtUp := shard("1", func(s *checkpoint.Shard) {
		s.ReadAt, s.AppliedTo, s.CaughtUp, s.EventTime = ago(2*time.Second), ago(2*time.Second), true, ago(time.Hour)
	})
	behind := shard("2", func(s *checkpoint.Shard) { s.ReadAt, s.EventTime = ago(time.Second), ago(10*time.Minute) })
	unread := shard("3", func(s *checkpoint.Shard) { s.State = checkpoint.Waiting })
	child := shard("4", func(s *checkpoint.Shard) { s.State, s.Parent = checkpoint.Waiting, "2" })
	done := shard("5", func(s *checkpoint.Shard) { s.State, s.DoneAt = checkpoint.Done, ago(30*time.Second) })
	orphan := shard("6", func(s *checkpoint.Shard) { s.State, s.Parent = checkpoint.Waiting, "5" })
	replaced := shard("7", func(s *checkpoint.Shard) { s.Label, s.EventTime = "older", ago(20*time.Hour) })
	for _, c := range []struct {
		name      string
		shards    []checkpoint.Shard
		want      float64 // negative: unknown
		estimated bool
	}{
		{"no shard", nil, -1, false},
		{"an empty page two seconds ago, whatever the last change", []checkpoint.Shard{caughtUp}, 2, true},
		{"the one that is behind counts", []checkpoint.Shard{caughtUp, behind}, 600, false},
		{"a child waits for a parent that is behind", []checkpoint.Shard{behind, child}, 600, false},
		{"a child whose parent is done was not read since", []checkpoint.Shard{done, orphan}, 30, true},
		{"of a root that was never read nothing is known", []checkpoint.Shard{caughtUp, unread}, -1, false},
		{"a replaced stream does not count", []checkpoint.Shard{caughtUp, replaced}, 2, true},
	} {
		got := judged(TableInput{Found: true, State: loadedTable(), Shards: c.shards}).Tables[0]
		switch {
		case c.want < 0 && got.LagSeconds == nil && (got.HeadroomSeconds == nil || got.HeadroomAtMost):
		case c.want >= 0 && got.LagSeconds != nil && *got.LagSeconds == c.want && got.LagEstimated == c.estimated && *got.HeadroomSeconds == 86400-c.want && !got.HeadroomAtMost:
		default:
			t.Errorf("%s: lag %s, estimated %t; want %v, %t", c.name, lagText(got.LagSeconds, got.LagEstimated), got.LagEstimated, c.want, c.estimated)
		}
	}
}

// No worker reads a table whose stream was never listed. Its time counts from the start of its
// generation, in whole minutes, so that the alert for stalled tables fires. A suspended table waits
// for something else.
func TestAStreamThatIsNeverListed(t *testing.T) {
	begun := ago(10 * time.Minute)
	state := checkpoint.TableState{Source: "Orders", Label: "L", Generation: uint32(begun.Unix() / 60), Changed: ago(time.Second)}
	unread := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Waiting, Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Second)}}
	young, aside, listed, timeless := state, state, state, state
	timeless.Generation = 1
	young.Generation = uint32(noon.Unix() / 60)
	aside.Suspended = checkpoint.Suspension{Reason: "it has no stream", Since: ago(time.Minute)}
	listed.Listed = listed.Generation
	for _, c := range []struct {
		name    string
		state   checkpoint.TableState
		want    time.Time
		waiting bool
	}{
		{"for minutes", state, begun.Add(time.Minute), true},
		{"since a moment ago", young, noon, false},
		{"set aside", aside, time.Time{}, false},
		{"listed", listed, ago(time.Second), false},
		{"since an unknown time", timeless, time.Time{}, true},
		{"nothing was begun", checkpoint.TableState{Changed: ago(time.Hour)}, ago(time.Hour), true},
	} {
		m := judged(TableInput{Found: true, State: c.state, Shards: []checkpoint.Shard{unread}})
		got := m.Tables[0].OldestReadAt
		if c.want.IsZero() != (got == nil) || got != nil && !got.Equal(c.want) || m.Tables[0].Old {
			t.Errorf("%s: last read at %v, want %s; old: %t", c.name, got, c.want, m.Tables[0].Old)
		}
		if waiting := slices.ContainsFunc(m.notes(), func(n string) bool { return strings.Contains(n, "first complete listing") }); waiting != c.waiting {
			t.Errorf("%s: %q", c.name, m.notes())
		}
	}
}

// H13: no worker reads the children of an ended shard until a worker lists them. They may have
// begun when the last listing showed their parent open, and their lag counts from then, unless they
// are only minutes late, or no children are expected.
func TestH13_ChildrenThatNobodyLists(t *testing.T) {
	open := checkpoint.Shard{Source: "Orders", Label: "L", ID: "open", State: checkpoint.Reading, Owner: "w", CaughtUp: true, ReadAt: ago(time.Second), AppliedTo: ago(time.Second), FirstRead: ago(23 * time.Hour)}
	ended := func(before time.Duration) checkpoint.Shard {
		return checkpoint.Shard{Source: "Orders", Label: "L", ID: "ended", State: checkpoint.Done, DoneAt: ago(before), ReadAt: ago(before), CaughtUp: true,
			EventTime: ago(before + 5*time.Hour), FirstRead: ago(before + 10*time.Hour)}
	}
	child, over, aside := open, loadedTable(), loadedTable()
	child.ID, child.Parent = "child", "ended"
	over.StreamEnded = true
	aside.Suspended = checkpoint.Suspension{Reason: "it has no stream", Since: ago(time.Minute)}
	seen := func(at time.Duration) checkpoint.Listings {
		return checkpoint.Listings{At: ago(at), Open: map[string]time.Time{"ended": ago(at)}}
	}
	for _, c := range []struct {
		name     string
		state    checkpoint.TableState
		shards   []checkpoint.Shard
		listings checkpoint.Listings
		lag      time.Duration // of the table; negative: unknown
		counts   bool          // the shard that ended
	}{
		{"children that came", loadedTable(), []checkpoint.Shard{ended(20 * time.Hour), child}, checkpoint.Listings{}, time.Second, false},
		{"a listing that is late", loadedTable(), []checkpoint.Shard{ended(5 * time.Minute), open}, seen(6 * time.Minute), time.Second, false},
		{"for an hour", loadedTable(), []checkpoint.Shard{ended(time.Hour), open}, seen(70 * time.Minute), 80 * time.Minute, true},
		{"for an hour, and nothing else is left to read", loadedTable(), []checkpoint.Shard{ended(time.Hour)}, seen(70 * time.Minute), 80 * time.Minute, true},
		{"of a shard that was never listed open", loadedTable(), []checkpoint.Shard{ended(time.Hour), open}, checkpoint.Listings{}, 6*time.Hour + 10*time.Minute, true},
		{"for longer than they are kept", loadedTable(), []checkpoint.Shard{ended(30 * time.Hour), open}, seen(31 * time.Hour), 31*time.Hour + 10*time.Minute, true},
		{"until a listing of a day later had none", loadedTable(), []checkpoint.Shard{ended(30 * time.Hour), open}, seen(5 * time.Hour), time.Second, false},
		{"a stream that is over", over, []checkpoint.Shard{ended(time.Hour), open}, seen(70 * time.Minute), time.Second, false},
		{"a table that is set aside", aside, []checkpoint.Shard{ended(time.Hour)}, seen(70 * time.Minute), -1, false},
	} {
		m := judged(TableInput{Found: true, State: c.state, Shards: c.shards, Listings: c.listings})
		got, shard := m.Tables[0], m.Shards[0]
		switch {
		case (c.lag < 0) != (got.LagSeconds == nil):
			t.Errorf("%s: lag %s", c.name, lagText(got.LagSeconds, false))
		case c.lag >= 0 && (*got.LagSeconds != c.lag.Seconds() || *got.HeadroomSeconds != (24*time.Hour-c.lag).Seconds() || got.HeadroomAtMost):
			t.Errorf("%s: lag %s, headroom %s; want %s", c.name, lagText(got.LagSeconds, got.LagEstimated), got.headroomText(), c.lag)
		}
		if (shard.Why != nil) != c.counts || c.counts && (shard.Why.Code != WhyChildren || !got.LagEstimated || !got.OldestReadAt.Equal(*shard.DoneAt) || !got.Old) {
			t.Errorf("%s: %+v, last read at %v", c.name, shard.Why, got.OldestReadAt)
		}
		synced := !c.counts && c.state.Suspended.Reason == "" && !c.state.StreamEnded
		if told := slices.ContainsFunc(m.notes(), func(n string) bool { return strings.Contains(n, "find the children") }); told != c.counts || synced != (m.Phase == PhaseInSync) {
			t.Errorf("%s: %s, %q", c.name, m.Phase, m.notes())
		}
		asked := slices.ContainsFunc(m.NextSteps, func(s standing.NextStep) bool {
			return s.Command == "replicator status --shards --table Orders" && strings.Contains(s.Why, "find the children")
		})
		if asked != c.counts {
			t.Errorf("%s: %+v", c.name, m.NextSteps)
		}
	}
}

func TestVerdict(t *testing.T) {
	lost := loadedTable()
	lost.NeedsLoad = true
	if err := judged(TableInput{Found: true, State: loadedTable()}).Verdict(); err != nil {
		t.Errorf("all is well, but: %v", err)
	}
	for _, c := range []struct {
		in   TableInput
		code string
	}{
		{TableInput{Found: true, State: lost}, diag.NeedsLoad},
		{TableInput{Found: true, State: loadedTable(), Parked: 1}, diag.ItemsParked},
	} {
		err := judged(c.in).Verdict()
		if !diag.Has(err, c.code) || diag.ExitCode(err) != diag.ExitNo {
			t.Errorf("%v: want %s and exit status %d", err, c.code, diag.ExitNo)
		}
	}
}
