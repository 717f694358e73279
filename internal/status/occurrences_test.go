package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Occurrences are conditions that apply, and the last steps. Those of a healthy table are steps alone.
func TestOccurrencesOfTables(t *testing.T) {
	owned := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w1", ReadAt: ago(time.Second), CaughtUp: true}
	old, stuck := owned, owned
	old.AppliedTo, old.CaughtUp, old.EventTime = ago(19*time.Hour), false, ago(19*time.Hour)
	stuck.ReadAt, stuck.WrittenAt = ago(time.Hour), ago(time.Second)
	with := func(change func(s *checkpoint.TableState)) checkpoint.TableState {
		s := loadedTable()
		change(&s)
		return s
	}
	for _, c := range []struct {
		name string
		in   TableInput
		want string
	}{
		{"not started", TableInput{}, ""},
		{"in sync", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}}, "copy_done Orders!, in_sync !"},
		{"copying", TableInput{Found: true, State: with(func(s *checkpoint.TableState) { s.Load.DoneAt = time.Time{} }), Shards: []checkpoint.Shard{owned}}, ""},
		{"parked", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}, Parked: 2}, "parked Orders: parked list --table Orders, copy_done Orders!"},
		{"lost", TableInput{Found: true, State: with(func(s *checkpoint.TableState) {
			s.NeedsLoad, s.Reason, s.Gaps, s.GapCount = true, "trimmed", []checkpoint.DeclaredGap{{At: ago(time.Minute), Reason: "trimmed"}}, 1
			s.Generation, s.Adopted = 8, 8
		}), Shards: []checkpoint.Shard{owned}}, "gap Orders: backfill repair Orders"},
		{"stalled", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{stuck}}, "stalled Orders: status --shards --table Orders, copy_done Orders!"},
		{"low headroom", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{old}}, "headroom Orders: status --table Orders, copy_done Orders!"},
		{"sampled", TableInput{Found: true, State: with(func(s *checkpoint.TableState) {
			s.Sampled = checkpoint.Sampled{At: ago(time.Minute), Compared: 5, Differing: 1}
		}), Shards: []checkpoint.Shard{owned}}, "differs Orders: verify --repair --dry-run --table Orders, copy_done Orders!"},
		{"sweep waits", TableInput{Found: true, State: with(func(s *checkpoint.TableState) {
			s.Load.Parts, s.Load.Sweep.Waiting = 1, true
		}), Shards: []checkpoint.Shard{owned}}, "awaiting_approval Orders: backfill resume --table Orders --yes, copy_done Orders!"},
	} {
		if got := listed(judged(c.in)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// listed lists occurrences: kind, subject, and the command; steps end with an exclamation mark.
func listed(m *Document) string {
	var all []string
	for _, o := range m.Occurrences() {
		text := o.Kind + " " + o.Table + o.Group
		switch {
		case o.Mark != "":
			text += "!"
		case o.Command != "":
			text += ": " + strings.TrimPrefix(o.Command, "replicator ")
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// A cutover is announced step by step. Late writes last until an operator has reviewed them.
func TestOccurrencesOfCutovers(t *testing.T) {
	given := []checkpoint.CutoverTry{{Attempt: 1}}
	for _, c := range []struct {
		name   string
		record checkpoint.Cutover
		want   []string // kind and mark
	}{
		{"none", checkpoint.Cutover{}, nil},
		{"requested", checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverRequested}, []string{"awaiting_approval ", "cutover_step 1.requested"}},
		{"approved", checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverRequested, CutoverPlan: checkpoint.CutoverPlan{Approved: true}}, []string{"cutover_step 1.requested"}},
		{"expired", checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverCancelled, EndedAt: noon, CutoverPlan: checkpoint.CutoverPlan{Expires: noon}}, []string{"request_expired 1", "cutover_step 1.cancelled"}},
		{"second try", checkpoint.Cutover{Attempt: 2, Step: checkpoint.CutoverDrain, GivenUp: given}, []string{"try_given_up 1", "cutover_step 2.drain"}},
		{"late writes", checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, SwitchedAt: noon, Strays: 2, StraysSeen: 1}, []string{"strays ", "cutover_step 1.watching"}},
		{"reviewed", checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, SwitchedAt: noon, Strays: 2, StraysSeen: 2}, []string{"cutover_step 1.watching"}},
		{"done", checkpoint.Cutover{Attempt: 3, Step: checkpoint.CutoverDone, SwitchedAt: noon, EndedAt: noon}, []string{"cutover_step 3.done", "done 3"}},
		{"rolling back", checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, SwitchedAt: noon, Rollback: &checkpoint.Cutover{Attempt: 2, Step: checkpoint.CutoverFreeze, CutoverPlan: checkpoint.CutoverPlan{Direction: checkpoint.Back}}},
			[]string{"cutover_step 2.freeze"}},
	} {
		l := &Input{Cfg: oneTable, Begun: true, Cutovers: checkpoint.Cutovers{c.record}}
		var got []string
		for _, o := range l.Judge(func(string) (string, bool) { return "", false }, "", noon).Occurrences() {
			if o.Group != "" {
				got = append(got, o.Kind+" "+o.Mark)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A lost way back is announced with its repair. A table that joins, and a new generation, make the
// migration newly in sync.
func TestOccurrencesOfTheWayBackAndOfGenerations(t *testing.T) {
	since, reason := noon, "the change stream has dropped changes"
	m := &Document{Tables: []Table{{Source: "Orders", WayBack: &WayBack{LostSince: &since, Reason: &reason}}}}
	if got := listed(m); got != "way_back_lost Orders: verify --reverse --repair --table Orders" {
		t.Error(got)
	}
	one, two := uint32(1), uint32(2)
	marks := map[string]bool{}
	for _, tables := range [][]Table{{{Source: "A", Generation: &one}}, {{Source: "A", Generation: &two}}, {{Source: "A", Generation: &one}, {Source: "B", Generation: &one}}, {{Source: "A"}}, nil} {
		marks[(&Document{Tables: tables}).generations()] = true
	}
	if len(marks) != 5 {
		t.Error(fmt.Sprint(marks))
	}
}
