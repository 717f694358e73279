package cutover

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Late writes are rejected after the switch. If that is impossible, the timeline says so, and the
// watch ends nevertheless.
func TestTheTimelineSaysThatLateWritesAreNotRejected(t *testing.T) {
	for _, denied := range []bool{false, true} {
		playScene(t, func(s *scene) {
			p := plan()
			p.WatchFor = 5 * time.Minute
			s.start(p)
			s.drive(at(checkpoint.CutoverSwitching))
			s.Target.Refuse = func(change string) error {
				if denied && strings.HasPrefix(change, "drop") {
					return &sink.Error{Code: "PermissionDenied"}
				}
				return nil
			}
			switched := s.Now()
			got := s.driveFor(10 * time.Minute)
			var notes []string
			for _, e := range got.Timeline {
				if strings.HasPrefix(e.Text, "late writes to ") {
					notes = append(notes, e.Text)
				}
			}
			if got.Step != checkpoint.CutoverDone || got.FencedAt.Before(switched) || (len(notes) == 1 && strings.HasPrefix(notes[0], "late writes to orders cannot be rejected: ")) != denied || !denied && len(notes) > 0 {
				t.Errorf("denied %t: %s, fenced at %s, %q", denied, got.Step, got.FencedAt, notes)
			}
		})
	}
}

// If an earlier version raised no numbers for an attempt, nothing is dropped behind its switch.
func TestNothingIsDroppedBehindASwitchWithoutARaise(t *testing.T) {
	for _, raised := range []bool{true, false} {
		playScene(t, func(s *scene) {
			p := plan()
			p.WatchFor = 5 * time.Minute
			s.start(p)
			s.drive(at(checkpoint.CutoverSwitching))
			s.Must(s.Update(func(c *checkpoint.Cutover) error {
				if !raised {
					c.Raised = nil
				}
				return nil
			}))
			drops := 0
			s.Target.Refuse = func(change string) error {
				if strings.HasPrefix(change, "drop") {
					drops++
				}
				return nil
			}
			if got := s.driveFor(10 * time.Minute); got.Step != checkpoint.CutoverDone || (drops > 0) != raised || got.FencedAt.IsZero() == raised || (got.Fences == nil) == raised {
				t.Errorf("raised %t: %s, %d drops, fenced at %v, %v", raised, got.Step, drops, got.FencedAt, got.Fences)
			}
		})
	}
}

// What remains of a try counts the tables that the driver compares as a whole: with more of them
// than it compares at once it takes longer.
func TestTheRestOfATryCountsItsSmallTables(t *testing.T) {
	for n, want := range map[int]time.Duration{2: handing + comparing, comparesAtOnce + 1: handing + 2*comparing} {
		playScene(t, func(s *scene) {
			p := plan()
			p.Tables = nil
			for i := range n {
				p.Tables = append(p.Tables, fmt.Sprint("T", i))
				s.Change(p.Tables[i], func(st *checkpoint.TableState) { st.Verify.Full = s.Table("Orders").Verify.Full })
			}
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
			s.start(p)
			s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Step, c.FrozenAt = checkpoint.CutoverVerify, s.Now(); return nil }))
			if done, err := v.stillDisturbed(s.Ctx, s.Cutover(), s.Now()); done || err != nil || v.draining.rest != want {
				t.Errorf("%d tables: done %t, %v, rest %s, want %s", n, done, err, v.draining.rest, want)
			}
		})
	}
}

// Up to which time a promise is extended: two seconds before the present, at most once a second,
// only while the application is certainly frozen, and not once a cancel has begun.
func TestHowFarAPromiseIsExtended(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration // since the freeze
		change func(c *checkpoint.Cutover, v *drive)
		to     time.Duration // since the freeze; -1 for no extension
		moved  bool
	}{
		"some time after":    {5 * time.Second, nil, 3 * time.Second, false},
		"just after":         {2 * time.Second, nil, 0, false},
		"too soon":           {2*time.Second - 1, nil, -1, false},
		"a second after one": {6 * time.Second, func(c *checkpoint.Cutover, v *drive) { v.quietTo = c.FrozenAt.Add(3 * time.Second) }, 4 * time.Second, false},
		"soon after one":     {6 * time.Second, func(c *checkpoint.Cutover, v *drive) { v.quietTo = c.FrozenAt.Add(3*time.Second + 1) }, -1, false},
		"no promise":         {5 * time.Second, func(c *checkpoint.Cutover, v *drive) { c.Quiet = false }, -1, false},
		"at the deadline":    {5 * time.Second, func(c *checkpoint.Cutover, v *drive) { c.Deadline = c.FrozenAt.Add(5 * time.Second) }, -1, false},
		"before it":          {5 * time.Second, func(c *checkpoint.Cutover, v *drive) { c.Deadline = c.FrozenAt.Add(5*time.Second + 1) }, 3 * time.Second, false},
		"after a cancel":     {5 * time.Second, func(c *checkpoint.Cutover, v *drive) { c.Step = checkpoint.CutoverFreeze }, -1, true},
	} {
		playScene(t, func(s *scene) {
			s.start(plan())
			frozen := s.Now()
			s.Must(s.Update(func(c *checkpoint.Cutover) error {
				c.Step, c.FrozenAt, c.Quiet, c.Deadline = checkpoint.CutoverDrain, frozen, true, frozen.Add(time.Hour)
				return nil
			}))
			k, v := s.Cutover(), &drive{Driver: s.driver}
			if c.change != nil {
				c.change(&k, v)
			}
			err := v.stayQuiet(s.Ctx, k, frozen.Add(c.after))
			want := checkpoint.Quiet{}
			if c.to >= 0 {
				want = checkpoint.Quiet{At: frozen, To: frozen.Add(c.to)}
			}
			for _, table := range []string{"Orders", "Parts"} {
				if diff := cmp.Diff(want, s.promised(table)); diff != "" || errors.Is(err, checkpoint.ErrMoved) != c.moved || err != nil && !c.moved {
					t.Errorf("%s, %s: %v %s", name, table, err, diff)
				}
			}
		})
	}
}
