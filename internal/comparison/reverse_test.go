package comparison

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// playReverse runs a script with a scene after the cutover. The way back of Orders is in the given
// state, and the table Parts has none.
func playReverse(t *testing.T, state checkpoint.FallbackState, script func(s *scene)) {
	t.Helper()
	playScene(t, func(s *scene) {
		s.Must(s.Update(func(c *checkpoint.Cutover) error {
			c.Attempt, c.Step, c.SwitchedAt, c.Tables = 1, checkpoint.CutoverWatching, s.Now(), []string{"Orders", "Parts"}
			types := transform.Types{}
			types.Add(kit.Item("x", "total=x"))
			text, err := json.Marshal(types)
			c.Forms = map[string]checkpoint.CutoverForm{"Orders": {Types: text}}
			return err
		}))
		s.wayBack(func(f *checkpoint.Fallback) { f.Attempt, f.State, f.Wait = 1, state, 8*time.Minute })
		script(s)
	})
}

func (s *scene) wayBack(change func(f *checkpoint.Fallback)) checkpoint.Fallback {
	s.Helper()
	f, err := s.Ledger.UpdateFallback(s.Ctx, "Orders", 0, func(f *checkpoint.Fallback) error { change(f); return nil })
	s.Must(err)
	return f
}

func (s *scene) reverse(change func(o *Operator)) (*Document, string) {
	s.Helper()
	return s.begin(func(o *Operator) {
		o.Reverse, o.Table = true, ""
		if change != nil {
			change(o)
		}
	})
}

// lead plays a leader that makes each suspect item equal to the total of its row.
func (s *scene) lead(totals map[string]string) {
	s.World.Go("lead", func(ctx context.Context) {
		for ; ctx.Err() == nil; _ = task.Sleep(ctx, time.Second) {
			all, err := s.Ledger.FallbackSuspects(ctx, "Orders")
			for _, suspect := range all {
				key := string(suspect.Key)
				switch total := totals[key]; total {
				case "":
					delete(s.Source.Items["Orders"], key)
				case "park":
					err = errors.Join(err, s.Ledger.ParkFallback(ctx, "Orders", key, "too large"))
				default:
					s.Source.Items["Orders"][key] = kit.Item(key, "total="+total)
				}
				err = errors.Join(err, s.Ledger.ClearSuspect(ctx, "Orders", suspect))
			}
			if err != nil {
				s.Error(err)
			}
		}
	})
}

// damage makes four rows differ from their items: one has another value, one has no item, one is
// gone, and one gives no item.
func (s *scene) damage() {
	s.Damage("orders", "a", "d", "total", "new")
	delete(s.Source.Items["Orders"], "b")
	s.Damage("orders", "c", "", "", "")
	s.Damage("orders", "d", "d", "unknown", "1")
}

// Items are compared with their rows, and the result is in the document and in the ledger.
func TestItemsAreComparedWithRows(t *testing.T) {
	playReverse(t, checkpoint.FallbackFollowing, func(s *scene) {
		d, code := s.reverse(nil)
		if r := d.Tables[0].Reverse; code != "" || len(d.Tables) != 1 || len(d.NextSteps) != 0 || !r.Clean || r.Rows != 10 || r.Items != 10 || r.WayBack != "following" || r.Frozen || r.GapEnded || len(r.Findings) != 0 {
			t.Errorf("%s: %+v", code, d.Tables)
		}
		s.damage()
		d, code = s.reverse(nil)
		r := d.Tables[0].Reverse
		if code != diag.RowsDiffer || r.Clean || r.Different != 1 || r.Missing != 1 || r.Extra != 1 || r.Unreadable != 1 || r.Rows != 9 || r.Items != 9 || len(r.Findings) != 4 {
			t.Fatalf("%s: %+v", code, r)
		}
		for i, kind := range []string{"missing_item", "different_item", "unreadable_row", "extra_item"} {
			if f := r.Findings[i]; f.Kind != kind || len(f.RowHash) != 32 || (f.Reason != nil) != (kind == "unreadable_row") {
				t.Errorf("finding %d: %+v", i, f)
			}
		}
		if len(d.NextSteps) != 1 || d.NextSteps[0].Command != "replicator verify --reverse --repair --table Orders -c f" {
			t.Errorf("%+v", d.NextSteps)
		}
		f := s.wayBack(func(*checkpoint.Fallback) {})
		if f.Reverse.Differing() != 4 || f.Reverse.Clean() || !f.Reverse.Known() {
			t.Errorf("%+v", f.Reverse)
		}
		if all, err := s.Ledger.FallbackSuspects(s.Ctx, "Orders"); err != nil || len(all) != 0 {
			t.Errorf("without a repair, %d rows are suspect, %v", len(all), err)
		}
		s.stdout.Reset()
		s.Must(s.operator(func(o *Operator) { o.Table = "" }).Show(s.Ctx))
		if text := s.stdout.String(); !strings.Contains(text, `"way_back": "following"`) || !strings.Contains(text, `"missing": 1`) {
			t.Errorf("verify status: %s", text)
		}
		s.valid()
	})
}

