package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// nines is a sequence number above all that a stream can have.
func nines(t *testing.T) cdc.SequenceNumber {
	t.Helper()
	s, err := cdc.ParseSequenceNumber(strings.Repeat("9", 40))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// H131: the attacks of a publisher that has seen one message. Nothing of them is written or counts
// as applied, and nothing delays what the relay publishes. After a minute each forged message is in
// the dead letter with its reason.
func TestH131_AForgedMessageFreezesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(c *relay.Change)
		why   string
	}{
		"a hop that nothing outranks":         {func(c *relay.Change) { c.Hop, c.Sequence, c.Number = 999_999, nines(t), 1_000_000 }, "hop 999999 differs from the shard's"},
		"a hop of loads":                      {func(c *relay.Change) { c.Hop = 0 }, "hop 0 differs from the shard's"},
		"a sequence number to come":           {func(c *relay.Change) { c.Sequence = nines(t) }, "the sequence number is beyond what the relay has published"},
		"a number to come":                    {func(c *relay.Change) { c.Number = 2_000_000 }, "number 2000000 is beyond what the relay has published, 1000000"},
		"of the future":                       {func(c *relay.Change) { c.Sequence, c.Time = nines(t), c.Time.Add(24*time.Hour) }, "the sequence number is beyond"},
		"a generation to come":                {func(c *relay.Change) { c.Generation = 8 }, "generation 8 is above the ledger's, 7"},
		"the last generation":                 {func(c *relay.Change) { c.Generation = 99_999_999 }, "generation 99999999 is above"},
		"a shard that never was":              {func(c *relay.Change) { c.Shard = "made up" }, "the ledger never had shard made up"},
		"a stream that never was":             {func(c *relay.Change) { c.Label = "made up" }, "the ledger never had shard s"},
		"another mapping":                     {func(c *relay.Change) { c.MappingHash = "made up" }, "the mapping's hash differs from the generation's"},
		"without images, for the count alone": {func(c *relay.Change) { c.Omitted, c.Number = relay.TooLarge, 2_000_000 }, "number 2000000 is beyond"},
	} {
		playFleet(t, 1, func(f *fleet) {
			writes := 0
			f.answer = func(string) error { writes++; return nil }
			var told []string
			f.Events.Refused = func(table, reason string, messages int) {
				told = append(told, fmt.Sprint(messages, " of ", table, ": ", reason))
			}
			f.publish("T0", 500, 8, c.forge) // more than there are pullers
			f.after(10*time.Second, func() { f.publish("T0", 1, 20) })
			f.after(time.Minute, func() { f.reads("T0", "s", task.Now(f.ctx)) })
			f.applies(3 * time.Minute)
			if open, attempts := f.of("T0"); open > 0 || attempts != 1 || writes != 20 {
				t.Errorf("%s: %d messages are open after %d attempts, %d writes", name, open, attempts, writes)
			}
			for _, m := range f.messages[8:] {
				if m.acked > 20*time.Second {
					t.Fatalf("%s: messages of the relay are applied after %s", name, m.acked)
				}
			}
			if len(f.dead) != 8 || len(told) != 1 || !strings.HasPrefix(told[0], "8 of T0: "+c.why) {
				t.Fatalf("%s: %d messages are refused, told %q", name, len(f.dead), told)
			}
			for i, m := range f.dead {
				if why := m.Attributes[relay.ReasonAttribute]; !strings.HasPrefix(why, c.why) || m.Attributes["table"] != "T0" || !slices.ContainsFunc(f.messages[:8], func(c *counted) bool { return string(c.data) == string(m.Data) }) {
					t.Errorf("%s: refused %d %v", name, i, m.Attributes)
				}
			}
			f.must(f.Ledger.MergeApplied(f.ctx, "T0"))
			merged, err := f.Ledger.Merged(f.ctx, "T0")
			f.must(err)
			if len(merged) != 1 || len(merged[0].Runs) != 1 || merged[0].Runs[0].To != 20 {
				t.Errorf("%s: %v count as applied", name, merged)
			}
		})
	}
}

// reads records that the relay has read a shard at a time and found nothing new.
func (f *fleet) reads(table, shard string, at time.Time) {
	f.Helper()
	rows, err := f.Ledger.Shards(f.ctx, table)
	f.must(err)
	for _, s := range rows {
		if s.ID == shard {
			lease, err := f.Ledger.Take(f.ctx, s, nil)
			f.must(err)
			p := s.Progress()
			p.AppliedTo, p.CaughtUp, p.ReadAt = at, true, at
			f.must(lease.Commit(f.ctx, p))
		}
	}
}

// A refused message is given back if there is no dead-letter topic, or if the process may not
// publish to it. Then the subscription's policy moves the message in the end.
func TestARefusedMessageIsGivenBackWhereItCannotBePublished(t *testing.T) {
	for name, topic := range map[string]relay.Topic{"no topic": nil, "denied": deniedTopic{}} {
		playScene(t, func(s *scene) {
			s.DeadTopic = topic
			s.send(1, func(c *relay.Change) { c.Hop = 999_999 })
			s.Options.Pull = 2
			s.applies(90 * time.Second)
			if !slices.Equal(s.told, []string{"give back d1"}) || !slices.Equal(s.failed, []string{"read a message"}) || s.writes > 0 {
				t.Errorf("%s: %q, failed %q, %d writes", name, s.told, s.failed, s.writes)
			}
		})
	}
}

