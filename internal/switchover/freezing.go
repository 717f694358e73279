package switchover

import (
	"context"
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/freeze"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Freezing holds the requests to DynamoDB that freeze source tables by their policies.
type Freezing interface {
	tablepolicy.Policies
	// Prober returns a prober of a table. It writes as the probe's role.
	Prober(d backfill.Description) tablepolicy.Prober
	// Own returns the ARN of the role that this process uses.
	Own(ctx context.Context) (string, error)
}

// exempt returns the principals that may write while the tables are frozen.
func (e Ends) exempt(ctx context.Context) ([]string, error) {
	own, err := e.Freezing.Own(ctx)
	return append([]string{own}, e.Cfg.Cutover.Exempt...), err
}

// freezer returns the Freezer of a driver.
func (e Ends) freezer(failed func(step string, err error)) *freeze.Policy {
	return &freeze.Policy{
		Ledger: e.Ledger, Policies: e.Freezing, Exempt: e.exempt, Role: e.Cfg.Cutover.ProbeRole, Timings: e.FreezeTimings, Failed: failed,
		Reach: func(ctx context.Context, source string) (string, tablepolicy.Prober, error) {
			d, err := e.Source.Describe(ctx, source)
			if err != nil {
				return "", nil, err
			}
			return d.ARN, e.Freezing.Prober(d), nil
		},
	}
}

// freezable refuses a group with a table that cannot be frozen by its policy.
func (o *Operator) freezable(ctx context.Context, g group) error {
	e := o.ends()
	if e.Freezing == nil {
		return nil
	}
	reasons := make([][]string, len(g.Tables))
	all := task.NewGroup(ctx, 16)
	for i, t := range g.Tables {
		all.Go("examine the policy of "+t.From, func(ctx context.Context) (err error) {
			reasons[i], err = e.refusals(ctx, t.From)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return explain(ctx, "cannot examine the resource policies of "+o.of(g), err)
	}
	var causes []string
	for _, some := range reasons {
		causes = append(causes, some...)
	}
	if len(causes) == 0 {
		return nil
	}
	return &diag.Error{Code: diag.CutoverRefused, What: "the policies of tables of " + o.of(g) + " cannot freeze writes", Cause: strings.Join(causes, "; "),
		Fix: "remove the causes, or set cutover.freeze: hook; replicator plan --print-iam aws prints the permissions of both roles"}
}

// refusals returns why a table cannot be frozen by its policy. One write of the probe's role, which
// can change nothing, shows whether that role may write.
func (e Ends) refusals(ctx context.Context, source string) ([]string, error) {
	d, err := e.Source.Describe(ctx, source)
	if err != nil {
		return nil, err
	}
	exempt, err := e.exempt(ctx)
	if err != nil {
		return nil, err
	}
	facts := tablepolicy.Facts{Table: d.ARN, Replicas: len(d.Replicas), Hash: tablepolicy.HashOf(e.Ledger.ID()), Exempt: exempt, Probe: e.Cfg.Cutover.ProbeRole}
	policy, err := e.Freezing.Get(ctx, d.ARN)
	switch {
	case tablepolicy.NoAPI(err):
		facts.NoAPI = true
	case err != nil:
		return nil, err
	}
	facts.Policy = policy.Text
	reasons := tablepolicy.Refusals(facts)
	if len(reasons) > 0 {
		return reasons, nil
	}
	switch e.Freezing.Prober(d).Put(ctx) {
	case tablepolicy.Denied:
		reasons = append(reasons, fmt.Sprintf("%s: the probe's role %s may not write the table, so its writes cannot prove a freeze", d.ARN, facts.Probe))
	case tablepolicy.Unseen:
		reasons = append(reasons, fmt.Sprintf("%s: a write as the probe's role %s had no answer: replicator must be allowed to assume that role", d.ARN, facts.Probe))
	}
	return reasons, nil
}
