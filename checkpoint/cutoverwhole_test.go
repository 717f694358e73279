package checkpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// asText is a record as the ledger stores it.
func asText(t *testing.T, c checkpoint.Cutover) string {
	t.Helper()
	text, err := json.MarshalIndent(c, "", " ")
	check(t, err)
	return string(text)
}

// filled is a record of an attempt in which no member is empty.
func filled(step checkpoint.CutoverStep) checkpoint.Cutover {
	at := func(minute int) time.Time { return cutoverBegan.Add(time.Duration(minute) * time.Minute) }
	return checkpoint.Cutover{
		CutoverPlan: checkpoint.CutoverPlan{Group: "g", Patterns: []string{"p"}, Tables: []string{"Orders"}, Targets: []string{"orders"}, Hash: "h", Tries: 3, WatchFor: time.Hour, FreezeWithin: time.Minute, FreezeDeadline: 4 * time.Minute, Approved: true},
		Attempt:     4, Step: step, BegunAt: at(1), StepAt: at(2), FreezeBegunAt: at(3), FrozenAt: at(4), UnfrozenAt: at(5), Quiet: true, MayBeQuiet: true, Deadline: at(6), GoneAt: at(7), FencedAt: at(8),
		SwitchedAt: at(9), EndedAt: at(10), FinalizedAt: at(11), Reason: "r", Trouble: "t", Answer: "no", MomentAt: at(12), WaitsUntil: at(13), NoMoment: true, GivenUp: []checkpoint.CutoverTry{{Attempt: 3, Reason: "slow"}},
		NextTry: true, RaiseAgain: true, Uncovered: true, Measured: 9 * time.Second, Calls: 8, CallsBefore: 7, Canaries: true, Candidates: map[string]int{"Orders": 5}, Parked: map[string][]string{"Orders": {"x"}},
		Unmapped: map[string]int64{"Orders": 2}, WatchedTo: at(14), Unwatched: []checkpoint.CutoverUnwatched{{Why: "away"}}, Raised: map[string]uint64{"orders": 7}, Fences: map[string]uint64{"orders": 8},
		Verified: map[string]checkpoint.VerifyResult{"Orders": {Number: 2}}, Finals: map[string]uint32{"Orders": 2}, Gates: []checkpoint.CutoverGate{{Name: "lag"}}, Proofs: []checkpoint.CutoverProof{{Shard: "s"}},
		Hooks: []checkpoint.CutoverHook{{Name: "switch"}}, Timeline: []checkpoint.CutoverEvent{{At: at(1), Step: "drain", Text: "x"}}, Stragglers: []checkpoint.CutoverStraggler{{Key: "k"}}, Strays: 1, StraysSeen: 1,
	}
}

