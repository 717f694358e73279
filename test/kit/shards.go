package kit

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Noon is the time for which Copied and ShardOf make their records.
var Noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// Copied returns a table that is copied and was compared completely, and its shard, which is read.
// All gates of the table are ready at Noon.
func Copied() (checkpoint.TableState, checkpoint.Shard) {
	clean := checkpoint.VerifyResult{Number: 1, EndedAt: Noon.Add(-30 * time.Minute), Generation: 5}
	s := checkpoint.TableState{Source: "Orders", Label: "l", Generation: 5, Adopted: 5, Listed: 5, Base: 5, Load: checkpoint.Load{Generation: 5, DoneAt: Noon}}
	s.Verify.Result, s.Verify.Full = clean, clean
	return s, checkpoint.Shard{ID: "s", Label: "l", State: checkpoint.Reading, Owner: "w", AppliedTo: Noon.Add(-time.Second), FirstRead: Noon.Add(-time.Hour),
		ReadAt: Noon.Add(-time.Second), Position: cdc.SequenceOf(9)}
}

// ShardOf returns a shard that is read, and read to its tip.
func ShardOf(id, parent string) checkpoint.Shard {
	_, sh := Copied()
	sh.ID, sh.Parent, sh.CaughtUp, sh.Position, sh.Applied = id, parent, true, cdc.SequenceOf(100), 7
	return sh
}

// DoneShard returns a shard that was read to its end.
func DoneShard(id, parent string, complete bool) checkpoint.Shard {
	sh := ShardOf(id, parent)
	sh.State, sh.Owner, sh.Complete = checkpoint.Done, "", complete
	return sh
}

// SeenIn returns a shard that gave the canary of an attempt, written after the freeze.
func SeenIn(sh checkpoint.Shard, attempt uint32, canary int) checkpoint.Shard {
	sh.Sighted.See(2*attempt, canary)
	return sh
}

// CandidatesIn returns a shard that gave candidates of an attempt.
func CandidatesIn(sh checkpoint.Shard, attempt uint32, candidates ...int) checkpoint.Shard {
	for _, i := range candidates {
		sh.Sighted.See(2*attempt-1, i)
	}
	return sh
}
