package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// LongestKept is the longest time for which a subscription of Pub/Sub can keep a message.
const LongestKept = 31 * 24 * time.Hour

// Stand records the end of the unbroken prefix of a shard's messages. It also records, on the
// service's clock, since when that end has not moved although later messages are published.
type Stand struct {
	Through uint64    `json:"t"`
	Since   time.Time `json:"at"`
}

// Expired records since when the prefix of each shard has not moved. A message that is older than
// the subscription's retention is no longer delivered. If such messages are not known to be
// applied, Expired returns their gap. It returns false if there is no such gap. A message whose
// record is not merged yet counts as not applied.
func (l *Ledger) Expired(ctx context.Context, source string, kept time.Duration) (gap DeclaredGap, found bool, err error) {
	now := l.ServiceTime(ctx)
	if now.IsZero() {
		return DeclaredGap{}, false, nil
	}
	table, _, err := l.Table(ctx, source)
	if err != nil {
		return DeclaredGap{}, false, err
	}
	merged, err := l.Merged(ctx, source)
	if err != nil {
		return DeclaredGap{}, false, err
	}
	shards, err := l.Shards(ctx, source)
	if err != nil {
		return DeclaredGap{}, false, err
	}
	behind, known := Unapplied(table, shards, merged), true
	for _, s := range behind {
		_, through := s.Behind(merged)
		known = known && !through.At.IsZero()
		gap.LostFrom = earlier(gap.LostFrom, through.At)
		was := s.stand(merged)
		if was.Through != through.To || was.Since.IsZero() {
			add := Applied{Track: s.track(), Stands: Stand{through.To, now}}
			if err := l.mergeTrack(ctx, source, add); err != nil {
				return DeclaredGap{}, false, err
			}
		} else if now.Sub(was.Since) > kept+Slack && !found {
			found = true
			gap.Kind, gap.Shard = KindStream, s.ID
			gap.Reason = fmt.Sprintf("messages after number %d were not applied within %s, the retention of the subscription", through.To, kept)
		}
	}
	if gap.LostFrom = gap.LostFrom.Add(-Slack); !known || !found {
		gap.LostFrom = time.Time{}
	}
	return gap, found, nil
}

func (s *Shard) track() Track { return Track{s.Generation, s.Label, s.ID} }

// stand returns the Stand recorded for the shard's generation; zero if there is none.
func (s *Shard) stand(merged []Applied) Stand {
	i := slices.IndexFunc(merged, func(m Applied) bool { return m.Track == s.track() })
	if i < 0 {
		return Stand{}
	}
	return merged[i].Stands
}

// HoldBack filters rows that Removable returned. A parent must come before its children. It drops
// shards with messages that are not known to be applied, and their descendants. Without a shard's
// row, missing messages would not be noticed.
func HoldBack(removable []Shard, table TableState, merged []Applied) []Shard {
	held := map[Track]bool{}
	for _, s := range Unapplied(table, removable, merged) {
		held[Track{Label: s.Label, Shard: s.ID}] = true
	}
	var out []Shard
	for _, s := range removable {
		if held[Track{Label: s.Label, Shard: s.ID}] || held[Track{Label: s.Label, Shard: s.Parent}] {
			held[Track{Label: s.Label, Shard: s.ID}] = true
			continue
		}
		out = append(out, s)
	}
	return out
}

// ForgetMerged removes the merged rows of shards that no longer have rows. The argument `merged`
// must have been read before the shards.
func (l *Ledger) ForgetMerged(ctx context.Context, source string, merged []Applied, shards []Shard) error {
	for _, m := range merged {
		if slices.ContainsFunc(shards, func(s Shard) bool { return s.Label == m.Label && s.ID == m.Shard }) {
			continue
		}
		row, found, err := readRow(ctx, l.store, l.mergedKey(source, m.Track))
		if err != nil {
			return err
		}
		if found {
			if _, err := l.swap(ctx, l.store, row.Key, row.Counter, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Ledger) mergedKey(source string, t Track) string {
	return l.mergedPrefix(source) + t.Label + "/" + t.Shard
}
