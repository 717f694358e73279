package comparison

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// What a verify finds, and the code of its error.
func TestWhatAVerifyFinds(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(s *scene)
		want   Result // only its counts
		code   string
	}{
		"nothing":   {func(*scene) {}, Result{Items: 10, Rows: 10, Compared: 10, Clean: true}, ""},
		"missing":   {func(s *scene) { s.Damage("orders", "c", "", "", "") }, Result{Items: 10, Rows: 9, Compared: 10, Missing: 1}, diag.RowsDiffer},
		"different": {func(s *scene) { s.Damage("orders", "c", "d", "total", "x") }, Result{Items: 10, Rows: 10, Compared: 10, Different: 1}, diag.RowsDiffer},
		"extra":     {func(s *scene) { delete(s.Source.Items["Orders"], "c") }, Result{Items: 9, Rows: 10, Compared: 9, Extra: 1}, diag.RowsDiffer},
		"foreign":   {func(s *scene) { s.Damage("orders", "z", "d", "total", "x") }, Result{Items: 10, Rows: 11, Compared: 10, Foreign: 1}, diag.RowsDiffer},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				c.damage(s)
				d, code := s.begin(nil)
				r := d.Tables[0].Result
				got := Result{Items: r.Items, Rows: r.Rows, Compared: r.Compared, Missing: r.Missing, Different: r.Different, Extra: r.Extra, Foreign: r.Foreign, Clean: r.Clean}
				if code != c.code || got.Items != c.want.Items || got.Missing != c.want.Missing || got.Different != c.want.Different || got.Extra != c.want.Extra ||
					got.Foreign != c.want.Foreign || got.Clean != c.want.Clean || got.Rows != c.want.Rows {
					t.Errorf("%s: %+v, want %+v", code, got, c.want)
				}
				if n := len(r.Findings); (n == 1) != (c.code != "") {
					t.Errorf("%d findings", n)
				}
				if r.EndedAt.After(s.Now()) || r.BegunAt.Before(kit.Begin) || !d.At.Equal(s.Now()) {
					t.Errorf("begun %v, ended %v, at %v; it is %v", r.BegunAt, r.EndedAt, d.At, s.Now())
				}
			})
		})
	}
}

