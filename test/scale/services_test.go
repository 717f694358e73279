package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// ledger is the state table: rows in the order of their keys. It counts requests, and tracks which
// worker holds which shard.
type ledger struct {
	mu           sync.RWMutex
	keys         []string
	rows         map[string]checkpoint.Row
	read, writes int
	owners       map[string]string    // by shard; "" if no worker holds it
	last         map[string]string    // the last owner
	free         map[string]time.Time // by shard that was read before: since when no worker reads it
	moves        int
	longest      time.Duration // the longest time a shard had no live reader
}

func (l *ledger) Read(_ context.Context, prefix string) (rows []checkpoint.Row, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearch(l.keys, prefix)
	for ; i < len(l.keys) && strings.HasPrefix(l.keys[i], prefix); i++ {
		rows = append(rows, l.rows[l.keys[i]])
		if l.keys[i] == prefix {
			break // a read of a single row
		}
	}
	l.read += max(len(rows), 1)
	return rows, nil
}

func (l *ledger) Swap(_ context.Context, key string, was, next uint64, data []byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	if l.rows[key].Counter != was {
		return false, nil
	}
	i, found := slices.BinarySearch(l.keys, key)
	switch {
	case data == nil && found:
		l.keys = slices.Delete(l.keys, i, i+1)
		delete(l.rows, key)
		return true, nil
	case !found:
		l.keys = slices.Insert(l.keys, i, key)
	}
	l.rows[key] = checkpoint.Row{Key: key, Counter: next, Data: data}
	if strings.Contains(key, "/shard/") {
		return true, l.follow(data)
	}
	return true, nil
}

// follow records the holder of a shard. The mutex is held.
func (l *ledger) follow(data []byte) error {
	var s struct{ ID, Owner, State string }
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	id := s.ID
	if s.State == "done" {
		delete(l.owners, id)
		delete(l.free, id)
		return nil
	}
	if s.Owner == "" && l.owners[id] == "" {
		return nil // waiting
	}
	if s.Owner == "" {
		l.free[id] = time.Now()
	} else if s.Owner != l.last[id] {
		if l.last[id] != "" {
			l.moves++
		}
		l.last[id] = s.Owner
	}
	l.owners[id] = s.Owner
	if s.Owner != "" {
		l.read1(id)
	}
	return nil
}

// read1 ends the time in which no worker read a shard. The mutex is held.
func (l *ledger) read1(id string) {
	if since, stood := l.free[id]; stood {
		l.longest = max(l.longest, time.Since(since))
		delete(l.free, id)
	}
}

// died records that a worker no longer reads anything.
func (l *ledger) died(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, owner := range l.owners {
		if owner == worker {
			l.free[id] = time.Now()
		}
	}
}

func (l *ledger) owner(id string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.owners[id]
}

// session is one worker's access to the services, until the worker is killed.
type session struct {
	*world
	name string
	dead bool
	mu   sync.Mutex
}

var errDead = errors.New("the process is gone")

func (s *session) alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errDead
	}
	return nil
}

func (s *session) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *session) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.ledger.Read(ctx, prefix)
}

func (s *session) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	if err := s.alive(); err != nil {
		return false, err
	}
	return s.ledger.Swap(ctx, key, was, next, data)
}

// world is DynamoDB: tables with a number of open shards each. A shard lives for four hours and
// gets one child. Shards end at different times.
type world struct {
	ledger *ledger
	began  time.Time
	shards int // of each table

	mu     sync.Mutex
	lists  map[int64]int // calls of DescribeStream, by second
	reads  int
	double int // by a worker that does not hold the shard according to the ledger
}

const life = 4 * time.Hour

// end returns when the n-th shard of a table ends, after a number of predecessors.
func (w *world) end(n, before int) time.Time {
	return w.began.Add(time.Duration(n+1) * life / time.Duration(w.shards+1)).Add(time.Duration(before) * life)
}

func (w *world) listed(table string) (all []cdc.Shard) {
	for n := range w.shards {
		for before := 0; ; before++ {
			s := cdc.Shard{ID: fmt.Sprintf("%s-%05d-%03d", table, n, before), Closed: !time.Now().Before(w.end(n, before))}
			if before > 0 {
				s.Parent = fmt.Sprintf("%s-%05d-%03d", table, n, before-1)
			}
			if all = append(all, s); !s.Closed {
				break
			}
		}
	}
	return all
}

// source is one worker's view of a table's stream.
type source struct {
	*session
	table string
}

func (s source) ListPage(_ context.Context, parent, after string) (cdc.ListingPage, error) {
	s.world.mu.Lock()
	s.lists[time.Now().Unix()]++
	s.world.mu.Unlock()
	page := cdc.ListingPage{At: time.Now()}
	for _, shard := range s.listed(s.table) {
		if shard.ID <= after || parent != "" && shard.Parent != parent {
			continue
		}
		if len(page.Shards) == 100 {
			page.Next = page.Shards[99].ID
			break
		}
		page.Shards = append(page.Shards, shard)
	}
	return page, s.alive()
}

func (s source) Seek(_ context.Context, shard string, _ cdc.Position) (cdc.Iterator, error) {
	return cdc.Iterator(shard), s.alive()
}

func (s source) Read(_ context.Context, at cdc.Iterator) (cdc.Page, error) {
	if err := s.alive(); err != nil {
		return cdc.Page{}, err
	}
	var n, before int
	if _, err := fmt.Sscanf(strings.TrimPrefix(string(at), s.table), "-%05d-%03d", &n, &before); err != nil {
		return cdc.Page{}, err
	}
	holder := s.ledger.owner(string(at))
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if s.reads++; holder != s.name {
		s.double++
	}
	if now := time.Now(); now.Before(s.end(n, before)) {
		return cdc.Page{Next: at, At: now}, nil
	}
	return cdc.Page{End: true, At: time.Now()}, nil
}

// database describes tables that never change.
type database struct {
	engine.Database
	*session
}

func (d database) Describe(_ context.Context, table string) (backfill.Description, error) {
	return backfill.Description{Name: table, Status: "ACTIVE", StreamARN: table, StreamLabel: "2026-11-01T00:00:00.000", StreamEnabled: true,
		ViewType: "NEW_AND_OLD_IMAGES", At: time.Now(), CreatedAt: d.began.Add(-time.Hour)}, d.alive()
}

// nothing is a target that is never written.
type nothing struct{ sink.Table }
