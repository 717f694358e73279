package status

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// A message in the dead letter keeps a table from being in sync, even if everything published is
// applied. The lag is known before anything is applied.
func TestFromTopic(t *testing.T) {
	now := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	shard := checkpoint.Shard{ID: "s", Label: "l", Generation: 1, Apply: checkpoint.Topic, Applied: 3, State: checkpoint.Reading, CaughtUp: true, ReadAt: now, AppliedTo: now}
	state := checkpoint.TableState{Apply: checkpoint.Topic, Generation: 1, Adopted: 1, Listed: 1, Label: "l", AdoptedAt: now.Add(-time.Hour),
		Load: checkpoint.Load{Generation: 1, DoneAt: now.Add(-time.Hour)}}
	applied := func(to uint64) []checkpoint.Applied {
		return []checkpoint.Applied{{Track: checkpoint.Track{Generation: 1, Label: "l", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: to, At: now.Add(-time.Minute)}}}}
	}
	for name, c := range map[string]struct {
		merged []checkpoint.Applied
		dead   int
		phase  string
		behind uint64
		lag    float64
	}{
		"all is applied":             {applied(3), 0, PhaseInSync, 0, 0},
		"something is not":           {applied(2), 0, PhaseCopy, 1, 60},
		"nothing is":                 {nil, 0, PhaseCopy, 3, 3600},
		"one is in the dead letter":  {applied(3), 1, PhaseCopy, 0, 0},
		"several, and one is behind": {applied(2), 5, PhaseCopy, 1, 60},
	} {
		l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders"}}, Inputs: []TableInput{{Found: true, State: state, Shards: []checkpoint.Shard{shard}, Merged: c.merged,
			Dead: checkpoint.DeadLetter{Messages: c.dead, Since: now}}}}
		table := l.Judge(nothingSet, "", now).Tables[0]
		if table.Phase != c.phase || *table.Behind != c.behind || *table.TopicLag != c.lag || table.DeadLetter != c.dead {
			t.Errorf("%s: %s, behind %d, %g s, %d dead", name, table.Phase, *table.Behind, *table.TopicLag, table.DeadLetter)
		}
		if told := len(table.Troubles) == 1 && strings.Contains(table.Troubles[0].Cause, "in the dead-letter topic"); told != (c.dead > 0) {
			t.Errorf("%s: troubles %+v", name, table.Troubles)
		}
	}
}
