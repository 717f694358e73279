package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// RegionTable is a source table as it was found in the region to which the migration moves.
type RegionTable struct {
	Description backfill.Description
	Mapping     *transform.Mapping
	// NeedsOld is true if the mapping needs old images (engine.NeedsOldImages).
	NeedsOld bool
}

// Region is the region to which the source moves.
type Region struct {
	Name string
	// Tables are all configured tables that the application has not left, and that the region has.
	Tables []RegionTable
	// Missing are tables of patterns that the region does not have. They stay with the former region:
	// as after a drop, workers suspend them, and resume them once the migration returns.
	Missing []string
}

// RunRegion makes the migration follow its tables in another region of a DynamoDB global table. The
// replicas of a global table have the same items, but each has a stream of its own, and changes are
// copied between them later and in another order. So no position is valid in another region, and
// rows may have changes that never reached it. Therefore every table begins a new generation under
// its rows, and needs a load. The new generation outranks requests of workers of the former region
// that arrive late, and such workers stop as soon as they read the ledger (checkpoint.ReadsFrom).
//
// Still, Rehearsal and Tell of the plan apply. After an error, RunRegion may be called again. It skips
// the tables that follow the region already.
func RunRegion(ctx context.Context, ledger *checkpoint.Ledger, p Plan, to Region) (Result, error) {
	m := &regionMove{move: &move{Plan: p, ledger: ledger}, to: to}
	err := m.run(ctx)
	return m.result, err
}

// regionMove is one move to another region.
type regionMove struct {
	*move
	to     Region
	found  []RegionTable           // the tables that must still be moved
	states []checkpoint.TableState // their records, in the same order
}

func (m *regionMove) run(ctx context.Context) error {
	if err := m.decide(ctx); err != nil || len(m.found) == 0 { // before the wait
		return err
	}
	m.tell("waiting %s to check that nothing writes to the ledger", m.Still)
	before, err := ask(ctx, m.ledger.Activity)
	if err == nil {
		_, err = m.unchanged(ctx, before, false)
	}
	if err == nil {
		err = m.decide(ctx)
	}
	if err != nil || m.Rehearsal {
		return err
	}
	for _, e := range m.endings {
		if err := e.carryOut(ctx, m.ledger); err != nil {
			return err
		}
	}
	for i, t := range m.found {
		if err := m.follow(ctx, t, m.states[i]); err != nil {
			return err
		}
	}
	return nil
}

// decide decides which tables move, and how the cutovers end.
func (m *regionMove) decide(ctx context.Context) error {
	m.states, m.found = nil, nil
	r := Result{To: m.to.Name, Outcome: Nothing}
	var from []string
	for _, t := range m.to.Tables {
		name := t.Mapping.Source
		state, err := m.table(ctx, name)
		if err != nil {
			return err
		}
		moves, err := movesTo(m.to.Name, t, state)
		if err != nil {
			return err
		}
		if moves {
			from = append(from, checkpoint.RegionOf(state.StreamARN))
			m.states, m.found = append(m.states, state), append(m.found, t)
		}
		if moves || awaitsLoad(state) {
			r.Loads, r.Outcome = append(r.Loads, name), Loads
		}
	}
	for _, name := range m.to.Missing {
		state, err := m.table(ctx, name)
		if err != nil {
			return err
		}
		if state.Generation > 0 && state.Suspended.Reason != standing.Gone {
			r.Missing = append(r.Missing, name)
		}
	}
	if len(m.to.Tables) == 0 && len(r.Missing) > 0 {
		return &RefusedError{"region " + m.to.Name + " has none of the replicated tables: " + strings.Join(r.Missing, ", "), "check the name of the region, and the account"}
	}
	slices.Sort(from)
	r.From = strings.Join(slices.Compact(from), ", ")
	m.result = r
	if len(m.found) == 0 {
		return nil
	}
	all, err := ask(ctx, m.ledger.Cutovers)
	if err != nil {
		return err
	}
	m.endings = nil
	for _, c := range all {
		e, err := m.end(ctx, c)
		if err != nil {
			return err
		}
		m.endings = append(m.endings, e)
		if e.step != "" && !m.result.Cutover.Active() {
			m.result.Cutover = e.step
		}
		if c.Denial.Left && e.step == checkpoint.CutoverCancelling {
			m.result.Policies = append(m.result.Policies, c.Tables...)
		}
	}
	return nil
}

func (m *regionMove) table(ctx context.Context, source string) (checkpoint.TableState, error) {
	return ask(ctx, func(ctx context.Context) (s checkpoint.TableState, err error) {
		s, _, err = m.ledger.Table(ctx, source)
		return s, err
	})
}

