package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// cutTo writes the step of a cutover into the ledger.
func cutTo(t *testing.T, ctx context.Context, l *checkpoint.Ledger, step checkpoint.CutoverStep) {
	t.Helper()
	if _, err := l.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { c.Attempt, c.Step, c.SwitchedAt = 1, step, noon; return nil }); err != nil {
		t.Error(err)
	}
}

// rest is a process in virtual time that idles or follows tables, with a ledger in memory.
type rest struct {
	*testing.T
	*Worker
	world *virtual.World
	ctx   context.Context
	store *checkpointtest.Memory
	o     *observer
	look  *checkpoint.Ledger // the observer's
	reads int                // reads of the cutover
}

func playRest(t *testing.T, lease time.Duration, script func(r *rest)) {
	t.Helper()
	world := virtual.NewWorld(1, noon, false)
	err := world.Run(100*time.Hour, func(ctx context.Context) {
		r := &rest{T: t, world: world, ctx: ctx, store: &checkpointtest.Memory{}}
		cfg := testConfig()
		cfg.State.Lease = lease
		open := func(worker string) *checkpoint.Ledger {
			l, err := checkpoint.Open(ctx, r.store, cfg.Name, checkpoint.Options{Worker: worker, ID: "l", Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		r.look = open("looker")
		r.Worker = &Worker{id: "w", ledger: open("w"), Options: Options{Config: cfg, Log: silentObserver().log}}
		r.o = newObserver(task.Clock(ctx), "w", admin.NewMetrics("orders", admin.Build{}), admin.NewHealth(task.Clock(ctx), "Orders"), r.Worker.Log, backfill.NewRenderer(nil, nil), nil)
		r.store.OnRead = func(_ context.Context, prefix string) error {
			if strings.HasSuffix(prefix, "/cutover") {
				r.reads++
			}
			return nil
		}
		script(r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// after runs a function beside the script.
func (r *rest) after(d time.Duration, do func()) {
	task.NewGroup(r.ctx, 0).Go("after", func(ctx context.Context) error {
		_ = task.Sleep(ctx, d)
		do()
		return nil
	})
}

// idles lets the process idle for a time, and returns how long it did.
func (r *rest) idles(d time.Duration) (took time.Duration, err error) {
	ctx, cancel := task.WithTimeout(r.ctx, d)
	defer cancel()
	began := task.Mono(ctx)
	err = r.idle(ctx, r.o)
	return task.Mono(r.ctx) - began, err
}

func (r *rest) ready() bool { return admin.Ready(r.o.health.Facts(), task.Now(r.ctx)).OK() }

// seen returns the ledger's row of the process.
func (r *rest) seen() (p checkpoint.Process, fresh bool) {
	r.Helper()
	all, err := r.look.Processes(r.ctx)
	if err != nil || len(all) > 1 {
		r.Fatal(err, all)
	}
	if len(all) == 0 {
		return p, false
	}
	return all[0], task.Now(r.ctx).Sub(all[0].WrittenAt) <= r.Config.State.Lease
}

// An idle process is ready, and records itself with its role once per lease time. It reads the
// ledger every 30 s, whatever the lease time, and a requested stop ends it cleanly.
func TestAnIdleProcess(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverWatching, checkpoint.CutoverDone} {
		for _, lease := range []time.Duration{5 * time.Second, 15 * time.Second, 5 * time.Minute} {
			playRest(t, lease, func(r *rest) {
				cutTo(t, r.ctx, r.look, step)
				r.reads = 0
				for i := range 12 {
					r.after(time.Second+time.Duration(i)*5*time.Minute, func() {
						if p, fresh := r.seen(); !fresh || p.Role != checkpoint.RoleIdle || !r.ready() {
							t.Errorf("%s, lease %s: %+v, ready %t", step, lease, p, r.ready())
						}
					})
				}
				took, err := r.idles(time.Hour)
				if err != nil || took != time.Hour || r.reads < 120 || r.reads > 122 {
					t.Errorf("%s, lease %s: ended after %s with %v, %d reads", step, lease, took, err, r.reads)
				}
				r.leave(r.ctx)
				if p, _ := r.seen(); p.Worker != "" {
					t.Errorf("%s: it has left %+v", step, p)
				}
			})
		}
	}
}

// The log says what an idle process does: whether it leads a way back, and when that ends. It says each
// once.
func TestAnIdleProcessSaysWhatItDoes(t *testing.T) {
	for _, c := range []struct {
		leads bool
		want  []string // the beginnings of what is special about the lines
	}{
		{true, []string{"it leads the way back", "it can be removed after finalize"}},
		{false, []string{"it can be removed after finalize"}},
	} {
		playRest(t, 15*time.Second, func(r *rest) {
			var log bytes.Buffer
			r.Worker.Log = slog.New(slog.NewTextHandler(&log, nil))
			if c.leads {
				r.source = &preflight.Source{}
			}
			cutTo(t, r.ctx, r.look, checkpoint.CutoverWatching)
			change := func(change func(c *checkpoint.Cutover)) {
				if _, err := r.look.UpdateCutover(r.ctx, "", func(c *checkpoint.Cutover) error { change(c); return nil }); err != nil {
					t.Error(err)
				}
			}
			change(func(c *checkpoint.Cutover) { c.WayBack = true })
			r.after(time.Hour, func() { change(func(c *checkpoint.Cutover) { c.FallbackEndedAt = noon }) })
			if _, err := r.idles(2 * time.Hour); err != nil {
				t.Error(err)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("leads %t:\n%s", c.leads, &log)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], "idle: the tables are cut over") || !strings.Contains(lines[i], want) {
					t.Errorf("leads %t: %s, want %q", c.leads, lines[i], want)
				}
			}
		})
	}
}

// If a cutover is reversed, an idle process restarts its work and follows the tables again. After a
// finalize nothing changes.
func TestAnIdleProcessObeysTheLedger(t *testing.T) {
	for step, resumes := range map[checkpoint.CutoverStep]bool{checkpoint.CutoverCancelled: true, checkpoint.CutoverRequested: true, checkpoint.CutoverDone: false} {
		playRest(t, 15*time.Second, func(r *rest) {
			cutTo(t, r.ctx, r.look, checkpoint.CutoverWatching)
			r.after(time.Hour, func() {
				cutTo(t, r.ctx, r.look, step)
				if step == checkpoint.CutoverDone {
					_, err := r.look.UpdateCutover(r.ctx, "", func(c *checkpoint.Cutover) error { return c.Finalized(noon) })
					if err != nil {
						t.Error(err)
					}
				}
			})
			took, err := r.idles(2 * time.Hour)
			if errors.Is(err, errResumed) != resumes || resumes && took > time.Hour+idleEvery || !resumes && (err != nil || took != 2*time.Hour) {
				t.Errorf("%s: after %s %v", step, took, err)
			}
		})
	}
}

// While the ledger cannot be read, the process stays up, alive and not ready. The ledger may fail
// to answer, refuse, or never answer.
func TestAnIdleProcessOutlivesTheLedger(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context) error{
		"away":    func(context.Context) error { return status.Error(codes.Unavailable, "away") },
		"denied":  func(context.Context) error { return status.Error(codes.PermissionDenied, "denied") },
		"silent":  func(ctx context.Context) error { return task.Sleep(ctx, time.Hour) },
		"for now": func(context.Context) error { return nil },
	} {
		playRest(t, 15*time.Second, func(r *rest) {
			cutTo(t, r.ctx, r.look, checkpoint.CutoverDone)
			from, to := 10*time.Minute, 34*time.Hour
			began := task.Mono(r.ctx)
			r.store.OnRead = func(ctx context.Context, _ string) error {
				if at := task.Mono(r.ctx) - began; at < from || at >= to {
					return nil
				}
				return fail(ctx)
			}
			for at, ready := range map[time.Duration]bool{5 * time.Minute: true, 10*time.Minute + idleLate: name == "for now", 33 * time.Hour: name == "for now", 34*time.Hour + time.Minute: true} {
				r.after(at+time.Second, func() {
					f := r.o.health.Facts()
					if r.ready() != ready || task.Now(r.ctx).Sub(f.Ticked) > time.Minute {
						t.Errorf("%s: %s after the start: ready %t, last turn %s ago", name, at, r.ready(), task.Now(r.ctx).Sub(f.Ticked))
					}
				})
			}
			if took, err := r.idles(35 * time.Hour); err != nil || took != 35*time.Hour {
				t.Errorf("%s: ended after %s with %v", name, took, err)
			}
		})
	}
}

// oneTable is a configuration with one group of tables.
var oneTable = &config.Config{Tables: []config.Table{{From: "Orders", To: "Orders"}}}

// idleLate is when an idle process that cannot read the ledger is surely no longer ready.
const idleLate = 3 * time.Minute

// Tasks that follow the tables stop once the application has left the source. No earlier step of a
// cutover stops them, and no trouble with the ledger does.
func TestWhatFollowsTablesIsStoppedOnceTheyAreLeft(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{"", checkpoint.CutoverRequested, checkpoint.CutoverFreeze, checkpoint.CutoverSwitching, checkpoint.CutoverCancelled, checkpoint.CutoverWatching, checkpoint.CutoverDone} {
		playRest(t, 15*time.Second, func(r *rest) {
			left := step.Switched()
			r.after(time.Hour, func() {
				if step != "" {
					cutTo(t, r.ctx, r.look, step)
				}
				r.store.OnRead = func(context.Context, string) error {
					if task.Now(r.ctx).Sub(noon) < 2*time.Hour {
						return status.Error(codes.Unavailable, "away")
					}
					return nil
				}
			})
			ctx, cancel := task.WithTimeout(r.ctx, 3*time.Hour)
			defer cancel()
			err := untilLeft(ctx, oneTable, r.ledger, func(ctx context.Context) error {
				for task.Sleep(ctx, time.Minute) == nil {
				}
				return context.Cause(ctx)
			})
			took := task.Now(r.ctx).Sub(noon)
			if errors.Is(err, checkpoint.ErrCutOver) != left || left && (took < 2*time.Hour || took > 2*time.Hour+2*leftEvery) || !left && took != 3*time.Hour {
				t.Errorf("%q: after %s %v", step, took, err)
			}
		})
	}
	playRest(t, 15*time.Second, func(r *rest) { // it ends as follow ends
		want := errors.New("the end")
		if err := untilLeft(r.ctx, oneTable, r.ledger, func(context.Context) error { return want }); !errors.Is(err, want) || r.reads > 0 {
			t.Errorf("%v, %d reads", err, r.reads)
		}
	})
}

// A process that slept for more than a day immediately stops following the tables, and idles. A
// process that slept while idle records itself again, even if others have forgotten it.
func TestAProcessThatSleptIdles(t *testing.T) {
	playRest(t, 15*time.Second, func(r *rest) {
		p := r.world.NewProcess("sleeper")
		var stopped time.Duration
		p.Go("work", func() {
			ctx := p.Context()
			err := untilLeft(ctx, oneTable, r.ledger, func(ctx context.Context) error {
				for task.Sleep(ctx, time.Second) == nil {
				}
				return context.Cause(ctx)
			})
			if stopped = r.world.Elapsed(); !errors.Is(err, checkpoint.ErrCutOver) {
				t.Errorf("%v", err)
			}
			_ = r.idle(ctx, r.o)
		})
		const night = 25 * time.Hour
		_ = task.Sleep(r.ctx, time.Minute)
		p.Pause(night)
		_ = task.Sleep(r.ctx, time.Hour)
		cutTo(t, r.ctx, r.look, checkpoint.CutoverWatching)
		cutTo(t, r.ctx, r.look, checkpoint.CutoverDone)
		_ = task.Sleep(r.ctx, night-time.Hour+2*leftEvery)
		if seen, fresh := r.seen(); stopped < time.Minute+night || stopped > time.Minute+night+leftEvery || !fresh || seen.Role != checkpoint.RoleIdle {
			t.Errorf("stopped after %s, shown is %+v", stopped, seen)
		}
		p.Pause(night)
		_ = task.Sleep(r.ctx, night-time.Minute)
		if err := errors.Join(r.look.ShowProcess(r.ctx, checkpoint.RoleIdle), r.look.RemoveProcess(r.ctx)); err != nil {
			t.Error(err)
		}
		if seen, _ := r.seen(); seen.Worker != "" {
			t.Errorf("after a day %+v is not forgotten", seen)
		}
		_ = task.Sleep(r.ctx, 2*time.Minute)
		if seen, fresh := r.seen(); !fresh || seen.Role != checkpoint.RoleIdle || !r.ready() {
			t.Errorf("it woke, and %+v is shown", seen)
		}
		p.Kill()
	})
}

// A process whose tables are cut over while it follows them then asks only the ledger. The row that
// others wrote shows it the cutover, whatever it missed.
func TestAProcessWhoseTablesAreCutOverAsksTheLedgerAlone(t *testing.T) {
	world := virtual.NewWorld(1, noon, false)
	asked := &counter{Handler: dynamodbtest.New(dynamodbtest.Options{Seed: 1, Clock: world.Now})}
	w, _ := connectedTo(t, asked, grpc.ChainUnaryInterceptor(asked.unary), grpc.StreamInterceptor(asked.stream))
	err := world.Run(time.Hour, func(ctx context.Context) {
		ledger, err := w.openLedger(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		w.ledger = ledger
		worked := errors.New("it works on")
		g := task.NewGroup(ctx, 0)
		g.Go("work", func(context.Context) error {
			worked = w.work(ctx, ledger, sink.NewParking(w.target.Data.Records(w.Config.State.Table), w.Config.Name), silentObserver())
			return nil
		})
		_ = task.Sleep(ctx, 3*time.Minute)
		if asked.take()["GetRecords"] == 0 {
			t.Error("nothing is read before the cutover")
		}
		if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Halt.Attempt, s.Halt.On, s.Halt.Done = 1, true, true
			return nil
		}); err != nil {
			t.Error(err)
		}
		cutTo(t, ctx, ledger, checkpoint.CutoverWatching)
		_ = task.Sleep(ctx, time.Minute)
		asked.take()
		_ = task.Sleep(ctx, 15*time.Minute)
		for name, n := range asked.take() {
			if !strings.HasPrefix(name, "ledger ") {
				t.Errorf("%s is called %d times", name, n)
			}
		}
		cutTo(t, ctx, ledger, checkpoint.CutoverCancelled)
		if _ = g.Wait(); !errors.Is(worked, errResumed) {
			t.Errorf("%v", worked)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A process that starts after its tables are cut over sends DynamoDB no request, whatever its
// configuration. With Once it is refused.
func TestAProcessBeginsIdle(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverWatching, checkpoint.CutoverDone} {
		refused := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: DynamoDB is asked", step) })
		server := dynamodbtest.New(dynamodbtest.Options{Seed: 1})
		asked := &counter{Handler: server}
		w, _ := connectedTo(t, asked)
		cutTo(t, t.Context(), begin(t, w), step)
		asked.Handler = refused
		for name, change := range map[string]func(w *Worker){
			"run": func(*Worker) {}, "relay": func(w *Worker) { w.Publish = true }, "run --from pubsub": func(w *Worker) { w.FromTopic = true },
			"another mapping": func(w *Worker) {
				cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, to: other }, { from: Parts }]\n"), nothingSet)
				if err != nil {
					t.Fatal(err)
				}
				w.Config = cfg
			},
			"no region": func(*Worker) { t.Setenv("AWS_REGION", "") },
		} {
			anew := &Worker{id: "anew", Options: w.Options}
			change(anew)
			if err := anew.connect(t.Context(), false); err != nil || !anew.found.Left || len(anew.found.Tables) > 0 || anew.found.Cluster != "c1" {
				t.Errorf("%s, %s: %v, %+v", step, name, err, anew.found)
			}
			if name == "no region" {
				if anew.source != nil {
					t.Errorf("%s, %s: %+v", step, name, anew.source)
				}
				t.Setenv("AWS_REGION", "us-east-1")
			}
			_ = anew.close()
		}
		once := &Worker{id: "once", Options: w.Options}
		once.Once = true
		var refusal *diag.Error
		if err := once.connect(t.Context(), false); !errors.As(err, &refusal) || refusal.Code != diag.CutOver || diag.ExitCode(err) != diag.ExitNo {
			t.Errorf("%s, once: %v", step, err)
		}
	}
}

// A process that starts before the cutover probes its source as usual.
func TestAProcessBegins(t *testing.T) {
	w, _ := connected(t)
	for _, step := range []checkpoint.CutoverStep{"", checkpoint.CutoverRequested, checkpoint.CutoverSwitching, checkpoint.CutoverCancelled} {
		if step != "" {
			cutTo(t, t.Context(), begin(t, w), step)
		}
		anew := &Worker{id: "anew", Options: w.Options}
		if err := anew.connect(t.Context(), false); err != nil || anew.found.Left || len(anew.found.Tables) != 1 {
			t.Errorf("%q: %v, %+v", step, err, anew.found)
		}
		_ = anew.close()
	}
	t.Setenv("AWS_REGION", "")
	var refusal *diag.Error
	if err := (&Worker{Options: w.Options}).connect(t.Context(), false); !errors.As(err, &refusal) || refusal.Code != diag.NoRegion {
		t.Errorf("%v", err)
	}
	if left, err := preflight.LeftTables(t.Context(), &checkpointtest.Memory{}, w.Config); left.All() != nil || err != nil {
		t.Errorf("without a ledger: %v, %v", left, err)
	}
}
