package cutover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// request waits for approval, hours and gates.
func (v *drive) request(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.Expired(now) {
		return v.cancel(ctx, c, now, "it expired before it was approved and ready")
	}
	if !c.Due(now) {
		return nil
	}
	if c.WhenReady {
		gates, err := v.Gates(ctx, c.CutoverPlan, now)
		if err != nil {
			return err
		}
		if open := Open(gates); len(open) > 0 {
			return v.trouble(ctx, c, "waiting for gate %s of table %s: %s", open[0].Name, open[0].Table, "not ready")
		}
	}
	return v.advance(ctx, c, now, nil)
}

func (v *drive) checks(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	gates, err := v.Gates(ctx, c.CutoverPlan, now)
	if err != nil {
		return err
	}
	if open := Open(gates); len(open) > 0 {
		why := fmt.Sprintf("gate %s of table %s is not ready: %s", open[0].Name, open[0].Table, open[0].Figure)
		if !c.WhenReady {
			return v.cancel(ctx, c, now, "%s", why)
		}
		if err := v.approach(ctx, c, 0); err != nil {
			return err
		}
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Await(now, why) })
		return err
	}
	if err := v.near(ctx, c); err != nil {
		return err
	}
	if !raised(c) {
		return v.raise(ctx, c) // which takes a while: the next pass judges the gates again
	}
	if doubted, err := v.forgetDoubts(ctx, c); err != nil || doubted {
		return err
	}
	if waits, why, err := v.recheck(ctx, c, now); err != nil {
		return err
	} else if why != "" {
		return v.cancel(ctx, c, now, "%s", why)
	} else if waits != "" {
		return v.trouble(ctx, c, "%s", waits)
	}
	if err := v.probeCanaries(ctx, c); err != nil {
		return v.cancel(ctx, c, now, "canaries cannot be written to a source: %v", err)
	}
	known, err := v.known(ctx, c)
	if err != nil {
		return err
	}
	if n := known.parkedItems(); n > mostParked {
		return v.cancel(ctx, c, now, "%d items are parked; a cutover leaves at most %d behind", n, mostParked)
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) {
		c.Gates, c.Verified, c.Parked, c.Unmapped = gates, known.verified, known.parked, known.unmapped
	})
}

// near lets workers read the shards often from now on. That ends as the canaries are removed, which
// this records.
func (v *drive) near(ctx context.Context, c checkpoint.Cutover) error {
	if err := v.noteCanaries(ctx, c); err != nil {
		return err
	}
	return v.approach(ctx, c, c.Attempt)
}

// approach records in all tables which attempt is about to freeze the application; 0: none is.
func (v *drive) approach(ctx context.Context, c checkpoint.Cutover, attempt uint32) error {
	for _, source := range c.Tables {
		if _, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.Approach(attempt) }); err != nil {
			return err
		}
	}
	return nil
}

// mostParked bounds the items, by their hashes, that a record names as left behind.
const mostParked = 2000

// knownLosses is what is known of the tables when the checks end.
type knownLosses struct {
	verified map[string]checkpoint.VerifyResult
	parked   map[string][]string
	unmapped map[string]int64
}

func (k knownLosses) parkedItems() (n int) {
	for _, items := range k.parked {
		n += len(items)
	}
	return n
}

// known reads what the gates let pass.
func (v *drive) known(ctx context.Context, c checkpoint.Cutover) (knownLosses, error) {
	k := knownLosses{map[string]checkpoint.VerifyResult{}, map[string][]string{}, map[string]int64{}}
	for _, source := range c.Tables {
		s, _, err := v.Ledger.Table(ctx, source)
		if err != nil {
			return k, err
		}
		items, err := v.Parked(ctx, source)
		if err != nil {
			return k, err
		}
		k.verified[source] = s.Verify.Full
		if len(items) > 0 {
			k.parked[source] = items
		}
		if n := s.Verify.Full.Unmapped; n > 0 {
			k.unmapped[source] = n
		}
	}
	return k, nil
}

// parkedSince says what is parked now and was not when the checks ended; "" if nothing is.
func (v *drive) parkedSince(ctx context.Context, c checkpoint.Cutover, source string) (string, error) {
	items, err := v.Parked(ctx, source)
	if err != nil {
		return "", err
	}
	n := 0
	for _, item := range items {
		if !slices.Contains(c.Parked[source], item) {
			n++
		}
	}
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("table %s: items were parked after the checks: %d", source, n), nil
}

// probeCanaries writes and removes one canary of each table, because a source that takes none is not
// drained while the application stands still. It is of no attempt, so that it proves nothing.
func (v *drive) probeCanaries(ctx context.Context, c checkpoint.Cutover) error {
	for _, source := range c.Tables {
		d, err := v.Source.Describe(ctx, source)
		if err != nil {
			return err
		}
		if err := v.noteCanaries(ctx, c); err != nil {
			return err
		}
		set := v.canaries(source)
		if err := v.Source.Put(ctx, source, set.Item(0, d.PrimaryKey, 0, v.Ledger.Worker())); err != nil {
			return fmt.Errorf("table %s: %w", source, err)
		}
		if err := v.Source.Delete(ctx, source, set.Key(0, d.PrimaryKey)); err != nil {
			return fmt.Errorf("table %s: %w", source, err)
		}
	}
	return nil
}
