package status

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A wait ends when the goal is reached, or when only an operator can reach it. It shows the last
// status that could be read. A failed reading is retried, except for the first one.
func TestWaitForAState(t *testing.T) {
	at := func(change func(in *TableInput)) func() (*Document, error) {
		return func() (*Document, error) {
			in := TableInput{Found: true, State: loadedTable()}
			change(&in)
			l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "orders"}}, Inputs: []TableInput{in}, Begun: true}
			return l.Judge(nothingSet, " -c f", noon), nil
		}
	}
	away := func() (*Document, error) { return nil, errors.New("away") }
	unread := at(func(in *TableInput) {
		in.State.Base, in.State.Load.DoneAt, in.State.Load.SweptAt = 0, time.Time{}, time.Time{}
		in.State.Load.Parts, in.State.Load.StartedAt, in.State.Load.Generation = 1, ago(time.Hour), in.State.Generation
	})
	paused := at(func(in *TableInput) { in.State.Pause.Since = ago(time.Hour) })
	left := func() (*Document, error) {
		l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "orders"}}, Inputs: []TableInput{{Found: true, State: loadedTable()}}, Begun: true,
			Cutovers: checkpoint.Cutovers{{Attempt: 1, Step: checkpoint.CutoverDone, SwitchedAt: ago(time.Hour)}}}
		return l.Judge(nothingSet, "", noon), nil
	}
	for name, c := range map[string]struct {
		reads []func() (*Document, error)
		code  string // of the error; "" if none
		shown standing.State
		after time.Duration
	}{
		"reached at once":              {[]func() (*Document, error){left}, "", standing.Done, 0},
		"reached later":                {[]func() (*Document, error){unread, away, left}, "", standing.Done, 4 * time.Second},
		"an operator has to act":       {[]func() (*Document, error){unread, paused}, diag.GoalMissed, standing.Paused, 2 * time.Second},
		"the first reading fails":      {[]func() (*Document, error){away}, "away", "", 0},
		"it is not reached until then": {[]func() (*Document, error){unread}, "time", standing.Stalled, time.Minute},
	} {
		play(t, func(ctx context.Context, s *scene) {
			limited, cancel := task.WithTimeout(ctx, time.Minute)
			defer cancel()
			began, n := task.Mono(ctx), 0
			m, err := await(limited, func(context.Context) (*Document, error) {
				read := c.reads[min(n, len(c.reads)-1)]
				n++
				return read()
			}, standing.GoalDone, 2*time.Second)
			shown := standing.State("")
			if m != nil {
				shown = m.State
			}
			coded := c.code == diag.GoalMissed
			if shown != c.shown || (err != nil) != (c.code != "") || coded != diag.Has(err, diag.GoalMissed) || task.Mono(ctx)-began != c.after {
				t.Errorf("%s: %s after %s, %v", name, shown, task.Mono(ctx)-began, err)
			}
		})
	}
	m, err := paused()
	if err != nil {
		t.Fatal(err)
	}
	var told *diag.Error
	if err := m.stuck(standing.GoalInSync); !errors.As(err, &told) || told.Fix != "replicator resume --table Orders -c f" {
		t.Errorf("%v", err)
	}
	if err := m.Reached(standing.GoalInSync); !errors.As(err, &told) || told.What != "the migration is not in sync; it is paused" || told.Cause == "" {
		t.Errorf("%v", err)
	}
}
