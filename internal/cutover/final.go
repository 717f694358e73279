package cutover

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// verify lets source and target be compared once more, and demands that nothing differs.
func (v *drive) verify(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if stray, err := v.stragglers(ctx, c); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	results := map[string]checkpoint.VerifyResult{}
	for _, source := range c.Tables {
		s, _, err := v.Ledger.Table(ctx, source)
		if err != nil {
			return err
		}
		number := c.Finals[source]
		if number == 0 || s.Verify.Number != number || !s.Verify.Running() && s.Verify.Result.Number != number { // or cancelled
			if s.Verify.Running() {
				return v.trouble(ctx, c, "table %s: another verify is running", source)
			}
			if number, err = v.Verifier.Begin(ctx, s); err != nil {
				return err
			}
			_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
				finals := map[string]uint32{source: number}
				for t, n := range c.Finals {
					if t != source {
						finals[t] = n
					}
				}
				c.Finals = finals
				return nil
			})
			return err
		}
		if s.Verify.Running() {
			return v.trouble(ctx, c, "table %s: the final verify is running", source)
		}
		result := s.Verify.Result
		why := finally(s, result, c.Unmapped[source], now)
		if why == "" && result.Items == 0 {
			d, err := v.Source.Describe(ctx, source)
			if err != nil {
				return err
			}
			if d.Items > 0 {
				why = fmt.Sprintf("the final verify read no item; DynamoDB counts about %d", d.Items)
			}
		}
		if why != "" {
			return v.cancel(ctx, c, now, "table %s: %s", source, why)
		}
		results[source] = result
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Verified = results })
}

// finally says why the last comparison before the switch does not let it happen; "" if it does. No
// override passes it: what was found differs. Unmapped is how many items could not be mapped when the
// checks ended.
func finally(s checkpoint.TableState, result checkpoint.VerifyResult, unmapped int64, now time.Time) string {
	switch {
	case standing.Lost(s):
		return "needs a load: " + s.Reason
	case result.Generation != s.Generation || !result.Clean():
		return "result of the final verify: " + result.Verdict(now)
	case result.Sample > 0 || !result.Since.IsZero():
		return "the final verify did not compare everything"
	case result.Unmapped > unmapped:
		return fmt.Sprintf("%d items cannot be mapped, and %d could not when the checks ended", result.Unmapped, unmapped)
	case s.Sampled.Differing > 0:
		return "rows of a sample differ"
	}
	return ""
}