// A sample, or recent changes, are compared alone, and the result states this.
func TestScopes(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "", "", "")
		s.Sleep(time.Hour)
		d, _ := s.begin(func(o *Operator) { o.ChangedSince = 10 * time.Minute })
		r := d.Tables[0].Result
		if r.Since == nil || r.Since.Before(s.Now().Add(-12*time.Minute)) || r.Since.After(s.Now().Add(-9*time.Minute)) || len(r.Blind) == 0 {
			t.Errorf("%+v", r)
		}
		d, _ = s.begin(func(o *Operator) { o.Sample = 0.5 })
		if r = d.Tables[0].Result; r.Sample == nil || *r.Sample != 0.5 || r.Compared >= 10 || len(r.Blind) == 0 {
			t.Errorf("%+v", r)
		}
		if full := s.Table("Orders").Verify.Full; full.Number != 1 {
			t.Errorf("a part counts as a full verify: %+v", full)
		}
	})
	for text, want := range map[string]float64{"1%": 0.01, "0.5%": 0.005, "0%": 0, "100%": 0, "-1%": 0, "5": 0, "5%%": 0, "x%": 0, "": 0} {
		if got, err := parseSample(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
}

// The command joins a verify in progress, and leaves a paused one as it is. It refuses a table that
// no worker follows. Without waiting it leaves the verify to the workers.
func TestBeginning(t *testing.T) {
	playScene(t, func(s *scene) {
		d, code := s.begin(func(o *Operator) { o.Waits = false })
		p := d.Tables[0].Progress
		if code != "" || d.Tables[0].State != StateRunning || p == nil || p.Parts.Total == 0 || p.Parts.Done != 0 || p.Estimate == nil || *p.Estimate != 1000 || p.Way == "" {
			t.Errorf("%s: %+v", code, p)
		}
		_, err := s.Ledger.PauseVerify(s.Ctx, "Orders")
		s.Must(err)
		d, code = s.begin(func(o *Operator) { o.Waits = false })
		if v := s.Table("Orders").Verify; code != "" || d.Tables[0].State != StatePaused || v.Number != 2 || v.Paused == "" {
			t.Errorf("a verify that is paused: %s: %+v", code, v)
		}
		_, err = s.Ledger.ResumeVerify(s.Ctx, "Orders")
		s.Must(err)
		d, code = s.begin(nil)
		if code != "" || d.Tables[0].State != StateDone || s.Table("Orders").Verify.Number != 2 || s.stderr.String() != "Orders: resumed the running verify\n" {
			t.Errorf("%s: %s, %s", code, d.Tables[0].State, &s.stderr)
		}
		s.Change("Orders", func(state *checkpoint.TableState) { state.Generation = 0 })
		if d, code = s.begin(nil); code != diag.VerifyRefused || len(d.Tables) > 0 {
			t.Errorf("a table that is not followed: %q", code)
		}
	})
}

// A verify that is paused or cancelled while the command waits has no result, and an older result
// does not count.
func TestAVerifyThatDoesNotEnd(t *testing.T) {
	for step, cause := range map[string]string{Pause: "an operator paused it", Cancel: "it was cancelled"} {
		playScene(t, func(s *scene) {
			s.World.Go("steer", func(ctx context.Context) {
				for s.Table("Orders").Verify.Number < 2 {
					s.Sleep(time.Millisecond)
				}
				do := map[string]func(context.Context, string) (checkpoint.TableState, error){Pause: s.Ledger.PauseVerify, Cancel: s.Ledger.CancelVerify}[step]
				_, err := do(ctx, "Orders")
				s.Must(err)
			})
			s.Damage("orders", "c", "", "", "") // so that it waits for the second read
			if err := s.operator(nil).Begin(s.Ctx); !diag.Has(err, diag.VerifyWaits) || !strings.Contains(err.Error(), cause) {
				t.Errorf("%s: %v", step, err)
			}
		})
	}
	// No worker applies changes, so earlier commits are not known to be applied before patience
	// ends.
	playScene(t, func(s *scene) {
		s.StopWorker()
		s.Sleep(time.Minute)
		s.Damage("orders", "c", "", "", "")
		began := s.Now()
		err := s.operator(func(o *Operator) { o.Patience = 90 * time.Second }).Begin(s.Ctx)
		if !diag.Has(err, diag.VerifyWaits) || diag.ExitCode(err) != diag.ExitTimeout {
			t.Errorf("without a worker: %v", err)
		}
		if took := s.Now().Sub(began); took < 90*time.Second || took > 3*time.Minute {
			t.Errorf("it gave up after %s", took)
		}
	})
}

// If the assumptions of a verify change, it ends with a reason and cannot compare. The next one is
// a new verify.
func TestAnOutdatedVerifyEnds(t *testing.T) {
	for cause, change := range map[string]func(s *checkpoint.TableState){
		"the table has begun a new generation since": func(s *checkpoint.TableState) { s.Generation++ },
		"the mapping has changed since it began":     func(s *checkpoint.TableState) { s.MappingHash = "another" },
		"the application has left the source":        func(s *checkpoint.TableState) { s.Halt.Switched = true },
	} {
		playScene(t, func(s *scene) {
			hash := s.Table("Orders").MappingHash
			s.World.Go("change", func(ctx context.Context) {
				for !s.Table("Orders").Verify.Running() {
					s.Sleep(time.Millisecond)
				}
				s.Change("Orders", change)
			})
			s.Damage("orders", "c", "", "", "") // so that it waits for the second read
			err := s.operator(nil).Begin(s.Ctx)
			code, exit := diag.VerifyWaits, diag.ExitFailed
			if s.Table("Orders").Halt.Switched { // a new one is refused
				code, exit = diag.CutOver, diag.ExitNo
			}
			if !diag.Has(err, code) || !strings.Contains(err.Error(), cause) || diag.ExitCode(err) != exit || s.Table("Orders").Verify.Running() {
				t.Errorf("%s: %v", cause, err)
			}
			s.Change("Orders", func(state *checkpoint.TableState) { state.MappingHash, state.Halt = hash, checkpoint.Halt{} })
			if d, code := s.begin(nil); code != diag.RowsDiffer || d.Tables[0].Result.Missing != 1 {
				t.Errorf("after %s: %q", cause, code)
			}
		})
	}
}

// Without a worker, the command reads the stream to its end. It judges rows without an unapplied
// change, and lists the others as in flight. The ledger's shards are not changed.
func TestAVerifyWithoutAWorker(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Sleep(time.Minute)
		s.StopWorker()
		s.Sleep(10 * time.Minute)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("late", "total=1")))
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("d", "total=new")))
		s.Damage("orders", "c", "", "", "")
		before, err := s.Ledger.Shards(s.Ctx, "Orders")
		s.Must(err)
		began := s.Now()
		d, code := s.begin(func(o *Operator) {
			o.reach = func(*desk.Migration) ends {
				return ends{source: s.Source, target: s.Target, repair: s.Target, stream: s.Source.Open}
			}
		})
		r := d.Tables[0].Result
		if code != diag.RowsDiffer || r == nil || r.Clean || r.Missing != 1 || r.Different != 0 || r.InFlight != 2 || len(r.Findings) != 3 || s.Now().Sub(began) > 2*time.Minute {
			t.Errorf("%s after %s: %+v", code, s.Now().Sub(began), r)
		}
		after, err := s.Ledger.Shards(s.Ctx, "Orders")
		if s.Must(err); !reflect.DeepEqual(before, after) {
			t.Errorf("the shards were %+v, and are %+v", before, after)
		}
	})
}

