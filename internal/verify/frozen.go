package verify

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// CompareFrozen compares all items and rows of a table in this process, without parts in the
// ledger. Meanwhile no program may write the source or the target, so the second check of a row
// (V1) follows at once. The argument `bytes` is the approximate size of the source, and `key` is
// the key of the checksums. Failed reads are not retried.
func CompareFrozen(ctx context.Context, o Options, state checkpoint.TableState, bytes int64, key []byte) (verify.Result, error) {
	c := o.frozen(ctx, state)
	plan, err := c.NewPlan(ctx, verify.Quiet, "writes are frozen", bytes, key)
	if err != nil {
		return verify.Result{}, err
	}
	return c.Compare(ctx, plan, mostLooks)
}

// frozen returns the comparison of a table with frozen writes.
func (o Options) frozen(ctx context.Context, state checkpoint.TableState) *verify.Comparison {
	c := o.verifier(func(error) {}).comparison(engine.Until(ctx), state, verify.Scope{})
	c.Applied, c.Unapplied, c.Settle, c.Retry, c.Pace = nil, nil, 0, nil, nil
	return c
}

const (
	// sampleReads is the maximum number of concurrent reads for a sample.
	sampleReads = 32
	// mostSegments is the maximum number of segments that DynamoDB accepts for a scan.
	mostSegments = 1_000_000
)

// SampleFrozen compares at most `asked` random items of a table in this process. Meanwhile no
// program may write the source or the target. The argument `items` is the approximate number of
// items in the source.
func SampleFrozen(ctx context.Context, o Options, state checkpoint.TableState, items int64, asked int) (verify.Result, error) {
	c := o.frozen(ctx, state)
	result := verify.Result{Source: c.Mapping.Source, Way: verify.Live, Why: "a sample", Began: c.Now(ctx)}
	found, err := randomItems(ctx, c, min(max(items/4, 1), mostSegments), asked)
	if err != nil {
		return result, err
	}
	b := transform.Load(c.Mapping, found, 0, result.Began)
	result.Unmapped = int64(len(b.Parked))
	var places []verify.Place
	for i := range b.Rows {
		if row := &b.Rows[i]; !row.Remove {
			places = append(places, verify.Place{Table: row.Table, Row: row.Row, Keys: []attribute.Item{c.Mapping.Keys(found[row.Change])}})
		}
	}
	checked, err := c.Check(ctx, ctx, places...)
	result.Counts.Add(checked.Counts)
	result.Items, result.Findings, result.Ended = int64(len(found)), checked.Findings, c.Now(ctx)
	return result, err
}

// randomItems reads the first item of each of some random segments.
func randomItems(ctx context.Context, c *verify.Comparison, segments int64, asked int) ([]attribute.Item, error) {
	pages := make([][]attribute.Item, asked)
	g := task.NewGroup(ctx, sampleReads)
	for i := range pages {
		segment := int(task.Rand(ctx) * float64(segments))
		g.Go(fmt.Sprint("sample ", i), func(ctx context.Context) error {
			page, err := c.Source.Scan(ctx, c.Mapping.Source, segment, int(segments), attribute.Item{}, 1)
			pages[i] = page.Items
			return err
		})
	}
	err := g.Wait()
	known := map[string]bool{}
	var items []attribute.Item
	for _, page := range pages {
		for _, item := range page {
			if key := c.Mapping.ItemKey(item); !known[key] {
				known[key] = true
				items = append(items, item)
			}
		}
	}
	return items, err
}
