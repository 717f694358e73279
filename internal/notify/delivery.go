package notify

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// tries are the attempts to call a receiver.
type tries struct {
	outage
	fails int           // failures since the last success
	due   time.Duration // monotonic time of the next attempt
	// event is the id of the event that is being sent. The first `done` of its calls need no
	// repetition. A receiver that limits its calls would never take all of them otherwise.
	event   string
	done    int
	refused error // why the receiver refused a call of the event
}

// recordOutcome keeps the outcome of a call for `replicator status`: its error, and whether a
// notification is lost.
func (t *term) recordOutcome(ctx context.Context, hash string, err error, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.registered(hash)
	if i < 0 {
		return
	}
	r := &t.record.Receivers[i]
	before := *r
	if err == nil {
		r.FailingSince, r.Why, r.Lost = time.Time{}, "", 0
	} else {
		if r.FailingSince.IsZero() {
			r.FailingSince = t.ledger.Now(ctx).UTC()
		}
		r.Why = err.Error()
		r.Why = strings.ToValidUTF8(r.Why[:min(len(r.Why), mostWhy)], "")
		if lost {
			r.Lost++
		}
	}
	t.dirty = t.dirty || *r != before
}

// deliver sends what is due to every receiver. It makes sure of the lease before.
func (t *term) deliver(ctx context.Context) error {
	var due []*receiver
	for _, r := range t.to {
		if t.tries[r.hash].due <= task.Mono(ctx) && t.first(r) != nil {
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if err := t.held.Renew(ctx); err != nil {
		return err
	}
	g := task.NewGroup(ctx, 0)
	for _, r := range due {
		g.Go("send notifications to "+r.name, func(ctx context.Context) error { return t.deliverTo(ctx, r) })
	}
	return g.Wait()
}

// first returns the oldest notification that a receiver has not accepted; nil if there is none.
func (t *term) first(r *receiver) *checkpoint.Unsent {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.record.Unsent, func(u checkpoint.Unsent) bool { return slices.Contains(u.To, r.hash) }); i >= 0 {
		u := t.record.Unsent[i]
		return &u
	}
	return nil
}

// deliverTo sends notifications to a receiver in their order, until one fails or its turn is over.
func (t *term) deliverTo(ctx context.Context, r *receiver) error {
	tries, until := t.tries[r.hash], task.Mono(ctx)+turn
	for u := t.first(r); u != nil && task.Mono(ctx) < until; u = t.first(r) {
		over, err := t.call(ctx, r, tries, *u, until)
		if ctx.Err() != nil || err == nil && !over {
			return nil
		}
		var final *refusedError
		isFinal := errors.As(err, &final)
		tries.note(err)
		t.recordOutcome(ctx, r.hash, err, isFinal)
		switch {
		case err == nil:
			t.count(strconv.Itoa(r.number), sent)
			tries.fails, tries.due = 0, 0
		case isFinal:
			t.count(strconv.Itoa(r.number), refused)
		default:
			t.count(strconv.Itoa(r.number), failed)
			tries.due = task.Mono(ctx) + time.Duration(float64(rest(tries.fails))*(0.5+task.Rand(ctx)/2))
			tries.fails++
			return nil
		}
		if err := t.done(ctx, r, *u); err != nil {
			return err
		}
	}
	return nil
}

// call makes the calls that send a notification to a receiver. It continues after the calls that an
// earlier attempt has made. A refused call does not keep it from the next, and its error is returned
// at the end. The result `over` is false if the turn ended before the last call.
func (t *term) call(ctx context.Context, r *receiver, tries *tries, u checkpoint.Unsent, until time.Duration) (over bool, err error) {
	var e Event
	if err := json.Unmarshal(u.Body, &e); err != nil {
		return true, &refusedError{err.Error()} // no version of the program has written it
	}
	if tries.event != e.ID {
		tries.event, tries.done, tries.refused = e.ID, 0, nil
	}
	address, all, err := r.prepare(e)
	if err != nil {
		return true, err
	}
	for ; tries.done < len(all); tries.done++ {
		if task.Mono(ctx) >= until {
			return false, nil
		}
		err := r.post(ctx, t.client, address, all[tries.done])
		var final *refusedError
		switch {
		case errors.As(err, &final):
			tries.refused = err
		case err != nil:
			return true, err
		default:
			tries.fails = 0
		}
	}
	return true, tries.refused
}

// rest returns the longest wait after a number of earlier failures.
func rest(fails int) time.Duration { return min(firstRest<<min(fails, 10), longRest) }

// done records that a receiver needs no call for a notification any more.
func (t *term) done(ctx context.Context, r *receiver, of checkpoint.Unsent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var unsent []checkpoint.Unsent
	for _, u := range t.record.Unsent {
		if u.At.Equal(of.At) && string(u.Body) == string(of.Body) {
			u.To = slices.DeleteFunc(slices.Clone(u.To), func(hash string) bool { return hash == r.hash })
		}
		if len(u.To) > 0 {
			unsent = append(unsent, u)
		}
	}
	t.record.Unsent, t.dirty = unsent, true
	return t.save(ctx)
}

// outage logs the beginning and the end of failures.
type outage struct {
	log                 *slog.Logger
	operation, receiver string
	lasts               bool
}

// note records an attempt.
func (o *outage) note(err error) {
	switch {
	case err != nil && !o.lasts:
		attributes := []any{"error", err.Error()}
		if o.receiver != "" {
			attributes = append(attributes, "receiver", o.receiver)
		}
		o.log.Warn("failed to "+o.operation, attributes...)
	case err == nil && o.lasts:
		o.log.Info("recovered: "+o.operation, "receiver", o.receiver)
	}
	o.lasts = err != nil
}
