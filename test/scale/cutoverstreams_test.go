package scale

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// delays are the times that the services take, drawn for each request.
type delays struct{ *rand.Rand }

// between draws a time, and in one of a hundred draws a time of the tail.
func (d delays) between(least, most, tail time.Duration) time.Duration {
	if d.IntN(100) == 0 {
		least, most = most, tail
	}
	return least + time.Duration(d.Int64N(int64(most-least)))
}

func (d delays) ledgerRead() time.Duration {
	return d.between(2*time.Millisecond, 8*time.Millisecond, 100*time.Millisecond)
}
func (d delays) ledgerWrite() time.Duration {
	return d.between(5*time.Millisecond, 20*time.Millisecond, 200*time.Millisecond)
}
func (d delays) put() time.Duration {
	return d.between(4*time.Millisecond, 12*time.Millisecond, 150*time.Millisecond)
}
func (d delays) describe() time.Duration {
	return d.between(10*time.Millisecond, 30*time.Millisecond, 300*time.Millisecond)
}
func (d delays) getRecords() time.Duration {
	return d.between(5*time.Millisecond, 20*time.Millisecond, 300*time.Millisecond)
}
func (d delays) visible() time.Duration {
	return d.between(100*time.Millisecond, 500*time.Millisecond, 1500*time.Millisecond)
}

// listed is how long after a shard's end the stream lists its child.
func (d delays) listed() time.Duration {
	if d.IntN(20) == 0 {
		return time.Duration(d.Int64N(int64(time.Minute)))
	}
	return time.Second + time.Duration(d.Int64N(int64(2*time.Second)))
}

// ends is how long a shard lives.
func (d delays) ends() time.Duration { return life - life/8 + time.Duration(d.Int64N(int64(life/4))) }

const (
	activePoll = 250 * time.Millisecond // wait between two reads of a shard near a freeze
	renewEvery = 10 * time.Second       // time between two commits of an idle shard
	recheckIn  = 2 * time.Second        // time from an applied change to its recheck
)

// canaryRecord is a canary in a stream.
type canaryRecord struct {
	at      time.Time // when GetRecords returns it
	attempt uint32
	number  int
}

// virtualShard is a shard of a stream and the worker that reads it. It is a function of time: advance
// plays what has happened since the last call.
type virtualShard struct {
	id, parent string
	end        time.Time     // when the shard ends
	visible    time.Duration // delay of its records
	queue      []canaryRecord
	child      *virtualShard

	poll    time.Time // the next read
	settled time.Time // when the last change of before the freeze is rechecked; zero if no freeze
	row     checkpoint.Shard
	next    func(row *checkpoint.Shard) // the next commit; nil if there is none
	at      time.Time                   // when it is in the ledger
	changes uint64
	counter uint64
	data    []byte
}

// slot is a part of a table's key space. One shard after another holds it.
type slot []*virtualShard

// virtualStream is the stream of one table.
type virtualStream struct {
	delays
	source string
	bound  time.Duration // cutover.listing_bound
	slots  []slot
}

// newStream makes the stream of a table with so many open shards, as it is after a day.
func newStream(d delays, source string, shards int, bound time.Duration, now time.Time) *virtualStream {
	s := &virtualStream{delays: d, source: source, bound: bound}
	for n := range shards {
		born := now.Add(-time.Duration(d.Int64N(int64(d.ends()))))
		var chain slot
		parent := ""
		for ago := 5; ago > 0; ago-- { // a stream lists its shards for a day
			end := born.Add(-time.Duration(ago-1) * life)
			old := s.shard(fmt.Sprintf("shardId-%05d-%03d", n, 5-ago), parent, end.Add(-life), end)
			old.row.State, old.row.Complete, old.row.Owner = checkpoint.Done, true, ""
			old.row.DoneAt = end.Add(time.Second)
			old.encode()
			parent = old.id
			chain = append(chain, old)
		}
		end := born.Add(d.ends())
		if end.Before(now) {
			end = now.Add(time.Duration(d.Int64N(int64(life))))
		}
		open := s.shard(fmt.Sprintf("shardId-%05d-005", n), parent, born, end)
		open.commitAt(now)
		chain[4].child = open
		s.slots = append(s.slots, append(chain, open))
	}
	return s
}

// shard makes a shard that a worker reads from its begin.
func (s *virtualStream) shard(id, parent string, born, end time.Time) *virtualShard {
	v := &virtualShard{id: id, parent: parent, end: end, visible: s.visible(), changes: 1000, poll: born.Add(time.Duration(s.Int64N(int64(activePoll))))}
	v.row = checkpoint.Shard{Source: s.source, StreamARN: "arn/" + s.source, Label: "l", ID: id, Parent: parent, State: checkpoint.Reading, Hop: 500_000,
		Generation: 5, Began: 5, Epoch: 1, Owner: "worker1", FirstRead: born, CoveredTo: born, Inherited: parent != "", Applied: 1000}
	v.row.Format = 2
	v.row.Reads = checkpoint.Format
	v.row.Rechecked = checkpoint.Rechecked{Verify: 2}
	v.row.Position = cdc.SequenceOf(v.changes)
	v.row.Rechecked.To, v.row.Rechecked.Through = v.row.Position, v.row.Position
	v.encode()
	return v
}

func (v *virtualShard) encode() {
	v.counter++
	v.data, _ = json.Marshal(&v.row)
}

