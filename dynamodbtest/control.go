package dynamodbtest

import (
	"fmt"
	"time"
)

// Shard describes the true state of a shard of a table's latest stream. A listing may show another
// state.
type Shard struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"`
	// Open reports that the shard accepts records.
	Open bool `json:"open"`
	// FirstHash and LastHash bound the range of partition key hashes that the shard owns.
	FirstHash uint64 `json:"first_hash,string"`
	LastHash  uint64 `json:"last_hash,string"`
	// Starting is less than or equal to the shard's first sequence number. Ending is greater than
	// the last number, and empty while the shard is open.
	Starting string `json:"starting"`
	Ending   string `json:"ending,omitempty"`
	// Records counts the records that are kept, and Trimmed counts the trimmed records.
	Records int   `json:"records"`
	Trimmed int64 `json:"trimmed"`
}

// AdvanceClock shifts the server's time relative to its Clock by d, backwards if d is negative.
func (s *Server) AdvanceClock(d time.Duration) { s.offset.Add(int64(d)) }

// Fail makes future calls fail.
func (s *Server) Fail(f Fault) { s.faults.add(f) }

// Straggle makes the next n calls that write items of the table late: they take effect only after
// the duration, and their clients get no answer. If the table's name is empty, it applies to all
// calls that write items. Only then does it apply to transactions and to batches of several tables.
// See Fault.Late.
func (s *Server) Straggle(tableName string, n int, after time.Duration) {
	if n > 0 {
		s.faults.add(Fault{Table: tableName, Times: n, Late: after, writes: true})
	}
}

// SetRole makes an access key id sign for the role with this ARN from now on. With an empty ARN the
// key belongs to the account's root again.
func (s *Server) SetRole(accessKeyID, roleARN string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[accessKeyID] = roleARN
}

// SetPolicyDelay makes resource policies of the table that are put or deleted from now on come into
// force after the duration.
func (s *Server) SetPolicyDelay(tableName string, d time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.policyDelay = d
		return nil
	})
}

// OldPolicyReads decides what GetResourcePolicy returns while a changed policy is not yet in force.
// With old it returns the policy in force, or PolicyNotFoundException if there is none. Otherwise
// it returns the changed policy. DynamoDB may do either.
func (s *Server) OldPolicyReads(tableName string, old bool) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.oldPolicyReads = old
		return nil
	})
}

// ClearFaults removes every fault that Fail added and that has not occurred yet.
func (s *Server) ClearFaults() { s.faults.clear() }

// Calls returns how many calls of the operation, such as "GetRecords", arrived and could be
// decoded, including failed ones.
func (s *Server) Calls(operation string) int { return s.faults.count(operation) }

// withTable locks the named table and calls change. Like all errors of controls, its errors are
// errors of the API.
func (s *Server) withTable(name string, change func(t *table, now time.Time) error) error {
	s.late.execute(s.Now())
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

// withShard calls change for a shard of any readable stream of the table.
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

// Shards lists the shards of the table's latest stream by id, including hidden ones.
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

// ShardOf returns the open shard to which a change of the item with this partition key would go.
// The key is given as text: a string, the canonical decimal of a number, or raw bytes.
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

// TrimTo immediately removes all records of the table's streams that were written at or before the
// time. It also removes closed shards that ended by then. It treats these records and shards as if
// they were 24 hours old.
func (s *Server) TrimTo(tableName string, until time.Time) error {
	return s.withTable(tableName, func(t *table, now time.Time) error {
		for _, st := range t.streams {
			st.tend(now)
			st.trim(until)
		}
		return nil
	})
}

// ExpireIterators expires every iterator issued so far for the table's streams.
func (s *Server) ExpireIterators(tableName string) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		for _, st := range t.streams {
			st.epoch++
		}
		return nil
	})
}

// HideShard omits a shard from DescribeStream until the given time. The shard can still be read.
func (s *Server) HideShard(tableName, shardID string, until time.Time) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		sh.hiddenUntil = until
		return nil
	})
}

// ShowOpen makes DescribeStream list a closed shard without its ending sequence number until the
// given time.
func (s *Server) ShowOpen(tableName, shardID string, until time.Time) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		sh.shownOpenUntil = until
		return nil
	})
}

// DelayListing delays the listing of shards that are created from now on by the duration children.
// Shards that are closed from now on are shown as open for the duration closings.
func (s *Server) DelayListing(tableName string, children, closings time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.childrenDelay, t.closingDelay = children, closings
		return nil
	})
}

// SetListingPage limits pages of DescribeStream to n shards; 0 restores the limit of 100.
func (s *Server) SetListingPage(tableName string, n int) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.listingPage = max(n, 0)
		return nil
	})
}

// RepeatPages makes the next n calls of DescribeStream that continue a listing return the previous
// page again.
func (s *Server) RepeatPages(tableName string, n int) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.repeatPages = n
		return nil
	})
}

// EmptyPages makes the next n pages of a shard's records empty. Each such page has a next iterator,
// even at the end of the shard.
func (s *Server) EmptyPages(tableName, shardID string, n int) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		sh.emptyPages = n
		return nil
	})
}

// SetRecordTimeOffset adds d to the approximate creation times of future records. DynamoDB itself
// has been observed to go back by a second.
func (s *Server) SetRecordTimeOffset(tableName string, d time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.timeOffset = d
		return nil
	})
}

// SetNextSequenceNumber makes the next record of an open shard get a number greater than n, which
// must not be less than the numbers already used (S3).
func (s *Server) SetNextSequenceNumber(tableName, shardID, n string) error {
	return s.withShard(tableName, shardID, func(_ *stream, sh *shard, _ time.Time) error {
		if !sh.open() || !validSequence(n) || compareSequence(n, sh.last) < 0 {
			return validation("%s must be open and its sequence numbers can only rise", shardID)
		}
		sh.last = addSequence(n, "0")
		return nil
	})
}

// RestartSequences decides where the numbers of a child begin. With restart they begin at the
// server's first sequence number, below the parent's numbers. Otherwise they begin above the
// parent's numbers.
func (s *Server) RestartSequences(tableName string, restart bool) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.restartSequences = restart
		return nil
	})
}

// SetAutoRoll makes every open shard of this age roll when it is next used; 0 turns this off.
func (s *Server) SetAutoRoll(tableName string, every time.Duration) error {
	return s.withTable(tableName, func(t *table, _ time.Time) error {
		t.autoRoll = every
		return nil
	})
}

// SweepTTL deletes the items of the table whose time to live has passed, and returns their number.
// DynamoDB itself does this within a few days.
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
