package checkpoint_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func value(f float64) *float64 { return &f }

// Limits of an operator override configured ones, even with no limit. A limit that neither sets
// does not exist.
func TestLimits(t *testing.T) {
	configured := checkpoint.Limits{RowsPerSecond: value(500), Read: &checkpoint.ReadLimit{Share: 0.25}, TargetCPU: value(0.7)}
	over := checkpoint.Limits{RowsPerSecond: value(0), Read: &checkpoint.ReadLimit{Units: 40}}.Over(configured)
	if _, ok := over.Rows(); ok {
		t.Error("the operator's answer is no limit")
	}
	if units, ok := over.ReadUnits(1000); !ok || units != 40 {
		t.Error(units, ok)
	}
	if cpu, ok := over.CPU(); !ok || cpu != 0.7 {
		t.Error(cpu, ok)
	}
	if units, ok := configured.ReadUnits(1000); !ok || units != 250 {
		t.Error(units, ok)
	}
	if _, ok := configured.ReadUnits(0); ok {
		t.Error("a share of what is not provisioned is no limit")
	}
	none := checkpoint.Limits{}.Over(checkpoint.Limits{})
	_, rows := none.Rows()
	_, units := none.ReadUnits(1000)
	if _, cpu := none.CPU(); rows || units || cpu {
		t.Error("there are limits that nobody set")
	}
}

// Limits that are set one after the other add up, and a reset removes all.
func TestSetLimits(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		for _, limits := range []checkpoint.Limits{{RowsPerSecond: value(500)}, {TargetCPU: value(0.7)}, {RowsPerSecond: value(200)}} {
			if _, err := l.SetLimits(ctx, source, limits, false); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := l.Table(ctx, source)
		if err != nil || got.Limits.ChangedAt.IsZero() {
			t.Fatal(got.Limits, err)
		}
		got.Limits.ChangedAt = checkpoint.Limits{}.ChangedAt
		if diff := cmp.Diff(checkpoint.Limits{RowsPerSecond: value(200), TargetCPU: value(0.7)}, got.Limits); diff != "" {
			t.Error(diff)
		}
		if got, err = l.SetLimits(ctx, source, checkpoint.Limits{}, true); err != nil || got.Limits != (checkpoint.Limits{}) {
			t.Error(got.Limits, err)
		}
	})
}
