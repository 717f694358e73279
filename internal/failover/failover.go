// Package failover moves a migration to another Bigtable cluster.
//
// Clusters of an instance copy from each other row by row, later, and in no order: a position may
// have arrived where the rows before it have not. And a client may be led to another cluster sooner
// than the next one, so that for a while two workers hold one lease, each in a cluster of its own.
// So the ledger knows its cluster, and workers that are led to another one stop. A failover decides
// for them. It waits until nobody has written the ledger for so long that every worker must have
// noticed; it has the copying between the clusters come to its end, or finds the former cluster
// gone, so that nothing of before arrives any more; and then each table is loaded again, which
// asserts every row. Only where everybody had stopped, in order, before the app profile was led
// elsewhere, and everything has been copied, nothing can be missing and nobody can have been two:
// there the positions hold.
package failover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Outcome is what a failover takes.
type Outcome string

// The outcomes.
const (
	Nothing   Outcome = "nothing"   // the app profile leads where the ledger belongs
	Positions Outcome = "positions" // everything goes on from its positions
	Loads     Outcome = "loads"     // every table takes a load
)

// Clusters are those of the target.
type Clusters interface {
	// Cluster is the cluster to which the app profile routes now; "" if it is unknown.
	Cluster(ctx context.Context) (string, error)
	// Exists reports whether the instance has the cluster. Where that cannot be told, it has.
	Exists(ctx context.Context, cluster string) (bool, error)
	// Replicate returns when all that was written to the table before the call is in every cluster.
	Replicate(ctx context.Context, table string) error
}

// Plan is what is asked for.
type Plan struct {
	// State is the table of the ledger.
	State string
	// Still is how long nobody may write the ledger: a lease, and until a worker notices by itself
	// where it is led.
	Still time.Duration
	// StoppedFirst is an operator's word that every worker had stopped before the app profile was
	// led elsewhere. The ledger must bear it out.
	StoppedFirst bool
	// Rehearsal changes nothing.
	Rehearsal bool
	// Tell says what is waited for; may be nil.
	Tell func(string)
}

// Result is what came of it.
type Result struct {
	From, To string
	Outcome  Outcome
	// Loads are the source tables that take a load.
	Loads []string
}

// RefusedError is why a migration cannot go on in another cluster as it was asked to. Nothing was
// changed.
type RefusedError struct{ Cause, Cure string }

func (e *RefusedError) Error() string { return e.Cause }

// answerTime bounds a question. Google's clients repeat one that is not answered until its context
// ends, without a word.
const answerTime = 30 * time.Second

// raiseTime bounds the new generation of a table, which writes the row of every unfinished shard.
const raiseTime = 10 * time.Minute

// ask asks a question that is bounded by answerTime.
func ask[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	return within(ctx, answerTime, question)
}

