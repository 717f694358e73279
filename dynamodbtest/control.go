package dynamodbtest

import (
	"fmt"
	"time"
)

// Shard describes a shard of a table's latest stream as it really is, whatever the
// listing shows.
type Shard struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"`
	// Open is whether the shard takes records.
	Open bool `json:"open"`
	// FirstHash and LastHash bound the hashes of partition keys it owns.
	FirstHash uint64 `json:"first_hash,string"`
	LastHash  uint64 `json:"last_hash,string"`
	// Starting is at or below the first sequence number; Ending is above the last, and
	// empty while the shard is open.
	Starting string `json:"starting"`
	Ending   string `json:"ending,omitempty"`
	// Records counts those not trimmed, Trimmed those that were.
	Records int   `json:"records"`
	Trimmed int64 `json:"trimmed"`
}

// AdvanceClock moves the server's time by d, back if d is negative, on top of its Clock.
func (s *Server) AdvanceClock(d time.Duration) { s.offset.Add(int64(d)) }

// Fail makes calls to come fail.
func (s *Server) Fail(f Fault) { s.faults.add(f) }

// ClearFaults takes back every fault that Fail announced and that was not met yet.
func (s *Server) ClearFaults() { s.faults.clear() }

// Calls returns how many calls of the operation, such as "GetRecords", arrived and could be
// decoded, failed ones included.
func (s *Server) Calls(operation string) int { return s.faults.count(operation) }

// withTable locks the named table and calls change. The errors of the controls are
// those of the API.
func (s *Server) withTable(name string, change func(t *table, now time.Time) error) error {
	t, err := s.findNamed(refTo(name))
	if err != nil {
		return err
	}
	if err := t.lock(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	return change(t, s.Now())
}

// withShard finds a shard in any stream of the table that may be read.
func (s *Server) withShard(tableName, shardID string, change func(st *stream, sh *shard, now time.Time) error) error {
	return s.withTable(tableName, func(t *table, now time.Time) error {
		for _, st := range t.streams {
			if sh := st.shard(shardID); sh != nil {
				return change(st, sh, now)
			}
		}
		return resourceNotFound("Table %s has no shard %s", tableName, shardID)
	})
}

// Shards lists the shards of the table's latest stream by id, hidden ones included.
func (s *Server) Shards(tableName string) ([]Shard, error) {
	var shards []Shard
	err := s.withTable(tableName, func(t *table, now time.Time) error {
		if t.stream == nil {
			return resourceNotFound("Table %s has no stream", tableName)
		}
		t.stream.tend(now)
		for _, sh := range t.stream.shards {
			shards = append(shards, Shard{
				ID: sh.id, Parent: sh.parent, Open: sh.open(), FirstHash: sh.low, LastHash: sh.high,
				Starting: sh.starting, Ending: sh.ending, Records: len(sh.records), Trimmed: sh.trimmed,
			})
		}
		return nil
	})
	return shards, err
}

// ShardOf returns the open shard that would take a change of the item with this partition
// key, given as text: a string, the canonical decimal of a number, or raw bytes.
func (s *Server) ShardOf(tableName, partitionKey string) (string, error) {
	id := ""
	err := s.withTable(tableName, func(t *table, _ time.Time) error {
		if t.stream == nil || !t.stream.enabled {
			return resourceNotFound("Table %s has no enabled stream", tableName)
		}
		id = t.stream.owner(hashOf(partitionKey)).id
		return nil
	})
	return id, err
}

// SplitShard closes an open shard and gives each half of its range to a child.
func (s *Server) SplitShard(tableName, shardID string) (children []string, err error) {
	return s.replaceShard(tableName, shardID, 2)
}

// RollShard closes an open shard and gives its range to one child, as DynamoDB does
// every few hours.
func (s *Server) RollShard(tableName, shardID string) (child string, err error) {
	children, err := s.replaceShard(tableName, shardID, 1)
	if err != nil {
		return "", err
	}
	return children[0], nil
}

func (s *Server) replaceShard(tableName, shardID string, n int) (children []string, err error) {
	err = s.withShard(tableName, shardID, func(st *stream, sh *shard, now time.Time) error {
		if !sh.open() {
			return validation("Shard %s is closed", shardID)
		}
		if sh.low == sh.high && n > 1 {
			return validation("Shard %s owns a single hash and cannot be split", shardID)
		}
		for _, child := range st.replace(sh, now, n) {
			children = append(children, child.id)
		}
		return nil
	})
	return children, err
}

// TrimTo removes at once all records of the table's streams that were written at the
// time or before, and the closed shards that ended by then, as if they were 24 hours old.
func (s *Server) TrimTo(tableName string, until time.Time) error {
	return s.withTable(tableName, func(t *table, now time.Time) error {
		for _, st := range t.streams {
			st.tend(now)
			st.trim(until)
		}
		return nil
	})
}

// ExpireIterators makes every iterator given out so far for the table's streams expire.
func (s *Server) ExpireIterators(tableName string) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		for _, st := range t.streams {
			st.epoch++
		}
		return nil
	})
}

