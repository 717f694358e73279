package status

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// The codes of whyStatus: reasons why a shard makes no progress.
const (
	whyListing  = "listing"  // the stream has no complete listing yet
	WhyChildren = "children" // the shard is done, but its children are not listed
	WhyParent   = "parent"   // the shard's parent must be read to its end first
	WhyNobody   = "nobody"   // the shard could be read, but no worker has acquired it
	// The shard's worker has not written to the ledger for longer than a lease.
	WhySilent   = "silent"
	WhyTrouble  = "trouble"  // a step fails and is retried
	whyGap      = "gap"      // changes were lost, so the shard is no longer read
	whyReplaced = "replaced" // the shard's stream is no longer the table's stream
)

// Shard is one shard. Its position is a sequence number, which contains no item data.
type Shard struct {
	Source string  `json:"source"`
	Stream string  `json:"stream"` // label of the stream
	ID     string  `json:"id"`
	Parent *string `json:"parent"`
	State  string  `json:"state"`
	// Hop is the rank of the shard in its lineage: 500000 for a root, and one more for each
	// generation of children.
	Hop        uint32     `json:"hop"`
	Generation uint32     `json:"generation"`
	Epoch      uint64     `json:"epoch"`
	Owner      *string    `json:"owner"`
	Host       *string    `json:"host"`
	Position   *string    `json:"position"`
	EventTime  *time.Time `json:"event_time"` // time of the last applied change
	ReadAt     *time.Time `json:"read_at"`
	// WrittenAt is when the shard's row was last written, including renewals of the lease, by its
	// owner's clock.
	WrittenAt        *time.Time `json:"written_at"`
	DoneAt           *time.Time `json:"done_at"`
	LagSeconds       *float64   `json:"lag_seconds"`
	LagEstimated     bool       `json:"lag_estimated"`
	HeadroomSeconds  *float64   `json:"headroom_seconds"`
	ChangesPerSecond *float64   `json:"changes_per_second"`
	Changes          uint64     `json:"changes"` // number of applied changes
	// Settling is the number of changes that were applied once and will be applied a second time
	// (dual_writes).
	Settling uint64 `json:"settling"`
	// Old reports that the shard has an owner, but its last read is more than three lease durations
	// ago.
	Old bool `json:"old"`
	// Why the shard makes no progress; null if it makes progress, or is done with known children.
	Why    *whyStatus `json:"why"`
	Reason *string    `json:"reason"` // reason of a gap
}

func (s *Shard) ownerText() string {
	if s.Old {
		return OrDash(s.Owner) + " (old)"
	}
	return OrDash(s.Owner)
}

func (s *Shard) whyText() string {
	if s.Why == nil {
		return "-"
	}
	return s.Why.Text
}

// whyStatus is the reason why a shard makes no progress.
type whyStatus struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// addShards adds the shards of a table to the document.
func (m *Document) addShards(t *Table, in TableInput) {
	rate, told, owned := 0.0, true, false
	for i := range in.Shards {
		s, judged := &in.Shards[i], &t.stands.Shards[i]
		shard := m.shardOf(in.State, s, judged)
		if t.stands.Left {
			shard.Why, shard.Old = nil, false
		}
		t.Shards[shard.State]++
		if s.Label == in.State.Label && !s.Finished() {
			t.Settling += s.Settling.Changes
		}
		m.Shards = append(m.Shards, shard)
		if judged.Over {
			continue
		}
		if judged.Unfollowed {
			t.troubled(checkpoint.Trouble{Step: "find the children of a shard that ended", Cause: "no listing of the stream contains them yet", Since: s.EndTime()}, 1)
		}
		if s.Owner != "" {
			m.Leases++
			m.worker(s.Owner, s.Heartbeat).Leases++
			owned = true
			if shard.ChangesPerSecond == nil {
				told = false
			} else {
				rate += *shard.ChangesPerSecond
			}
			if s.Trouble != (checkpoint.Trouble{}) && !judged.Silent {
				trouble := s.Trouble
				trouble.Since = standing.TroubleSince(s.Heartbeat, m.At)
				t.troubled(trouble, 1)
			}
		}
		if shard.Why != nil && shard.Why.Code == WhyNobody {
			t.waiting++
		}
		if shard.Why != nil && shard.Why.Code == WhySilent {
			t.silent++
		}
	}
	if owned && told {
		t.ChangesPerSecond = &rate
	}
	if t.Paused != nil || t.drained() {
		t.waiting, t.silent = 0, 0
	}
}