// Status shows the last result with its age, and reads the findings once the source has returned
// the keys.
func TestStatus(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "d", "total", "x")
		_, _ = s.begin(nil)
		s.StopWorker()
		s.Sleep(25 * time.Hour)
		d, code := s.run(func(ctx context.Context) error {
			return s.operator(func(o *Operator) { o.Table, o.ShowValues = "", true }).Show(ctx)
		})
		if code != "" || len(d.Tables) != 2 || !d.Tables[0].Result.Stale || d.Tables[1].Result.Findings == nil {
			t.Fatalf("%s: %+v", code, d.Tables)
		}
		f := d.Tables[0].Result.Findings[0]
		if f.Kind != "different" || f.Key == nil || *f.Key != `{"pk":{"S":"c"}}` || len(f.Columns) != 1 || f.Columns[0].Column != "d:total" || *f.Columns[0].HaveValue != "x" ||
			*f.Columns[0].WantValue != "c" {
			t.Errorf("%+v", f)
		}
		o := s.operator(func(o *Operator) { o.Output = "text" })
		s.stdout.Reset()
		s.Must(o.Show(s.Ctx))
		if text := s.stdout.String(); !strings.Contains(text, "stale: 1 row differs, 25h ago") || !strings.Contains(text, "Orders  different  orders/"+f.KeyHash+"  d:total") ||
			strings.Contains(text, `"pk"`) || !strings.Contains(text, "replicator verify --repair --dry-run --table Orders -c f") {
			t.Errorf("%s", text)
		}
	})
	// If no migration has started, nothing is requested.
	playScene(t, func(s *scene) {
		s.Store.Clear()
		s.Source.Fail = func(call string) error { t.Errorf("%s is asked", call); return nil }
		d, code := s.run(func(ctx context.Context) error { return s.operator(nil).Show(ctx) })
		if code != "" || d.Tables[0].State != StateNever || d.Tables[0].Result != nil {
			t.Errorf("%s: %+v", code, d.Tables)
		}
		s.Source.Fail = nil
	})
}