// deniedTopic rejects every message.
type deniedTopic struct{}

func (deniedTopic) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	denied := &relay.Error{Op: "Publish", Name: "dead", Reason: relay.Denied, Code: "PermissionDenied"}
	return slices.Repeat([]error{denied}, len(messages)), 0
}

// A published message that the relay has not noted yet is applied once the relay notes it, however
// long that takes. It is never refused for that: its relay may have ended in between.
func TestAMessageWaitsForItsCheckpoint(t *testing.T) {
	playFleet(t, 1, func(f *fleet) {
		f.publish("T0", 1_000_001, 5)
		f.after(2*time.Hour, func() { f.publishedTo("T0", 1_000_005) })
		f.applies(2*time.Hour - time.Second)
		if open, attempts := f.of("T0"); open != 5 || attempts != 1 || len(f.dead) > 0 {
			t.Fatalf("%d messages are open, after %d attempts; %d are refused", open, attempts, len(f.dead))
		}
		f.applies(time.Minute)
		if open, _ := f.of("T0"); open > 0 || len(f.dead) > 0 {
			t.Errorf("%d messages are open; %d are refused", open, len(f.dead))
		}
	})
}

// publishedTo records that a relay has published up to a number.
func (f *fleet) publishedTo(table string, number uint64) {
	f.Helper()
	rows, err := f.Ledger.Shards(f.ctx, table)
	f.must(err)
	lease, err := f.Ledger.Take(f.ctx, rows[0], nil)
	f.must(err)
	p := rows[0].Progress()
	p.Position.After, p.Applied, p.EventTime = cdc.SequenceOf(number), number, task.Now(f.ctx)
	f.must(lease.Commit(f.ctx, p))
}

// The bounds of one shard.
func TestH131_WhatBoundsAMessage(t *testing.T) {
	at := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	read := checkpoint.Shard{Hop: 5, Generation: 7, Position: cdc.SequenceOf(9), Applied: 4, FirstRead: at, EventTime: at}
	change := func(edit func(c *relay.Change)) relay.Change {
		c := relay.Change{Origin: relay.Origin{Shard: "s", Hop: 5, Generation: 7}, Number: 4, Change: cdc.Change{Sequence: cdc.SequenceOf(9), Time: at}}
		edit(&c)
		return c
	}
	row := func(edit func(s *checkpoint.Shard)) checkpoint.Shard { s := read; edit(&s); return s }
	next := func(c *relay.Change) { c.Number, c.Sequence = 5, cdc.SequenceOf(10) }
	same := func(*checkpoint.Shard) {}
	for name, c := range map[string]struct {
		row    checkpoint.Shard
		change relay.Change
		ok     bool
		sure   bool
	}{
		"the last that is noted":             {row(same), change(func(*relay.Change) {}), true, false},
		"the next":                           {row(same), change(next), false, false},
		"the next, and more is applied":      {row(func(s *checkpoint.Shard) { s.AppliedTo = at.Add(apart + 1) }), change(next), false, true},
		"the next, a moment before that":     {row(func(s *checkpoint.Shard) { s.AppliedTo = at.Add(apart) }), change(next), false, false},
		"after the end of a shard":           {row(func(s *checkpoint.Shard) { s.State = checkpoint.Done }), change(next), false, true},
		"an early number of a late sequence": {row(same), change(func(c *relay.Change) { c.Sequence = cdc.SequenceOf(10) }), false, false},
		"a late number of an early sequence": {row(same), change(func(c *relay.Change) { c.Number = 5 }), false, false},
		"of the future":                      {row(same), change(func(c *relay.Change) { next(c); c.Time = at.Add(ahead + 2) }), false, true},
		"as far ahead as clocks may be":      {row(same), change(func(c *relay.Change) { next(c); c.Time = at.Add(ahead + 1) }), false, false},
		"before the raise reaches the shard": {row(func(s *checkpoint.Shard) { s.Generation = 6 }), change(func(*relay.Change) {}), false, false},
		"after the next raise":               {row(func(s *checkpoint.Shard) { s.Generation = 8 }), change(next), true, false},
		"what settles":                       {row(func(s *checkpoint.Shard) { s.Settling.Changes = 1 }), change(next), true, false},
		"beyond what settles":                {row(func(s *checkpoint.Shard) { s.Settling.Changes = 1 }), change(func(c *relay.Change) { next(c); c.Number = 6 }), false, false},
		"of a shard that nobody has read":    {checkpoint.Shard{Hop: 5, Generation: 7}, change(func(*relay.Change) {}), true, false},
		"the first, announced":               {checkpoint.Shard{Hop: 5, Generation: 7, Announced: checkpoint.Announced{First: cdc.SequenceOf(9), Through: 9}}, change(func(*relay.Change) {}), false, false},
		"the first, read":                    {checkpoint.Shard{Hop: 5, Generation: 7, FirstRead: at}, change(func(*relay.Change) {}), false, false},
	} {
		ok, d := bounded(&c.row, true, &c.change, at.Add(1))
		if ok != c.ok || d.sure != c.sure || ok != (d.why == "") {
			t.Errorf("%s: %t, %+v", name, ok, d)
		}
	}
	last := change(next)
	if ok, d := bounded(&checkpoint.Shard{}, false, &last, at); ok || !d.sure {
		t.Errorf("of no shard: %t, %+v", ok, d)
	}
}
