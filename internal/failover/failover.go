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
	CutOver   Outcome = "cut_over"  // the application has switched: nothing is replicated or loaded again
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
	// Switched is an operator's word whether a cutover has switched the application, where the
	// ledger cannot say.
	Switched Answer
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
	// Cutover is the step from which a cutover that was under way continues, or with which it ended;
	// "" if there was none.
	Cutover checkpoint.CutoverStep
	// Gone: the former cluster was deleted, so that what it wrote last may be missing.
	Gone bool
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

// Run fails over from the cluster of the ledger to the one to which the app profile routes. It may
// be repeated: what was done stays done, and the ledger is moved last, so that nobody works until
// all is ready.
func Run(ctx context.Context, ledger *checkpoint.Ledger, clusters Clusters, p Plan) (Result, error) {
	r, err := where(ctx, ledger, clusters)
	if err != nil || r.Outcome == Nothing {
		return r, err
	}
	m := &move{Plan: p, ledger: ledger, clusters: clusters, result: r}
	err = m.prepare(ctx)
	if err == nil && !p.Rehearsal {
		err = m.carryOut(ctx)
	}
	return m.result, err
}

// move is one failover.
type move struct {
	Plan
	ledger   *checkpoint.Ledger
	clusters Clusters
	result   Result
	cutover  ending
}

func (m *move) tell(format string, args ...any) {
	if m.Tell != nil {
		m.Tell(fmt.Sprintf(format, args...))
	}
}

// prepare waits until nothing more can come from the former cluster, and decides what to do.
func (m *move) prepare(ctx context.Context) error {
	from := m.result.From
	exists, err := ask(ctx, func(ctx context.Context) (bool, error) { return m.clusters.Exists(ctx, from) })
	if err != nil {
		return err
	}
	m.result.Gone = !exists
	if err := m.decide(ctx); err != nil { // before anybody waits
		return err
	}
	if err := m.still(ctx); err != nil {
		return err
	}
	if err := m.decide(ctx); err != nil {
		return err
	}
	targets, err := ask(ctx, m.ledger.Targets)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := m.copied(ctx, t.Table); err != nil {
			return err
		}
	}
	now, err := where(ctx, m.ledger, m.clusters)
	if err != nil {
		return err
	}
	if now.From != from || now.To != m.result.To {
		return &RefusedError{"the app profile was routed elsewhere meanwhile, or another failover ran", "check its route, and run the command again"}
	}
	if m.result.Outcome != Loads {
		return nil
	}
	m.result.Loads, err = m.raise(ctx)
	return err
}

// carryOut ends a cutover, and has the ledger belong to the other cluster.
func (m *move) carryOut(ctx context.Context) error {
	if err := m.cutover.carryOut(ctx, m.ledger); err != nil {
		return err
	}
	_, err := ask(ctx, func(ctx context.Context) (any, error) {
		return nil, m.ledger.Move(ctx, m.result.From, m.result.To)
	})
	return err
}

// copied waits until a table is copied from the former cluster, if that is there.
func (m *move) copied(ctx context.Context, table string) error {
	if m.result.Gone {
		return nil
	}
	m.tell("waiting until table %s is copied completely from cluster %s", table, m.result.From)
	return m.clusters.Replicate(ctx, table)
}

// still fails if anybody writes the ledger. What the former cluster took meanwhile is seen only once
// the ledger is copied; where that brings something, its writer may be working yet, so that it takes
// a second look. The ledger is copied first, because it says which tables there are, and who holds
// leases.
func (m *move) still(ctx context.Context) error {
	m.tell("waiting %s to check that nothing writes to the ledger", m.Still)
	before, err := ask(ctx, m.ledger.Activity)
	if err != nil {
		return err
	}
	before, err = m.unchanged(ctx, before, false)
	if err != nil {
		return err
	}
	if err := m.copied(ctx, m.State); err != nil {
		return err
	}
	after, err := ask(ctx, m.ledger.Activity)
	if err != nil {
		return err
	}
	late := after.Since(before)
	if len(late) == 0 {
		return nil
	}
	if m.StoppedFirst {
		return &RefusedError{"what " + strings.Join(late, ", ") + " wrote to the ledger arrived from cluster " + m.result.From + " only now, so nothing shows that every worker had stopped",
			"if every worker is stopped, run the command again; if not, stop them, and remove --workers-stopped-first"}
	}
	m.tell("waiting %s more, because the copy brought what %s wrote last", m.Still, strings.Join(late, ", "))
	_, err = m.unchanged(ctx, after, true)
	return err
}

// unchanged waits, and fails if anybody wrote the ledger since a look. It returns what it sees then,
// once what cluster From has is copied if that is asked for.
func (m *move) unchanged(ctx context.Context, since checkpoint.Activity, copied bool) (checkpoint.Activity, error) {
	if err := task.Sleep(ctx, m.Still); err != nil {
		return since, err
	}
	if copied {
		if err := m.copied(ctx, m.State); err != nil {
			return since, err
		}
	}
	now, err := ask(ctx, m.ledger.Activity)
	if err != nil {
		return since, err
	}
	if writers := now.Since(since); len(writers) > 0 {
		return now, &RefusedError{"the ledger is still written by " + strings.Join(writers, ", "), "stop every worker and every other command of the migration; then run the command again"}
	}
	return now, nil
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

// decide decides what becomes of the tables, and of a cutover.
func (m *move) decide(ctx context.Context) error {
	c, err := ask(ctx, m.ledger.Cutover)
	if err != nil {
		return err
	}
	if m.cutover, err = endingOf(c, m.result, m.Switched, m.ledger.Now(ctx)); err != nil {
		return err
	}
	m.result.Cutover = m.cutover.step
	if m.cutover.step.Switched() {
		m.result.Outcome = CutOver
		return nil
	}
	m.result.Outcome, err = m.outcome(ctx)
	return err
}

// outcome decides what becomes of the tables. An operator's word that everybody had stopped before is
// believed where the former cluster can say what it had, and nobody died with a lease.
func (m *move) outcome(ctx context.Context) (Outcome, error) {
	const cure = "remove --workers-stopped-first; every table is then loaded again"
	if !m.StoppedFirst {
		return Loads, nil
	}
	if m.result.Gone {
		return "", &RefusedError{"cluster " + m.result.From + " was deleted, and nothing shows whether everything had been copied from it", cure}
	}
	a, err := ask(ctx, m.ledger.Activity)
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
func (m *move) raise(ctx context.Context) ([]string, error) {
	tables, err := ask(ctx, m.ledger.Tables)
	if err != nil {
		return nil, err
	}
	reason := fmt.Sprintf("the app profile was routed from cluster %s to cluster %s, where rows may be missing", m.result.From, m.result.To)
	var loads []string
	for _, t := range tables {
		if t.Generation == 0 {
			continue
		}
		loads = append(loads, t.Source)
		done := standing.Lost(t) && len(t.Gaps) > 0 && t.Gaps[len(t.Gaps)-1].Reason == reason // nobody has worked since
		if done || m.Rehearsal {
			continue
		}
		// The former cluster may have seen generations that never came here.
		above := checkpoint.NextGeneration(t.Generation, task.Now(ctx).Add(time.Hour))
		gap := checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: reason}
		_, err := within(ctx, raiseTime, func(ctx context.Context) (checkpoint.TableState, error) {
			return m.ledger.Raise(ctx, t.Source, t.Generation, gap, func(s *checkpoint.TableState) { s.Generation = max(s.Generation, above) })
		})
		if err != nil {
			return nil, err
		}
	}
	return loads, nil
}
