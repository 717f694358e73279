package cutover_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// rerouted drives for 20 minutes a cutover whose app profile routes to cluster two from a step on. It returns
// the record and what the driver failed with.
func (s *scene) rerouted(from checkpoint.CutoverStep, ask func(cluster string) (string, error)) (c checkpoint.Cutover, failed []error) {
	s.t.Helper()
	s.must(s.ledger.CheckCluster(s.ctx, "one"))
	_, err := s.ledger.UpdateCutover(s.ctx, "", func(c *checkpoint.Cutover) error { return c.Start(s.plan(), s.world.Now()) })
	s.must(err)
	ctx, cancel := task.WithTimeout(s.ctx, 20*time.Minute)
	defer cancel()
	cluster := "one"
	d := s.driver()
	d.OnStep = func(c checkpoint.Cutover) {
		if c.Step == from {
			cluster = "two"
		}
	}
	d.Cluster = func(context.Context) (string, error) { return ask(cluster) }
	d.Failed = func(_ string, err error) { failed = append(failed, err) }
	s.must(d.Run(ctx, func(c checkpoint.Cutover) bool { return c.Step.Over() || c.Step.Switched() }))
	c, err = s.ledger.Cutover(s.ctx, "")
	s.must(err)
	return c, failed
}

// H46: a driver neither freezes nor switches in a cluster that is not the ledger's: rows may be
// missing there. What was frozen stays so until a failover, which cancels.
func TestH46_NothingSwitchesInAnotherCluster(t *testing.T) {
	for step, calls := range map[checkpoint.CutoverStep][]string{
		checkpoint.CutoverChecks: nil, checkpoint.CutoverDrain: {cutover.FreezeWrites}, checkpoint.CutoverFence: {cutover.FreezeWrites},
		checkpoint.CutoverSwitching: {cutover.FreezeWrites}, checkpoint.CutoverWatching: {cutover.FreezeWrites, cutover.Switch},
	} {
		stage(t, 1, 1, func(s *scene) {
			c, failed := s.rerouted(step, func(cluster string) (string, error) { return cluster, nil })
			var called []string
			for _, h := range c.Hooks {
				called = append(called, h.Name)
			}
			changed := slices.ContainsFunc(failed, func(err error) bool { return errors.Is(err, checkpoint.ErrClusterChanged) })
			if !slices.Equal(called, calls) || changed != (step != checkpoint.CutoverWatching) || c.Step.Switched() != (step == checkpoint.CutoverWatching) {
				t.Errorf("rerouted at %s: step %s, called %q, failed %t", step, c.Step, called, changed)
			}
		})
	}
}

// A control plane that does not say the cluster keeps an application from being frozen, and from
// being switched, but not from writing again.
func TestAnUnknownClusterFreezesNothing(t *testing.T) {
	away := errors.New("unavailable")
	for step, want := range map[checkpoint.CutoverStep][]string{
		checkpoint.CutoverChecks: {cutover.UnfreezeWrites}, // nobody knows whether an earlier call froze
		checkpoint.CutoverDrain:  {cutover.FreezeWrites, cutover.UnfreezeWrites},
		checkpoint.CutoverFence:  {cutover.FreezeWrites, cutover.UnfreezeWrites},
	} {
		stage(t, 1, 1, func(s *scene) {
			c, _ := s.rerouted(step, func(cluster string) (string, error) {
				if cluster == "two" {
					return "", away
				}
				return cluster, nil
			})
			var called []string
			for _, h := range c.Hooks {
				called = append(called, h.Name)
			}
			if c.Step != checkpoint.CutoverCancelled || !slices.Equal(called, want) {
				t.Errorf("silent from %s: step %s, called %q", step, c.Step, called)
			}
		})
	}
}