// HideShard keeps a shard out of DescribeStream until the time; it can be read all the
// same.
func (s *Server) HideShard(tableName, shardID string, until time.Time) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		sh.hiddenUntil = until
		return nil
	})
}

// ShowOpen lists a closed shard without its ending sequence number until the time.
func (s *Server) ShowOpen(tableName, shardID string, until time.Time) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		sh.shownOpenUntil = until
		return nil
	})
}

// DelayListing makes every shard born from now on listed only after children, and every
// shard closed from now on shown open for closings.
func (s *Server) DelayListing(tableName string, children, closings time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.childrenDelay, t.closingDelay = children, closings
		return nil
	})
}

// SetListingPage makes pages of DescribeStream end after n shards; 0 restores 100.
func (s *Server) SetListingPage(tableName string, n int) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.listingPage = max(n, 0)
		return nil
	})
}

// RepeatPages makes the next n calls of DescribeStream that continue a listing give the
// page before once more.
func (s *Server) RepeatPages(tableName string, n int) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.repeatPages = n
		return nil
	})
}

// EmptyPages makes the next n pages of a shard's records empty. Each has a next
// iterator, even where the shard is at its end.
func (s *Server) EmptyPages(tableName, shardID string, n int) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		sh.emptyPages = n
		return nil
	})
}

// SetRecordTimeOffset adds d to the approximate creation times of records to come; a
// second back is what DynamoDB itself has been seen to do.
func (s *Server) SetRecordTimeOffset(tableName string, d time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.timeOffset = d
		return nil
	})
}

// SetNextSequenceNumber makes the next record of an open shard take a number above n,
// which must not be below the numbers given out already (S3).
func (s *Server) SetNextSequenceNumber(tableName, shardID, n string) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		if !sh.open() || !validSequence(n) || compareSequence(n, sh.last) < 0 {
			return validation("%s must be open and its sequence numbers can only rise", shardID)
		}
		sh.last = addSequence(n, "0")
		return nil
	})
}

// RestartSequences decides whether children begin at the server's first sequence
// number again, below their parents' numbers, instead of above them.
func (s *Server) RestartSequences(tableName string, restart bool) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.restartSequences = restart
		return nil
	})
}

// SetAutoRoll makes every open shard of this age roll when next touched; 0 stops it.
func (s *Server) SetAutoRoll(tableName string, every time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.autoRoll = every
		return nil
	})
}

// SweepTTL deletes the items of the table whose time-to-live attribute has passed, as
// DynamoDB does within a few days, and returns how many.
func (s *Server) SweepTTL(tableName string) (deleted int, err error) {
	err = s.withTable(tableName, func(t *table, now time.Time) error {
		deleted, err = t.sweep(now)
		if err != nil {
			return fmt.Errorf("sweep table %s: %w", tableName, err)
		}
		return nil
	})
	return deleted, err
}
