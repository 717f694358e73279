package loads

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const ordersARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders"

// answers holds the source's answers about its tables and exports.
type answers struct {
	desk.Source
	capacity    int64
	ahead       time.Duration // of its clock before the operator's
	recovery    backfill.Recovery
	unrecovered error // instead of a state of recovery
	report      backfill.ExportReport
	unknown     error // instead of a report
	exports     map[string]archived
	asked       []string
	failing     int // the call that fails, from 1; 0 for none
	calls       int
}

// call fails for another table than the two of the migration, and where the test asks for it.
func (a *answers) call(table string) error {
	a.calls++
	switch {
	case a.calls == a.failing:
		return &cdc.Error{Op: "DescribeTable", Reason: cdc.Denied, Err: errors.New("denied")}
	case table != "Orders" && table != "Parts":
		return &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New(table)}
	}
	return nil
}

func (a *answers) Describe(ctx context.Context, table string) (backfill.Description, error) {
	a.asked = append(a.asked, table)
	if err := a.call(table); err != nil {
		return backfill.Description{}, err
	}
	return backfill.Description{Name: table, ARN: ordersARN, ID: "id", At: task.Now(ctx).Add(a.ahead), Items: 1000, Bytes: 64 << 20, ReadCapacity: a.capacity,
		PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}, nil
}

func (a *answers) Recovery(_ context.Context, table string) (backfill.Recovery, error) {
	return a.recovery, cmp.Or(a.unrecovered, a.call(table))
}

func (a *answers) Report(context.Context, string) (backfill.ExportReport, error) {
	return a.report, cmp.Or(a.call("Orders"), a.unknown)
}

func (a *answers) OpenFolder(_ context.Context, env config.Lookup, address string) (exports.Store, string, error) {
	if env == nil {
		return nil, "", errors.New("there are no credentials without an environment")
	}
	if err := a.call("Orders"); err != nil {
		return nil, "", err
	}
	e := a.exports[address]
	if e == nil {
		return nil, "", &source.Fault{Place: address, What: "there is none", Fix: "name another"}
	}
	o, name := &exportstest.Objects{}, path.Base(address)
	return o, name, e(o, name)
}

// archived writes an export under a name.
type archived func(o *exportstest.Objects, name string) error

var ordersTable = exportstest.Table{ARN: ordersARN, ID: "id"}

// full returns a full export of three items at a time. window returns one of two changes up to a
// time.
func full(at time.Time) archived {
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	return func(o *exportstest.Objects, name string) error {
		return errors.Join(o.Full(ordersTable, name, at, []attribute.Item{item, item, item}), billed(o, name))
	}
}

// billed makes an export's billed size thirty bytes.
func billed(o *exportstest.Objects, name string) error {
	in, err := o.Open(context.Background(), name+"/manifest-summary.json")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	o.Put(name+"/manifest-summary.json", bytes.Replace(text, []byte(`"billedSizeBytes":0`), []byte(`"billedSizeBytes":30`), 1))
	return err
}

func window(from, to time.Time) archived {
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	change := exportstest.Change{Keys: item, New: item, Written: from}
	return func(o *exportstest.Objects, name string) error {
		return o.Window(ordersTable, name, from, to, string(exports.ViewNewAndOld), []exportstest.Change{change, change})
	}
}

// desked is an operator of the scene, with his output.
type desked struct {
	*Operator
	out, stderr bytes.Buffer
	asked       []string // the questions he was asked
	source      *answers
}

// operator returns an operator who controls the loads of a table, or with "" of all, and answers
// every question with yes.
func (s *scene) operator(table string) *desked {
	d := &desked{source: &answers{capacity: 100, recovery: backfill.Recovery{On: true, From: noon.Add(-72 * time.Hour)}, report: backfill.ExportReport{JSON: true}, exports: map[string]archived{}}}
	d.Operator = &Operator{Console: &terminal.Console{Stdout: &d.out, Stderr: &d.stderr, Output: "json", Env: func(string) (string, bool) { return "", false }},
		Cfg: s.cfg, With: " -c f", Table: table,
		Confirm: func(_ context.Context, question string) error { d.asked = append(d.asked, question); return nil },
		Ends: desk.Ends{
			Target: func(context.Context, *config.Config) (desk.Target, error) { return target{store: s.store}, nil },
			Source: func(context.Context, *config.Config) (desk.Source, error) { return d.source, nil },
		}}
	return d
}

