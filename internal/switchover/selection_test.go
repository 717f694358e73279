package switchover

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// playGroups is a migration in which each table is a group.
func playGroups(t *testing.T, script func(s *scene)) {
	t.Helper()
	playConfig(t, "cutover: { watch_for: 5m, ready_when: { lag_held_for: 0s } }\n", script)
}

// with runs a command for selected groups, and gives its documents, the code of its error, and the text.
func (s *scene) with(selected Selection, command func(ctx context.Context, o *Operator) error) (all []Document, code, text string) {
	s.Helper()
	s.stdout.Reset()
	o := s.operator()
	o.Select = selected
	err := command(s.Ctx, o)
	s.open = 0
	for in := json.NewDecoder(&s.stdout); in.More(); {
		var d Document
		s.Must(in.Decode(&d))
		all = append(all, d)
	}
	var told *diag.Error
	if errors.As(err, &told) {
		return all, told.Code, err.Error() + " " + told.Fix
	} else if err != nil {
		return all, err.Error(), ""
	}
	return all, "", ""
}

func begin(r Request) func(ctx context.Context, o *Operator) error {
	return func(ctx context.Context, o *Operator) error { return o.Start(ctx, r) }
}

// D16: a command says for which groups it is; nothing begins for tables that it did not name.
func TestH145_ACutoverIsOfTheGroupsThatAreNamed(t *testing.T) {
	dry := Request{KeepFallback: "no", Yes: true}
	for name, c := range map[string]struct {
		selected Selection
		code     string
		says     string
		groups   string
	}{
		"none":             {Selection{}, diag.Usage, "--group with one of: Orders, Parts; or --all", ""},
		"two ways":         {Selection{Group: "Orders", All: true}, diag.Usage, "exclude each other", ""},
		"unknown":          {Selection{Group: "Order"}, diag.Usage, "give one of Orders, Parts", ""},
		"a group":          {Selection{Group: "Parts"}, "", "", "Parts"},
		"a table":          {Selection{Tables: []string{"Orders"}}, "", "", "Orders"},
		"an unknown table": {Selection{Tables: []string{"Orders", "Users"}}, diag.Usage, "no source table", ""},
		"both tables":      {Selection{Tables: []string{"Parts", "Orders"}}, "", "", "Orders Parts"},
		"all":              {Selection{All: true}, "", "", "Orders Parts"},
	} {
		playGroups(t, func(s *scene) {
			all, code, text := s.with(c.selected, begin(dry))
			var begun []string
			records, err := s.Ledger.Cutovers(s.Ctx)
			s.Must(err)
			for _, r := range records {
				begun = append(begun, r.Row)
				if r.Group != r.Row || !slices.Equal(r.Tables, []string{r.Row}) || r.Attempt != 1 {
					t.Errorf("%s: %+v", name, r.CutoverPlan)
				}
			}
			if code != c.code || !strings.Contains(text, c.says) || strings.Join(begun, " ") != c.groups || code == "" && len(all) != len(begun) {
				t.Errorf("%s: %s %q, begun %v, %d documents", name, code, text, begun, len(all))
			}
		})
	}
	playConfig(t, "cutover: { groups: { both: [Orders, Parts] } }\n", func(s *scene) {
		_, code, text := s.with(Selection{Tables: []string{"Orders"}}, begin(dry))
		if code != diag.Usage || !strings.Contains(text, "also give --table Parts") {
			t.Errorf("a part of a group: %s %q", code, text)
		}
	})
}

// D16: groups are cut over at once, each with its hooks and tokens, or one after another. A cutover of one
// leaves the tables of the other alone.
func TestH145_GroupsAreCutOverAtOnceOrOneAfterAnother(t *testing.T) {
	playGroups(t, func(s *scene) {
		s.workers()
		all, code, text := s.with(Selection{All: true}, begin(keep))
		if code != "" || len(all) != 2 || all[0].Step != "watching" || all[1].Step != "watching" || all[0].Group+all[1].Group != "OrdersParts" {
			t.Fatalf("%s %s: %+v after %v\n%s", code, text, all, s.calledFor, &s.stderr)
		}
		slices.Sort(s.calledFor)
		if got := strings.Join(s.calledFor, ", "); got != "Orders freeze_writes, Orders switch, Parts freeze_writes, Parts switch" {
			t.Error(got)
		}
	})
	playGroups(t, func(s *scene) {
		s.workers()
		if all, code, text := s.with(Selection{Group: "Parts"}, begin(keep)); code != "" || all[0].Step != "watching" {
			t.Fatalf("%s %s", code, text)
		}
		if parts, orders := s.Table("Parts"), s.Table("Orders"); !parts.Halt.Switched || orders.Halt != (checkpoint.Halt{}) {
			t.Errorf("Parts %+v, Orders %+v", parts.Halt, orders.Halt)
		}
		if _, code, _ := s.with(Selection{Group: "Parts"}, begin(keep)); code != diag.CutoverRefused {
			t.Errorf("again: %s", code)
		}
		// The other group may still be cancelled, without naming it: only its cutover runs.
		if _, code, text := s.with(Selection{Group: "Orders"}, begin(Request{KeepFallback: "no", WhenReady: true})); code != "" {
			t.Fatalf("%s %s", code, text)
		}
		all, code, text := s.with(Selection{}, func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Step{Name: "cancel"}) })
		if code != "" || len(all) != 1 || all[0].Group != "Orders" || all[0].Step != "cancelled" || all[0].Attempt != 2 {
			t.Errorf("%s %s: %+v", code, text, all)
		}
		if all, code, _ := s.with(Selection{}, func(ctx context.Context, o *Operator) error { return o.Show(ctx) }); code != "" || len(all) != 2 {
			t.Errorf("%s: %d documents", code, len(all))
		}
		if _, code, text := s.with(Selection{}, func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Step{Name: "cancel"}) }); code != diag.CutoverRefused {
			t.Errorf("nothing is to cancel: %s %s", code, text)
		}
	})
}

// D16: two requests with other groupings of the same tables cannot both begin.
func TestH145_ATableIsInOneCutover(t *testing.T) {
	playGroups(t, func(s *scene) {
		s.Must(s.Update(func(c *checkpoint.Cutover) error { // as a configuration with one group requested it
			return c.Start(checkpoint.CutoverPlan{Group: "all", Tables: []string{"Orders", "Parts"}, Targets: []string{"orders", "parts"}}, s.Now())
		}))
		if _, code, text := s.with(Selection{Group: "Orders"}, begin(keep)); code != diag.CutoverRefused {
			t.Errorf("%s %s", code, text)
		}
		_, err := s.Ledger.UpdateCutover(s.Ctx, "Orders", func(c *checkpoint.Cutover) error { // at the same time
			return c.Start(checkpoint.CutoverPlan{Group: "Orders", Tables: []string{"Orders"}, Targets: []string{"orders"}, Approved: true, WatchFor: time.Minute}, s.Now())
		})
		s.Must(err)
		s.workers()
		s.Sleep(20 * time.Second)
		c, err := s.Ledger.Cutover(s.Ctx, "Orders")
		s.Must(err)
		if c.Step != checkpoint.CutoverCancelled || !strings.Contains(c.Reason, "another cutover of these tables is running: attempt 1 of all") {
			t.Errorf("%s: %s", c.Step, c.Reason)
		}
	})
}