// A repair lets the leader fix the items, and ends a gap.
func TestAReverseRepair(t *testing.T) {
	for _, state := range []checkpoint.FallbackState{checkpoint.FallbackFollowing, checkpoint.FallbackGap} {
		playReverse(t, state, func(s *scene) {
			s.damage()
			s.lead(map[string]string{"a": "new", "b": "b", "d": "park"})
			d, code := s.reverse(func(o *Operator) { o.Repair = true })
			r := d.Tables[0].Reverse
			if code != diag.RowsDiffer || !r.Clean || r.Repaired != 3 || r.Parked != 1 || len(r.Findings) != 1 || *r.Findings[0].Reason != "too large" || len(d.NextSteps) != 0 {
				t.Errorf("%s, %s: %+v", state, code, r)
			}
			if r.GapEnded != (state == checkpoint.FallbackGap) || r.WayBack != "following" {
				t.Errorf("%s: %+v", state, r)
			}
			if f := s.wayBack(func(*checkpoint.Fallback) {}); f.State != checkpoint.FallbackFollowing || f.Reverse.Repaired != 3 {
				t.Errorf("%s: %+v", state, f)
			}
		})
	}
}

// A gap stays if rows differ, and if changes were lost during the comparison.
func TestAGapStays(t *testing.T) {
	playReverse(t, checkpoint.FallbackGap, func(s *scene) {
		s.damage()
		d, _ := s.reverse(nil)
		if r := d.Tables[0].Reverse; r.GapEnded || r.WayBack != "gap" {
			t.Errorf("%+v", r)
		}
	})
	playReverse(t, checkpoint.FallbackGap, func(s *scene) {
		s.Damage("orders", "a", "d", "total", "new")
		s.World.Go("lose changes", func(ctx context.Context) {
			_ = task.Sleep(ctx, 5*time.Second)
			s.wayBack(func(f *checkpoint.Fallback) { f.From = s.Now() })
			s.Source.Items["Orders"]["a"] = kit.Item("a", "total=new")
		})
		d, code := s.reverse(nil)
		if r := d.Tables[0].Reverse; code != "" || !r.Clean || r.GapEnded || r.WayBack != "gap" || len(d.NextSteps) != 1 {
			t.Errorf("%s: %+v, %+v", code, r, d.NextSteps)
		}
	})
}

// The command is refused while DynamoDB does not follow Bigtable, and names the reason.
func TestReverseIsRefused(t *testing.T) {
	for state, want := range map[checkpoint.FallbackState]string{
		checkpoint.FallbackStandby: "has not been switched", checkpoint.FallbackStopping: "was ended", checkpoint.FallbackStopped: "was ended", "": "has no way back",
	} {
		playReverse(t, state, func(s *scene) {
			for _, table := range []string{"", "Orders"} {
				err := s.operator(func(o *Operator) { o.Reverse, o.Table = true, table }).Begin(s.Ctx)
				if !diag.Has(err, diag.VerifyRefused) || table != "" && !strings.Contains(err.Error(), want) {
					t.Errorf("%q of %q: %v", state, table, err)
				}
			}
		})
	}
	playReverse(t, checkpoint.FallbackFollowing, func(s *scene) {
		if _, code := s.reverse(func(o *Operator) { o.Table = "Parts" }); code != diag.VerifyRefused {
			t.Error(code)
		}
	})
}

