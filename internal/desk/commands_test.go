package desk_test

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/deadletter"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/inspect"
	"github.com/dynamodb-bigtable/replicator/internal/lever"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/switchover"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// ends is a target with only a ledger, routed to a cluster, and a source that does not answer.
type ends struct {
	desk.Target
	store   *checkpointtest.Memory
	cluster string
}

var errAway = &diag.Error{Code: diag.SourceUnreachable, What: "the source is away"}

func (e *ends) Ledger(string) checkpoint.Store          { return e.store }
func (e *ends) Cluster(context.Context) (string, error) { return e.cluster, nil }
func (e *ends) Close() error                            { return nil }

// followed is the stream that these tests' ledgers follow.
const followed = "arn:aws:dynamodb:us-east-1:1:table/Orders/stream/L"

// describer describes every table with a stream and an id.
type describer struct {
	desk.Source
	stream, id string
}

func (d describer) Describe(_ context.Context, table string) (backfill.Description, error) {
	return backfill.Description{Name: table, StreamARN: d.stream, ID: d.id,
		PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}, nil
}

func (e *ends) desk() desk.Ends {
	return desk.Ends{
		Target: func(context.Context, *config.Config) (desk.Target, error) { return e, nil },
		Source: func(context.Context, *config.Config) (desk.Source, error) { return nil, errAway },
	}
}

// operators run the commands of the desk as the program does. The two that only read parked items
// require nothing of the ledger.
func operators(c *terminal.Console, cfg *config.Config, e desk.Ends) map[string]func(context.Context) error {
	load := func(action string) func(context.Context) error {
		return func(ctx context.Context) error {
			return (&loads.Operator{Console: c, Cfg: cfg, Ends: e, Yes: true}).Steer(ctx, loads.Request{Action: action})
		}
	}
	compare := func() *comparison.Operator { return &comparison.Operator{Console: c, Cfg: cfg, Ends: e} }
	steer := func(step string) func(context.Context) error {
		return func(ctx context.Context) error { return compare().Steer(ctx, step) }
	}
	cut := func() *switchover.Operator { return &switchover.Operator{Console: c, Cfg: cfg, Ends: e} }
	step := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return cut().Steer(ctx, switchover.Step{Name: name, For: time.Hour}) }
	}
	decide := func(command string) func(context.Context) error {
		return func(ctx context.Context) error {
			d := &parked.Decision{Console: c, Cfg: cfg, Ends: e, Log: slog.New(slog.DiscardHandler)}
			return d.Decide(ctx, command, &parked.Selection{All: true}, nil)
		}
	}
	table := func() *lever.Operator { return &lever.Operator{Console: c, Cfg: cfg, Ends: e, Table: "Orders"} }
	return map[string]func(context.Context) error{
		"backfill start": load(loads.ActionStart), "backfill pause": load(loads.ActionPause), "backfill resume": load(loads.ActionResume),
		"backfill redo": load(loads.ActionRedo), "backfill cancel": load(loads.ActionCancel), "throttle": load(loads.ActionThrottle),
		"backfill repair": func(ctx context.Context) error {
			return (&loads.Operator{Console: c, Cfg: cfg, Ends: e, Table: "Orders", Yes: true}).Repair(ctx, loads.Repair{})
		},
		"lend": func(ctx context.Context) error {
			_, err := worker.OpenLending(ctx, worker.LendOptions{Config: cfg, Console: c, Ends: e, Table: "Orders", As: "beam/job/host"})
			return err
		},
		"backfill status": func(ctx context.Context) error { return (&loads.Operator{Console: c, Cfg: cfg, Ends: e}).Show(ctx) },
		"pause":           func(ctx context.Context) error { return table().Pause(ctx) },
		"resume":          func(ctx context.Context) error { return table().Resume(ctx) },
		"failover": func(ctx context.Context) error {
			return (&lever.Failover{Console: c, Cfg: cfg, Ends: e, Yes: true}).Run(ctx)
		},
		"failover --source-region": func(ctx context.Context) error {
			return (&lever.Failover{Console: c, Cfg: cfg, Ends: e, Yes: true, SourceRegion: "eu-west-1"}).Run(ctx)
		},
		"status": func(ctx context.Context) error {
			m, err := e.Open(ctx, c, cfg, desk.Request{Command: "status"})
			if err == nil {
				_, err = (&status.Reader{Config: cfg, Migration: m}).Read(ctx)
			}
			return err
		},
		"explain": func(ctx context.Context) error {
			_, err := inspect.Explain(ctx, c, cfg, e, " -c f", cfg.Tables[0], `{"pk":"a"}`, false)
			return err
		},
		"verify status": func(ctx context.Context) error { return compare().Show(ctx) },
		"verify":        func(ctx context.Context) error { return compare().Begin(ctx) },
		"verify --repair": func(ctx context.Context) error {
			o := compare()
			o.Repair = true
			return o.Begin(ctx)
		},
		"verify --reverse": func(ctx context.Context) error {
			o := compare()
			o.Reverse = true
			return o.Begin(ctx)
		},
		"verify pause": steer(comparison.Pause), "verify cancel": steer(comparison.Cancel), "verify resume": steer(comparison.Resume),
		"parked retry": decide(parked.RetryCommand), "parked drop": decide(parked.DropCommand),
		"relay dead-letter drop": func(ctx context.Context) error {
			return (&deadletter.Operator{Console: c, Cfg: cfg, Ends: e}).Drop(ctx, &deadletter.Selection{All: true}, true, false)
		},
		"cutover check": func(ctx context.Context) error { return cut().Check(ctx) },
		"cutover start": func(ctx context.Context) error {
			return cut().Start(ctx, switchover.Request{KeepFallback: "no", Rehearse: true})
		},
		"cutover approve": step("approve"), "cutover postpone": step("postpone"), "cutover cancel": step("cancel"), "cutover resolve": step("resolve"),
		"cutover rollback": func(ctx context.Context) error {
			o := cut()
			hooked := *cfg
			hooked.Cutover.Hooks = config.CutoverHooks{FreezeWrites: "x", Switch: "x", UnfreezeWrites: "x"}
			hooked.Cutover.RollbackHooks = config.RollbackHooks{FreezeWrites: "x", Switch: "x", UnfreezeWrites: "x"}
			o.Cfg = &hooked
			return o.Rollback(ctx, switchover.Undoing{Yes: true})
		},
		"cutover end-fallback": func(ctx context.Context) error { return cut().EndFallback(ctx, true) },
		"cutover status":       func(ctx context.Context) error { return cut().Show(ctx) },
		"cutover evidence":     func(ctx context.Context) error { return cut().Evidence(ctx, "/nowhere") },
		"finalize":             func(ctx context.Context) error { return cut().Finalize(ctx, switchover.Finalizing{DryRun: true}) },
	}
}

