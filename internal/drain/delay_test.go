package drain

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// How long a freeze lasts at least is a matter of the shards alone that have ended and whose children
// may be listed late: the youngest counts, and the longest where a listing is overdue, or where the
// time of an end is not known.
func TestTheForeseeableLengthOfAFreeze(t *testing.T) {
	const bound = 2 * time.Minute
	now := kit.Begin
	ended := func(id string, ago time.Duration, change func(sh *checkpoint.Shard)) checkpoint.Shard {
		sh := kit.DoneShard(id, "", false)
		sh.Label, sh.DoneAt = "", now.Add(-ago)
		if change != nil {
			change(&sh)
		}
		return sh
	}
	for name, c := range map[string]struct {
		shards []checkpoint.Shard
		want   time.Duration
		shard  string
	}{
		"none":              {nil, 0, ""},
		"read":              {[]checkpoint.Shard{ended("a", 0, func(sh *checkpoint.Shard) { sh.State = checkpoint.Reading })}, 0, ""},
		"just ended":        {[]checkpoint.Shard{ended("a", 0, nil)}, bound + listingTakes, "a"},
		"in the future":     {[]checkpoint.Shard{ended("a", -time.Hour, nil)}, bound + listingTakes, "a"},
		"a while ago":       {[]checkpoint.Shard{ended("a", 100*time.Second, nil)}, 20*time.Second + listingTakes, "a"},
		"the youngest":      {[]checkpoint.Shard{ended("a", 100*time.Second, nil), ended("b", 30*time.Second, nil), ended("c", 110*time.Second, nil)}, 90*time.Second + listingTakes, "b"},
		"overdue":           {[]checkpoint.Shard{ended("a", time.Hour, nil)}, bound + listingTakes, "a"},
		"no time":           {[]checkpoint.Shard{ended("a", 0, func(sh *checkpoint.Shard) { sh.DoneAt = time.Time{} })}, bound + listingTakes, "a"},
		"complete":          {[]checkpoint.Shard{ended("a", 0, func(sh *checkpoint.Shard) { sh.Complete = true })}, 0, ""},
		"settles":           {[]checkpoint.Shard{ended("a", 0, func(sh *checkpoint.Shard) { sh.State, sh.EndedAt = checkpoint.Reading, now.Add(-110*time.Second) })}, 10*time.Second + listingTakes, "a"},
		"of another stream": {[]checkpoint.Shard{ended("a", 0, func(sh *checkpoint.Shard) { sh.Label = "other" })}, 0, ""},
		"a gap":             {[]checkpoint.Shard{ended("a", 0, func(sh *checkpoint.Shard) { sh.State = checkpoint.Gap })}, 0, ""},
	} {
		if got := Foreseen(readiness.Figures{Shards: c.shards}, bound, now); got != (Delay{c.want, c.shard}) {
			t.Errorf("%s: %+v, want %s for %q", name, got, c.want, c.shard)
		}
	}
}

// Of several shards that end alike the first one is named, whatever the order in which they are
// read.
func TestWhichShardADelayNames(t *testing.T) {
	now := kit.Begin
	for range 20 {
		var shards []checkpoint.Shard
		for _, id := range []string{"d", "b", "a", "c"} {
			sh := kit.DoneShard(id, "", false)
			sh.Label, sh.DoneAt = "", now.Add(-time.Minute-listingTakes)
			shards = append(shards, sh)
		}
		if got := Foreseen(readiness.Figures{Shards: shards}, 2*time.Minute, now); got != (Delay{time.Minute, "a"}) {
			t.Fatalf("%+v", got)
		}
	}
}
