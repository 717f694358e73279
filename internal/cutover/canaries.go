package cutover

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// noteCanaries records that the source tables may hold canaries, and how many by table: all indices
// below that number. It must be called before these canaries are written. It also records what the
// probe of the hooks has shown.
func (v *drive) noteCanaries(ctx context.Context, c checkpoint.Cutover, until map[string]int) error {
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.HoldCanaries(until)
		c.MayBeQuiet = c.MayBeQuiet || v.mayBeQuiet
		return nil
	})
	return err
}

// removeCanaries removes all canaries from the source tables. Every attempt uses the same keys for
// its canaries, so the removal covers the canaries of all attempts.
func (v *drive) removeCanaries(ctx context.Context, c checkpoint.Cutover) error {
	if !c.Canaries {
		return nil
	}
	for _, source := range slices.Sorted(maps.Keys(c.Candidates)) {
		if err := v.removeCanariesOf(ctx, source, c.Candidates[source]); err != nil {
			return fmt.Errorf("remove canaries of table %s: %w", source, err)
		}
	}
	if err := v.approach(ctx, c, 0); err != nil {
		return err
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Canaries, c.Candidates = false, nil; return nil })
	return err
}

func (v *drive) removeCanariesOf(ctx context.Context, source string, until int) error {
	d, err := v.Source.Describe(ctx, source)
	if err != nil {
		return err
	}
	set, g := v.canaries(source), task.NewGroup(ctx, writesAtOnce)
	for i := range until {
		g.Go("remove a canary of "+source, func(ctx context.Context) error {
			return v.Source.Delete(ctx, source, set.Key(i, d.PrimaryKey))
		})
	}
	return g.Wait()
}

// forgetCanaries removes the canaries. If the removal fails, the attempt continues, and the removal
// is retried later.
func (v *drive) forgetCanaries(ctx context.Context, c checkpoint.Cutover) {
	if err := v.removeCanaries(ctx, c); ignoreMoved(err) != nil {
		v.failed("clean up the sources", err)
	}
}