func within[T any](ctx context.Context, d time.Duration, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := task.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %s", d))
	defer cancel()
	answer, err := question(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return answer, err
}

// Run fails over from the cluster of the ledger to the one the cluster to which the app profile
// routes. It may be repeated: what was done stays done, and the ledger is moved last, so that
// nobody works until all is ready.
func Run(ctx context.Context, ledger *checkpoint.Ledger, clusters Clusters, p Plan) (Result, error) {
	r, err := where(ctx, ledger, clusters)
	if err != nil || r.Outcome == Nothing {
		return r, err
	}
	tell := func(format string, args ...any) {
		if p.Tell != nil {
			p.Tell(fmt.Sprintf(format, args...))
		}
	}
	c, err := ask(ctx, ledger.Cutover)
	if err != nil {
		return r, err
	}
	if !c.Step.Over() {
		return r, &RefusedError{"a cutover is running, at step " + string(c.Step), "route the app profile back to cluster " + r.From + ", and end the cutover there"}
	}
	exists, err := ask(ctx, func(ctx context.Context) (bool, error) { return clusters.Exists(ctx, r.From) })
	if err != nil {
		return r, err
	}
	if _, err := outcome(ctx, ledger, p.StoppedFirst, exists, r.From); err != nil { // before anybody waits
		return r, err
	}
	tell("waiting %s to check that nothing writes to the ledger", p.Still)
	if err := still(ctx, ledger, p.Still); err != nil {
		return r, err
	}
	copied := func(table string) error {
		if !exists {
			return nil
		}
		tell("waiting until table %s is copied completely from cluster %s", table, r.From)
		return clusters.Replicate(ctx, table)
	}
	if err := copied(p.State); err != nil { // first: it says which tables there are, and who holds leases
		return r, err
	}
	if r.Outcome, err = outcome(ctx, ledger, p.StoppedFirst, exists, r.From); err != nil {
		return r, err
	}
	targets, err := ask(ctx, ledger.Targets)
	if err != nil {
		return r, err
	}
	for _, t := range targets {
		if err := copied(t.Table); err != nil {
			return r, err
		}
	}
	now, err := where(ctx, ledger, clusters)
	if err != nil {
		return r, err
	}
	if now.From != r.From || now.To != r.To {
		return r, &RefusedError{"the app profile was routed elsewhere meanwhile, or another failover ran", "check its route, and run the command again"}
	}
	if r.Outcome == Loads {
		if r.Loads, err = raise(ctx, ledger, r, p.Rehearsal); err != nil {
			return r, err
		}
	}
	if p.Rehearsal {
		return r, nil
	}
	_, err = ask(ctx, func(ctx context.Context) (any, error) { return nil, ledger.Move(ctx, r.From, r.To) })
	return r, err
}

// where compares the cluster of the ledger with the one the cluster to which the app profile
// routes.
func where(ctx context.Context, ledger *checkpoint.Ledger, clusters Clusters) (Result, error) {
	from, err := ask(ctx, ledger.Cluster)
	if err != nil {
		return Result{}, err
	}
	to, err := ask(ctx, clusters.Cluster)
	switch {
	case err != nil:
		return Result{}, err
	case to == "":
		return Result{From: from}, &RefusedError{"cannot see where the app profile routes", "grant bigtable.appProfiles.get"}
	case from == "" || from == to:
		return Result{From: to, To: to, Outcome: Nothing}, nil
	}
	return Result{From: from, To: to}, nil
}

// still fails if anybody writes the ledger within so long.
func still(ctx context.Context, ledger *checkpoint.Ledger, long time.Duration) error {
	before, err := ask(ctx, ledger.Activity)
	if err != nil {
		return err
	}
	if err := task.Sleep(ctx, long); err != nil {
		return err
	}
	after, err := ask(ctx, ledger.Activity)
	if err != nil {
		return err
	}
	if writers := after.Since(before); len(writers) > 0 {
		return &RefusedError{"the ledger is still written by " + strings.Join(writers, ", "), "stop every worker and every other command of the migration; then run the command again"}
	}
	return nil
}

// outcome decides what the failover takes. An operator's word that everybody had stopped before is
// believed where the former cluster can say what it had, and nobody died with a lease.
func outcome(ctx context.Context, ledger *checkpoint.Ledger, stoppedFirst, exists bool, from string) (Outcome, error) {
	const cure = "remove --workers-stopped-first; every table is then loaded again"
	if !stoppedFirst {
		return Loads, nil
	}
	if !exists {
		return "", &RefusedError{"cluster " + from + " was deleted, and nothing shows whether everything had been copied from it", cure}
	}
	a, err := ask(ctx, ledger.Activity)
	if err != nil {
		return "", err
	}
	if len(a.Held) > 0 {
		return "", &RefusedError{"leases are still held by " + strings.Join(a.Held, ", ") + ", so not every worker stopped cleanly", cure}
	}
	return Positions, nil
}

// raise begins a new generation of every table that was begun, which a load has to assert. The
// reason names the two clusters, so that a repetition finds what it did.
func raise(ctx context.Context, ledger *checkpoint.Ledger, r Result, rehearsal bool) ([]string, error) {
	tables, err := ask(ctx, ledger.Tables)
	if err != nil {
		return nil, err
	}
	reason := fmt.Sprintf("the app profile was routed from cluster %s to cluster %s, where rows may be missing", r.From, r.To)
	var loads []string
	for _, t := range tables {
		if t.Generation == 0 {
			continue
		}
		loads = append(loads, t.Source)
		done := standing.Lost(t) && len(t.Gaps) > 0 && t.Gaps[len(t.Gaps)-1].Reason == reason // nobody has worked since
		if done || rehearsal {
			continue
		}
		// The former cluster may have seen generations that never came here.
		above := checkpoint.NextGeneration(t.Generation, task.Now(ctx).Add(time.Hour))
		gap := checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: reason}
		_, err := within(ctx, raiseTime, func(ctx context.Context) (checkpoint.TableState, error) {
			return ledger.Raise(ctx, t.Source, t.Generation, gap, func(s *checkpoint.TableState) { s.Generation = max(s.Generation, above) })
		})
		if err != nil {
			return nil, err
		}
	}
	return loads, nil
}
