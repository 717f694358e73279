package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"
)

// Notices is the record of a pipeline's notifications: what operators were notified of, and what is
// still to be sent. Its writer is the process that holds the lease NoticesLease. There is no item
// data in it.
type Notices struct {
	header
	// Epoch is the epoch of the lease of the last writer.
	Epoch uint64 `json:"epoch"`
	// Noticed are the conditions and the steps that were announced. A condition stays until its end
	// was announced.
	Noticed []Noticed `json:"noticed,omitempty"`
	// Unsent are the notifications that a receiver has not accepted yet, oldest first.
	Unsent []Unsent `json:"unsent,omitempty"`
	// Receivers are the receivers of the last writer's configuration, and its heartbeat.
	Receivers []NoticeReceiver `json:"receivers,omitempty"`
}

// NoticeReceiver is a receiver of notifications, with its failures since it last accepted one.
type NoticeReceiver struct {
	Hash         string    `json:"hash"`
	Name         string    `json:"name"`                   // number, format and host; no address and no secret
	FailingSince time.Time `json:"failing_since,omitzero"` // time of the first failure; zero if the last call was accepted
	Why          string    `json:"why,omitempty"`          // the last failure
	Lost         int       `json:"lost,omitempty"`         // notifications that were refused or dropped
}

// Waiting returns how many notifications a receiver has not accepted yet.
func (n Notices) Waiting(hash string) (waiting int) {
	for _, u := range n.Unsent {
		if slices.Contains(u.To, hash) {
			waiting++
		}
	}
	return waiting
}

// Noticed is a condition or a step that was announced.
type Noticed struct {
	Kind  string `json:"kind"`
	Table string `json:"table,omitempty"` // the source table; "" if it concerns no single table
	Group string `json:"group,omitempty"` // the group of a cutover; "" if it concerns no cutover
	// Mark distinguishes a step from earlier steps of the same kind. It is "" for a condition.
	Mark  string    `json:"mark,omitempty"`
	Since time.Time `json:"since,omitzero"` // time since which it applies
}

// Unsent is a notification with the receivers that have not accepted it.
type Unsent struct {
	At   time.Time       `json:"at"`
	To   []string        `json:"to"`   // hashes of receivers
	Body json.RawMessage `json:"body"` // the notification, in the format json
}

// ErrNoticesTaken is returned to a process when a later holder of the lease has written the record.
var ErrNoticesTaken = errors.New("another process sends the notifications")

// NoticesLease is the name of the lease of the process that sends a pipeline's notifications. It
// works like a table's coordinator lease, and no table can have this name.
func NoticesLease() string { return "/notices" }

func (l *Ledger) noticesKey() string { return l.name + "/notices" }

// Notices reads the record of the notifications. It returns false if there is none.
func (l *Ledger) Notices(ctx context.Context) (n Notices, found bool, err error) {
	n, _, found, err = l.notices(ctx)
	return n, found, err
}

func (l *Ledger) notices(ctx context.Context) (n Notices, counter uint64, found bool, err error) {
	row, found, err := readRow(ctx, l.store, l.noticesKey())
	if err != nil || !found {
		return n, 0, false, err
	}
	return n, row.Counter, true, decode(row, &n)
}

// SaveNotices replaces the record of the notifications. The argument `epoch` is the epoch of the
// caller's lease. It fails with ErrNoticesTaken if a later holder of the lease has written the
// record. It writes nothing if the record is the same already.
func (l *Ledger) SaveNotices(ctx context.Context, epoch uint64, next Notices) error {
	for range tries {
		before, counter, found, err := l.notices(ctx)
		if err != nil {
			return err
		}
		if before.Epoch > epoch {
			return ErrNoticesTaken
		}
		next.header, next.Epoch = before.header, epoch
		if found && reflect.DeepEqual(before, next) {
			return nil
		}
		if done, err := l.swap(ctx, l.store, l.noticesKey(), counter, l.stamp(&next.header, &next)); err != nil || done {
			return err
		}
	}
	return ErrConflict
}
