package notify

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The outcomes of calls that are counted.
const (
	sent    = "sent"
	failed  = "failed"  // it is retried
	refused = "refused" // it is not retried
	dropped = "dropped" // it was not accepted in time
)

// heartbeatName is the name of the heartbeat among the receivers.
const heartbeatName = "heartbeat"

const (
	takeEvery = 3 * time.Second  // time between two attempts to acquire the lease
	passEvery = time.Second      // longest wait for a new status, and shortest between two attempts
	firstRest = 2 * time.Second  // wait after the first failure of a receiver
	longRest  = 5 * time.Minute  // longest wait after a failure
	turn      = 15 * time.Second // how long a receiver may take before the next status is looked at
	beatEvery = time.Minute
	// mostUnsent and mostAge bound the notifications that wait for a receiver. Older ones are
	// dropped.
	mostUnsent = 200
	mostAge    = 24 * time.Hour
)

// Sender sends the notifications of a pipeline while its process holds the lease.
type Sender struct {
	ledger    *checkpoint.Ledger
	pipeline  string
	to        []*receiver
	heartbeat string
	client    *http.Client
	log       *slog.Logger
	count     func(receiver, outcome string)

	news task.Wakeup
	mu   sync.Mutex
	last *status.Document // last status that was read
	at   time.Duration    // when its reading began, on the monotonic clock
	beat error            // of the last heartbeat
}

// Options are the settings of a Sender.
type Options struct {
	Config    *config.Config
	Env       config.Lookup
	Ledger    *checkpoint.Ledger
	Log       *slog.Logger
	Transport http.RoundTripper // nil: the default transport
	// Count counts a call by its receiver (its number in notify.to, or heartbeat) and its outcome.
	Count func(receiver, outcome string)
}

// New returns the sender of a configuration; nil if the configuration has no notifications.
func New(o Options) *Sender {
	if !o.Config.Notify.Given() {
		return nil
	}
	s := &Sender{ledger: o.Ledger, pipeline: o.Config.Name, to: receivers(o.Config, o.Env), heartbeat: o.Config.Notify.Heartbeat,
		client: hook.NewClient(o.Transport), log: o.Log, count: o.Count}
	for _, r := range s.to {
		for _, path := range r.exposed() {
			s.log.Warn("every user of this machine may read a file with a secret of a receiver", "receiver", r.name, "file", path)
		}
	}
	return s
}

// Read gives the sender a status. The argument `began` is when the reading of the ledger began, on the
// monotonic clock. A nil Sender ignores it.
func (s *Sender) Read(m *status.Document, began time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.last, s.at = m, began
	s.mu.Unlock()
	s.news.Signal()
}

// after returns the last status if its reading began after the given time.
func (s *Sender) after(at time.Duration) (*status.Document, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.at <= at {
		return nil, 0
	}
	return s.last, s.at
}

// Run sends whenever this process holds the lease, until ctx ends. A nil Sender returns at once.
func (s *Sender) Run(ctx context.Context) {
	if s == nil {
		return
	}
	watch, trouble := s.ledger.NewWatch(), outage{log: s.log, operation: "send notifications"}
	for ctx.Err() == nil {
		err := s.lead(ctx, watch)
		if ctx.Err() == nil {
			trouble.note(err)
		}
		_ = task.Sleep(ctx, min(takeEvery, s.ledger.Lease()))
	}
}

