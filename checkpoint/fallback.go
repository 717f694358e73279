package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"reflect"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// FallbackState is a state of the way back of a table.
type FallbackState string

// The states.
const (
	// FallbackStandby: the change stream of Bigtable is read, and nothing is written. The
	// application has not been switched yet, or a rollback has begun.
	FallbackStandby FallbackState = "standby"
	// FallbackFollowing: DynamoDB follows Bigtable.
	FallbackFollowing FallbackState = "following"
	// FallbackStopping: the leader was asked to stop. It settles what is in its hands.
	FallbackStopping FallbackState = "stopping"
	// FallbackStopped: no request is in flight or in doubt, and none is ever sent again.
	FallbackStopped FallbackState = "stopped"
	// FallbackGap: changes were lost. Only a reverse verify with repair can restore the way back.
	FallbackGap FallbackState = "gap"
)

// Fallback is the record of the way back of one source table after a cutover. Its writers are the
// leader, under its epoch, and the driver of the cutover or the rollback.
type Fallback struct {
	header
	Source  string        `json:"source"`
	Attempt uint32        `json:"attempt"` // number of the cutover
	State   FallbackState `json:"state"`
	// Begun is the attempt for which the records of partitions, shards and parked rows were begun. Records
	// of an earlier attempt do not count.
	Begun uint32 `json:"begun,omitempty"`
	// Leader is the process that reads and writes, and Epoch is the epoch of its lease. Led is the
	// source's time when it began to lead.
	Leader string    `json:"leader,omitempty"`
	Epoch  uint64    `json:"epoch,omitempty"`
	Led    time.Time `json:"led_since,omitzero"`
	// Window is how long DynamoDB accepts a signed request, as the probe has found it. Wait is how
	// long a request whose outcome is unknown may still change an item after it was signed.
	Window time.Duration `json:"signature_window,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	// From is a time of Bigtable before which no change of the application concerns the way back.
	From time.Time `json:"from,omitzero"`
	// DoubtUntil is when every request of leaders that ended uncleanly is over, in the time of the
	// source. No item is looked at before.
	DoubtUntil time.Time `json:"doubt_until,omitzero"`
	// Settled is a time of Bigtable: every change before it has reached DynamoDB, as far as the
	// change stream's watermarks tell.
	Settled time.Time `json:"settled,omitzero"`
	// SavedAt is the source's time when the leader last wrote the figures: Settled, and the numbers of
	// keys that are parked, of keys whose item and row may differ, and of those with a request whose
	// outcome is unknown.
	SavedAt time.Time `json:"saved_at,omitzero"`
	Parked  int       `json:"parked,omitempty"`
	Dirty   int       `json:"dirty,omitempty"`
	// WroteAt is the source's time of the last request that may have changed an item. Such a request
	// may be executed a second time a little later, although it was answered.
	WroteAt time.Time `json:"wrote_at,omitzero"`
	Doubts  int       `json:"doubts,omitempty"`
	// Reason and Since describe a gap.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// ResumedAfter is the last cancelled rollback after which the leaders follow again.
	ResumedAfter uint32 `json:"resumed_after,omitempty"`
	// Reverse is the result of the last comparison of all rows with their items.
	Reverse ReverseResult `json:"reverse,omitzero"`
	Changed time.Time     `json:"changed,omitzero"` // on the writer's clock, for display
}

// KeyRange is a range of row keys: those at or after Start and before End. An empty End means that
// the range has no end.
type KeyRange struct {
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// Continuation says where a part of a change stream is read on.
type Continuation struct {
	KeyRange
	Token string `json:"token"`
	// Into is the partition that continues the range, as the service named it.
	Into KeyRange `json:"into,omitzero"`
	// Name is unique among all continuations of a table.
	Name string `json:"name,omitempty"`
	// Used reports that the record of a later partition contains the continuation.
	Used bool `json:"used,omitempty"`
}

// FallbackPart is the record of one partition of a change stream. The service closes a partition
// with continuations that later partitions begin with. All of them are in the record of the closed
// partition, so that a close is one write. The record is never removed, so that its counter never
// repeats. A partition that returns to the same range has the same record.
type FallbackPart struct {
	header
	KeyRange
	Epoch uint64 `json:"epoch"` // of the leader that last wrote the record
	// Tokens are where the partition is read on. Several tokens are the ends of partitions that
	// were merged. If there is none, reading begins at the time From.
	Tokens []Continuation `json:"tokens,omitempty"`
	From   time.Time      `json:"from,omitzero"`
	// Origins are the names of the continuations with which the partition began.
	Origins []string `json:"origins,omitempty"`
	// Watermark is the service's estimate of the time before which no change follows.
	Watermark time.Time      `json:"watermark,omitzero"`
	Closed    bool           `json:"closed,omitempty"`
	Children  []Continuation `json:"children,omitempty"`

	counter uint64
}

// FallbackShard is the record of a shard of the source's stream that the leader reads on.
type FallbackShard struct {
	header
	ID      string `json:"shard"`
	Attempt uint32 `json:"attempt,omitempty"` // number of the cutover
	Epoch   uint64 `json:"epoch"`             // of the leader that last wrote the record
	// Position is the sequence number of the last change whose item was looked at since.
	Position cdc.SequenceNumber `json:"position,omitzero"`
	Done     bool               `json:"done,omitempty"`
	// AppliedTo is the service's time up to which empty pages prove that no change follows Position.
	AppliedTo time.Time `json:"applied_to,omitzero"`

	counter uint64
}

// ErrDeposed is returned to a leader when a later leader has written a record.
var ErrDeposed = errors.New("another process leads the way back")

// FallbackLease is the name of the lease of the leader of a table's way back. It works like a
// table's coordinator lease, and no table can have this name.
func FallbackLease(source string) string { return "/fallback/" + source }

func (l *Ledger) fallbackKey(source string) string { return l.name + "/fallback/" + source }

func (l *Ledger) fallbackParts(source string) string { return l.fallbackKey(source) + "/part/" }

func (l *Ledger) fallbackPartKey(source string, r KeyRange) string {
	return l.fallbackParts(source) + hex.EncodeToString([]byte(r.Start)) + "-" + hex.EncodeToString([]byte(r.End))
}

// Fallback reads the record of a table's way back. It returns false if there is none.
func (l *Ledger) Fallback(ctx context.Context, source string) (f Fallback, found bool, err error) {
	f, _, found, err = l.fallback(ctx, source)
	return f, found, err
}

// fallbacksAtOnce is the number of records of ways back that are read concurrently.
const fallbacksAtOnce = 32

// Fallbacks reads the records of the ways back of tables, in their order.
func (l *Ledger) Fallbacks(ctx context.Context, sources []string) ([]Fallback, error) {
	found := make([]Fallback, len(sources))
	g := task.NewGroup(ctx, fallbacksAtOnce)
	for i, source := range sources {
		g.Go("read the way back of "+source, func(ctx context.Context) (err error) {
			found[i], _, err = l.Fallback(ctx, source)
			return err
		})
	}
	return found, g.Wait()
}

func (l *Ledger) fallback(ctx context.Context, source string) (Fallback, uint64, bool, error) {
	row, found, err := readRow(ctx, l.store, l.fallbackKey(source))
	if err != nil || !found {
		return Fallback{Source: source}, 0, false, err
	}
	f, err := l.fallbacks.one(row)
	return f, row.Counter, err == nil, err
}

// UpdateFallback changes the record of a table's way back, and creates it if necessary. It may call
// change several times, and it writes nothing if change leaves the record as it is. A leader passes
// the epoch of its lease, and fails with ErrDeposed if a later leader has written the record. For
// any other writer, the epoch is 0.
func (l *Ledger) UpdateFallback(ctx context.Context, source string, epoch uint64, change func(*Fallback) error) (Fallback, error) {
	for range tries {
		f, counter, found, err := l.fallback(ctx, source)
		if err != nil {
			return Fallback{}, err
		}
		before := f
		if epoch > 0 {
			if f.Epoch > epoch {
				return f, ErrDeposed
			}
			f.Epoch, f.Leader = epoch, l.worker
		}
		if err := change(&f); err != nil {
			return f, err
		}
		if found && reflect.DeepEqual(before, f) {
			return f, nil
		}
		f.Changed = task.Now(ctx).UTC()
		done, err := l.swap(ctx, l.store, l.fallbackKey(source), counter, l.stamp(&f.header, &f))
		if err != nil {
			return f, err
		}
		if done {
			return f, nil
		}
	}
	return Fallback{}, ErrConflict
}

// FallbackParts reads the records of the partitions of a table's change stream, by range.
func (l *Ledger) FallbackParts(ctx context.Context, source string) ([]FallbackPart, error) {
	prefix := l.fallbackParts(source)
	rows, err := l.store.Read(ctx, prefix)
	if err != nil {
		return nil, err
	}
	parts, err := l.fallbackRanges.decode(prefix, rows)
	for i := range parts {
		parts[i].counter = rows[i].Counter
	}
	return parts, err
}

// SaveFallbackPart writes the record of a partition, which the caller has read or made. It repeats
// the identical write until its outcome is known or ctx ends. It fails with ErrDeposed if another
// leader has written the record since.
func (l *Ledger) SaveFallbackPart(ctx context.Context, source string, part *FallbackPart) error {
	return l.save(ctx, l.fallbackPartKey(source, part.KeyRange), &part.counter, l.stamp(&part.header, part), ErrDeposed)
}

// save writes a row until the outcome is known. If another process has written the row, it returns
// the error `moved`.
func (l *Ledger) save(ctx context.Context, key string, counter *uint64, data []byte, moved error) error {
	for {
		done, err := l.swap(ctx, l.store, key, *counter, data)
		switch {
		case err == nil && !done:
			return moved
		case err == nil:
			*counter++
			return nil
		case task.Sleep(ctx, time.Second) != nil:
			return err
		}
	}
}

func (l *Ledger) fallbackShards(source string) string { return l.fallbackKey(source) + "/shard/" }

// FallbackShards reads the records of the shards of the source's stream that a way back reads.
func (l *Ledger) FallbackShards(ctx context.Context, source string) ([]FallbackShard, error) {
	prefix := l.fallbackShards(source)
	rows, err := l.store.Read(ctx, prefix)
	if err != nil {
		return nil, err
	}
	shards, err := l.fallbackStreams.decode(prefix, rows)
	for i := range shards {
		shards[i].counter = rows[i].Counter
	}
	return shards, err
}

// SaveFallbackShard writes the record of a shard, as SaveFallbackPart does.
func (l *Ledger) SaveFallbackShard(ctx context.Context, source string, s *FallbackShard) error {
	return l.save(ctx, l.fallbackShards(source)+s.ID, &s.counter, l.stamp(&s.header, s), ErrDeposed)
}