// commitAt is what a worker writes with every commit.
func (v *virtualShard) commitAt(at time.Time) {
	v.row.ReadAt, v.row.AppliedTo, v.row.EventTime, v.row.WrittenAt, v.row.CaughtUp = at, at, at, at, true
	if v.settled.IsZero() || at.After(v.settled) {
		v.row.Rechecked.To, v.row.Rechecked.Through = v.row.Position, v.row.Position
	}
	v.encode()
}

// rows advances the stream and returns its shards with rows, in the order of their ids.
func (s *virtualStream) rows(now time.Time) (all []*virtualShard) {
	for n := range s.slots {
		last := s.slots[n][len(s.slots[n])-1]
		s.advance(last, now)
		if c := last.child; c != nil && last.row.State == checkpoint.Done && !now.Before(c.row.FirstRead) {
			s.slots[n] = append(s.slots[n], c)
			s.advance(c, now)
		}
		all = append(all, s.slots[n]...)
	}
	for _, v := range all {
		if v.row.State == checkpoint.Done && !v.row.Complete && v.next != nil && !v.at.After(now) {
			v.take()
		}
	}
	return all
}

// take makes the next commit.
func (v *virtualShard) take() {
	change := v.next
	v.next = nil
	change(&v.row)
	v.encode()
}

// advance plays the reads and commits of a shard until now.
func (s *virtualStream) advance(v *virtualShard, now time.Time) {
	for v.row.State != checkpoint.Done {
		switch {
		case v.next != nil && v.at.After(now):
			return
		case v.next != nil:
			v.take()
			continue
		case !v.settled.IsZero() && v.settled.Before(now) && v.row.Rechecked.Through != v.row.Position:
			v.commitAt(now)
		case now.Sub(v.row.ReadAt) > renewEvery:
			v.commitAt(now.Add(-time.Duration(s.Int64N(int64(time.Second)))))
		}
		if v.poll.After(now) {
			return
		}
		until := now
		if v.end.Before(now) {
			until = v.end
		}
		if idle := until.Sub(v.poll); len(v.queue) == 0 && idle > time.Second {
			v.poll = v.poll.Add(idle.Truncate(activePoll)) // many reads that return nothing
		}
		s.read(v)
	}
}

// read reads a page.
func (s *virtualStream) read(v *virtualShard) {
	answered := v.poll.Add(s.getRecords())
	seen := 0
	for seen < len(v.queue) && !v.queue[seen].at.After(v.poll) {
		seen++
	}
	page := slices.Clone(v.queue[:seen])
	v.queue = v.queue[seen:]
	committed := answered.Add(s.ledgerWrite())
	switch {
	case len(page) > 0:
		v.at, v.poll = committed, committed.Add(activePoll)
		v.next = func(row *checkpoint.Shard) {
			for _, c := range page {
				row.Sighted.See(c.attempt, c.number)
			}
			v.changes += uint64(len(page))
			row.Position, row.Applied = cdc.SequenceOf(v.changes), v.changes
			v.commitAt(answered)
		}
	case len(v.queue) == 0 && v.end.Add(v.visible).Before(v.poll):
		v.at = committed.Add(time.Duration(s.Int64N(int64(recheckIn)))) // the last changes are rechecked first
		s.bear(v)
		v.next = func(row *checkpoint.Shard) {
			v.settled = time.Time{}
			v.commitAt(answered)
			row.State, row.DoneAt, row.Owner = checkpoint.Done, answered, ""
			if v.child.poll.Before(v.at) { // it is read once its parent is done
				v.child.poll = v.at.Add(activePoll)
			}
			v.at = v.at.Add(s.bound + 100*time.Millisecond + time.Duration(s.Int64N(int64(2*time.Second))))
			v.next = func(row *checkpoint.Shard) { row.Complete = true }
		}
	default:
		v.poll = answered.Add(activePoll)
	}
}

// bear makes the child of a shard that has ended. A worker reads the child soon after the stream lists it.
func (s *virtualStream) bear(v *virtualShard) {
	if v.child != nil {
		return
	}
	var n, before int
	_, _ = fmt.Sscanf(v.id, "shardId-%05d-%03d", &n, &before)
	read := v.end.Add(s.listed())
	if read.Before(v.at) {
		read = v.at
	}
	read = read.Add(100*time.Millisecond + time.Duration(s.Int64N(int64(time.Second))))
	v.child = s.shard(fmt.Sprintf("shardId-%05d-%03d", n, before+1), v.id, read, v.end.Add(s.ends()))
}

// put adds a canary to the shard that is open now.
func (s *virtualStream) put(key string, attempt uint32, number int, now time.Time) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	chain := s.slots[h.Sum64()%uint64(len(s.slots))]
	v := chain[len(chain)-1]
	for !v.end.After(now) {
		s.bear(v)
		v = v.child
	}
	s.advance(v, now)
	v.queue = append(v.queue, canaryRecord{now.Add(v.visible), attempt, number})
}

// freeze ends the application's writes: until then, each shard had about one change a second.
func (s *virtualStream) freeze(now time.Time) {
	for _, chain := range s.slots {
		v := chain[len(chain)-1]
		v.settled = now.Add(v.visible + recheckIn + s.getRecords() + s.ledgerWrite() - time.Duration(s.Int64N(int64(time.Second))))
	}
}

// endsAfter returns when shards end until a time.
func (s *virtualStream) endsAfter(until time.Time) (all []time.Time) {
	for _, chain := range s.slots {
		v := chain[len(chain)-1]
		for v.end.Before(until) {
			all = append(all, v.end)
			s.bear(v)
			v = v.child
		}
	}
	return all
}
