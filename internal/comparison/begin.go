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

// Beginning holds the settings with which the verify of a table begins.
type Beginning struct {
	Ledger  *checkpoint.Ledger
	Source  engine.Database
	Target  Target
	Mapping *transform.Mapping
	Hash    string // hash of the mapping
	Sample  float64
	Since   time.Time // only rows with cells written since this time; zero for all rows
	Items   int64     // approximate number of items in the source
	Bytes   int64
	Ago     time.Duration // in place of Since: only rows that changed within this time
	Late    time.Duration // maximum delay of the application's own writes to the target; 0 if it makes none
	Owned   bool          // no other program writes the target
}

// Compare compares the whole table in this process. Meanwhile no program may write the source table
// or the target table.
func (b Beginning) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	result, err := verifies.CompareFrozen(ctx, b.options(), state, b.Bytes, newKey())
	return stored(result, state), err
}

// SampleItems compares random items in this process. Meanwhile no program may write the source
// table or the target table.
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
	// Leftovers of earlier verifies must be removed. A verify that is cancelled while parts are
	// leased leaves those parts.
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

// newKey returns a random key for the checksums of one comparison.
func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // crypto/rand.Read never fails
	return key
}
