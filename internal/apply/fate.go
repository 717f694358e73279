package apply

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Fate is what the ledger proves about a message in the dead letter.
type Fate string

// The fates.
const (
	Missing Fate = "missing" // the relay published the message, and it may not be applied yet
	Applied Fate = "applied" // the message is applied, or a load covers it
	Refused Fate = "refused" // the ledger does not know the message's change
	Foreign Fate = "foreign" // the message belongs to no table of this ledger, or no relay wrote it
)

// Records are the ledger's records of one table.
type Records struct {
	Table  checkpoint.TableState // its Generation is 0 if there is no record
	Shards []checkpoint.Shard
	Merged []checkpoint.Applied
}

// FateOf judges a message by the records of the ledger with the given id. A message counts as
// missing unless the ledger proves that the relay did not publish it.
func FateOf(c relay.Change, ledger string, of Records, now time.Time) Fate {
	switch {
	case c.Ledger != ledger || of.Table.Generation == 0:
		return Foreign
	case c.Generation > of.Table.Generation:
		return Refused
	case c.Loaded, c.Generation < of.Table.Load.Begun():
		return Applied
	case c.Generation < of.Table.Generation:
		return of.appliedOr(Missing, c)
	}
	for _, s := range of.Shards {
		if s.Label != c.Label || s.ID != c.Shard {
			continue
		}
		switch ok, d := bounded(&s, true, &c, now); {
		case ok:
			return of.appliedOr(Missing, c)
		case d.sure:
			return Refused
		}
		return Missing
	}
	return of.appliedOr(Refused, c)
}

// appliedOr returns Applied if the message is known to be applied, and `fate` otherwise.
func (r Records) appliedOr(fate Fate, c relay.Change) Fate {
	track := checkpoint.Track{Generation: c.Generation, Label: c.Label, Shard: c.Shard}
	for _, m := range r.Merged {
		if m.Track == track && (checkpoint.Runs{{From: c.Number, To: c.Number}}).Within(m.Runs) {
			return Applied
		}
	}
	return fate
}
