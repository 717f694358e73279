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

// slowTarget takes a second for a row, and records how many pages were then read and not written.
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

// TestOnePageIsReadAhead: while a page is written, only the next one is read. That one takes its
// own slot, so memory stays bounded, and no shard waits for a page that was read ahead. The
// checkpoint never passes the written page.
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

// positionOf returns the position in a shard's record, as a number.
func positionOf(t *testing.T, record []byte) int {
	t.Helper()
	var s struct {
		Position string `json:"position"`
	}
	if err := json.Unmarshal(record, &s); err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(s.Position) // 0 at the horizon
	return n
}