// document returns the document of the last command.
func (d *desked) document(t *testing.T) Document {
	t.Helper()
	var out Document
	if err := json.Unmarshal(d.out.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, &d.out)
	}
	validate(t, d.out.Bytes())
	return out
}

// ends ends the load of Orders regularly.
func (s *scene) ends(ctx context.Context) {
	s.update(ctx, func(t *checkpoint.TableState) {
		t.Load.DoneAt, t.Load.SweptAt, t.NeedsLoad, t.Base = task.Now(ctx), task.Now(ctx), false, t.Generation
	})
}

// follow makes the ledger know Parts, which was loaded long ago.
func (s *scene) follow(ctx context.Context) {
	s.Helper()
	_, err := s.worker.UpdateTable(ctx, "Parts", func(t *checkpoint.TableState) error {
		t.Generation, t.Adopted, t.Listed, t.Base = 3, 3, 3, 3
		return nil
	})
	s.check(err)
}

// A wait reads the ledger every two seconds, shows the progress of unfinished loads every ten, and
// ends with the last of them.
func TestAWaitEndsWithTheLastLoad(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.follow(ctx)
		s.lose(ctx)
		s.world.Go("worker", func(ctx context.Context) {
			s.sleep(ctx, 10*time.Second)
			s.seal(ctx, 4, 100, 1<<20)
			s.sleep(ctx, 15*time.Second)
			s.ends(ctx)
		})
		o := s.operator("")
		o.Waits = true
		s.check(o.Steer(ctx, Request{Action: ActionStart, Repair: true}))
		if waited := s.world.Elapsed(); waited < 25*time.Second || waited > 27*time.Second {
			t.Errorf("it waited %s", waited)
		}
		if got := strings.Split(strings.TrimSpace(o.stderr.String()), "\n"); len(got) != 3 || got[0] != "Orders  asked" || got[2] != "Orders  copying  0 of 4 parts  0 items" {
			t.Errorf("%q", got)
		}
		o = s.operator("")
		o.Waits = true
		if s.check(o.Show(ctx)); o.stderr.Len() != 0 || len(o.document(t).Tables) != 2 {
			t.Errorf("%s", &o.stderr)
		}
	})
}

// A wait ends immediately when a load needs an operator, and shows the next step. It also ends with
// its context.
func TestAWaitThatLeadsNowhere(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		o := s.operator("Orders")
		o.Waits = true
		if err := o.Show(ctx); !diag.Has(err, diag.LoadWaits) || !strings.Contains(err.Error(), "the migration has not begun") {
			t.Error(err)
		}
		s.begin(ctx)
		s.lose(ctx)
		waits := func(text, fix string) {
			t.Helper()
			begun := s.world.Elapsed()
			err := o.Show(ctx)
			var told *diag.Error
			if !errors.As(err, &told) || told.Code != diag.LoadWaits || !strings.Contains(told.Cause, text) || told.Fix != fix || s.world.Elapsed() != begun {
				t.Errorf("%v after %s, want %q", err, s.world.Elapsed()-begun, text)
			}
		}
		waits("on_gap: wait", "replicator backfill repair Orders -c f")
		s.steer(ctx, Request{Action: ActionStart})
		s.steer(ctx, Request{Action: ActionPause})
		waits("paused by an operator", "replicator backfill resume --table Orders -c f")
		s.steer(ctx, Request{Action: ActionResume})
		interrupted, interrupt := context.WithCancelCause(ctx)
		s.world.Go("operator", func(ctx context.Context) { s.sleep(ctx, 3*time.Second); interrupt(errors.New("enough")) })
		if err := o.Show(interrupted); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
		s.world.Go("outage", func(ctx context.Context) {
			s.sleep(ctx, 5*time.Second)
			s.store.OnRead = func(ctx context.Context, _ string) error { return task.Sleep(ctx, time.Hour) }
		})
		begun := s.world.Elapsed()
		if err := o.Show(ctx); !diag.Has(err, diag.TargetUnreachable) || s.world.Elapsed()-begun > time.Minute {
			t.Errorf("%v after %s", err, s.world.Elapsed()-begun)
		}
		s.store.OnRead = nil
		s.seal(ctx, 1, 10, 10)
		s.ends(ctx)
		// For the next load.
		s.update(ctx, func(t *checkpoint.TableState) { t.Load.Paused = checkpoint.PausedByOperator })
		if err := o.Show(ctx); err != nil {
			t.Errorf("a load that is over: %v", err)
		}
		if paused := o.Waits && s.read(ctx).judge(cost.Default(), "", noon).Tables[0].Paused != nil; paused {
			t.Error("a load that is over is paused")
		}
	})
}