// shardOf returns the status of one shard.
func (m *Document) shardOf(table checkpoint.TableState, s *checkpoint.Shard, judged *standing.Shard) Shard {
	out := Shard{Source: s.Source, Stream: s.Label, ID: s.ID, Parent: terminal.Known(s.Parent), State: string(s.State), Hop: s.Hop, Generation: s.Generation,
		Epoch: s.Epoch, Owner: terminal.Known(s.Owner), Host: terminal.Known(s.Holder.Host), EventTime: terminal.KnownTime(s.EventTime), ReadAt: terminal.KnownTime(s.ReadTime()),
		WrittenAt: terminal.KnownTime(s.WrittenAt), DoneAt: terminal.KnownTime(s.DoneAt), Changes: s.Applied, Settling: s.Settling.Changes, Reason: terminal.Known(s.Reason),
		LagSeconds: inSeconds(judged.Lag), HeadroomSeconds: inSeconds(judged.Headroom), LagEstimated: judged.Estimated, Old: judged.Old, Why: m.why(table, s, judged)}
	if !s.Position.IsZero() {
		out.Position = terminal.Known(s.Position.String())
	}
	if s.Owner != "" && !judged.Over && !judged.Old && !s.ReadAt.IsZero() {
		rate := s.Rate
		out.ChangesPerSecond = &rate
	}
	return out
}

// why returns the reason why a shard makes no progress.
func (m *Document) why(table checkpoint.TableState, s *checkpoint.Shard, judged *standing.Shard) *whyStatus {
	because := func(code, format string, args ...any) *whyStatus {
		return &whyStatus{code, fmt.Sprintf(format, args...)}
	}
	switch {
	case judged.Unfollowed:
		return because(WhyChildren, "for a listing of its children; the shard ended %s ago", backfill.FormatDuration(m.At.Sub(s.EndTime())))
	case s.State == checkpoint.Done:
		return nil
	case s.State == checkpoint.Gap && s.Reopenable(table):
		return because(whyGap, "%s; the rest of the shard will be read", s.Reason)
	case s.State == checkpoint.Gap:
		return because(whyGap, "%s", s.Reason)
	case s.Label != table.Label:
		return because(whyReplaced, "the table now has another stream")
	case table.Listed == 0:
		return because(whyListing, "for the first complete listing of the stream")
	case judged.Silent:
		return because(WhySilent, "%s has been silent for %s, longer than its lease of %s; the next worker will acquire the shard", s.Owner,
			backfill.FormatDuration(m.At.Sub(s.WrittenAt)), timespan.Format(m.lease))
	case s.Owner != "" && s.Trouble != (checkpoint.Trouble{}):
		return because(WhyTrouble, "cannot %s (for %s): %s", s.Trouble.Step, backfill.FormatDuration(m.At.Sub(standing.TroubleSince(s.Heartbeat, m.At))), s.Trouble.Cause)
	case s.Owner != "":
		return nil
	case judged.Blocked != nil:
		return because(WhyParent, "for its parent %s, which is %s", judged.Blocked.ID, stateText(judged.Blocked))
	}
	return because(WhyNobody, "for a worker to acquire it")
}

// stateText describes a shard's state, as part of a sentence.
func stateText(s *checkpoint.Shard) string {
	switch {
	case s.State == checkpoint.Gap:
		return "a gap that will be reopened"
	case s.State == checkpoint.Reading && s.Owner == "":
		return "partly read, and without an owner"
	}
	return string(s.State)
}
