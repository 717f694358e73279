package backfill

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

var day = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// memory is a table in memory. A hash of the key determines segments and the order in them, as in
// DynamoDB.
type memory struct {
	items []attribute.Item
	pages func(key uint64) int // how many items the page after this key has
	clock func() time.Time     // the service's; nil: answers have no time
	calls func(ctx context.Context) error
	after func(ctx context.Context) error // makes the answer fail
}

func newMemory(n int) *memory {
	m := &memory{pages: func(uint64) int { return 7 }}
	for i := range n {
		m.items = append(m.items, attribute.NewItem([]attribute.Attribute{
			{Name: "pk", Value: attribute.String(fmt.Sprint("item", i))}, {Name: "v", Value: attribute.Bool(true)},
		}))
	}
	return m
}

func keyOf(item attribute.Item) string {
	v, _ := item.Get("pk")
	return v.Text()
}

func place(item attribute.Item) uint64 {
	h := fnv.New64a()
	h.Write([]byte(keyOf(item)))
	return h.Sum64()
}

func (m *memory) Scan(ctx context.Context, _ string, segment, total int, after attribute.Item, limit int) (ScanPage, error) {
	if m.calls != nil {
		if err := m.calls(ctx); err != nil {
			return ScanPage{}, err
		}
	}
	var left []attribute.Item
	for _, item := range m.items {
		if at := place(item); int(at%uint64(total)) == segment && (!after.Exists() || at > place(after)) {
			left = append(left, item)
		}
	}
	slices.SortFunc(left, func(a, b attribute.Item) int {
		if place(a) < place(b) {
			return -1
		}
		return 1
	})
	var from uint64
	if after.Exists() {
		from = place(after)
	}
	n := m.pages(from)
	if limit > 0 {
		n = min(n, limit)
	}
	var page ScanPage
	if n < len(left) {
		page.Items = left[:n]
		if n > 0 {
			v, _ := left[n-1].Get("pk")
			page.Next = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: v}})
		}
	} else {
		page.Items = left
	}
	if m.clock != nil {
		page.At = m.clock()
	}
	if m.after != nil {
		if err := m.after(ctx); err != nil {
			return ScanPage{}, err
		}
	}
	return page, nil
}

// target records what was written.
type target struct {
	mu      sync.Mutex
	written map[string]int
}

func (t *target) write(_ context.Context, page Page, _ time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written == nil {
		t.written = map[string]int{}
	}
	for _, item := range page.Items {
		t.written[keyOf(item)]++
	}
	return nil
}

func (t *target) missing(m *memory) (keys []string) {
	for _, item := range m.items {
		if t.written[keyOf(item)] == 0 {
			keys = append(keys, keyOf(item))
		}
	}
	return keys
}

type repeating struct {
	*memory
	next attribute.Item
}

func (r repeating) Scan(context.Context, string, int, int, attribute.Item, int) (ScanPage, error) {
	return ScanPage{Next: r.next}, nil
}

// halting answers every other request with a page without items whose position has moved.
type halting struct {
	*memory
	mu    sync.Mutex
	calls int
}

func (h *halting) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error) {
	h.mu.Lock()
	h.calls++
	halt := h.calls%2 == 0
	h.mu.Unlock()
	if !halt || len(after.Attributes()) != 1 {
		return h.memory.Scan(ctx, table, segment, total, after, limit)
	}
	// Another key in place of the last one.
	return ScanPage{Next: attribute.NewItem([]attribute.Attribute{{Name: "passed", Value: attribute.Bool(true)}, after.Attributes()[0]})}, nil
}

var errCrash = errors.New("crash")
