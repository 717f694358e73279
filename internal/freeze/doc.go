// Package freeze freezes the tables of a cutover by their policies.
//
// Package tablepolicy freezes one table. This package freezes all tables of a cutover at the same
// time, keeps their records in the ledger, and probes all of them until the application is switched.
//
//	Z1  A table gets no statement unless the record of the cutover says that one may be left.
//	Z2  Once an attempt ends, no process can begin its freeze: the record of each table says that the
//	    freeze of this attempt ends, also if it never began.
//	Z3  No write was let through from the time when the last table was frozen until the switch, as
//	    far as a second role's writes show it.
package freeze

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Policy freezes tables by their policies. It implements cutover.Freezer.
type Policy struct {
	Ledger   *checkpoint.Ledger
	Policies tablepolicy.Policies
	// Reach returns the ARN of a table, and a prober that writes it as the probe's role.
	Reach func(ctx context.Context, source string) (arn string, prober tablepolicy.Prober, err error)
	// Exempt returns the ARNs of the principals that may write, with this program's role.
	Exempt func(ctx context.Context) ([]string, error)
	Role   string // ARN of the probe's role
	// Timings are the durations of a freeze. The plan of a cutover may have another Wait.
	Timings tablepolicy.Timings
	// Failed, if not nil, is called with each failure that is retried.
	Failed func(step string, err error)
}

// defaultWait is the longest time after its signature at which a change of a policy may still be
// executed, if DynamoDB accepts signatures for five minutes.
const defaultWait = 8 * time.Minute

// Begin implements cutover.Freezer.
func (p *Policy) Begin(c checkpoint.Cutover, g *task.Group, proof func(ctx context.Context) (time.Time, error)) cutover.Denial {
	d := &denial{Policy: p, of: c, group: g, proof: proof, times: p.Timings}
	if c.PolicyWait > 0 {
		d.times.Wait = c.PolicyWait
	} else if d.times.Wait == 0 {
		d.times.Wait = defaultWait
	}
	for _, source := range c.Tables {
		d.tables = append(d.tables, &table{denial: d, source: source})
	}
	return d
}
