package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// withOthers starts a worker that ends when this table and another one are drained. The returned
// function puts items into the other table.
func (s *scene) withOthers(name string) (w *Worker, put func(key, value string)) {
	mapping, err := transform.NewMapping("Others", "others", "d", []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
	if err != nil {
		s.failf("%v", err)
	}
	others := model.NewTable(s.World, "Others", 1, "id")
	s.Target.Create("others", "d", sink.LiveFamily, sink.GoneFamily)
	// Its shards have the same names as this table's.
	s.Target.Executed = func(table, key string, before, after *model.Row) {
		if table != "others" && !strings.Contains(key, "/Others") {
			s.check(table, key, before, after)
		}
	}
	w = s.Start(name, func(o *engine.Options) {
		o.Once = true
		o.Tables = append(o.Tables, engine.Spec{Mapping: mapping, MappingHash: "others", Copy: true})
		o.Database = tables{s.Source, others}
		o.Open = func(arn string) cdc.Source {
			if arn == others.Stream().ARN {
				return others.Stream()
			}
			return s.open(arn)
		}
	})
	return w, func(key, value string) {
		others.Put(attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(key)}, {Name: "value", Value: attribute.String(value)}}))
	}
}

// TestH18_DrainedBeforeAnOutage: a table that was drained before the target failed is read again
// before the run ends. Another table, which was not drained then, is read earlier and has nothing
// left (I3).
func TestH18_DrainedBeforeAnOutage(t *testing.T) {
	play(t, 40, 1, func(s *scene) {
		s.put("k", "before")
		a, put := s.withOthers("a")
		for i := range 120 {
			put("k", fmt.Sprint(i))
			s.sleep(time.Second)
		}
		if a.Over {
			s.failf("it ended while a table was written to: %v", a.Err)
		}
		s.Target.Fault = func(op, _, _ string) error {
			return &sink.Error{Op: op, Reason: sink.Unknown, Code: "Unavailable"}
		}
		s.sleep(5*time.Minute + s.upTo(5*time.Minute))
		s.put("k", "during")
		s.put("l", "during")
		s.sleep(time.Minute)
		s.Target.Fault = nil
		if err := a.Wait(s.ctx); err != nil {
			s.failf("ended with %v", err)
		}
		s.equal(0)
	})
}

// tables is the database of both tables.
type tables struct{ first, second *model.Table }

func (t tables) Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error) {
	return database{t.of(table)}.Get(ctx, table, keys)
}

func (t tables) of(name string) *model.Table {
	if name == t.second.Name {
		return t.second
	}
	return t.first
}

func (t tables) Describe(ctx context.Context, table string) (backfill.Description, error) {
	return t.of(table).Describe(ctx, table)
}

func (t tables) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	return t.of(table).Scan(ctx, table, segment, total, after, limit)
}