// A command that only reads does not wait unless requested. The document has the ledger's time: the
// source's, once it has answered.
func TestWhatALookShows(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		o := s.operator("Orders")
		if err := o.Show(ctx); err != nil || s.world.Elapsed() != 0 || !o.document(t).At.Equal(noon) {
			t.Errorf("%v, %s", err, &o.out)
		}
		o = s.operator("Orders")
		o.DryRun, o.source.ahead = true, time.Hour
		s.check(o.Steer(ctx, Request{Action: ActionStart}))
		d := o.document(t)
		if !d.At.Equal(noon.Add(time.Hour)) || !d.DryRun || d.Decided[0].Action != ActionStart || d.Decided[0].Estimate.Items != 1000 || s.state(ctx).Stage() == checkpoint.StageAsked {
			t.Errorf("%s", &o.out)
		}
		o = s.operator("Orders")
		o.Output = ""
		if err := o.Show(ctx); err != nil || !strings.Contains(o.out.String(), "Orders") || !strings.Contains(o.out.String(), "Next:") {
			t.Errorf("%v, %s", err, &o.out)
		}
	})
}

// If one table refuses, the document is still printed. If all tables were requested, the command is
// refused only if none is left. A dry run answers the same way, and describes only tables that
// would be loaded.
func TestRefusedForOneAndForAll(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.follow(ctx)
		s.lose(ctx) // Orders needs a load, and Parts does not
		s.check(func() error {
			_, err := s.worker.UpdateTable(ctx, "Parts", func(t *checkpoint.TableState) error {
				t.Load = checkpoint.Load{Generation: 3, Number: 1, Parts: 1, DoneAt: noon, SweptAt: noon}
				return nil
			})
			return err
		}())
		for _, dry := range []bool{true, false} {
			for table, want := range map[string]bool{"Parts": true, "": false} {
				o := s.operator(table)
				o.DryRun = dry
				err := o.Steer(ctx, Request{Action: ActionStart})
				var said Shown
				if refused := errors.As(err, &said) && diag.Has(err, diag.LoadRefused); refused != want || (err != nil) != want || len(o.document(t).Decided) == 0 {
					t.Errorf("dry run %t of %q: %v", dry, table, err)
				}
				if asked := slices.Compact(o.source.asked); table == "" && dry && !slices.Equal(asked, []string{"Orders"}) {
					t.Errorf("it asked for %v", asked)
				}
			}
		}
		if state := s.state(ctx); state.Stage() != checkpoint.StageAsked {
			t.Errorf("%+v", state.Load)
		}
		o := s.operator("")
		if err := o.Steer(ctx, Request{Action: ActionStart, Repair: true}); err != nil || o.document(t).Decided[1].Why != "nothing to load" {
			t.Errorf("nothing to do is no refusal: %v", err)
		}
	})
}

// The command asks whether to approve a waiting sweep. Without a terminal it does nothing.
func TestASweepIsAskedFirst(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		o := s.operator("Orders")
		s.check(o.Steer(ctx, Request{Action: ActionStart}))
		if len(o.asked) != 0 || s.state(ctx).Load.Sweep.Approved {
			t.Errorf("asked %q of a start", o.asked)
		}
		s.seal(ctx, 1, 10, 10)
		s.check(s.part(ctx, 0).Finish(ctx, checkpoint.PartProgress{Items: 10}))
		state := s.state(ctx)
		parts, err := s.worker.Parts(ctx, state, checkpoint.PhaseCopy)
		s.check(err)
		_, err = s.worker.CompleteCopy(ctx, state, checkpoint.PartsDone(parts, 1))
		s.check(err)
		s.pass(ctx, 0, checkpoint.Counts{Seen: 5, Put: 3, Removed: 2})
		resume := Request{Action: ActionResume}
		o = s.operator("Orders")
		o.Confirm = nil
		if err := o.Steer(ctx, resume); !diag.Has(err, diag.Usage) || !s.state(ctx).Load.Sweep.Waiting {
			t.Errorf("nobody answers: %v", err)
		}
		no := errors.New("no")
		o.Confirm = func(context.Context, string) error { return no }
		if err := o.Steer(ctx, resume); !errors.Is(err, no) || !s.state(ctx).Load.Sweep.Waiting {
			t.Errorf("the answer is no: %v", err)
		}
		o = s.operator("Orders")
		s.check(o.Steer(ctx, resume))
		if len(o.asked) != 1 || o.asked[0] != "Sweep the target of table Orders? The sweep writes 3 rows and removes 2 rows." || s.state(ctx).Load.Sweep.Waiting {
			t.Errorf("asked %q", o.asked)
		}
	})
}

