package switchover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// backCheck checks the ways back of tables. It keeps each answer for a while, because a driver asks
// again and again while it waits for gates. Its methods may be called concurrently.
type backCheck struct {
	run func(ctx context.Context, source string) (fallback.Checked, error)

	mu   sync.Mutex
	kept map[string]keptCheck
}

// keptCheck is the answer for a table, with the monotonic time of the check.
type keptCheck struct {
	at    time.Duration
	found cutover.WayBack
}

// How long answers are kept. A problem may be solved at any time.
const (
	goodFor = 5 * time.Minute
	badFor  = 10 * time.Second
)

// of returns whether the way back of a table is possible.
func (b *backCheck) of(ctx context.Context, source string) (cutover.WayBack, error) {
	b.mu.Lock()
	kept, known := b.kept[source]
	b.mu.Unlock()
	lasts := goodFor
	if kept.found.Problem != "" {
		lasts = badFor
	}
	if known && task.Mono(ctx)-kept.at < lasts {
		return kept.found, nil
	}
	checked, err := b.run(ctx, source)
	if err != nil {
		return cutover.WayBack{}, err
	}
	found := cutover.WayBack{Window: checked.Window, Wait: checked.Wait, From: checked.From}
	var figures []string
	for _, p := range checked.Problems {
		figures = append(figures, p.Figure)
	}
	if len(figures) > 0 {
		found.Problem, found.Cure = strings.Join(figures, "; "), checked.Problems[0].Cure
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[source] = keptCheck{task.Mono(ctx), found}
	return found, nil
}

// checkBack returns the check of the ways back of tables by the clients of the ends.
func (e Ends) checkBack(items *fallback.DynamoDB, target *preflight.Target, times fallback.Timings) func(ctx context.Context, source string) (cutover.WayBack, error) {
	b := &backCheck{kept: map[string]keptCheck{}, run: func(ctx context.Context, source string) (fallback.Checked, error) {
		t, ok := e.Cfg.Table(source)
		if !ok {
			return fallback.Checked{}, fmt.Errorf("table %s is not in the configuration of this process", source)
		}
		d, err := preflight.DescribeTable(ctx, e.Source, t)
		if err != nil {
			return fallback.Checked{}, err
		}
		check := &fallback.Check{
			Source: source, Table: d.Mapping.Tables()[0], Key: fallback.AnyKey(d.Mapping.PrimaryKey),
			Changes: &fallback.Bigtable{Target: target.Data}, Target: target.Admin, Items: items, Timings: times,
			Now: func(ctx context.Context) (time.Time, error) {
				d, err := e.Source.Describe(ctx, source)
				return d.At, err
			},
		}
		return check.Run(ctx)
	}}
	return b.of
}