// What each change makes of a record in which nothing is empty: it keeps everything that it does
// not change, and forgets what belongs to the former attempt, try or step.
func TestTheWholeRecordAfterEachChange(t *testing.T) {
	now := cutoverBegan.Add(time.Hour)
	zone := time.FixedZone("CET", 3600)
	enters := func(c *checkpoint.Cutover, step checkpoint.CutoverStep, text string) {
		c.Step, c.StepAt, c.Trouble, c.MomentAt = step, now, "", time.Time{}
		c.Timeline = append(slices.Clone(c.Timeline), checkpoint.CutoverEvent{At: now, Step: string(step), Text: text})
	}
	notes := func(c *checkpoint.Cutover, text string) {
		c.Timeline = append(slices.Clone(c.Timeline), checkpoint.CutoverEvent{At: now, Step: string(c.Step), Text: text})
	}
	plan := checkpoint.CutoverPlan{Group: "new", Tables: []string{"Orders"}, Targets: []string{"orders"}, By: "ops", After: 6}
	steps := map[checkpoint.CutoverStep]string{checkpoint.CutoverChecks: "checking the gates", checkpoint.CutoverDrain: "applying the last changes", checkpoint.CutoverVerify: "comparing source and target", checkpoint.CutoverFence: "waiting until no process writes any more"}
	for name, c := range map[string]struct {
		from   checkpoint.CutoverStep
		before func(c *checkpoint.Cutover) // nil: nothing is empty
		change func(c *checkpoint.Cutover) error
		want   func(c *checkpoint.Cutover)
	}{
		"start": {checkpoint.CutoverCancelled, nil, func(c *checkpoint.Cutover) error { return c.Start(plan, now.In(zone)) }, func(c *checkpoint.Cutover) {
			*c = checkpoint.Cutover{CutoverPlan: plan, Attempt: 7, BegunAt: now, Canaries: true, Candidates: c.Candidates, Measured: c.Measured}
			enters(c, checkpoint.CutoverRequested, "requested by ops")
		}},
		"start after the own attempt": {checkpoint.CutoverRehearsed, func(c *checkpoint.Cutover) { c.Attempt = 9 }, func(c *checkpoint.Cutover) error { return c.Start(plan, now) }, func(c *checkpoint.Cutover) {
			*c = checkpoint.Cutover{CutoverPlan: plan, Attempt: 10, BegunAt: now, Canaries: true, Candidates: c.Candidates, Measured: c.Measured}
			enters(c, checkpoint.CutoverRequested, "requested by ops")
		}},
		"again": {checkpoint.CutoverCancelling, func(c *checkpoint.Cutover) { c.RaiseAgain, c.Fences = false, nil }, func(c *checkpoint.Cutover) error { return c.Again(now.In(zone)) }, func(c *checkpoint.Cutover) {
			*c = checkpoint.Cutover{CutoverPlan: c.CutoverPlan, Attempt: 5, BegunAt: c.BegunAt, Canaries: true, Candidates: c.Candidates, Measured: c.Measured, WaitsUntil: c.WaitsUntil, Raised: c.Raised, Hooks: c.Hooks,
				Timeline: c.Timeline, GivenUp: c.GivenUp, MayBeQuiet: true}
			enters(c, checkpoint.CutoverRequested, "try 2 of 3 begins")
		}},
		"await": {checkpoint.CutoverChecks, nil, func(c *checkpoint.Cutover) error { return c.Await(now.In(zone), "gate lag") }, func(c *checkpoint.Cutover) {
			enters(c, checkpoint.CutoverRequested, "waiting again: gate lag")
		}},
		"await a moment": {checkpoint.CutoverChecks, func(c *checkpoint.Cutover) {
			c.WaitsUntil, c.MomentWithin, c.NoMoment = time.Time{}, time.Minute, false
		}, func(c *checkpoint.Cutover) error { return c.AwaitMoment(now, now.Add(time.Second).In(zone), "why") }, func(c *checkpoint.Cutover) {
			c.Trouble, c.MomentAt, c.WaitsUntil = "why", now.Add(time.Second), now.Add(time.Minute)
		}},
		"await a moment until a time": {checkpoint.CutoverChecks, func(c *checkpoint.Cutover) {
			c.WaitsUntil, c.MomentWithin, c.MomentUntil, c.NoMoment = time.Time{}, time.Minute, now.Add(time.Hour), false
		}, func(c *checkpoint.Cutover) error { return c.AwaitMoment(now, time.Time{}, "why") }, func(c *checkpoint.Cutover) {
			c.Trouble, c.MomentAt, c.WaitsUntil = "why", time.Time{}, now.Add(time.Hour)
		}},
		"await a moment for longer": {checkpoint.CutoverChecks, func(c *checkpoint.Cutover) { c.WaitsUntil, c.MomentWithin, c.NoMoment = now, time.Minute, false }, func(c *checkpoint.Cutover) error { return c.AwaitMoment(now, time.Time{}, "why") }, func(c *checkpoint.Cutover) {
			c.Trouble, c.MomentAt = "why", time.Time{}
		}},
		"a moment has passed": {checkpoint.CutoverFreeze, func(c *checkpoint.Cutover) { c.FrozenAt = time.Time{} }, func(c *checkpoint.Cutover) error { return c.MomentPassed(now.In(zone), "why") }, func(c *checkpoint.Cutover) {
			c.FreezeBegunAt, c.Deadline = time.Time{}, time.Time{}
			enters(c, checkpoint.CutoverChecks, "waiting again: why")
		}},
		"to the freeze": {checkpoint.CutoverChecks, nil, func(c *checkpoint.Cutover) error { return c.Advance(now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.FreezeBegunAt, c.CallsBefore, c.Deadline = now, 8, now.Add(5*time.Minute)
			enters(c, checkpoint.CutoverFreeze, "stopping the application's writes")
		}},
		"to the switch": {checkpoint.CutoverFence, nil, func(c *checkpoint.Cutover) error { return c.Advance(now) }, func(c *checkpoint.Cutover) {
			c.Measured = 56 * time.Minute
			enters(c, checkpoint.CutoverSwitching, "switching the application; no cancel from here on")
		}},
		"to the end of a rehearsal": {checkpoint.CutoverFence, func(c *checkpoint.Cutover) { c.Rehearse = true }, func(c *checkpoint.Cutover) error { return c.Advance(now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.EndedAt, c.Measured = now, 59*time.Minute
			enters(c, checkpoint.CutoverRehearsed, "the rehearsal is complete")
		}},
		"frozen": {checkpoint.CutoverFreeze, func(c *checkpoint.Cutover) { c.FrozenAt, c.Quiet, c.MayBeQuiet = time.Time{}, false, false }, func(c *checkpoint.Cutover) error { return c.Frozen(now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.FrozenAt = now
		}},
		"frozen and quiet": {checkpoint.CutoverFreeze, func(c *checkpoint.Cutover) {
			c.FrozenAt, c.Quiet, c.MayBeQuiet, c.Deadline, c.Hooks = time.Time{}, false, false, now.Add(1), []checkpoint.CutoverHook{{Outcome: "done"}, {Outcome: "quiet", Token: "4.3.8"}}
		}, func(c *checkpoint.Cutover) error { return c.Frozen(now) }, func(c *checkpoint.Cutover) {
			c.FrozenAt, c.Quiet, c.MayBeQuiet = now, true, true
			notes(c, "the application promised that its own writes to Bigtable have ended")
		}},
		"give up": {checkpoint.CutoverDrain, func(c *checkpoint.Cutover) { c.NextTry, c.RaiseAgain = false, true }, func(c *checkpoint.Cutover) error { return c.GiveUp("busy", checkpoint.CureWait, now) }, func(c *checkpoint.Cutover) {
			c.GivenUp = append(slices.Clone(c.GivenUp), checkpoint.CutoverTry{Attempt: 4, Reason: "busy", FreezeBegunAt: c.FreezeBegunAt, FrozenAt: c.FrozenAt})
			c.NextTry, c.RaiseAgain, c.Reason = true, false, "busy"
			enters(c, checkpoint.CutoverCancelling, "try 2 of 3 is abandoned: busy")
		}},
		"give up for the last time": {checkpoint.CutoverDrain, func(c *checkpoint.Cutover) { c.Tries = 2 }, func(c *checkpoint.Cutover) error { return c.GiveUp("busy", checkpoint.CureRaise, now) }, func(c *checkpoint.Cutover) {
			c.GivenUp = append(slices.Clone(c.GivenUp), checkpoint.CutoverTry{Attempt: 4, Reason: "busy", FreezeBegunAt: c.FreezeBegunAt, FrozenAt: c.FrozenAt})
			c.NextTry, c.Reason = false, "try 1: slow; try 2: busy"
			enters(c, checkpoint.CutoverCancelling, "cancelled: try 1: slow; try 2: busy")
		}},
		"cancel a try": {checkpoint.CutoverCancelling, nil, func(c *checkpoint.Cutover) error { return c.Cancel("stop", now) }, func(c *checkpoint.Cutover) {
			c.NextTry, c.Reason = false, "stop"
			notes(c, "cancelled: stop")
		}},
		"cancel early": {checkpoint.CutoverChecks, func(c *checkpoint.Cutover) { c.FreezeBegunAt = time.Time{} }, func(c *checkpoint.Cutover) error { return c.Cancel("stop", now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.Reason, c.EndedAt = "stop", now
			enters(c, checkpoint.CutoverCancelled, "cancelled: stop")
		}},
		"cancel late": {checkpoint.CutoverFence, nil, func(c *checkpoint.Cutover) error { return c.Cancel("stop", now) }, func(c *checkpoint.Cutover) {
			c.Reason = "stop"
			enters(c, checkpoint.CutoverCancelling, "cancelled: stop")
		}},
		"switch": {checkpoint.CutoverSwitching, nil, func(c *checkpoint.Cutover) error { return c.Switch(true, "the hook", now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.SwitchedAt = now
			enters(c, checkpoint.CutoverWatching, "switched, according to the hook")
		}},
		"switch not": {checkpoint.CutoverSwitching, nil, func(c *checkpoint.Cutover) error { return c.Switch(false, "an operator", now) }, func(c *checkpoint.Cutover) {
			c.Reason = "not switched, according to an operator"
			enters(c, checkpoint.CutoverCancelling, "cancelled: not switched, according to an operator")
		}},
		"resolve": {checkpoint.CutoverSwitching, nil, func(c *checkpoint.Cutover) error { return c.Resolve(true, now) }, func(c *checkpoint.Cutover) {
			c.Answer = "yes"
			notes(c, "an operator answered whether the application has switched: yes")
		}},
		"unfrozen": {checkpoint.CutoverCancelling, func(c *checkpoint.Cutover) { c.UnfrozenAt, c.GivenUp[0].Attempt = time.Time{}, 4 }, func(c *checkpoint.Cutover) error { return c.Unfrozen(now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.UnfrozenAt, c.GivenUp = now, []checkpoint.CutoverTry{{Attempt: 4, Reason: "slow", UnfrozenAt: now}}
			notes(c, "the application writes again")
		}},
		"unfrozen after a try of another attempt": {checkpoint.CutoverCancelling, func(c *checkpoint.Cutover) { c.UnfrozenAt = time.Time{} }, func(c *checkpoint.Cutover) error { return c.Unfrozen(now) }, func(c *checkpoint.Cutover) {
			c.UnfrozenAt = now
			notes(c, "the application writes again")
		}},
		"cancelled": {checkpoint.CutoverCancelling, nil, func(c *checkpoint.Cutover) error { return c.Cancelled(now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.EndedAt = now
			enters(c, checkpoint.CutoverCancelled, "the tables resume")
		}},
		"finalized": {checkpoint.CutoverDone, func(c *checkpoint.Cutover) { c.FinalizedAt = time.Time{} }, func(c *checkpoint.Cutover) error { return c.Finalized(now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.FinalizedAt = now
			notes(c, "replicator's metadata was removed from the targets")
		}},
		"approve": {checkpoint.CutoverRequested, func(c *checkpoint.Cutover) { c.Approved = false }, func(c *checkpoint.Cutover) error { return c.Approve(now) }, func(c *checkpoint.Cutover) {
			c.Approved = true
			notes(c, "approved")
		}},
		"postpone": {checkpoint.CutoverRequested, func(c *checkpoint.Cutover) { c.Expires = now.Add(time.Minute) }, func(c *checkpoint.Cutover) error { return c.Postpone(time.Hour, now.In(zone)) }, func(c *checkpoint.Cutover) {
			c.NotBefore, c.Expires = now.Add(time.Hour), now.Add(time.Hour+time.Minute)
			notes(c, "postponed by 1h0m0s")
		}},
		"sign": {checkpoint.CutoverDone, nil, func(c *checkpoint.Cutover) error { c.Sign("ann"); return nil }, func(c *checkpoint.Cutover) {
			c.Timeline = []checkpoint.CutoverEvent{{At: c.Timeline[0].At, Step: "drain", Text: "x", By: "ann"}}
		}},
	} {
		record := filled(c.from)
		if c.before != nil {
			c.before(&record)
		}
		want, shared := record, record // a change must not write into what a reader shares
		sharedText := asText(t, shared)
		c.want(&want)
		if err := c.change(&record); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(asText(t, want), asText(t, record)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if after := asText(t, shared); after != sharedText {
			t.Errorf("%s changes a copy of the record: %s", name, cmp.Diff(sharedText, after))
		}
	}
	for from, to := range map[checkpoint.CutoverStep]checkpoint.CutoverStep{checkpoint.CutoverRequested: checkpoint.CutoverChecks, checkpoint.CutoverFreeze: checkpoint.CutoverDrain, checkpoint.CutoverDrain: checkpoint.CutoverVerify, checkpoint.CutoverVerify: checkpoint.CutoverFence} {
		record := filled(from)
		want := record
		enters(&want, to, steps[to])
		check(t, record.Advance(now.In(zone)))
		if diff := cmp.Diff(asText(t, want), asText(t, record)); diff != "" {
			t.Errorf("from %s: %s", from, diff)
		}
	}
}

// Which steps ask the writers often, which forbid them to write, and during which the application
// is frozen.
func TestWhatAStepAsksOfWriters(t *testing.T) {
	var asks, hands, frozen []string
	for _, step := range everyStep {
		if step.AsksWriters() {
			asks = append(asks, string(step))
		}
		if step.HandsOver() {
			hands = append(hands, string(step))
		}
		if _, is := (&checkpoint.Cutover{Step: step, FreezeBegunAt: cutoverBegan}).FrozenSince(); is {
			frozen = append(frozen, string(step))
		}
	}
	if got := strings.Join(asks, " "); got != "checks freeze drain verify fence cancelling" {
		t.Errorf("asked at %s", got)
	}
	if got := strings.Join(hands, " "); got != "fence switching watching done" {
		t.Errorf("no writes at %s", got)
	}
	if got := strings.Join(frozen, " "); got != "requested checks freeze drain verify fence switching watching cancelling" {
		t.Errorf("frozen at %s", got)
	}
	for name, c := range map[string]checkpoint.Cutover{"not begun": {}, "unfrozen": {FreezeBegunAt: cutoverBegan, UnfrozenAt: cutoverBegan}, "switched": {FreezeBegunAt: cutoverBegan, SwitchedAt: cutoverBegan}} {
		c.Step = checkpoint.CutoverCancelling
		if at, is := c.FrozenSince(); is || !at.Equal(c.FreezeBegunAt) {
			t.Errorf("%s: frozen since %v", name, at)
		}
	}
}

// How long a try may last by the plan, and if an open shard may receive no canary. The defaults are
// those of records that older versions wrote.
func TestTheLimitsOfATry(t *testing.T) {
	for name, c := range map[string]struct {
		record                                checkpoint.Cutover
		limit, foreseeable, longest, listedBy time.Duration
	}{
		"defaults":    {checkpoint.Cutover{}, 8 * time.Second, 8 * time.Second, 90 * time.Second, 2 * time.Minute},
		"of the plan": {checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{FreezeAtMost: 40 * time.Second, FreezeWithin: 5 * time.Second, ListingBound: time.Minute}}, 40 * time.Second, 40 * time.Second, 85 * time.Second, time.Minute},
		"a deadline":  {checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{FreezeDeadline: 7 * time.Second}}, 8 * time.Second, 8 * time.Second, 67 * time.Second, 2 * time.Minute},
		"uncovered":   {checkpoint.Cutover{Uncovered: true}, 33 * time.Second, 8 * time.Second, 126 * time.Second, 2 * time.Minute},
		"quiet":       {checkpoint.Cutover{Quiet: true, CutoverPlan: checkpoint.CutoverPlan{FreezeAtMost: 40 * time.Second, UnlessQuiet: 30 * time.Second}}, 10 * time.Second, 10 * time.Second, 90 * time.Second, 2 * time.Minute},
		"may be":      {checkpoint.Cutover{MayBeQuiet: true, CutoverPlan: checkpoint.CutoverPlan{FreezeAtMost: 40 * time.Second, UnlessQuiet: 30 * time.Second}}, 40 * time.Second, 10 * time.Second, 140 * time.Second, 2 * time.Minute},
		"begun":       {checkpoint.Cutover{FreezeBegunAt: cutoverBegan, Deadline: cutoverBegan.Add(77 * time.Second)}, 8 * time.Second, 8 * time.Second, 77 * time.Second, 2 * time.Minute},
	} {
		if r := c.record; r.Limit() != c.limit || r.Foreseeable() != c.foreseeable || r.LongestFreeze() != c.longest || r.ListedWithin() != c.listedBy {
			t.Errorf("%s: limit %s, foreseeable %s, longest %s, listed within %s", name, r.Limit(), r.Foreseeable(), r.LongestFreeze(), r.ListedWithin())
		}
	}
	for name, c := range map[string]struct{ first, unless, quiet, want bool }{"no": {false, false, false, false}, "always": {true, false, true, true}, "unless": {true, true, false, true}, "quiet": {true, true, true, false}, "never": {false, true, true, false}} {
		r := checkpoint.Cutover{Quiet: c.quiet, CutoverPlan: checkpoint.CutoverPlan{FenceFirst: c.first, FenceUnlessQuiet: c.unless}}
		if r.FencesFirst() != c.want {
			t.Errorf("%s: fences first %t", name, !c.want)
		}
	}
	if r := (checkpoint.Cutover{GivenUp: []checkpoint.CutoverTry{{Reason: "slow"}}}); r.Reasons() != "slow" || !r.Trying() || !r.AwaitsGates() || (&checkpoint.Cutover{}).AwaitsGates() {
		t.Errorf("%q", r.Reasons())
	}
}

// Two cutovers clash if they have a table, a target or a pattern in common. Which tables a cutover
// moves depends on whether its record names a group.
func TestWhichCutoversClash(t *testing.T) {
	c := checkpoint.Cutover{Attempt: 1, CutoverPlan: checkpoint.CutoverPlan{Group: "g", Tables: []string{"A", "B"}, Targets: []string{"a", "b"}, Patterns: []string{"P*"}}}
	for i, other := range []struct {
		plan checkpoint.CutoverPlan
		want bool
	}{
		{checkpoint.CutoverPlan{Tables: []string{"X", "B"}}, true}, {checkpoint.CutoverPlan{Targets: []string{"x", "b"}}, true}, {checkpoint.CutoverPlan{Patterns: []string{"X*", "P*"}}, true},
		{checkpoint.CutoverPlan{Tables: []string{"a"}, Targets: []string{"A"}, Patterns: []string{"B"}}, false}, {checkpoint.CutoverPlan{}, false},
	} {
		if c.Clashes(other.plan) != other.want {
			t.Errorf("plan %d clashes: %t", i, !other.want)
		}
	}
	former := checkpoint.Cutover{Attempt: 1, CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"A"}}} // of a version without groups
	for name, c := range map[string]struct{ got, want bool }{
		"its table": {c.Covers("B", ""), true}, "its pattern": {c.Covers("P1", "P*"), true}, "another pattern": {c.Covers("X1", "X*"), false}, "another table": {c.Covers("X", ""), false},
		"all patterns before groups": {former.Covers("X1", "X*"), true}, "no other table before groups": {former.Covers("X", ""), false},
		"nothing before an attempt":           {(&checkpoint.Cutover{}).Covers("X1", "X*"), false},
		"a group without tables moves none":   {(&checkpoint.Cutover{Attempt: 1, CutoverPlan: checkpoint.CutoverPlan{Group: "g"}}).Moves("A"), false},
		"a record without tables moves all":   {(&checkpoint.Cutover{Attempt: 1}).Moves("A"), true},
		"a record without attempt moves none": {(&checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"A"}}}).Moves("A"), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", name, c.got)
		}
	}
	if last := (checkpoint.Cutovers{{Attempt: 3}, {Attempt: 9}, {Attempt: 4}}).Last(); last != 9 || (checkpoint.Cutovers{}).Last() != 0 {
		t.Errorf("last attempt %d", last)
	}
}

// The record of a single group is where versions without groups look for it. The records of groups
// are beside it, each with its name, and no other row of the ledger is one.
func TestWhereTheRecordsAre(t *testing.T) {
	ctx := context.Background()
	store := &checkpointtest.Memory{}
	l := openOn(t, ctx, store, "w", lease)
	for _, row := range []string{"", "a", "b/c"} {
		_, err := l.UpdateCutover(ctx, row, func(c *checkpoint.Cutover) error { return c.Start(cutoverPlan(), cutoverBegan) })
		check(t, err)
	}
	_, err := store.Swap(ctx, "p/cutoverless", 0, 1, []byte("no record of a cutover"))
	check(t, err)
	rows, err := store.Read(ctx, "p/cutover")
	check(t, err)
	var keys, names []string
	for _, row := range rows {
		keys = append(keys, row.Key)
	}
	all, err := l.Cutovers(ctx)
	check(t, err)
	for _, c := range all {
		names = append(names, fmt.Sprintf("%q.%d", c.Row, c.Attempt))
	}
	if got := strings.Join(keys, " "); got != "p/cutover p/cutover/a p/cutover/b/c p/cutoverless" {
		t.Errorf("rows %s", got)
	}
	if got := strings.Join(names, " "); got != `"".1 "a".1 "b/c".1` {
		t.Errorf("records %s", got)
	}
	if one, two := checkpoint.CutoverLease(""), checkpoint.CutoverLease("a"); one != "/cutover" || two != "/cutover/a" {
		t.Errorf("leases %s and %s", one, two)
	}
}

// A process has said goodbye if it did so for this attempt of this group. Goodbyes of groups are
// kept side by side, and a record is written with the process and the time of its last write.
func TestGoodbyesAreOfAGroup(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		record := func() checkpoint.Writer {
			all, err := a.Writers(ctx)
			check(t, err)
			if len(all) != 1 {
				t.Fatalf("%d records", len(all))
			}
			return all[0]
		}
		_, err := a.EnterWriter(ctx, map[string]checkpoint.Writing{"t": {Number: 1}})
		check(t, err)
		began := task.Now(ctx)
		for _, said := range []struct {
			row     string
			attempt uint32
		}{{"x", 3}, {"y", 5}, {"x", 2}, {"", 4}, {"z", 0}} {
			check(t, task.Sleep(ctx, time.Minute))
			_, err = a.NoteWriter(ctx, said.row, said.attempt, nil)
			check(t, err)
		}
		w := record()
		if w.Goodbye != 4 || fmt.Sprint(w.Goodbyes) != "map[x:3 y:5]" || !w.At.Equal(began.Add(4*time.Minute)) {
			t.Errorf("goodbye %d, %v, at %v", w.Goodbye, w.Goodbyes, w.At)
		}
		for _, c := range []struct {
			row     string
			attempt uint32
			want    bool
		}{{"x", 3, true}, {"x", 2, false}, {"x", 4, false}, {"y", 5, true}, {"y", 3, false}, {"", 4, true}, {"", 3, false}, {"z", 1, false}} {
			if w.SaidGoodbye(checkpoint.Cutover{Row: c.row, Attempt: c.attempt}) != c.want {
				t.Errorf("attempt %d of %q: %t", c.attempt, c.row, !c.want)
			}
		}
		check(t, task.Sleep(ctx, time.Hour))
		check(t, a.RefreshWriter(ctx, map[string]checkpoint.Writing{"t": {Number: 9}, "u": {Number: 9}}))
		if w = record(); !w.At.Equal(task.Now(ctx)) || w.At.Location() != time.UTC || fmt.Sprint(w.Targets) != "map[t:{1 false 0 false}]" || w.Goodbye != 4 || len(w.Goodbyes) != 2 {
			t.Errorf("after an hour: %+v", w)
		}
	})
	all := checkpoint.Writing{Number: 5, Unfenced: true, Doubt: 4, UnfencedDoubt: true}
	for i, c := range []struct {
		w, other checkpoint.Writing
		want     bool
	}{
		{all, checkpoint.Writing{}, true}, {all, all, true}, {checkpoint.Writing{}, checkpoint.Writing{}, true}, {all, checkpoint.Writing{Number: 6}, false}, {all, checkpoint.Writing{Doubt: 5}, false},
		{checkpoint.Writing{Number: 5}, checkpoint.Writing{Number: 4}, true}, {checkpoint.Writing{Number: 5}, checkpoint.Writing{Unfenced: true}, false}, {checkpoint.Writing{Number: 5}, checkpoint.Writing{UnfencedDoubt: true}, false}, {checkpoint.Writing{Number: 5}, checkpoint.Writing{Number: 5, Doubt: 1}, false},
	} {
		if c.w.Covers(c.other) != c.want {
			t.Errorf("%d: covers %t", i, !c.want)
		}
	}
}
