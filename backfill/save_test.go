package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// What is being saved does not change while the save is under way, however far other segments get meanwhile.
func TestProgressStandsStillWhileItIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out := newMemory(40), &target{}
		m.pages = func(uint64) int { return 2 }
		m.calls = func(ctx context.Context) error { return task.Sleep(ctx, 400*time.Millisecond) }
		text := func(p Progress) string {
			data, err := json.Marshal(p)
			if err != nil {
				t.Error(err)
			}
			return string(data)
		}
		saves := 0
		s := &Scan{Table: "Orders", Segments: 4, Source: m, Write: out.write, Save: func(ctx context.Context, p Progress) error {
			saves++
			given := text(p)
			_ = task.Sleep(ctx, 3*time.Second)
			if now := text(p); now != given {
				t.Errorf("%s became %s", given, now)
			}
			return nil
		}}
		if _, err := s.Run(context.Background(), Progress{}); err != nil || saves < 2 {
			t.Error(saves, err)
		}
	})
}

// A load that may not save any more is another's: it ends with that, and reads no further.
func TestLoadEndsWithASaveThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out, failed := newMemory(1000), &target{}, errors.New("the keeper lease is lost")
		m.pages = func(uint64) int { return 1 }
		reads := 0
		m.calls = func(ctx context.Context) error {
			reads++
			return task.Sleep(ctx, 400*time.Millisecond)
		}
		s := &Scan{Table: "Orders", Source: m, Write: out.write, Save: func(context.Context, Progress) error { return failed }}
		if _, err := s.Run(context.Background(), Progress{}); !errors.Is(err, failed) || reads > 5 {
			t.Errorf("%d pages are read: %v", reads, err)
		}
	})
}

// Why a load failed, and why what it had done could not be saved, are both told: the second may be that the keeper lease is another's, after which the first must not be repeated.
func TestALoadThatFailsTellsOfItsLastSaveToo(t *testing.T) {
	m, failed, unsaved := newMemory(10), errors.New("no page"), errors.New("the keeper lease is lost")
	m.after = func(context.Context) error { return failed }
	s := &Scan{Table: "Orders", Source: m, Write: (&target{}).write, Save: func(context.Context, Progress) error { return unsaved }}
	if _, err := s.Run(t.Context(), Progress{}); !errors.Is(err, failed) || !errors.Is(err, unsaved) {
		t.Errorf("ended with %v", err)
	}
	m.after = nil
	if done, err := s.Run(t.Context(), Progress{}); !done.Done() || !errors.Is(err, unsaved) {
		t.Errorf("all is read and not saved: %v", err)
	}
}

// The items of a segment that is open are those of all its pages.
func TestItemsOfAnOpenSegmentAddUp(t *testing.T) {
	p := Progress{Total: 2}
	at := Open{Segment: 0, After: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})}
	p.open(at)
	p.advance(at, 5)
	p.advance(at, 2)
	if p.Items != 7 || p.Open[0].Items != 7 {
		t.Errorf("%+v", p)
	}
}
