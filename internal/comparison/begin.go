package comparison

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
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
	way, why := verify.ChooseWay(scope, notedRate(shards), b.Items, itemsPerSecond)
	if way == verify.Quiet && b.mayBeBusier(ctx, state, shards) {
		rate, err := b.countedRate(ctx, state.Source)
		if err != nil {
			return state, err
		}
		way, why = verify.ChooseWay(scope, max(rate, notedRate(shards)), b.Items, itemsPerSecond)
	}
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

// notedRate returns the changes per second that the shards' readers have noted. It is a mean over
// half a minute. So it is too low for a moment after an application has started to write.
func notedRate(shards []checkpoint.Shard) (rate float64) {
	for i := range shards {
		rate += shards[i].Rate
	}
	return rate
}

const (
	// lately is the time in which a change shows that the noted rate may be too low.
	lately = time.Minute
	// countFor is the time in which changes are counted. Readers of shards with changes note their
	// progress every second.
	countFor = 1200 * time.Millisecond
	// longVerify is the least expected length, in seconds, of a verify for which changes are
	// counted. A shorter one would take notably longer.
	longVerify = 60
)

// mayBeBusier reports whether changes should be counted, because the noted rate may be too low. If
// a freeze is near, no time is spent on that.
func (b Beginning) mayBeBusier(ctx context.Context, state checkpoint.TableState, shards []checkpoint.Shard) bool {
	now := b.Ledger.Now(ctx)
	return b.Items >= longVerify*itemsPerSecond && !state.FreezeNear() &&
		slices.ContainsFunc(shards, func(s checkpoint.Shard) bool { return !s.EventTime.IsZero() && now.Sub(s.EventTime) < lately })
}

// countedRate counts the changes that are applied within a moment, and returns their number per
// second. The first moment only ensures that the records of shards with changes are recent.
func (b Beginning) countedRate(ctx context.Context, source string) (rate float64, err error) {
	before := map[string]checkpoint.Shard{}
	for range 2 {
		if err := task.Sleep(ctx, countFor); err != nil {
			return 0, err
		}
		shards, err := b.Ledger.Shards(ctx, source)
		if err != nil {
			return 0, err
		}
		rate = 0
		for _, s := range shards {
			was, found := before[s.ID]
			if before[s.ID] = s; found && s.Applied > was.Applied {
				rate += float64(s.Applied-was.Applied) / max(s.ReadAt.Sub(was.ReadAt).Seconds(), countFor.Seconds()/2)
			}
		}
	}
	return rate, nil
}

// newKey returns a random key for the checksums of one comparison.
func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // crypto/rand.Read never fails
	return key
}