// awaitsLoad reports whether a table needs a load since it was moved, perhaps by an interrupted run.
// An earlier loss may have given the record another kind.
func awaitsLoad(state checkpoint.TableState) bool {
	return standing.Lost(state) && slices.ContainsFunc(state.Gaps, func(g checkpoint.DeclaredGap) bool {
		return g.Kind == checkpoint.KindSourceMoved && g.Generation >= state.Base
	})
}

// movesTo reports whether a table must be moved to the region: it was followed, and it is followed
// in another region. It fails with a *RefusedError if the table there is not shown to be a replica
// of the followed one, or if it cannot be followed.
func movesTo(region string, t RegionTable, state checkpoint.TableState) (bool, error) {
	d, name := t.Description, t.Mapping.Source
	if state.Generation == 0 || state.StreamARN == "" {
		return false, nil
	}
	refuse := func(cause, cure string) (bool, error) { return false, &RefusedError{cause, cure} }
	found, followed := checkpoint.RegionOf(d.ARN), checkpoint.RegionOf(state.StreamARN)
	switch {
	case found != region:
		return refuse(fmt.Sprintf("table %s was found in region %s, and not in %s", name, found, region),
			"remove the endpoints of AWS from the environment (AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB) and the AWS profile, or let them name endpoints of "+region)
	case found == followed && checkpoint.CheckSource(name, d.ARN, state.StreamARN) == nil:
		return false, nil
	case checkpoint.CheckSource(name, strings.Replace(d.ARN, ":"+found+":", ":"+followed+":", 1), state.StreamARN) != nil:
		return refuse(fmt.Sprintf("table %s in region %s is in another account: found %s, but replicator follows %s", name, region, d.ARN, state.StreamARN),
			"use the credentials of the followed account")
	case !slices.Contains(d.Replicas, followed):
		return refuse(fmt.Sprintf("table %s in region %s is no replica of the followed table: its replicas in other regions are [%s], without %s", name, region, strings.Join(d.Replicas, ", "), followed),
			"run this before the replica in "+followed+" is removed from the global table. Otherwise replicate the table under another `name` and `to`")
	case d.Status != "ACTIVE" && d.Status != "UPDATING":
		return refuse(fmt.Sprintf("table %s in region %s is %s", name, region, d.Status), "repeat the command once the table is ACTIVE")
	}
	if err := engine.CheckKey(d, t.Mapping); err != nil {
		return false, err
	}
	return true, engine.CheckStream(d, t.NeedsOld)
}

// end decides how a cutover ends. Before the switch it is cancelled, because its checks and its
// drain prove nothing about another region.
func (m *regionMove) end(ctx context.Context, c checkpoint.Cutover) (ending, error) {
	of := ""
	if c.Group != "" {
		of = " of group " + c.Group
	}
	switch {
	case c.Step == checkpoint.CutoverSwitching:
		return ending{}, &RefusedError{"the application is being switched by the cutover" + of, "wait for its end, or answer with replicator cutover resolve; then run the command again"}
	case c.RollingBack():
		return ending{}, &RefusedError{"a rollback" + of + " is running", "wait for its end, or cancel it: replicator cutover cancel; then run the command again"}
	case c.HasFallback():
		return ending{}, &RefusedError{"the way back of the cutover" + of + " is open: DynamoDB in region " + m.result.From + " follows Bigtable",
			"roll back or close it first: replicator cutover rollback, or replicator cutover end-fallback"}
	case c.Step == checkpoint.CutoverWatching:
		return ending{}, &RefusedError{"the application has switched" + of + ", and replicator watches region " + m.result.From + " for late writers", "wait for the end of the watch; then run the command again"}
	case c.Denial.Left && c.Step.Active() && c.Step != checkpoint.CutoverCancelling:
		return ending{}, &RefusedError{"resource policies in region " + m.result.From + " may have the statement of the freeze", "cancel the cutover first: replicator cutover cancel"}
	}
	reason := fmt.Sprintf("the source is read in region %s instead of %s", m.to.Name, m.result.From)
	return endingOf(c, m.result, NotAsked, reason, m.ledger.Now(ctx))
}

// follow begins a new generation of a table that follows the stream of the region.
func (m *regionMove) follow(ctx context.Context, t RegionTable, state checkpoint.TableState) error {
	d := t.Description
	gap := checkpoint.DeclaredGap{Kind: checkpoint.KindSourceMoved, Reason: fmt.Sprintf("the table is read in region %s instead of %s", m.to.Name, checkpoint.RegionOf(state.StreamARN))}
	_, err := within(ctx, raiseTime, func(ctx context.Context) (checkpoint.TableState, error) {
		return m.ledger.Raise(ctx, state.Source, state.Generation, gap, func(s *checkpoint.TableState) {
			s.Follow(d.StreamARN, d.StreamLabel)
			s.WithdrawExports()
		})
	})
	if errors.Is(err, checkpoint.ErrRaised) {
		return &RefusedError{"another process has begun a generation of table " + state.Source, "stop every worker and every other command of the migration; then run the command again"}
	}
	return err
}
