package checkpoint

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

const (
	// gatherTime is how long a patient read waits for further reads. The loops of many tables,
	// which read the ledger every few seconds, thereby fall into step, and one request reads for
	// all of them.
	gatherTime = 200 * time.Millisecond
	// gatherAbove is the number of patient reads per second below which none of them waits.
	gatherAbove = 20
	// gatherMost is the maximum number of reads of a request. Bigtable limits a request's size.
	gatherMost = 500
)

type patientKey struct{}

// Patient returns a context for reads of the ledger that may wait a moment, so that one request
// serves the reads of many loops. Each of them still sees all writes that ended before it began.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// asked is a read of the ledger: of the rows with a prefix, or of one row.
type asked struct {
	key   string
	exact bool
}

// in returns those of the given sorted rows that a read asks for.
func (a asked) in(rows []Row) []Row {
	from, _ := slices.BinarySearchFunc(rows, a.key, func(r Row, key string) int { return cmp.Compare(r.Key, key) })
	to := from
	for to < len(rows) && a.holds(rows[to].Key) {
		to++
	}
	return slices.Clip(rows[from:to])
}

func (a asked) holds(key string) bool {
	return key == a.key || !a.exact && strings.HasPrefix(key, a.key)
}

// distinct sorts reads, and removes those whose rows another read includes.
func distinct(reads []asked) []asked {
	slices.SortFunc(reads, func(a, b asked) int {
		if c := cmp.Compare(a.key, b.key); c != 0 || a.exact == b.exact {
			return c
		}
		if a.exact {
			return 1 // the prefix comes first, because it includes the row
		}
		return -1
	})
	kept := reads[:0]
	for _, a := range reads {
		if n := len(kept); n == 0 || !kept[n-1].holds(a.key) {
			kept = append(kept, a)
		}
	}
	return kept
}

// gatherer combines reads that begin within gatherTime into one request.
type gatherer struct {
	mu   sync.Mutex
	open *gathering // that further reads may join; nil if there is none

	since     time.Duration // when the current second began
	last, now int           // number of reads in the last second, and in this one
}

// many counts a read, and reports whether there are many.
func (g *gatherer) many(at time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if passed := at - g.since; passed >= time.Second {
		if g.last = g.now; passed >= 2*time.Second {
			g.last = 0
		}
		g.since, g.now = at, 0
	}
	g.now++
	return g.last >= gatherAbove || g.now >= gatherAbove
}

// gathering is one request. The read that began it makes it.
type gathering struct {
	reads []asked
	done  task.Event
	left  bool // the read that began it has ended before the request
	rows  []Row
	err   error
}

// read returns the rows of a read. The function `all` makes the request.
func (g *gatherer) read(ctx context.Context, a asked, all func(ctx context.Context, reads []asked) ([]Row, error)) ([]Row, error) {
	if !g.many(task.Mono(ctx)) {
		return all(ctx, []asked{a})
	}
	g.mu.Lock()
	mine := g.open
	leads := mine == nil || len(mine.reads) == gatherMost
	if leads {
		mine = &gathering{done: task.NewEvent(ctx)}
		g.open = mine
	}
	mine.reads = append(mine.reads, a)
	g.mu.Unlock()
	if !leads {
		if err := mine.done.Wait(ctx); err != nil {
			return nil, err
		}
		if mine.left {
			return all(ctx, []asked{a})
		}
		return a.in(mine.rows), mine.err
	}
	err := task.Sleep(ctx, gatherTime)
	g.mu.Lock()
	if g.open == mine {
		g.open = nil // later reads must see later writes
	}
	g.mu.Unlock()
	defer mine.done.Set()
	if err == nil {
		mine.rows, mine.err = all(ctx, distinct(slices.Clone(mine.reads)))
		err = mine.err
	}
	// The others do not fail because this read has ended.
	if mine.left = ctx.Err() != nil; err != nil {
		return nil, err
	}
	return a.in(mine.rows), nil
}
