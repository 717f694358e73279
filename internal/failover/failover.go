// Package failover moves a migration to another cluster or source region.
//
// The clusters of an instance replicate row by row, asynchronously and in no order. So a position
// may arrive in a cluster before rows that were written earlier. Clients also change clusters at
// different times. So two workers may for some time hold the same lease, each in its own cluster.
// Therefore the ledger records its cluster, and workers that are routed to another cluster stop.
//
// A failover resolves this state in three steps. First, it waits until the ledger has not changed
// for so long that every worker must have noticed the new route. Second, it waits until replication
// from the former cluster is complete, or finds that the former cluster was deleted. After that, no
// older write can arrive. Third, every table is loaded again, so that every row is written again.
// There is one exception: positions are kept if every worker stopped cleanly before the app profile
// was rerouted, and replication is complete. In that case no row is missing, and no lease was held
// twice.
package failover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Outcome is the effect of a failover on the tables.
type Outcome string

// The outcomes.
const (
	Nothing   Outcome = "nothing"   // the app profile still routes to the ledger's cluster
	Positions Outcome = "positions" // every table resumes at its position
	Loads     Outcome = "loads"     // every table is loaded again
	CutOver   Outcome = "cut_over"  // the application has switched: nothing is replicated or loaded again
)

// Clusters answers questions about the clusters of the target's instance.
type Clusters interface {
	// Cluster returns the cluster to which the app profile routes now; "" if it is unknown.
	Cluster(ctx context.Context) (string, error)
	// Exists reports whether the instance has the cluster. It returns true if it cannot find out.
	Exists(ctx context.Context, cluster string) (bool, error)
	// Replicate returns when every cluster has all writes to the table from before the call.
	Replicate(ctx context.Context, table string) error
}

// Plan holds the operator's request.
type Plan struct {
	// State is the name of the state table, which holds the ledger.
	State string
	// Still is how long the ledger must be unchanged. It must be the duration of a lease, plus the
	// time in which a worker notices a new route.
	Still time.Duration
	// StoppedFirst is the operator's statement that every worker had stopped before the app profile
	// was rerouted. The ledger must confirm this statement.
	StoppedFirst bool
	// Switched is the operator's statement whether a cutover has switched the application. It is
	// needed if the ledger does not show that.
	Switched Answer
	// Rehearsal makes the command change nothing.
	Rehearsal bool
	// Tell is called with a text before each wait. It may be nil.
	Tell func(string)
}

// Result is the result of a failover.
type Result struct {
	// From and To are clusters, or regions after RunRegion.
	From, To string
	Outcome  Outcome
	// Loads are the source tables that must be loaded again.
	Loads []string
	// Missing are replicated source tables of patterns that the new region does not have.
	Missing []string
	// Policies are the source tables whose resource policy in the former region may still have the
	// statement of a freeze.
	Policies []string
	// Cutover is the step at which a running cutover continues or was ended; "" if no cutover was
	// running.
	Cutover checkpoint.CutoverStep
	// Gone is true if the former cluster was deleted, so that its last writes may be missing.
	Gone bool
}

// RefusedError is the error of a failover that was refused. It has changed nothing, except that a
// move to another region may have moved some tables before.
type RefusedError struct{ Cause, Cure string }

func (e *RefusedError) Error() string { return e.Cause }

// answerTime is the timeout of a request. Without a timeout, Google's clients would silently retry
// for ever.
const answerTime = 30 * time.Second

// raiseTime is the timeout for raising the generation of a table. It is long, because the row of
// every unfinished shard is written.
const raiseTime = 10 * time.Minute

// ask sends a request with the timeout answerTime.
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

// Run fails over from the cluster of the ledger to the cluster to which the app profile routes.
// After an error it may be called again, and then skips completed steps. The ledger's cluster is
// changed last, so that no worker starts before all steps are complete.
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
	endings  []ending // of the cutovers of all groups
}

func (m *move) tell(format string, args ...any) {
	if m.Tell != nil {
		m.Tell(fmt.Sprintf(format, args...))
	}
}

