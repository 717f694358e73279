package pipeline

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// severed is a backlog in which each shard of Orders has one page: a change from before the start,
// and one from after it.
type severed struct {
	*backlog
	cut time.Time
}

func (s severed) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	shard, after, _ := strings.Cut(string(at), "|")
	if !strings.HasPrefix(shard, "Orders") {
		return s.backlog.Read(ctx, at)
	}
	if err := task.Sleep(ctx, 10*time.Millisecond); err != nil || after == "2" {
		return cdc.Page{Next: at, At: task.Now(ctx)}, err
	}
	s.given[shard]++
	page := cdc.Page{Next: cdc.Iterator(shard + "|2"), At: task.Now(ctx)}
	for n, name := range []string{"before", "after"} {
		item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(name)}})
		page.Changes = append(page.Changes, cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(n + 1)), Time: s.cut.Add(time.Duration(n)*time.Hour - time.Minute),
			Keys: item, New: item})
	}
	return page, nil
}

// asked is a target in which one table is missing. It records which of its rows are written.
type asked struct {
	enginetest.Targets
	rows map[string]bool
}

func (a asked) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if r.Table == a.Missing {
		a.rows[r.Row] = true
	}
	return a.Targets.Apply(ctx, r)
}

// H84: when a page that released its slot is read again, its changes from before the cut are
// dropped again. Its later changes end the dropping only once they are durable.
func TestAPageThatIsPutBackIsCutAgain(t *testing.T) {
	source := severed{newBacklog(500), time.Date(2026, 11, 1, 11, 0, 0, 0, time.UTC)} // an hour before the world of play begins
	written := asked{enginetest.Targets{Missing: "orders"}, map[string]bool{}}
	o := crowd(t, source.backlog, enginetest.Targets{}, "Orders", "Users")
	o.Writer = sink.NewWriter(sink.Options{Table: written, InFlight: 16})
	o.Open = func(string) cdc.Source { return source }
	o.Pages = 1 // so that shards of Users wait while the page of Orders is held
	play(t, &checkpointtest.Memory{}, 5*time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		if err := enginetest.Behind(4, "Users")(ctx, l); err != nil {
			return err
		}
		if err := enginetest.Behind(0, "Orders")(ctx, l); err != nil {
			return err
		}
		if _, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Cut = source.cut; return nil }); err != nil {
			return err
		}
		return l.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/Orders", ID: "Orders0", State: checkpoint.Waiting, Hop: cdc.RootHop,
			Generation: 7, Dropping: true})
	})
	var rows []string
	for row := range written.rows {
		rows = append(rows, row)
	}
	if source.given["Orders0"] < 2 || !slices.Equal(rows, []string{"after"}) {
		t.Errorf("the page was read %d times, and %q written", source.given["Orders0"], rows)
	}
}
