package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// stopping is a source and a database. A stop arrives during each call, which records what happened
// to its context.
type stopping struct{ reads *Reads }

func (s stopping) stop(ctx context.Context) error {
	s.reads.Cancel(errors.New("stop"))
	return ctx.Err()
}

func (s stopping) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, s.stop(ctx)
}

func (s stopping) Seek(ctx context.Context, _ string, _ cdc.Position) (cdc.Iterator, error) {
	return "", s.stop(ctx)
}

func (s stopping) Read(ctx context.Context, _ cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{}, s.stop(ctx)
}

func (s stopping) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	return backfill.Description{}, s.stop(ctx)
}

func (s stopping) Scan(ctx context.Context, _ string, _, _ int, _ attribute.Item, _ int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, s.stop(ctx)
}

func (s stopping) Get(ctx context.Context, _ string, _ attribute.Item) (attribute.Item, bool, error) {
	return attribute.Item{}, false, s.stop(ctx)
}

// unheard ignores the time of an answer.
func unheard(context.Context, time.Time) {}

// A stop ends every running call to the source. A call that hangs would use up the whole grace, and
// no lease would be released.
func TestAStopEndsEveryCall(t *testing.T) {
	calls := &Reads{}
	source, database := stoppableSource{stopping{calls}, calls, unheard, nil}, stoppableDatabase{stopping{calls}, calls, unheard, nil, nil}
	for name, call := range map[string]func(ctx context.Context) error{
		"ListPage": func(ctx context.Context) error { _, err := source.ListPage(ctx, "", ""); return err },
		"Seek":     func(ctx context.Context) error { _, err := source.Seek(ctx, "s", cdc.Position{}); return err },
		"Read":     func(ctx context.Context) error { _, err := source.Read(ctx, "i"); return err },
		"Describe": func(ctx context.Context) error { _, err := database.Describe(ctx, "Orders"); return err },
		"Get": func(ctx context.Context) error {
			_, _, err := database.Get(ctx, "Orders", attribute.Item{})
			return err
		},
		"Scan": func(ctx context.Context) error {
			_, err := database.Scan(ctx, "Orders", 0, 1, attribute.Item{}, 1)
			return err
		},
	} {
		if err := call(context.Background()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s goes on after a stop: %v", name, err)
		}
		if len(calls.cancels) != 0 {
			t.Errorf("%s is under way still", name)
		}
	}
}

// An ended call is forgotten and not kept alive: every shard makes one a second, for months.
func TestCallsThatEndedAreForgotten(t *testing.T) {
	calls := &Reads{}
	reading, end := calls.begin(t.Context())
	end()
	if reading.Err() == nil {
		t.Error("the context of a call outlives it")
	}
	h := NewPageSlot(task.NewLimit(1), calls)
	look := StoppableDiscover(func(context.Context, func(string) bool) (Discovery, error) { return Discovery{}, nil }, calls)
	_, err := look(t.Context(), nil)
	if err := errors.Join(err, h.take(t.Context())); err != nil || !h.Held || len(calls.cancels) != 0 {
		t.Errorf("%d calls are under way, %v", len(calls.cancels), err)
	}
}
