package comparison

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Beginning is a verify of one table that is to begin.
type Beginning struct {
	Ledger  *checkpoint.Ledger
	Source  engine.Database
	Target  Target
	Mapping *transform.Mapping
	Hash    string // of the mapping
	Sample  float64
	Since   time.Time // only rows with cells since; zero: all
	Items   int64     // of the source, about
	Bytes   int64
	Ago     time.Duration // in place of Since: so long before now
}

// Begin plans a verify of the table and writes it into the ledger, where parts of it can be taken
// from then on.
func (b Beginning) Begin(ctx context.Context, state checkpoint.TableState) (checkpoint.TableState, error) {
	// What earlier verifies left: of one that was cancelled while parts were held, for example.
	if err := b.Ledger.RemoveVerify(ctx, state.Source); err != nil {
		return state, err
	}
	shards, err := b.Ledger.Shards(ctx, state.Source)
	if err != nil {
		return state, err
	}
	now := b.Ledger.Now(ctx)
	scope := verify.Scope{Sample: b.Sample, Since: b.Since}
	if b.Ago > 0 {
		scope.Since = now.Add(-b.Ago)
	}
	rate := 0.0
	for i := range shards {
		rate += shards[i].Rate
	}
	way, why := verify.ChooseWay(scope, rate, b.Items, itemsPerSecond)
	c := &verify.Comparison{Mapping: b.Mapping, Source: b.Source, Target: b.Target, Scope: scope}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails, says its documentation
	plan, err := c.NewPlan(ctx, way, why, b.Bytes, key)
	if err != nil {
		return state, err
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return state, err
	}
	return b.Ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{
		Plan: data, Phase: 1, Parts: plan.Parts(1, 0), MappingHash: b.Hash, BegunAt: now, Estimate: b.Items,
	})
}