// The command asks before a redo too, and that answer approves no sweep.
func TestARedoIsAskedFirst(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		redo := Request{Action: ActionRedo}
		o := s.operator("Orders")
		o.Confirm = nil
		if err := o.Steer(ctx, redo); !diag.Has(err, diag.Usage) {
			t.Errorf("nobody answers: %v", err)
		}
		before := s.state(ctx).Generation
		o.DryRun = true
		if err := o.Steer(ctx, redo); err != nil || s.state(ctx).Generation != before || o.document(t).Decided[0].Estimate == nil {
			t.Errorf("a dry run asks nobody: %v", err)
		}
		o = s.operator("Orders")
		s.check(o.Steer(ctx, redo))
		if state := s.state(ctx); len(o.asked) != 1 || state.Generation <= before || state.Load.Sweep.Approved {
			t.Errorf("asked %q; %+v", o.asked, state.Load.Sweep)
		}
		o = s.operator("Orders")
		o.Yes, o.Confirm = true, nil
		s.check(o.Steer(ctx, redo))
		if state := s.state(ctx); !state.Load.Sweep.Approved {
			t.Errorf("yes allows the sweep: %+v", state.Load.Sweep)
		}
	})
}

// A start with --yes also approves the sweep after the copy, whatever it copies.
func TestAStartMayAllowTheSweep(t *testing.T) {
	for name, r := range map[string]Request{"a scan": {}, "an export": {From: []string{at + "full"}}, "a requested export": {From: []string{"s3://bucket/p"}, Wish: true}} {
		for _, yes := range []bool{true, false} {
			play(t, "{}", func(ctx context.Context, s *scene) {
				s.begin(ctx)
				s.older(ctx, 48*time.Hour)
				o := s.operator("Orders")
				o.source.exports[at+"full"] = full(noon.Add(-time.Hour))
				o.Yes, r.Action = yes, ActionStart
				if s.check(o.Steer(ctx, r)); s.state(ctx).Load.Sweep.Approved != yes {
					t.Errorf("%s, yes %v: %+v", name, yes, s.state(ctx).Load.Sweep)
				}
			})
		}
	}
}

// A cancel is asked about where a load runs, table by table, and an answer allows no sweep.
func TestACancelIsAskedFirst(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.follow(ctx)
		s.lose(ctx)
		for _, running := range []bool{false, true} {
			if running {
				s.steer(ctx, Request{Action: ActionStart})
			}
			o := s.operator("")
			s.check(o.Steer(ctx, Request{Action: ActionCancel}))
			if asked := len(o.asked) == 1 && strings.HasPrefix(o.asked[0], "Cancel the load of table Orders?"); asked != running || !running && len(o.asked) > 0 || s.state(ctx).Load.Sweep.Approved {
				t.Errorf("running %v: asked %q", running, o.asked)
			}
		}
	})
}

// throttle warns only of a percentage that limits nothing. It is still set.
func TestThrottleWarns(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		share, err := Asked{MaxReadCapacity: "25%"}.Limits()
		s.check(err)
		units, err := Asked{MaxReadCapacity: "500", MaxRowsPerSecond: "none"}.Limits()
		s.check(err)
		for _, c := range []struct {
			limits   checkpoint.Limits
			capacity int64
			warned   bool
			set      string
		}{{share, 0, true, "25%"}, {share, 100, false, "25%"}, {units, 0, false, "500"}} {
			o := s.operator("Orders")
			o.source.capacity = c.capacity
			s.check(o.Steer(ctx, Request{Action: ActionThrottle, Limits: c.limits}))
			if warned := strings.Contains(o.stderr.String(), "25% does not limit the load of table Orders"); warned != c.warned {
				t.Errorf("%+v: %s", c, &o.stderr)
			}
			if got := o.document(t).Tables[0].Limits.MaxReadCapacity; got == nil || *got != c.set {
				t.Errorf("%+v: %s", c, &o.out)
			}
		}
		o := s.operator("Orders")
		o.Ends.Source = func(context.Context, *config.Config) (desk.Source, error) { return nil, errors.New("away") }
		if err := o.Steer(ctx, Request{Action: ActionThrottle, Limits: share}); err != nil || o.stderr.Len() != 0 {
			t.Errorf("a source that is away: %v, %s", err, &o.stderr)
		}
	})
}
