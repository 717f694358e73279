package processes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

const (
	// probedItems take turns, so that a probe waits for no other.
	probedItems = 60
	// firstProbed is the number of the first of them: beyond what writers make.
	firstProbed = 1_000_000
	// probesPerSecond of all items together.
	probesPerSecond = 5
	// probePause is between two looks at a row: the resolution of what is measured.
	probePause = 20 * time.Millisecond
	// probeLimit is how long a write may take to be visible: several takeovers in a row.
	probeLimit = 60 * time.Second
	// probeColumn is the attribute that probes write.
	probeColumn = "probe"
)

// prober measures the time from a write in the source, from before the call, to the moment that a reader of the target sees it.
type prober struct {
	client *dynamodb.Client
	rows   *bigtable.Table
	table  *table
	// troubled tells whether a worker was being replaced or frozen at any time since then.
	troubled func(since time.Time) bool

	mu       sync.Mutex
	calm     []time.Duration // while none was
	troubles []time.Duration
}

// newProber makes the items that it writes.
func newProber(ctx context.Context, w *world, t *table) (*prober, error) {
	p := &prober{client: w.source, rows: w.rows.Open(t.name), table: t, troubled: w.troubledSince}
	for n := range probedItems {
		if err := w.writers.put(ctx, t, t.key(firstProbed+n)); err != nil {
			return nil, err
		}
	}
	w.writers.pin(t, probedItems)
	return p, nil
}

// run probes until ctx ends.
func (p *prober) run(ctx context.Context) error {
	limiter := rate.NewLimiter(probesPerSecond, 1)
	var number atomic.Int64
	var g errgroup.Group
	for n := range probedItems {
		g.Go(func() error {
			for limiter.Wait(ctx) == nil {
				if err := p.probe(ctx, firstProbed+n, strconv.FormatInt(number.Add(1), 10)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// probe writes one item and looks for it. What is under way when ctx ends is not counted.
func (p *prober) probe(ctx context.Context, n int, text string) error {
	key := p.table.key(n)
	began := time.Now()
	_, err := p.client.UpdateItem(context.WithoutCancel(ctx), &dynamodb.UpdateItemInput{
		TableName: &p.table.name, Key: key, UpdateExpression: aws.String("SET " + probeColumn + " = :n"),
		ExpressionAttributeValues: item{":n": &types.AttributeValueMemberN{Value: text}},
	})
	if err != nil {
		return fmt.Errorf("a probe's write failed: %w", err)
	}
	only := bigtable.RowFilter(bigtable.ChainFilters(bigtable.FamilyFilter(dataFamily), bigtable.ColumnFilter(probeColumn)))
	for {
		row, err := p.rows.ReadRow(ctx, p.table.row(key), only)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a probe's look failed: %w", err)
		}
		if cells := row[dataFamily]; len(cells) == 1 && string(cells[0].Value) == text {
			p.note(began, time.Since(began))
			return nil
		}
		if time.Since(began) > probeLimit {
			return fmt.Errorf("a write was not visible after %s", probeLimit)
		}
		if wait(ctx, probePause) != nil {
			return nil
		}
	}
}

func (p *prober) note(began time.Time, latency time.Duration) {
	troubled := p.troubled(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	if troubled {
		p.troubles = append(p.troubles, latency)
	} else {
		p.calm = append(p.calm, latency)
	}
}

// latencies are those measured so far, in order: while no worker was being replaced or frozen, and all.
func (p *prober) latencies() (calm, all []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calm = slices.Clone(p.calm)
	all = append(slices.Clone(p.calm), p.troubles...)
	slices.Sort(calm)
	slices.Sort(all)
	return calm, all
}

// percentiles describes sorted latencies.
func percentiles(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	at := func(p float64) float64 { return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))].Seconds() }
	return fmt.Sprintf("p50 %.2f s, p95 %.2f s, p99 %.2f s, max %.2f s (%d probes)", at(.5), at(.95), at(.99), sorted[len(sorted)-1].Seconds(), len(sorted))
}