// Every command refuses in the same cases: in another cluster, after the tables are cut over, and
// before anything is started.
func TestCommandsRefuseAlike(t *testing.T) {
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	console := &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Env: func(string) (string, bool) { return "", false }}
	empty, elsewhere, over := &ends{store: &checkpointtest.Memory{}}, &ends{store: &checkpointtest.Memory{}, cluster: "c2"}, &ends{store: &checkpointtest.Memory{}, cluster: "c1"}
	finalized := &ends{store: &checkpointtest.Memory{}, cluster: "c1"}
	for _, e := range []*ends{elsewhere, over, finalized} {
		ledger, err := checkpoint.Open(t.Context(), e.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			err = ledger.CheckCluster(t.Context(), "c1")
		}
		if err == nil {
			_, err = ledger.UpdateCutover(t.Context(), "", func(c *checkpoint.Cutover) error {
				c.Attempt, c.Step, c.SwitchedAt = 1, checkpoint.CutoverDone, time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
				if e == finalized {
					c.FinalizedAt = c.SwitchedAt.Add(time.Hour)
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	holds := func(e *ends) []checkpoint.Row {
		t.Helper()
		rows, err := e.store.Read(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, command := range []string{"backfill start", "backfill repair", "backfill pause", "backfill resume", "backfill redo", "pause", "resume", "throttle", "verify", "verify --repair",
		"verify resume", "explain", "parked retry", "parked drop"} {
		if desk.Demanded[command].Cutover == desk.Whenever {
			t.Errorf("%s is accepted after the switch", command)
		}
	}
	for command, needs := range desk.Demanded {
		if command == "parked list" || command == "parked show" || command == "relay dead-letter list" {
			continue
		}
		refused := func(e *ends, code string) {
			t.Helper()
			run := operators(console, cfg, e.desk())[command]
			if run == nil {
				t.Fatalf("%s is run by nobody here", command)
			}
			if err := run(t.Context()); !diag.Has(err, code) {
				t.Errorf("%s: %v, want %s", command, err, code)
			}
		}
		if needs.Cluster {
			refused(elsewhere, diag.ClusterChanged)
		}
		if needs.Cutover != desk.Whenever {
			for _, e := range []*ends{over, finalized} {
				before := holds(e)
				refused(e, diag.CutOver)
				if err := operators(console, cfg, e.desk())[command](t.Context()); !strings.Contains(err.Error(), "cut over on 2026-11-25 at 12:00 UTC") {
					t.Errorf("%s: %v", command, err)
				}
				if !reflect.DeepEqual(before, holds(e)) {
					t.Errorf("%s changes the ledger", command)
				}
			}
		}
		if needs.Begun != "" {
			refused(empty, needs.Begun)
			if err := operators(console, cfg, empty.desk())[command](t.Context()); !strings.Contains(err.Error(), " is not started yet") {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}

// Commands that read the source compare, load and repair only the followed table, not one of
// another region or account, or a recreated one.
func TestReadersAskForTheTableThatIsFollowed(t *testing.T) {
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	e := &ends{store: &checkpointtest.Memory{}, cluster: "c1"}
	ledger, err := checkpoint.Open(t.Context(), e.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
	if err == nil {
		err = ledger.CheckCluster(t.Context(), "c1")
	}
	if err == nil {
		_, err = ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.Generation, s.MappingHash = followed, "L", 1, cfg.Hash(cfg.Tables[0])
			s.Load = checkpoint.Load{Generation: 1, TableID: "first"}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	console := &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Env: func(string) (string, bool) { return "", false }}
	for name, found := range map[string]describer{
		"another region":  {stream: strings.Replace(followed, "us-east-1", "eu-west-1", 1), id: "first"},
		"another account": {stream: strings.Replace(followed, ":1:", ":2:", 1), id: "first"},
		"another stream":  {stream: strings.Replace(followed, "/L", "/M", 1), id: "first"},
		"created anew":    {id: "second"},
	} {
		both := e.desk()
		both.Source = func(context.Context, *config.Config) (desk.Source, error) { return found, nil }
		run := operators(console, cfg, both)
		from := func(wish bool) func(context.Context) error {
			return func(ctx context.Context) error {
				o := &loads.Operator{Console: console, Cfg: cfg, Ends: both, Table: "Orders", Yes: true}
				return o.Steer(ctx, loads.Request{Action: loads.ActionStart, From: []string{"s3://bucket"}, Wish: wish})
			}
		}
		for command, read := range map[string]func(context.Context) error{
			"explain": run["explain"], "verify": run["verify"], "verify --repair": run["verify --repair"], "cutover check": run["cutover check"],
			"cutover start": run["cutover start"], "an export": from(false), "an export that is asked for": from(true),
			"parked retry": func(ctx context.Context) error {
				_, err := repair.Of(ctx, cfg, cfg.Tables[0], found, e, "cannot retry items")
				return err
			},
		} {
			if err := read(t.Context()); !diag.Has(err, diag.SourceMoved) {
				t.Errorf("%s: %s: %v", name, command, err)
			}
		}
	}
}

// A table is paused and resumed only through the ledger.
func TestATableIsPaused(t *testing.T) {
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	e := &ends{store: &checkpointtest.Memory{}, cluster: "c1"}
	ledger, err := checkpoint.Open(t.Context(), e.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	console := &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Env: func(string) (string, bool) { return "", false }}
	o := &lever.Operator{Console: console, Cfg: cfg, Ends: e.desk(), Table: "Orders", Reason: "r"}
	if err := o.Pause(t.Context()); !diag.Has(err, diag.LoadRefused) {
		t.Errorf("a table that no worker has met is paused: %v", err)
	}
	if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error { s.Generation = 1; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, paused := range []bool{true, false} {
		do := map[bool]func(context.Context) error{true: o.Pause, false: o.Resume}[paused]
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state, _, err := ledger.Table(t.Context(), "Orders"); err != nil || state.Paused() != paused {
			t.Errorf("paused is %t: %v", state.Paused(), err)
		}
	}
}

// After the switch, commands that only show something say so, and advise nothing that would be
// refused.
func TestWhatIsShownAfterTheSwitchAdvisesNothing(t *testing.T) {
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverWatching, checkpoint.CutoverDone} {
		e := &ends{store: &checkpointtest.Memory{}, cluster: "c1"}
		ledger, err := checkpoint.Open(t.Context(), e.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			_, err = ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
				s.Generation, s.NeedsLoad, s.Reason, s.Kind = 1, true, "a gap", checkpoint.KindStream
				return nil
			})
		}
		if err == nil {
			_, err = ledger.UpdateCutover(t.Context(), "", func(c *checkpoint.Cutover) error {
				c.Attempt, c.Step, c.SwitchedAt = 1, step, time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"backfill status", "verify status"} {
			var text strings.Builder
			console := &terminal.Console{Stdout: &text, Stderr: io.Discard, Env: func(string) (string, bool) { return "", false }}
			if err := operators(console, cfg, e.desk())[command](t.Context()); err != nil {
				t.Fatal(err)
			}
			if said := text.String(); !strings.Contains(said, "\ncut over on 2026-11-25 at 12:00 UTC; the application no longer uses the source\n") || strings.Contains(said, "Next:") {
				t.Errorf("%s at %s:\n%s", command, step, said)
			}
		}
	}
}
