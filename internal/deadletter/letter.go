// Package deadletter lists and drops messages of the dead letter.
//
// Listing leaves the messages where they are. Dropping removes them for good, so it says what a
// message means by the ledger: whether its change is applied, or lost until its row is repaired.
package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/apply"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// entry is one message. Copies of one message are one entry.
type entry struct {
	Ref        string     `json:"ref"` // hash of its data
	Table      string     `json:"table,omitempty"`
	KeyHash    string     `json:"key_hash,omitempty"` // beginning of the message's subject
	Event      string     `json:"event,omitempty"`
	Version    string     `json:"version,omitempty"`
	Time       *time.Time `json:"time,omitempty"` // of the change
	Shard      string     `json:"shard,omitempty"`
	Number     uint64     `json:"number,omitempty"`
	Generation uint32     `json:"generation,omitempty"`
	State      apply.Fate `json:"state"` // missing, applied, refused or foreign
	Reason     string     `json:"reason"`

	ids    []string // of its deliveries
	change relay.Change
}

const (
	// refDigits is how much of the hash names a message, and hashDigits how much of its subject is
	// shown.
	refDigits  = 16
	hashDigits = 32
	// most is how many messages a command reads, and at once how many it asks for.
	most   = 10_000
	atOnce = 100
	// heldFor is for how long a command may hold them, while it asks for example.
	heldFor = 600 * time.Second
)

// movedReason is that of messages that no applier published.
const movedReason = "Pub/Sub moved it here after too many delivery attempts"

// read reads what stands in a dead letter, by table and time. The messages are held until giveBack.
// Pub/Sub may keep some back that another reader looks at.
func read(ctx context.Context, from relay.Subscription) ([]*entry, error) {
	var all []*entry
	known := map[string]*entry{}
	for empty := 0; empty < 2 && len(all) < most; {
		got, err := from.Pull(ctx, atOnce)
		if err != nil {
			return all, err
		}
		empty++
		ids := make([]string, len(got))
		for i, d := range got {
			ids[i] = d.ID
			e := entryOf(d)
			if known[e.Ref] == nil {
				known[e.Ref], empty = e, 0
				all = append(all, e)
				continue
			}
			known[e.Ref].ids = append(known[e.Ref].ids, d.ID)
		}
		if len(ids) > 0 {
			if err := from.Extend(ctx, ids, heldFor); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// giveBack leaves messages where they are.
func giveBack(ctx context.Context, from relay.Subscription, all []*entry) {
	if ids := idsOf(all); len(ids) > 0 {
		_ = from.Extend(ctx, ids, 0) // else their deadlines do the same
	}
}

func idsOf(all []*entry) (ids []string) {
	for _, e := range all {
		ids = append(ids, e.ids...)
	}
	return ids
}

// entryOf reads a message. It holds no item data.
func entryOf(d relay.Delivery) *entry {
	sum := sha256.Sum256(d.Data)
	e := &entry{Ref: hex.EncodeToString(sum[:])[:refDigits], State: apply.Foreign, Reason: movedReason, ids: []string{d.ID}}
	if why := d.Attributes[relay.ReasonAttribute]; why != "" {
		e.Reason = why
	}
	c, err := relay.Decode(d.Data)
	if err != nil {
		e.Reason = err.Error()
		return e
	}
	e.Table, e.Event, e.Version, e.Shard, e.Number, e.Generation = c.Table, c.EventName(), string(c.Version()), c.Shard, c.Number, c.Generation
	at := c.Time.UTC()
	e.Time = &at
	if key, err := relay.OrderingKey(c.Table, c.Keys); err == nil {
		e.KeyHash = key[:hashDigits]
	}
	e.change = c
	return e
}

// judge asks the ledger for the fate of each message. Without a ledger all are foreign.
func judge(ctx context.Context, ledger *checkpoint.Ledger, all []*entry) error {
	tables := map[string]*apply.Records{}
	for _, e := range all {
		if ledger == nil || e.Table == "" {
			continue
		}
		of := tables[e.Table]
		if of == nil {
			of = &apply.Records{}
			tables[e.Table] = of
			if err := recordsOf(ctx, ledger, e.Table, of); err != nil {
				return err
			}
		}
		e.State = apply.FateOf(e.change, ledger.ID(), *of, ledger.Now(ctx))
	}
	slices.SortStableFunc(all, func(a, b *entry) int {
		if byTable := strings.Compare(a.Table, b.Table); byTable != 0 {
			return byTable
		}
		return a.change.Time.Compare(b.change.Time)
	})
	return nil
}

func recordsOf(ctx context.Context, ledger *checkpoint.Ledger, table string, of *apply.Records) error {
	var err error
	if of.Table, _, err = ledger.Table(ctx, table); err != nil {
		return err
	}
	if of.Merged, err = ledger.Merged(ctx, table); err != nil {
		return err
	}
	of.Shards, err = ledger.Shards(ctx, table)
	return err
}
