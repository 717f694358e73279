package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// maxAside bounds the messages that are set aside. The process keeps only their ids, of about 200
// bytes each. Above this bound, a message's deadline is extended only once, by ten minutes. Then
// Pub/Sub delivers the message again, which uses up one delivery attempt.
const maxAside = 100_000

// setAside drops a message's data and keeps only its id. The message's deadline is extended until
// the table recovers. Later messages of its item that wait for it are set aside too.
func (a *appliers) setAside(l *lane, m *message) {
	for _, q := range l.leave(m) {
		a.setAside(l, q)
	}
	a.free(m)
	a.room.Release(1)
	if !a.keepAside(m.id) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent = append(l.absent, m.id)
}

// keepAside reserves room for another id, and reports whether there was any.
func (a *appliers) keepAside(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	full := a.absent >= maxAside
	if !full {
		a.absent++
	}
	a.held.setAside(id, full)
	return !full
}

// giveBack nacks messages that were set aside, so that Pub/Sub delivers them again immediately. If
// a nack fails, Pub/Sub delivers the message again after its deadline.
func (a *appliers) giveBack(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	a.mu.Lock()
	a.absent -= len(ids)
	a.mu.Unlock()
	a.held.forget(ids...)
	if err := a.Subscription.Extend(ctx, ids, 0); err != nil {
		a.Retrier.Events.Retry("", "nack messages (ModifyAckDeadline)", asideFor, err)
	}
}

// stranger is a table whose messages arrived, although this process does not apply the table.
type stranger struct {
	since   time.Duration // on the monotonic clock
	ids     []string
	unknown bool // the ledger does not know the table either, so its messages are refused
}

const (
	// meetEach is the time between two searches for the stranger tables in the ledger and in the
	// source.
	meetEach = 30 * time.Second
	// maxStrangers bounds the names of strangers that are kept, because any publisher can invent
	// names.
	maxStrangers = 1000
)

// errStranger is reported while this process holds messages of a table that it does not apply.
var errStranger = errors.New("the table is not in this configuration, so its messages are held")

// holdStranger sets aside a message of a table that this process does not apply. If the ledger does
// not know the table either, the message is refused. The relay would have created the table's
// record before it published.
func (a *appliers) holdStranger(life engine.Lifecycle, m *message) {
	source := m.change.Table
	a.mu.Lock()
	s := a.strangers[source]
	if s == nil && len(a.strangers) < maxStrangers {
		s = &stranger{since: m.since}
		a.strangers[source] = s
		a.meet.Signal()
	}
	a.mu.Unlock()
	switch {
	case s == nil:
		a.free(m)
		a.refuse(life.Work, m.id, source, errStranger)
		return
	case s.isUnknown(a):
		a.reject(life, []refusal{{m, "the ledger has no such table"}})
		return
	}
	a.free(m)
	a.room.Release(1)
	if !a.keepAside(m.id) {
		return
	}
	a.mu.Lock()
	met := a.strangers[source] != s // another task has looked the table up meanwhile
	if !met {
		s.ids = append(s.ids, m.id)
	}
	a.mu.Unlock()
	if met {
		a.giveBack(life.Work, []string{m.id})
	}
}

func (s *stranger) isUnknown(a *appliers) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.unknown
}

// meetStrangers regularly looks up the stranger tables of messages that were set aside. It ends
// when a drain begins.
func (a *appliers) meetStrangers(life engine.Lifecycle) error {
	for !life.Draining() {
		a.mu.Lock()
		var names []string
		for name := range a.strangers {
			names = append(names, name)
		}
		a.mu.Unlock()
		slices.Sort(names)
		for _, name := range names {
			err := a.meetTable(life, name)
			if engine.Fatal(err) && !engine.Orderly(err) || life.Work.Err() != nil {
				return err
			}
			if err != nil {
				a.Retrier.Events.Retry(name, "find the table of a message", meetEach, err)
			}
		}
		rest := meetEach
		if len(names) == 0 {
			rest = time.Hour
		}
		_ = a.meet.Wait(life.Drain, rest)
	}
	return nil
}

// meetTable looks up one table. If this process must apply the table, meetTable adds it and nacks
// its messages, so that they are delivered again. If the ledger still does not know the table after
// a while, meetTable nacks its messages too, and the next delivery is refused.
func (a *appliers) meetTable(life engine.Lifecycle, name string) error {
	state, known, err := a.Ledger.Table(life.Work, name)
	if err != nil {
		return err
	}
	a.mu.Lock()
	s := a.strangers[name]
	s.unknown = (!known || state.Generation == 0) && task.Mono(life.Work)-s.since >= doubtFor
	var back []string
	if s.unknown {
		back, s.ids = s.ids, nil
	}
	a.mu.Unlock()
	a.giveBack(life.Work, back)
	if s.unknown || !known {
		return nil
	}
	if a.Find == nil {
		return errStranger
	}
	spec, found, err := a.Find(life.Work, name)
	if err == nil && !found {
		err = errStranger
	}
	if err != nil {
		return err
	}
	l := a.newLane(spec)
	if err := l.check(life.Work); err != nil {
		return err
	}
	a.Retrier.Events.Joined(name)
	a.mu.Lock()
	a.lanes[name] = l
	delete(a.strangers, name)
	back = s.ids
	a.mu.Unlock()
	a.begin(life, l)
	a.giveBack(life.Work, back)
	return nil
}
