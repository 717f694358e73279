package standing

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A waiting caller learns when the goal is reached, and immediately when only an operator can reach
// it.
func TestGoals(t *testing.T) {
	type answer struct{ inSync, copied, done string } // reached, stuck, or "" to keep waiting
	const reached, stuck = "reached", "stuck"
	of := func(change func(f *Facts)) Standing { return Of(facts(change)) }
	parked := of(func(f *Facts) { f.Parked = 2 })
	copying := of(load(copying("")))
	sync, left := of(func(*Facts) {}), of(step(checkpoint.CutoverDone))
	passed := of(func(f *Facts) {
		f.Named, f.Table.Suspended, f.Shards = false, checkpoint.Suspension{Reason: Gone, Since: ago(48 * time.Hour)}, nil
	})
	found := map[State]bool{}
	for name, c := range map[string]struct {
		tables []Standing
		want   answer
	}{
		"no table":                          {nil, answer{}},
		"in sync":                           {[]Standing{sync}, answer{reached, reached, ""}},
		"done":                              {[]Standing{left}, answer{reached, reached, reached}},
		"one done, one in sync":             {[]Standing{left, sync}, answer{reached, reached, ""}},
		"watched":                           {[]Standing{of(step(checkpoint.CutoverWatching))}, answer{"", reached, ""}},
		"frozen":                            {[]Standing{of(step(checkpoint.CutoverDrain))}, answer{"", reached, ""}},
		"ledger unreadable":                 {[]Standing{of(func(f *Facts) { f.ReadAt = ago(time.Hour) })}, answer{}},
		"paused":                            {[]Standing{of(func(f *Facts) { f.Table.Pause.Since = ago(time.Hour) })}, answer{stuck, stuck, stuck}},
		"a gap":                             {[]Standing{of(gap(checkpoint.KindStream, 7))}, answer{stuck, stuck, stuck}},
		"a gap that is loaded by itself":    {[]Standing{of(func(f *Facts) { gap(checkpoint.KindStream, 7)(f); f.LoadsAgain = true })}, answer{}},
		"stalled":                           {[]Standing{of(func(f *Facts) { f.Shards[0] = readAgo("s", time.Hour) })}, answer{}},
		"copying":                           {[]Standing{copying}, answer{}},
		"parked":                            {[]Standing{parked}, answer{stuck, reached, stuck}},
		"copying beside parked":             {[]Standing{copying, parked}, answer{stuck, "", stuck}},
		"in sync beside one that passed":    {[]Standing{sync, passed}, answer{reached, reached, ""}},
		"rows differ":                       {[]Standing{of(func(f *Facts) { f.Table.Sampled = checkpoint.Sampled{At: ago(time.Minute), Differing: 1} })}, answer{stuck, reached, stuck}},
		"catching up":                       {[]Standing{of(func(f *Facts) { f.Table.Adopted = 6 })}, answer{"", reached, ""}},
		"a sweep":                           {[]Standing{of(sweep(func(*checkpoint.Load) {}))}, answer{"", reached, ""}},
		"a sweep that waits for its answer": {[]Standing{of(sweep(func(l *checkpoint.Load) { l.Sweep.Waiting = true }))}, answer{stuck, reached, stuck}},
		"not started":                       {[]Standing{of(func(f *Facts) { *f = Facts{Now: noon, Lease: lease} })}, answer{}},
	} {
		for _, s := range c.tables {
			found[s.State()] = true
		}
		judge := func(g Goal) string {
			switch {
			case g.Reached(c.tables):
				return reached
			case g.Stuck(c.tables) >= 0:
				return stuck
			}
			return ""
		}
		if got := (answer{judge(GoalInSync), judge(GoalCopied), judge(GoalDone)}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for _, state := range States {
		if !found[state] {
			t.Errorf("no case of %s", state)
		}
	}
}