// A repair that no leader takes up ends with a time limit, and a comparison that cannot read fails.
func TestReverseWithoutAnAnswer(t *testing.T) {
	playReverse(t, checkpoint.FallbackFollowing, func(s *scene) {
		s.damage()
		err := s.operator(func(o *Operator) { o.Reverse, o.Repair = true, true }).Begin(s.Ctx)
		if !diag.Has(err, diag.VerifyWaits) || diag.ExitCode(err) != diag.ExitTimeout {
			t.Errorf("%d: %v", diag.ExitCode(err), err)
		}
		if f := s.wayBack(func(*checkpoint.Fallback) {}); f.Reverse.Known() {
			t.Errorf("a result without all looks: %+v", f.Reverse)
		}
		s.World.Go("stop", func(ctx context.Context) {
			_ = task.Sleep(ctx, time.Minute)
			s.wayBack(func(f *checkpoint.Fallback) { f.State = checkpoint.FallbackStopping })
		})
		err = s.operator(func(o *Operator) { o.Reverse, o.Repair = true, true }).Begin(s.Ctx)
		if !diag.Has(err, diag.VerifyRefused) || diag.ExitCode(err) != diag.ExitFailed {
			t.Errorf("%d: %v", diag.ExitCode(err), err)
		}
	})
	playReverse(t, checkpoint.FallbackFollowing, func(s *scene) {
		s.Source.Fail = func(call string) error {
			if call == "Get" {
				return &cdc.Error{Op: "GetItem", Reason: cdc.Unavailable, Err: errors.New("no answer")}
			}
			return nil
		}
		err := s.operator(func(o *Operator) { o.Reverse = true }).Begin(s.Ctx)
		if err == nil || diag.ExitCode(err) != diag.ExitFailed {
			t.Errorf("%d: %v", diag.ExitCode(err), err)
		}
	})
}

// People read the counts, the worst findings and what a gap is.
func TestReverseForPeople(t *testing.T) {
	playReverse(t, checkpoint.FallbackGap, func(s *scene) {
		show := func(repair bool) string {
			s.stdout.Reset()
			_ = s.operator(func(o *Operator) { o.Reverse, o.Repair, o.Output = true, repair, "text" }).Begin(s.Ctx)
			return s.stdout.String()
		}
		s.damage()
		text := show(false)
		for _, want := range []string{"TABLE", "WAY BACK", "gap", "missing item", "unreadable row", "verify --reverse --repair --table Orders"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing:\n%s", want, text)
			}
		}
		s.lead(map[string]string{"a": "new", "b": "b", "d": "park"})
		if text = show(true); !strings.Contains(text, "the way back is complete again") || strings.Contains(text, "Next") {
			t.Error(text)
		}
		s.stdout.Reset()
		s.Must(s.operator(func(o *Operator) { o.Output = "text" }).Show(s.Ctx))
		if text := s.stdout.String(); !strings.Contains(text, "way back following; items compared with rows at 2026-") || !strings.Contains(text, ": clean") {
			t.Error(text)
		}
	})
}

// Only --table and --repair go with --reverse.
func TestFlagsOfReverse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Operator)
		flags  Flags
		good   bool
	}{
		"alone":           {func(*Operator) {}, Flags{}, true},
		"with --full":     {func(*Operator) {}, Flags{Full: true}, true},
		"with --repair":   {func(o *Operator) { o.Repair = true }, Flags{}, true},
		"a sample":        {func(*Operator) {}, Flags{Sample: "1%"}, false},
		"late changes":    {func(*Operator) {}, Flags{ChangedSince: "10m"}, false},
		"a dry run":       {func(o *Operator) { o.Repair, o.DryRun = true, true }, Flags{}, false},
		"a report":        {func(o *Operator) { o.Report = "f" }, Flags{}, false},
		"values":          {func(o *Operator) { o.ShowValues = true }, Flags{}, false},
		"foreign rows":    {func(o *Operator) { o.Repair, o.RemoveForeign = true, true }, Flags{}, false},
		"without waiting": {func(o *Operator) { o.Waits = false }, Flags{}, false},
	} {
		o := &Operator{Reverse: true, Waits: true}
		c.change(o)
		if err := o.Choose(c.flags); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The limits of the configuration bound the reads.
func TestLimitsOfReverse(t *testing.T) {
	for more, want := range map[string]bool{"": false, "backfill: { max_rows_per_second: 1 }\n": true, "backfill: { max_read_capacity: 50% }\n": true} {
		kit.Play(t, kit.Parse(t, more), func(m *kit.Migration) {
			o := &Operator{Cfg: m.Config}
			limits := o.readLimits(&table{config: config.Table{From: "Orders"}, capacity: 2})
			began := m.Now()
			for range 10 {
				_, _, err := limits.Take(m.Ctx, m.Ctx, 1, 1)
				m.Must(err)
			}
			if waits := m.Now().Sub(began) > 3*time.Second; waits != want {
				t.Errorf("%q: waited %v", more, m.Now().Sub(began))
			}
		})
	}
}