// A table that is clean, or has no verify to steer, does not keep a command from the next one.
func TestACommandReachesEachTable(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("p", "total=p")))
		s.Load("Parts")
		s.Damage("parts", "p", "d", "total", "x")
		d, code := s.begin(func(o *Operator) { o.Table, o.Repair, o.DryRun = "", true, true })
		if code != diag.RowsDiffer || d.Tables[0].Repair != nil || d.Tables[1].Repair == nil || d.Tables[1].Repair.Repaired != 1 || len(d.Tables[1].Result.Findings) != 1 {
			t.Errorf("repair: %q, %+v", code, d.Tables)
		}
		all := func(o *Operator) { o.Table = "" }
		d, code = s.run(func(ctx context.Context) error { return s.operator(all).Show(ctx) })
		if code != "" || len(d.Tables[0].Result.Findings) != 0 || len(d.Tables[1].Result.Findings) != 1 {
			t.Errorf("status: %q, %+v", code, d.Tables)
		}
		if _, code := s.begin(func(o *Operator) { o.Table, o.Waits = "Parts", false }); code != "" {
			t.Fatalf("%q", code)
		}
		for _, step := range []struct{ step, state string }{{Pause, StatePaused}, {Resume, StateRunning}, {Cancel, StateDone}} {
			d, code := s.run(func(ctx context.Context) error { return s.operator(all).Steer(ctx, step.step) })
			if code != "" || d.Tables[0].State != StateDone || d.Tables[1].State != step.state || s.Table("Parts").Verify.Running() != (step.step != Cancel) {
				t.Errorf("%s: %q, %+v", step.step, code, d.Tables)
			}
		}
	})
}

// Pause, resume and cancel act on the verify in progress, of one table or of all.
func TestSteering(t *testing.T) {
	playScene(t, func(s *scene) {
		steer := func(step, table string) (*Document, string) {
			return s.run(func(ctx context.Context) error {
				return s.operator(func(o *Operator) { o.Table = table }).Steer(ctx, step)
			})
		}
		for _, step := range []string{Pause, Resume, Cancel} {
			if _, code := steer(step, ""); code != diag.VerifyRefused {
				t.Errorf("%s with none under way: %q", step, code)
			}
		}
		if _, code := steer(Pause, "Orders"); code != diag.VerifyRefused {
			t.Errorf("pause of a table with none under way: %q", code)
		}
		_, _ = s.begin(func(o *Operator) { o.Waits = false })
		s.Must(s.Ledger.PutVerifyData(s.Ctx, s.Table("Orders"), "picked", []byte("x")))
		for _, step := range []struct{ name, state, next string }{{Pause, StatePaused, "verify resume"}, {Resume, StateRunning, "verify"}, {Cancel, StateDone, ""}} {
			d, code := steer(step.name, "")
			if code != "" || d.Tables[0].State != step.state || s.Table("Parts").Verify.Number != 1 {
				t.Errorf("%s: %q, %s", step.name, code, d.Tables[0].State)
			}
			command := ""
			if len(d.NextSteps) > 0 {
				command = d.NextSteps[0].Command
			}
			if want := "replicator " + step.next + " --table Orders -c f"; step.next != "" && command != want || step.next == "" && command != "" {
				t.Errorf("%s leads to %q", step.name, command)
			}
		}
		if v := s.Table("Orders").Verify; v.Running() || v.Number != 2 || v.Result.Number != 1 {
			t.Errorf("after the cancel: %+v", v)
		}
		if left, err := s.Ledger.VerifyData(s.Ctx, "Orders", 2, ""); err != nil || len(left) > 0 {
			t.Errorf("after the cancel %d rows are left: %v", len(left), err)
		}
	})
}

