package comparison

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	verifies "github.com/dynamodb-bigtable/replicator/internal/verify"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Beginning holds the settings of a verify of one table that is about to begin.
type Beginning struct {
	Ledger  *checkpoint.Ledger
	Source  engine.Database
	Target  Target
	Mapping *transform.Mapping
	Hash    string // hash of the mapping
	Sample  float64
	Since   time.Time // only rows with cells since; zero: all
	Items   int64     // about how many the source has
	Bytes   int64
	Ago     time.Duration // instead of Since: a time before now
	Late    time.Duration // by how much the application's own writes to the target may be late; 0: it has none
	Owned   bool          // no other program writes the target
}

// Compare compares the whole table in this process. Nothing may write either side meanwhile.
func (b Beginning) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	result, err := verifies.CompareFrozen(ctx, b.options(), state, b.Bytes, newKey())
	return stored(result, state), err
}

// SampleItems compares random items in this process, while nothing writes either side.
func (b Beginning) SampleItems(ctx context.Context, state checkpoint.TableState, items int) (checkpoint.VerifyResult, error) {
	result, err := verifies.SampleFrozen(ctx, b.options(), state, b.Items, items)
	return stored(result, state), err
}

func (b Beginning) options() verifies.Options {
	return verifies.Options{
		Ledger: b.Ledger, Database: b.Source, Rows: b.Target,
		Table: engine.Spec{Mapping: b.Mapping, MappingHash: b.Hash, Late: b.Late, Owned: b.Owned, Segments: partsAtOnce},
	}
}

func stored(r verify.Result, state checkpoint.TableState) checkpoint.VerifyResult {
	s := r.Stored()
	s.Generation = state.Generation
	return s
}

// Begin plans the verify of the table and writes the plan to the ledger. From then on, workers can
// acquire its parts.
func (b Beginning) Begin(ctx context.Context, state checkpoint.TableState) (checkpoint.TableState, error) {
	// Leftovers of earlier verifies, for example of one that was cancelled while parts were leased.
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
	plan, err := c.NewPlan(ctx, way, why, b.Bytes, newKey())
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

// newKey returns a key for the sums of one comparison.
func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails, according to its documentation
	return key
}
