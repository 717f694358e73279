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

// Whatever ends a load before its end is what Run returns, in those words: who called it must tell an item that is not to be stored from a generation that rose, and a
// page that nobody has read is no end of its segment. So it is with a segment that is begun, and with one that is gone on with.
func TestALoadEndsWithWhatEndedIt(t *testing.T) {
	failed := errors.New("no")
	for name, spoil := range map[string]func(s *Scan){
		"a read": func(s *Scan) {
			s.Retry = func(context.Context, func(context.Context) error) error { return failed }
		},
		"a write": func(s *Scan) { s.Write = func(context.Context, []attribute.Item, time.Time) error { return failed } },
		"a save":  func(s *Scan) { s.Save = func(context.Context, Progress) error { return failed } },
	} {
		for going, from := range map[string]Progress{"begun": {}, "gone on with": {Total: 1, Next: 1, Open: []Open{{Segment: 0}}}} {
			synctest.Test(t, func(t *testing.T) {
				m, out := newMemory(100), &target{}
				m.calls = func(ctx context.Context) error { return task.Sleep(ctx, saveEvery) }
				s := &Scan{Table: "Orders", Source: m, Write: out.write, Save: discard}
				spoil(s)
				if p, err := s.Run(t.Context(), from); !errors.Is(err, failed) || errors.Is(err, errUnfinished) || p.Done() {
					t.Errorf("%s that fails, of a load that is %s: done %v, %v", name, going, p.Done(), err)
				}
				if len(out.written) > 14 { // a page, and the one that was asked for while the first could not be saved
					t.Errorf("%s that fails, of a load that is %s: %d items are written", name, going, len(out.written))
				}
			})
		}
	}
}

// What is saved of an open segment is the key after which it goes on: without it a load of hours would begin each segment anew.
func TestAnOpenSegmentGoesOnAfterItsLastKey(t *testing.T) {
	p := Progress{Total: 2}
	at := Open{Segment: 0, After: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})}
	p.open(at)
	for _, key := range []string{"b", "c"} {
		at.After = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}})
		p.advance(at, 1)
		if !p.Open[0].After.Equal(at.After) {
			t.Errorf("after %s it goes on after %s", key, keyOf(p.Open[0].After))
		}
	}
}

// As many segments are read side by side as were asked for, or all of them, and no more than the memory is for.
func TestSegmentsSideBySide(t *testing.T) {
	for _, c := range []struct{ total, wanted, want int }{
		{10, 0, 10}, {10, -1, 10}, {10, 1, 1}, {10, 3, 3}, {10, 10, 10}, {10, 11, 10}, {1000, 0, maxParallel}, {1000, 1000, maxParallel},
	} {
		if got := (Progress{Total: c.total}).parallel(c.wanted); got != c.want {
			t.Errorf("%d of %d: %d", c.wanted, c.total, got)
		}
	}
}

// A load is done when every segment was begun and none is open; one that was never begun is not.
func TestDoneIsAll(t *testing.T) {
	for _, c := range []struct {
		p    Progress
		want bool
	}{
		{Progress{}, false}, {Progress{Total: 2}, false}, {Progress{Total: 2, Next: 1}, false},
		{Progress{Total: 2, Next: 2, Open: []Open{{Segment: 1}}}, false}, {Progress{Total: 2, Next: 2}, true},
	} {
		if got := c.p.Done(); got != c.want {
			t.Errorf("%+v is done: %v", c.p, got)
		}
	}
}

// What no load writes is not taken for its beginning: progress that is misread would leave items out.
func TestProgressIsRefusedAsAWhole(t *testing.T) {
	for _, text := range []string{
		`{"total":2,"next":1,"open":[{"segment":"0"}]}`, `{"total":2,"next":1,"open":[{"segment":0,"after":{"pk":{"Q":"a"}}}]}`,
		`{"total":2,"next":1,"open":[{"segment":0,"items":"many"}]}`,
	} {
		var p Progress
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s is %+v", text, p)
		}
	}
	for _, p := range []Progress{
		{Total: 1, Items: -1}, {Total: 2, Next: -1}, {Total: 2, Next: 1, Open: []Open{{Segment: -1}}}, {Total: 2, Next: 2, Open: []Open{{Segment: 1}, {Segment: 1}}}, {},
	} {
		if err := p.check(); !errors.Is(err, ErrProgress) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := (Progress{Total: MaxSegments, Next: MaxSegments}).check(); err != nil {
		t.Error(err)
	}
}