// prepare waits until no write of the former cluster can still arrive, and decides the outcome.
func (m *move) prepare(ctx context.Context) error {
	from := m.result.From
	exists, err := ask(ctx, func(ctx context.Context) (bool, error) { return m.clusters.Exists(ctx, from) })
	if err != nil {
		return err
	}
	m.result.Gone = !exists
	if err := m.decide(ctx); err != nil { // before the waits
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

// carryOut applies the decisions to the cutovers, and moves the ledger to the other cluster.
func (m *move) carryOut(ctx context.Context) error {
	for _, e := range m.endings {
		if err := e.carryOut(ctx, m.ledger); err != nil {
			return err
		}
	}
	_, err := ask(ctx, func(ctx context.Context) (any, error) {
		return nil, m.ledger.Move(ctx, m.result.From, m.result.To)
	})
	return err
}

// copied waits until all writes to a table in the former cluster are replicated, if that cluster
// still exists.
func (m *move) copied(ctx context.Context, table string) error {
	if m.result.Gone {
		return nil
	}
	m.tell("waiting until table %s is copied completely from cluster %s", table, m.result.From)
	return m.clusters.Replicate(ctx, table)
}

// still fails if a process still writes the ledger. Writes in the former cluster are visible only
// after they are replicated. If replication brings such writes, their writer may still be running.
// So `still` waits and checks a second time. It waits for the ledger's replication first, because
// the ledger lists the tables and the owners of leases.
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
		return &RefusedError{"writes of " + strings.Join(late, ", ") + " to the ledger arrived from cluster " + m.result.From + " only now, so nothing shows that every worker had stopped",
			"if every worker is stopped, run the command again; if not, stop them, and remove --workers-stopped-first"}
	}
	m.tell("waiting %s more, because the copy brought new writes of %s", m.Still, strings.Join(late, ", "))
	_, err = m.unchanged(ctx, after, true)
	return err
}

// unchanged waits, and fails if the ledger was written after the observation `since`. If `copied`
// is true, it first waits until the ledger is replicated from the former cluster. It returns its
// own observation of the ledger.
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

// where compares the cluster of the ledger with the cluster to which the app profile routes.
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

// decide decides the outcome for the tables and for the cutovers.
func (m *move) decide(ctx context.Context) error {
	all, err := ask(ctx, m.ledger.Cutovers)
	if err != nil {
		return err
	}
	if m.endings, err = endingsOf(all, m.result, m.Switched, m.ledger.Now(ctx)); err != nil {
		return err
	}
	m.result.Cutover = ""
	for _, e := range m.endings {
		if e.step != "" && !m.result.Cutover.Active() {
			m.result.Cutover = e.step
		}
	}
	tables, err := ask(ctx, m.ledger.Tables)
	if err != nil {
		return err
	}
	stays := slices.ContainsFunc(tables, func(t checkpoint.TableState) bool { return !m.left(t.Source) })
	if m.left("") && !stays {
		m.result.Outcome = CutOver
		return nil
	}
	m.result.Outcome, err = m.outcome(ctx)
	return err
}

// left reports whether the application has left a source table, or with "" any.
func (m *move) left(source string) bool {
	return slices.ContainsFunc(m.endings, func(e ending) bool {
		return e.step.Switched() && (source == "" || e.record.Moves(source))
	})
}

// outcome decides the outcome for the tables. It accepts the operator's StoppedFirst only if the
// former cluster still exists, and no worker ended without releasing its leases.
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

// raise begins a new generation of every table that already had one, so that each needs a load. The
// reason names both clusters. By this reason, a repeated run recognizes the tables that were
// already raised.
func (m *move) raise(ctx context.Context) ([]string, error) {
	tables, err := ask(ctx, m.ledger.Tables)
	if err != nil {
		return nil, err
	}
	reason := fmt.Sprintf("the app profile was routed from cluster %s to cluster %s, where rows may be missing", m.result.From, m.result.To)
	var loads []string
	for _, t := range tables {
		if t.Generation == 0 || m.left(t.Source) {
			continue
		}
		loads = append(loads, t.Source)
		// The table is unchanged since an earlier run raised it.
		done := standing.Lost(t) && len(t.Gaps) > 0 && t.Gaps[len(t.Gaps)-1].Reason == reason
		if done || m.Rehearsal {
			continue
		}
		// In the former cluster, generations may have begun that were never replicated to this
		// cluster.
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
