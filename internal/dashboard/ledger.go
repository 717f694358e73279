package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// glanceFor is the usual maximum age of a reading that answers a request. So a page causes at most
	// one reading per second, however many clients request it.
	glanceFor = time.Second
	// mostParked is the maximum number of parked items that a page lists.
	mostParked = 200
)

// Ledger reads what only the pages below the first one show. Nothing is read before such a page is
// requested. It is safe for concurrent use.
type Ledger struct {
	Config *config.Config
	Target status.Target

	mu      sync.Mutex
	glances map[string]*glance // by kind of page and table
}

// open opens the pipeline's ledger. It is nil if the migration has not started.
func (l *Ledger) open(ctx context.Context) (*checkpoint.Ledger, error) {
	ledger, err := checkpoint.Open(ctx, l.Target.Ledger(l.Config.State.Table), l.Config.Name, checkpoint.Options{ReadOnly: true})
	if errors.Is(err, checkpoint.ErrNoLedger) {
		return nil, nil
	}
	return ledger, err
}

// glance is the last reading for a page.
type glance struct {
	mu    sync.Mutex
	taken bool
	began time.Duration // on the monotonic clock
	value any
	err   error
}

// glanceOf returns the last reading for a page if it is at most `lasts` old. Otherwise it reads again.
// Requests that arrive during the reading wait for it.
func glanceOf[T any](ctx context.Context, l *Ledger, key string, lasts time.Duration, read func(ctx context.Context) (T, error)) (T, error) {
	l.mu.Lock()
	if l.glances == nil {
		l.glances = map[string]*glance{}
	}
	g := l.glances[key]
	if g == nil {
		g = &glance{}
		l.glances[key] = g
	}
	l.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if began := task.Mono(ctx); !g.taken || began-g.began >= lasts {
		// Not the caller's own context: this caller may disconnect while other callers wait.
		limited, done := preflight.Reading(context.WithoutCancel(ctx))
		defer done()
		g.value, g.err = read(limited)
		g.taken, g.began = true, began
	}
	value, _ := g.value.(T)
	return value, g.err
}

// errEnough ends a scan before the last record.
var errEnough = errors.New("enough")

// parkedList is the beginning of the list of a table's parked items. More reports that there are
// further ones.
type parkedList struct {
	Entries []parked.Entry
	More    bool
}

// parked reads the parked items of a table. The list has hashes of keys, no item data.
func (l *Ledger) parked(ctx context.Context, source string) (parkedList, error) {
	return glanceOf(ctx, l, "parked/"+source, glanceFor, func(ctx context.Context) (list parkedList, err error) {
		lot := sink.NewParking(l.Target.Records(l.Config.State.Table), l.Config.Name)
		err = lot.List(ctx, source, func(ref sink.Ref, record transform.Parked) error {
			if len(list.Entries) == mostParked {
				list.More = true
				return errEnough
			}
			list.Entries = append(list.Entries, parked.EntryOf(ref, record))
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return list, parked.Explain(ctx, l.Config, err)
	})
}