// lead acquires the lease if it is free, and sends until the lease is lost or ctx ends.
func (s *Sender) lead(ctx context.Context, watch *checkpoint.Watch) error {
	lease, err := s.ledger.CoordinatorLease(ctx, checkpoint.NoticesLease())
	if err != nil || !watch.CoordinatorLeaseFree(lease, task.Mono(ctx)) {
		return err
	}
	held, err := s.ledger.TakeCoordinatorLease(ctx, lease)
	if errors.Is(err, checkpoint.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	began := task.Mono(ctx)
	g := task.NewGroup(held.Context(), 0)
	g.Go("renew the lease of the notifications", func(context.Context) error { return held.Keep() })
	g.Go("send notifications", func(ctx context.Context) error {
		t := &term{Sender: s, held: held, tracker: newTracker(), seen: began, tries: map[string]*tries{}}
		for _, r := range s.to {
			t.tries[r.hash] = &tries{outage: outage{log: s.log, operation: "send notifications", receiver: r.name}}
		}
		return t.run(ctx)
	})
	if s.heartbeat != "" {
		g.Go("send heartbeats", func(ctx context.Context) error { s.beats(ctx, began); return nil })
	}
	err = g.Wait()
	if ctx.Err() != nil { // so that another process continues at once
		limited, cancel := task.WithTimeout(context.WithoutCancel(ctx), s.ledger.Lease()/3)
		defer cancel()
		return held.Release(limited)
	}
	held.Abandon()
	if isOver(err) {
		return nil
	}
	return err
}

// isOver reports whether an error means that another process sends now.
func isOver(err error) bool {
	return errors.Is(err, checkpoint.ErrLeaseLost) || errors.Is(err, checkpoint.ErrNoticesTaken)
}

// term is the time for which this process holds the lease.
type term struct {
	*Sender
	held    *checkpoint.Coordinator
	tracker *tracker
	seen    time.Duration // when the reading of the last status that was looked at began
	tries   map[string]*tries

	mu     sync.Mutex // guards the next two fields while receivers are called concurrently
	record checkpoint.Notices
	dirty  bool // the record is not saved
}

// run looks at each new status, and sends, until ctx ends or the lease is lost. Nothing is sent before
// it is in the ledger.
func (t *term) run(ctx context.Context) error {
	record, found, err := t.ledger.Notices(ctx)
	if err != nil {
		return err
	}
	t.record = record
	trouble := outage{log: t.log, operation: "record notifications"}
	for ctx.Err() == nil {
		if m, at := t.after(t.seen); m != nil {
			t.seen = at
			if err := t.look(ctx, m, !found); err != nil {
				return err
			}
			found = true
		}
		if t.heartbeat != "" {
			t.recordOutcome(ctx, heartbeatName, t.pulse(), false)
		}
		err := t.save(ctx)
		if err == nil {
			err = t.deliver(ctx)
		}
		if ctx.Err() != nil || isOver(err) {
			return err
		}
		trouble.note(err)
		_ = t.news.Wait(ctx, passEvery)
	}
	return nil
}

// look compares a status with the record, and adds what is new.
func (t *term) look(ctx context.Context, m *status.Document, first bool) error {
	found, was := m.Occurrences(), t.record.Noticed
	added := t.register(first)
	noticed, all := t.tracker.next(task.Mono(ctx), m.At, found, was, first)
	unsent := t.waiting(t.record.Unsent, m.At)
	if len(added) > 0 {
		for _, n := range ongoing(found, was) {
			u, _, err := t.unsent(n, m.At, added)
			if err != nil {
				return err
			}
			unsent = append(unsent, u...)
		}
	}
	for _, n := range all {
		u, e, err := t.unsent(n, m.At, t.to)
		if err != nil {
			return err
		}
		t.log.Info("notifying of "+e.Kind, "action", e.Action, "summary", e.Summary)
		unsent = append(unsent, u...)
	}
	// An unchanged record is not written again, except as a sign that notifications were configured.
	t.dirty = t.dirty || first || len(all) > 0 || !sameNoticed(noticed, t.record.Noticed) || !sameUnsent(unsent, t.record.Unsent)
	t.record.Noticed, t.record.Unsent = noticed, unsent
	return nil
}

// unsent returns news for those of the given receivers that take it, and its event.
func (t *term) unsent(n news, at time.Time, to []*receiver) ([]checkpoint.Unsent, Event, error) {
	e := n.event(t.pipeline, at)
	body, err := json.Marshal(e)
	u := checkpoint.Unsent{At: e.At, Body: body}
	for _, r := range to {
		if takes(r.format, e) {
			u.To = append(u.To, r.hash)
		}
	}
	if err != nil || len(u.To) == 0 {
		return nil, e, err
	}
	return []checkpoint.Unsent{u}, e, nil
}

// register puts the receivers of the configuration into the record, and returns those that are new. A
// record of an earlier version has no receivers, so that none of them counts as new.
func (t *term) register(first bool) (added []*receiver) {
	var next []checkpoint.NoticeReceiver
	keep := func(hash, name string) bool {
		r := checkpoint.NoticeReceiver{Hash: hash}
		i := t.registered(hash)
		if i >= 0 {
			r = t.record.Receivers[i]
		}
		r.Name = name
		next = append(next, r)
		return i >= 0
	}
	for _, r := range t.to {
		if !keep(r.hash, r.name) && !first && len(t.record.Receivers) > 0 {
			added = append(added, r)
		}
	}
	if t.heartbeat != "" {
		keep(heartbeatName, heartbeatName)
	}
	t.dirty = t.dirty || !slices.Equal(next, t.record.Receivers)
	t.record.Receivers = next
	return added
}

func (t *term) registered(hash string) int {
	return slices.IndexFunc(t.record.Receivers, func(r checkpoint.NoticeReceiver) bool { return r.Hash == hash })
}

// mostWhy bounds the text of a failure in the record, in bytes.
const mostWhy = 200

// sameNoticed reports whether two lists announce the same.
func sameNoticed(a, b []checkpoint.Noticed) bool {
	return slices.EqualFunc(a, b, func(a, b checkpoint.Noticed) bool {
		return keyOfNoticed(a) == keyOfNoticed(b) && a.Mark == b.Mark && a.Since.Equal(b.Since)
	})
}

// sameUnsent reports whether the same notifications wait for the same receivers.
func sameUnsent(a, b []checkpoint.Unsent) bool {
	return slices.EqualFunc(a, b, func(a, b checkpoint.Unsent) bool {
		return a.At.Equal(b.At) && slices.Equal(a.To, b.To) && string(a.Body) == string(b.Body)
	})
}

// waiting returns the notifications that still wait for a receiver, without those that have waited too
// long.
func (t *term) waiting(unsent []checkpoint.Unsent, now time.Time) (kept []checkpoint.Unsent) {
	for i, u := range unsent {
		u.To = slices.DeleteFunc(slices.Clone(u.To), func(hash string) bool {
			r := t.receiver(hash)
			old := now.Sub(u.At) > mostAge || i < len(unsent)-mostUnsent
			if r != nil && old {
				t.count(strconv.Itoa(r.number), dropped)
				if k := t.registered(hash); k >= 0 {
					t.record.Receivers[k].Lost++
				}
				t.log.Warn("dropping a notification that its receiver has not accepted in time", "receiver", r.name, "at", u.At)
			}
			return r == nil || old
		})
		if len(u.To) > 0 {
			kept = append(kept, u)
		}
	}
	return kept
}

func (t *term) receiver(hash string) *receiver {
	if i := slices.IndexFunc(t.to, func(r *receiver) bool { return r.hash == hash }); i >= 0 {
		return t.to[i]
	}
	return nil
}

// save writes the record, unless it is saved.
func (t *term) save(ctx context.Context) error {
	if !t.dirty {
		return nil
	}
	err := t.ledger.SaveNotices(ctx, t.held.Epoch(), t.record)
	t.dirty = err != nil
	return err
}
