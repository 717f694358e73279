// Package deadletter lists and drops dead-letter messages.
//
// Listing leaves the messages in the topic. Dropping removes them permanently. So the output shows
// what the ledger knows about each message: its change is applied, or it is lost until the change's
// row is repaired.
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

// entry is one message. Several deliveries of the same message make one entry.
type entry struct {
	Ref        string     `json:"ref"` // hash of the message's data
	Table      string     `json:"table,omitempty"`
	KeyHash    string     `json:"key_hash,omitempty"` // beginning of the message's subject
	Event      string     `json:"event,omitempty"`
	Version    string     `json:"version,omitempty"`
	Time       *time.Time `json:"time,omitempty"` // time of the change
	Shard      string     `json:"shard,omitempty"`
	Number     uint64     `json:"number,omitempty"`
	Generation uint32     `json:"generation,omitempty"`
	State      apply.Fate `json:"state"` // missing, applied, refused or foreign
	Reason     string     `json:"reason"`

	ids    []string // ids of the message's deliveries
	change relay.Change
}

const (
	// refDigits is the number of digits of the hash that identify a message. hashDigits is the
	// number of digits of the message's subject that are shown.
	refDigits  = 16
	hashDigits = 32
	// most is the maximum number of messages that a command reads. atOnce is the number that it
	// requests at a time.
	most   = 10_000
	atOnce = 100
	// heldFor is how long a command may hold the messages, for example while it waits for a
	// confirmation.
	heldFor = 600 * time.Second
)

// movedReason is the reason that is shown for a message that Pub/Sub itself moved to the topic.
const movedReason = "Pub/Sub moved it here after too many delivery attempts"

// read reads the messages in the dead-letter topic, ordered by table and time. It holds them until
// giveBack. Pub/Sub may withhold messages that another reader holds.
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

// giveBack stops holding the messages, so that they stay in the topic.
func giveBack(ctx context.Context, from relay.Subscription, all []*entry) {
	if ids := idsOf(all); len(ids) > 0 {
		// If this fails, the messages are free again after their deadlines.
		_ = from.Extend(ctx, ids, 0)
	}
}

func idsOf(all []*entry) (ids []string) {
	for _, e := range all {
		ids = append(ids, e.ids...)
	}
	return ids
}

// entryOf parses a message. The entry contains no item data.
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
	if subject, err := relay.Subject(c.Table, c.Keys); err == nil {
		e.KeyHash = subject[:hashDigits]
	}
	e.change = c
	return e
}

// judge determines the fate of each message from the ledger. Without a ledger, all messages are
// foreign.
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
