package pipeline

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// slowTarget takes a second for a row, and notes how many pages were read then and not written.
type slowTarget struct {
	sink.Table
	source  *backlog
	written int
	unread  map[int]int // how often, by the number of pages
}

func (s *slowTarget) Apply(ctx context.Context, _ *sink.Request) (bool, error) {
	err := task.Sleep(ctx, time.Second)
	if err == nil {
		s.unread[s.source.total("Orders")-s.written]++
		s.written++
	}
	return true, err
}

// TestOnePageIsReadAhead: while a page is written the next one is read, and no other; and it takes a
// place of its own, so that what is held stays bounded and no shard waits for one that is ahead. The
// checkpoint never passes what is written.
func TestOnePageIsReadAhead(t *testing.T) {
	for _, c := range []struct{ shards, pages, held int }{{1, 2, 2}, {2, 2, 2}, {2, 3, 3}, {1, 1, 1}} {
		source := newBacklog(20)
		target := &slowTarget{source: source, unread: map[int]int{}}
		o := crowd(t, source, enginetest.Targets{}, "Orders")
		o.Writer, o.Pages = sink.NewWriter(sink.Options{Table: target, InFlight: 16}), c.pages
		store, passed := &checkpointtest.Memory{}, 0
		store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
			done := execute()
			if rows, err := store.Read(ctx, key); err == nil && c.shards == 1 && len(rows) == 1 && strings.Contains(key, "/shard/") {
				if at := positionOf(t, rows[0].Data); at > target.written {
					passed++
				}
			}
			return done, nil
		}
		play(t, store, time.Minute, o, enginetest.Behind(c.shards, "Orders"))
		if target.written != c.shards*20 || target.unread[c.held] < target.written/2 || target.unread[c.held+1] > 0 || passed > 0 {
			t.Errorf("%+v: %d written, with so many read and not written: %v; %d commits were early", c, target.written, target.unread, passed)
		}
	}
}

// positionOf is the position in the record of a shard, as a number.
func positionOf(t *testing.T, record []byte) int {
	t.Helper()
	var s struct {
		Position string `json:"position"`
	}
	if err := json.Unmarshal(record, &s); err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(s.Position) // none at the horizon
	return n
}
