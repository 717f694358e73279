package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// After the application has left the source, a process idles. If it ended instead, a supervisor
// would restart it again and again. In every kind of process, the tasks that replicate tables stop.
// After that, the process reads only the ledger, and writes only its own row in the ledger. The
// driver of the cutover keeps running, and one of the processes continues the watch for late
// writers. With a way back, one process for each table leads it.

const (
	// leftEvery is the interval at which a process that replicates tables checks whether they are
	// cut over.
	leftEvery = 5 * time.Second
	// idleEvery is the interval at which an idle process reads the ledger.
	idleEvery = 30 * time.Second
	// idleAnswer is the timeout of each request of an idle process. With it, the process shows
	// signs of life even if the target does not answer.
	idleAnswer = 10 * time.Second
)

// stepIdle is the step that is shown as failing while an idle process cannot read whether the
// tables are still cut over.
const stepIdle = "check whether the tables are still cut over (ReadRows)"

// errResumed ends the idle state of a process. The process then starts again, as after a restart.
var errResumed = errors.New("the tables are no longer cut over")

// untilLeft runs `follow` until the application has left the source. Then it stops `follow` and
// returns checkpoint.ErrCutOver. If the ledger cannot be read, untilLeft does not report it,
// because `follow` does.
func untilLeft(ctx context.Context, cfg *config.Config, ledger *checkpoint.Ledger, follow func(ctx context.Context) error) error {
	followed, stop := context.WithCancelCause(ctx)
	defer stop(context.Canceled)
	g := task.NewGroup(ctx, 0)
	g.Go("ask whether the tables are cut over", func(context.Context) error {
		for task.Sleep(followed, leftEvery) == nil {
			if c, err := allLeft(followed, cfg, ledger); err == nil && c != nil {
				stop(c.Left())
			}
		}
		return nil
	})
	g.Go("follow the tables", func(context.Context) error {
		defer stop(context.Canceled)
		return follow(followed)
	})
	return g.Wait()
}

// idle returns when ctx ends. If the tables are no longer cut over, it returns errResumed.
func (w *Worker) idle(ctx context.Context, o *observer) error {
	w.idling.Store(true)
	o.metrics.Left()
	every, logged := min(w.Config.State.Lease, idleEvery), ""
	say := func(all checkpoint.Cutovers) {
		if text := idleText(all, w.source != nil); text != logged {
			logged = text
			w.Log.Info(text)
		}
	}
	for due := task.Mono(ctx); ; {
		o.health.Tick()
		w.beat(ctx)
		if now := task.Mono(ctx); now >= due {
			o.health.Tick()
			all, err := w.cutovers(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				o.retry("", stepIdle, every, err)
			case preflight.LeftOf(w.Config, all).All() == nil:
				return errResumed
			default:
				say(all)
				o.health.Idle()
				due = now + idleEvery
			}
		}
		if task.Sleep(ctx, every) != nil {
			return nil
		}
	}
}

// idleText describes in the log what an idle process does. The argument `leads` reports whether it can
// lead ways back.
func idleText(all checkpoint.Cutovers, leads bool) string {
	if leads && slices.ContainsFunc(all, func(c checkpoint.Cutover) bool { return c.HasFallback() }) {
		return "idle: the tables are cut over, so this process replicates none of them; it leads the way back to DynamoDB while no other process does; keep it until that ends"
	}
	return "idle: the tables are cut over, so this process reads and writes none of them; it can be removed after finalize"
}

// cutovers reads the cutovers of all groups.
func (w *Worker) cutovers(ctx context.Context) (checkpoint.Cutovers, error) {
	ctx, cancel := task.WithTimeout(ctx, idleAnswer)
	defer cancel()
	return w.ledger.Cutovers(ctx)
}

// allLeft returns the last cutover if the application has left every table of the configuration, else
// nil.
func allLeft(ctx context.Context, cfg *config.Config, ledger *checkpoint.Ledger) (*checkpoint.Cutover, error) {
	all, err := ledger.Cutovers(ctx)
	if err != nil {
		return nil, err
	}
	return preflight.LeftOf(cfg, all).All(), nil
}

// role returns the role that this process records in the ledger while it holds no lease.
func (w *Worker) role() checkpoint.Role {
	if w.idling.Load() {
		return checkpoint.RoleIdle
	}
	return checkpoint.RoleStandby
}

// beat records in the ledger that this process runs. It ignores a failure, which other tasks
// report.
func (w *Worker) beat(ctx context.Context) {
	limited, cancel := task.WithTimeout(ctx, min(w.Config.State.Lease, idleAnswer))
	defer cancel()
	w.shown.Store(true)
	if err := w.ledger.ShowProcess(limited, w.role()); err != nil {
		w.Log.Debug("failed to record this process in the ledger", admin.KeyError, err.Error())
	}
}

// leave removes the record of this process from the ledger. It does so even after the process was
// asked to end.
func (w *Worker) leave(ctx context.Context) {
	if !w.shown.Load() {
		return
	}
	limited, cancel := task.WithTimeout(context.WithoutCancel(ctx), w.Config.State.Lease)
	defer cancel()
	if err := w.ledger.RemoveProcess(limited); err != nil {
		w.Log.Debug("failed to remove this process from the ledger", admin.KeyError, err.Error())
	}
}