// A repair fixes the rows that the comparison found. The result is an error only if differences
// remain. A dry run writes nothing.
func TestRepairing(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "d", "total", "x")
		s.Damage("orders", "e", "", "", "")
		d, code := s.begin(func(o *Operator) { o.Repair, o.DryRun = true, true })
		if r := d.Tables[0].Repair; code != diag.RowsDiffer || r == nil || !r.DryRun || r.Findings != 2 {
			t.Errorf("dry: %q, %+v", code, r)
		}
		d, code = s.begin(func(o *Operator) { o.Repair = true })
		r := d.Tables[0].Repair
		if code != "" || r == nil || r.Repaired != 2 || r.NotReached != 0 || len(d.NextSteps) != 1 || d.NextSteps[0].Command != "replicator verify --table Orders -c f" {
			t.Errorf("%q, %+v, then %+v", code, r, d.NextSteps)
		}
		if d, code = s.begin(nil); code != "" || !d.Tables[0].Result.Clean {
			t.Errorf("after the repair: %q, %+v", code, d.Tables[0].Result)
		}
		s.Damage("orders", "z", "d", "total", "x")
		if d, code = s.begin(func(o *Operator) { o.Repair = true }); code != diag.RowsDiffer || d.Tables[0].Repair.Repaired != 0 {
			t.Errorf("what is not ours: %q, %+v", code, d.Tables[0].Repair)
		}
	})
	// From the freeze on nothing is repaired, but a dry run still compares.
	playScene(t, func(s *scene) {
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, checkpoint.CutoverVerify; return nil }))
		for dry, refused := range map[bool]bool{true: false, false: true} {
			if err := s.operator(func(o *Operator) { o.Repair, o.DryRun = true, dry }).Begin(s.Ctx); diag.Has(err, diag.CutoverRefused) != refused || !refused && err != nil {
				t.Errorf("dry: %t: %v", dry, err)
			}
		}
	})
	// A table that was not compared is not repaired. A failure of one table is an error, but the
	// document is still printed.
	playScene(t, func(s *scene) {
		s.Damage("orders", "c", "d", "total", "x")
		_, _ = s.begin(nil)
		s.Source.Fail = func(call string) error {
			if call == "Get" {
				return &diag.Error{Code: diag.Internal, What: "broken"}
			}
			return nil
		}
		o := s.operator(func(o *Operator) { o.Repair = true })
		s.stdout.Reset()
		s.Must(o.open(s.Ctx, "verify"))
		s.Must(o.findings(s.Ctx))
		if err := o.repair(s.Ctx); err == nil || o.tables[0].repaired == nil || o.tables[0].repaired.NotReached != 1 {
			t.Errorf("%v, %+v", err, o.tables[0].repaired)
		}
	})
}

// The report has a line for each difference and for each table. It has values only on request. The
// file is tested before anything is read.
func TestReport(t *testing.T) {
	for _, values := range []bool{false, true} {
		playScene(t, func(s *scene) {
			s.Damage("orders", "c", "d", "total", "x")
			file := filepath.Join(t.TempDir(), "r.jsonl")
			if _, code := s.begin(func(o *Operator) { o.Report, o.ShowValues, o.Table = file, values, "" }); code != diag.RowsDiffer {
				t.Fatalf("%q", code)
			}
			text, err := os.ReadFile(file)
			s.Must(err)
			var lines []line
			for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
				var one line
				s.Must(json.Unmarshal([]byte(l), &one))
				lines = append(lines, one)
			}
			if len(lines) != 3 || lines[0].Kind != "different" || lines[0].Row != "c" || lines[0].Key != `{"pk":{"S":"c"}}` || lines[0].Version == "" || lines[0].Columns[0].Column != "d:total" {
				t.Fatalf("%+v", lines)
			}
			if shown := lines[0].Columns[0].HaveValue != nil; shown != values {
				t.Errorf("values are shown: %t", shown)
			}
			if *lines[1].Listed != 1 || lines[1].Result.Different != 1 || *lines[1].LeftOut != 0 || *lines[2].Listed != 0 || lines[2].Source != "Parts" {
				t.Errorf("%+v, %+v", lines[1], lines[2])
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if _, err := os.Stat(strings.TrimSuffix(file, "jsonl") + "html"); err != nil {
				t.Error(err)
			}
			number := s.Table("Orders").Verify.Number
			if _, code := s.begin(func(o *Operator) { o.Report = filepath.Join(t.TempDir(), "no", "such") }); code != diag.Usage || s.Table("Orders").Verify.Number != number {
				t.Errorf("%q", code)
			}
		})
	}
}
