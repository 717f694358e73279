package job

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"

	"github.com/dynamodb-bigtable/replicator/internal/load"
)

var (
	copied = beam.NewCounter("replicator", "items_copied")
	done   = beam.NewCounter("replicator", "parts_done")
	left   = beam.NewCounter("replicator", "parts_left")
)

// CopyPart works on one part of the load, under a lease. It writes nothing after its return, so it
// needs no FinishBundle.
type CopyPart struct{ Job Job }

// ProcessElement copies the part with the given number, and emits items with each saved page. Last
// it emits the outcome. It returns an error only if no repetition can help: runners repeat a failed
// task a few times, and then end the whole job. Other trouble is repeated under the lease, and the
// part's row in the ledger shows it.
func (c *CopyPart) ProcessElement(ctx context.Context, index int, items, outcomes func(string, int64)) error {
	p, release, err := shared.acquire(ctx, c.Job)
	if err != nil {
		return err
	}
	defer release()
	outcome, err := p.lender.Copy(ctx, index, func(n int64) {
		copied.Inc(ctx, n)
		items(c.Job.Table, n)
	})
	if err != nil {
		return err
	}
	if outcome == load.Done {
		done.Inc(ctx, 1)
	} else {
		left.Inc(ctx, 1)
	}
	items(c.Job.Table, 0) // without any items, the last step would not run
	outcomes(string(outcome), 1)
	return nil
}

// Outcomes logs how many parts ended in which way.
type Outcomes struct{}

// ProcessElement logs one outcome.
func (*Outcomes) ProcessElement(ctx context.Context, outcome string, parts int64) error {
	log.Infof(ctx, "parts that ended with outcome %q: %d", outcome, parts)
	return nil
}
