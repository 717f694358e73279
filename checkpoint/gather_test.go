package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

func TestReadsAreDistinct(t *testing.T) {
	got := distinct([]asked{{"b", true}, {"a/", false}, {"a/1", true}, {"b", true}, {"a/2", false}, {"b", false}, {"c", true}, {"a", true}, {"c1", true}, {"c1", false}})
	if want := []asked{{"a", true}, {"a/", false}, {"b", false}, {"c", true}, {"c1", false}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	rows := []Row{{Key: "a"}, {Key: "a/1"}, {Key: "a/11"}, {Key: "a/2"}, {Key: "b"}}
	for a, want := range map[asked]int{{"a", true}: 1, {"a/1", true}: 1, {"a/1", false}: 2, {"a/", false}: 3, {"a", false}: 4, {"c", false}: 0, {"", false}: 5, {"a/10", true}: 0} {
		if got := a.in(rows); len(got) != want {
			t.Errorf("%+v: %v", a, got)
		}
	}
}

// gathered are readers of a ledger, whose rows carry the time of the request that read them.
type gathered struct {
	gatherer
	requests, reads, most int
	fails                 bool
}

func (g *gathered) all(ctx context.Context, reads []asked) ([]Row, error) {
	g.requests, g.reads, g.most = g.requests+1, g.reads+len(reads), max(g.most, len(reads))
	at := task.Mono(ctx)
	if err := task.Sleep(ctx, 5*time.Millisecond); err != nil {
		return nil, err
	}
	if g.fails {
		return nil, errors.New("away")
	}
	var rows []Row
	for _, a := range reads {
		rows = append(rows, Row{Key: a.key, Counter: uint64(at), Data: []byte(a.key)})
	}
	return rows, nil
}

func playGathered(t *testing.T, play func(ctx context.Context, g *gathered)) {
	t.Helper()
	if err := virtual.NewWorld(1, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false).Run(time.Hour, func(ctx context.Context) { play(ctx, &gathered{}) }); err != nil {
		t.Fatal(err)
	}
}

// Loops of many tables read the ledger with a few requests. Each gets its own rows, read by a
// request that began after its read. The reads of few tables wait for nobody.
func TestReadsOfManyTablesAreGathered(t *testing.T) {
	for _, c := range []struct{ tables, least, most int }{{3, 60, 60}, {100, 30, 250}, {3000, 100, 900}} {
		playGathered(t, func(ctx context.Context, g *gathered) {
			tables := task.NewGroup(ctx, 0)
			for i := range c.tables {
				tables.Go("table", func(ctx context.Context) error {
					_ = task.Sleep(ctx, time.Duration(i*17)*time.Millisecond%(2*time.Second))
					for range 20 {
						key, began := fmt.Sprint("table/", i), task.Mono(ctx)
						rows, err := g.read(ctx, asked{key, true}, g.all)
						took := task.Mono(ctx) - began
						if err != nil || len(rows) != 1 || rows[0].Key != key || time.Duration(rows[0].Counter) < began || took > gatherTime+5*time.Millisecond || c.tables == 3 && took > 5*time.Millisecond {
							t.Errorf("after %s: %v, %v", took, rows, err)
						}
						_ = task.Sleep(ctx, 2*time.Second)
					}
					return nil
				})
			}
			if _ = tables.Wait(); g.requests < c.least || g.requests > c.most || g.most > 500 || g.reads != 20*c.tables {
				t.Errorf("%d tables: %d requests for %d reads", c.tables, g.requests, g.reads)
			}
		})
	}
}

// Reads that are joined fail together, but the end of one of them is not the end of the others.
func TestAReadThatEndsLeavesTheOthers(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration // when the first read ends; 0: not
		fails  bool
		errors string
	}{
		"nothing":                {0, false, "ok ok ok"},
		"no answer":              {0, true, "failed failed failed"},
		"it ends while it waits": {100 * time.Millisecond, false, "failed ok ok"},
		"it ends as it asks":     {gatherTime + time.Millisecond, false, "failed ok ok"},
	} {
		playGathered(t, func(ctx context.Context, g *gathered) {
			g.since, g.last, g.fails = task.Mono(ctx), gatherAbove, c.fails
			told := make([]string, 3)
			readers := task.NewGroup(ctx, 0)
			for i := range told {
				readers.Go("reader", func(ctx context.Context) error {
					_ = task.Sleep(ctx, time.Duration(i)*time.Millisecond)
					if i == 0 && c.after > 0 {
						limited, cancel := task.WithTimeout(ctx, c.after)
						defer cancel()
						ctx = limited
					}
					if told[i] = "ok"; func() error { _, err := g.read(ctx, asked{key: "a"}, g.all); return err }() != nil {
						told[i] = "failed"
					}
					return nil
				})
			}
			if _ = readers.Wait(); strings.Join(told, " ") != c.errors {
				t.Errorf("%s: %v", name, told)
			}
		})
	}
}
