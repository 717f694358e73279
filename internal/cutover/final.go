package cutover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// finals holds the results of the final comparisons that this driver made.
type finals struct {
	of       uint32 // the attempt to which the results belong
	compared map[string]checkpoint.VerifyResult
	compares *task.Limit
}

// final is the state of the final comparison of one table. At most one of the fields is set.
type final struct {
	begun  uint32 // the number of a verify that has just begun
	waits  string // the condition for which the comparison waits
	why    string // why the application must not be switched
	failed error  // an error that is retried
	result checkpoint.VerifyResult
}

// verify makes the final comparison of source and target, for all tables concurrently. The attempt
// continues only if there are no differences.
func (v *drive) verify(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if done, err := v.stillDisturbed(ctx, c, now); err != nil || done {
		return err
	}
	if v.finals.of != c.Attempt {
		v.finals = finals{of: c.Attempt, compared: map[string]checkpoint.VerifyResult{}, compares: task.NewLimit(comparesAtOnce)}
	}
	found := make([]final, len(c.Tables))
	limited, cancel := task.WithTimeout(ctx, v.mayTake(c, now))
	defer cancel()
	g := task.NewGroup(limited, tablesAtOnce)
	for i, source := range c.Tables {
		g.Go("compare "+source, func(ctx context.Context) error {
			found[i], found[i].failed = v.final(ctx, c, source, now)
			return nil // the comparison of the other tables continues
		})
	}
	_ = g.Wait()
	return v.conclude(ctx, c, now, found)
}

// conclude decides how the attempt continues, from the final comparisons of all tables.
func (v *drive) conclude(ctx context.Context, c checkpoint.Cutover, now time.Time, found []final) error {
	results, begun := map[string]checkpoint.VerifyResult{}, map[string]uint32{}
	why, waits := "", ""
	var failed error
	for i, source := range c.Tables {
		f := found[i]
		if f.result.Number == 0 && f.result.Known() {
			v.compared[source] = f.result
		}
		switch {
		case f.failed != nil && failed == nil:
			failed = fmt.Errorf("table %s: %w", source, f.failed)
		case f.begun > 0:
			begun[source] = f.begun
		case f.why != "" && why == "":
			why = "table " + source + ": " + f.why
		case f.waits != "" && waits == "":
			waits = "table " + source + ": " + f.waits
		}
		results[source] = f.result
	}
	switch {
	case why != "":
		return v.cancel(ctx, c, now, "%s", why)
	case len(begun) > 0:
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
			numbers := maps.Clone(c.Finals)
			if numbers == nil {
				numbers = map[string]uint32{}
			}
			maps.Copy(numbers, begun)
			c.Finals = numbers
			return nil
		})
		return err
	case failed != nil:
		return errors.Join(failed, ignoreMoved(v.trouble(ctx, c, "the final comparison failed and is repeated: %v", failed)))
	case waits != "" && len(c.Finals) == 0: // the rows of the last changes are not compared yet
		if e := overTime(c, v.draining.rest, now, waits); e.why != "" {
			return v.end(ctx, c, now, e)
		}
		return v.trouble(ctx, c, "%s", waits)
	case waits != "":
		return v.trouble(ctx, c, "%s", waits)
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Verified = results })
}

// final returns the state of the final comparison of one table. If necessary, it makes or begins
// the comparison.
func (v *drive) final(ctx context.Context, c checkpoint.Cutover, source string, now time.Time) (f final, err error) {
	s, _, err := v.Ledger.Table(ctx, source)
	if err != nil {
		return f, err
	}
	compared, done := v.compared[source]
	switch number := c.Finals[source]; {
	case done:
		f.result = compared
	case number == 0 && rechecks(s, v.settings.Ready.Small):
		if f, err = v.finalRecheck(ctx, c, s); err != nil || f.waits+f.why != "" {
			return f, err
		}
	// A rehearsal does not do this, because the application still writes.
	case number == 0 && !c.Rehearse && readiness.Small(s.Verify.Full, v.settings.Ready.Small):
		if err = v.compares.Acquire(ctx, 1); err != nil {
			return final{}, err
		}
		f.result, err = v.Verifier.Compare(ctx, s)
		v.compares.Release(1)
		if err != nil {
			return final{}, err
		}
	// There is no verify yet, or it was cancelled.
	case number == 0 || s.Verify.Number != number || !s.Verify.Running() && s.Verify.Result.Number != number:
		if s.Verify.Running() {
			return final{waits: "another verify is running"}, nil
		}
		f.begun, err = v.Verifier.Begin(ctx, s)
		return f, err
	case s.Verify.Running():
		return final{waits: "the final verify is running"}, nil
	default:
		f.result = s.Verify.Result
	}
	f.why = finally(s, f.result, c.Unmapped[source], now)
	if f.why == "" && f.result.Items == 0 {
		d, err := v.Source.Describe(ctx, source)
		if err != nil {
			return final{}, err
		}
		if d.Items > 0 {
			f.why = fmt.Sprintf("the final verify read no item; DynamoDB counts about %d", d.Items)
		}
	}
	return f, nil
}

// finally returns why the switch is not allowed after the final comparison; "" if it is allowed. An
// operator cannot override this, because rows are known to differ. The argument `unmapped` is the
// number of items that could not be mapped when the checks ended.
func finally(s checkpoint.TableState, result checkpoint.VerifyResult, unmapped int64, now time.Time) string {
	switch {
	case standing.Lost(s):
		return "needs a load: " + s.Reason
	case result.Generation != s.Generation || !result.Clean():
		return "result of the final verify: " + result.Verdict(now)
	case result.Sample > 0 || !result.Since.IsZero():
		return "the final verify did not compare everything"
	case result.Unmapped > unmapped:
		return fmt.Sprintf("%d items cannot be mapped, but there were only %d when the checks ended", result.Unmapped, unmapped)
	case s.Sampled.Differing > 0:
		return "rows of a sample differ"
	}
	return ""
}
