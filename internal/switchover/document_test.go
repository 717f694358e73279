package switchover

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	expected "github.com/dynamodb-bigtable/replicator/internal/forecast"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded returns a record in which each member that a document may show has its own value.
func recorded(step checkpoint.CutoverStep) checkpoint.Cutover {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute-60) * time.Minute) }
	return checkpoint.Cutover{
		CutoverPlan: checkpoint.CutoverPlan{Group: "shop", Tables: []string{"Orders", "Items", "Former"}, KeepFallback: true, Approved: true, WatchFor: 3 * time.Hour, Tries: 4,
			MomentUntil: at(1), NotBefore: at(2), Expires: at(3)},
		Attempt: 7, Step: step, BegunAt: at(4), StepAt: at(45), FreezeBegunAt: at(6), FrozenAt: at(7), UnfrozenAt: at(8), GoneAt: at(9), FencedAt: at(10), SwitchedAt: at(11), EndedAt: at(12), FinalizedAt: at(13),
		Reason: "the reason", Trouble: "the trouble", MomentAt: at(14), WaitsUntil: at(15), WatchedTo: at(16), Quiet: true,
		GivenUp:   []checkpoint.CutoverTry{{Attempt: 5, Reason: "busy", FreezeBegunAt: at(17), FrozenAt: at(18), UnfrozenAt: at(19)}, {Attempt: 6, Reason: "slow"}},
		Unwatched: []checkpoint.CutoverUnwatched{{From: at(20), Until: at(21), Why: "nobody read"}, {From: at(22), Until: at(23), Why: "away"}},
		Gates: []checkpoint.CutoverGate{{Name: readiness.GateCopy, Table: "Orders", Ready: true, Figure: "done"}, {Name: readiness.GateCopy, Table: "Items", Ready: true, Figure: "done too"},
			{Name: readiness.GateLag, Table: "Orders", Figure: "held 1s", Cure: "replicator status"}, {Name: readiness.GateLag, Table: "Items", Figure: "held 2s", Cure: "replicator status --shards"},
			{Name: readiness.GateVerify, Table: "Orders", Ready: true, Figure: "clean"}, {Name: readiness.GateVerify, Table: "Items", Figure: "never", Cure: "replicator verify"},
			{Name: readiness.GateFull, Table: "Orders", Ready: true, Figure: "clean in full"}, {Name: readiness.GateParked, Table: "Items", Figure: "3", Overridden: "known", Cure: "replicator parked list"},
			{Name: readiness.GateHeadroom, Table: "Items", Ready: true, Figure: "23h"}, {Name: readiness.GateFence, Table: "Orders", Figure: "withheld", Cure: "grant it"}},
		Timeline: []checkpoint.CutoverEvent{{At: at(24), Step: "requested", Text: "requested by ops-1", By: "ann@host"}, {At: at(25), Step: "drain", Text: "applying"}},
		Hooks: []checkpoint.CutoverHook{{Name: "freeze_writes", Token: "7.3.1", Began: at(26), Ended: at(26).Add(2 * time.Second), Outcome: "quiet", Output: "one\ntwo"},
			{Name: "switch", Token: "7.7.2", Began: at(28), Ended: at(28).Add(5 * time.Second), Outcome: "done"}},
		Proofs: []checkpoint.CutoverProof{{Table: "Orders", Shard: "s1", How: "a canary", Position: "5"}, {Table: "Items", Shard: "s2", How: "empty pages"}},
		Strays: 9, StraysSeen: 4, Stragglers: []checkpoint.CutoverStraggler{{Table: "Orders", Key: "k1", At: at(30)}, {Table: "Items", Key: "k2", At: at(31), Tail: true}, {Table: "Orders", Key: "k3", At: at(32)},
			{Table: "Orders", Key: "k4", At: at(33)}, {Table: "Orders", Key: "k5", At: at(34)}, {Table: "Orders", Key: "k6", At: at(35)}},
	}
}

// The documents and texts of cutovers at several steps, as they are. After a change, review the
// files of testdata.
func TestDocumentsAsTheyAre(t *testing.T) {
	cfg := parsed(t, "dual_writes: { settle: 1m }\ncutover: { ready_when: { lag_below: 4s, lag_held_for: 11m, verify_clean_within: 3h, parked_items_at_most: 2, retention_headroom_above: 10h } }\n")
	some := group{Group: config.Group{Name: "of the configuration"}}
	foretold := &forecast{plan: checkpoint.CutoverPlan{UnlessQuiet: time.Minute}, shards: 3}
	foretold.Forecast = expected.Forecast{Freeze: 9 * time.Second, Wait: 70 * time.Second, Measured: true}
	back := []WayBack{{"Orders", true, nil}, {"Items", false, []string{"types", "keys"}}}
	change := func(step checkpoint.CutoverStep, f func(c *checkpoint.Cutover)) checkpoint.Cutover {
		c := recorded(step)
		f(&c)
		return c
	}
	for name, in := range map[string]input{
		"watching": {group: some, record: recorded(checkpoint.CutoverWatching), driver: "w-1", idle: 2},
		"done": {group: group{alone: true}, record: change(checkpoint.CutoverDone, func(c *checkpoint.Cutover) {
			c.Gates, c.Reason, c.Trouble, c.Unwatched, c.GivenUp, c.Quiet, c.Tries, c.Stragglers = nil, "", "", nil, nil, false, 0, c.Stragglers[:1]
		})},
		"rehearsed": {group: some, record: change(checkpoint.CutoverRehearsed, func(c *checkpoint.Cutover) {
			c.Rehearse, c.Reason, c.Trouble, c.FreezeBegunAt, c.FrozenAt, c.UnfrozenAt, c.SwitchedAt, c.Strays, c.Stragglers, c.Hooks, c.Timeline[1].At = true, "", "", time.Time{}, time.Time{}, time.Time{}, time.Time{}, 0, nil, nil, c.EndedAt.Add(-7*time.Second)
		}), forecast: foretold, wayBack: back},
		"requested": {group: some, record: change(checkpoint.CutoverRequested, func(c *checkpoint.Cutover) {
			*c = checkpoint.Cutover{CutoverPlan: c.CutoverPlan, Attempt: 1, Step: c.Step, StepAt: c.StepAt, MayBeQuiet: true}
			c.Approved = false
		}), driver: "w-2"},
		"none": {group: some, gates: recorded("").Gates, forecast: foretold, wayBack: back},
	} {
		in.cfg, in.tables, in.with = cfg, cfg.Tables, " -c f"
		if in.gates == nil {
			in.gates = in.record.Gates
		}
		d := judge(in, noon)
		content, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := d.render(&text, true); err != nil {
			t.Fatal(err)
		}
		got := string(content) + "\n\n" + text.String()
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
