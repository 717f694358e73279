package cutover

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
)

// noteCanaries records that the source tables may hold canaries. It must be called before the first
// canary is written.
func (v *drive) noteCanaries(ctx context.Context, c checkpoint.Cutover) error {
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Canaries = true; return nil })
	return err
}

// removeCanaries removes all canaries from the source tables. Every attempt uses the same keys for
// its canaries, so the removal covers the canaries of all attempts.
func (v *drive) removeCanaries(ctx context.Context, c checkpoint.Cutover) error {
	if !c.Canaries {
		return nil
	}
	for _, source := range c.Tables {
		if err := v.removeCanariesOf(ctx, source); err != nil {
			return fmt.Errorf("remove canaries of table %s: %w", source, err)
		}
	}
	if err := v.approach(ctx, c, 0); err != nil {
		return err
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Canaries = false; return nil })
	return err
}

func (v *drive) removeCanariesOf(ctx context.Context, source string) error {
	d, err := v.Source.Describe(ctx, source)
	if err != nil {
		return err
	}
	shards, err := v.Ledger.Shards(ctx, source)
	if err != nil {
		return err
	}
	set := v.canaries(source)
	for i := range canary.Number(len(shards)) {
		if err := v.Source.Delete(ctx, source, set.Key(i, d.PrimaryKey)); err != nil {
			return err
		}
	}
	return nil
}

// forgetCanaries removes the canaries. If the removal fails, the attempt continues, and the removal
// is retried later.
func (v *drive) forgetCanaries(ctx context.Context, c checkpoint.Cutover) {
	if err := v.removeCanaries(ctx, c); ignoreMoved(err) != nil {
		v.failed("clean up the sources", err)
	}
}
