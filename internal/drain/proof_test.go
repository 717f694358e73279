package drain

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// ready returns the figures of a table that is copied, with a shard that is read.
func ready() readiness.Figures {
	s, shard := kit.Copied()
	return readiness.Figures{Found: true, State: s, Shards: []checkpoint.Shard{shard}}
}

// A canary of this attempt alone proves a shard: it is committed once everything before it is
// applied and settled. So it does not matter who reads the shard, or whether it has ended since.
func TestHowAShardIsProved(t *testing.T) {
	s := 20 * time.Second
	for name, c := range map[string]struct {
		change func(sh *checkpoint.Shard)
		how    string
	}{
		"canary":               {func(sh *checkpoint.Shard) {}, "a canary"},
		"of another":           {func(sh *checkpoint.Shard) { sh.Sighted.Canary = 4 }, ""},
		"of before the freeze": {func(sh *checkpoint.Shard) { sh.Sighted = checkpoint.Sighted{}; sh.Sighted.See(5, 0) }, ""},
		"nobody reads":         {func(sh *checkpoint.Shard) { sh.Owner = "" }, "a canary"},
		"later ones settle":    {func(sh *checkpoint.Shard) { sh.Settling.Changes = 1 }, "a canary"},
		"it ended":             {func(sh *checkpoint.Shard) { sh.State, sh.Owner = checkpoint.Done, "" }, "a canary"},
		"waiting":              {func(sh *checkpoint.Shard) { sh.State = checkpoint.Waiting }, ""},
		"a gap":                {func(sh *checkpoint.Shard) { sh.State = checkpoint.Gap }, ""},
		"done without canary":  {func(sh *checkpoint.Shard) { sh.State, sh.Sighted = checkpoint.Done, checkpoint.Sighted{} }, ""},
	} {
		p := &Proof{quiet: map[string]*quietShard{}}
		sh := kit.SeenIn(ready().Shards[0], 3, 0)
		c.change(&sh)
		if got := p.how(checkpoint.Cutover{Attempt: 3}, ready(), &sh, s); got != c.how {
			t.Errorf("%s: %q, want %q", name, got, c.how)
		}
	}
}

// Empty pages of a shard count from the second read on that is known to be later than the last
// canary, by one reader, and at the tip; a rehearsal, in which the application writes, does not ask
// for the tip. What is not settled, or has ended, is not quiet.
func TestEmptyPagesOfAShard(t *testing.T) {
	s := 10 * time.Second
	for name, c := range map[string]struct {
		change   func(i int, sh *checkpoint.Shard)
		rehearse bool
		proved   int // the first look that proves it; 0: none of fifteen
	}{
		"idle":           {func(int, *checkpoint.Shard) {}, false, 12},
		"another reader": {func(i int, sh *checkpoint.Shard) { sh.Owner = []string{"a", "b"}[min(i/6, 1)] }, false, 0},
		"nobody":         {func(_ int, sh *checkpoint.Shard) { sh.Owner = "" }, false, 0},
		"it settles":     {func(_ int, sh *checkpoint.Shard) { sh.Settling.Changes = 1 }, false, 0},
		"it ended":       {func(_ int, sh *checkpoint.Shard) { sh.EndedAt = kit.Noon }, false, 0},
		"done":           {func(_ int, sh *checkpoint.Shard) { sh.State = checkpoint.Done }, false, 0},
		"behind":         {func(_ int, sh *checkpoint.Shard) { sh.CaughtUp = false }, false, 0},
		"rehearsed":      {func(_ int, sh *checkpoint.Shard) { sh.CaughtUp = false }, true, 12},
		"read seldom":    {func(i int, sh *checkpoint.Shard) { sh.ReadAt = kit.Noon.Add(time.Duration(i/2*4) * time.Second) }, false, 10},
		"not read":       {func(i int, sh *checkpoint.Shard) { sh.ReadAt = kit.Noon }, false, 0},
		"it moves":       {func(i int, sh *checkpoint.Shard) { sh.Position = cdc.SequenceOf(uint64(i)) }, false, 0},
	} {
		p, proved := &Proof{quiet: map[string]*quietShard{}}, 0
		for i := range 15 {
			sh := kit.ShardOf("s", "")
			sh.ReadAt = kit.Noon.Add(time.Duration(i) * time.Second)
			c.change(i, &sh)
			if how := p.how(checkpoint.Cutover{Attempt: 3, CutoverPlan: checkpoint.CutoverPlan{Rehearse: c.rehearse}}, ready(), &sh, s); how != "" && proved == 0 {
				proved = i
				if how != "empty pages for 10s after the last canary" {
					t.Errorf("%s: %s", name, how)
				}
			}
		}
		if proved != c.proved {
			t.Errorf("%s: proved at look %d, want %d", name, proved, c.proved)
		}
	}
}

// Empty pages count from the last canary on, whichever shard gave it. What is proved so stays proved
// when the shard ends.
func TestEmptyPagesCountFromTheLastCanary(t *testing.T) {
	p := &Proof{Written: []int{0, 1}, Unseen: 2}
	f := ready()
	f.Shards = []checkpoint.Shard{kit.SeenIn(kit.ShardOf("s", ""), 3, 0), kit.ShardOf("idle", "")}
	proved := 0
	look := func() string {
		_, waits := p.Prove(checkpoint.Cutover{Attempt: 3}, f, 10*time.Second)
		return waits
	}
	for i := range 40 {
		if i == 20 {
			f.Shards[0].Sighted.See(6, 1)
		}
		f.Shards[1].ReadAt = kit.Noon.Add(time.Duration(i) * time.Second)
		if look() == "" && proved == 0 {
			proved = i
		}
	}
	if proved != 20+12 {
		t.Errorf("proved at look %d", proved)
	}
	f.Shards[1] = kit.DoneShard("idle", "", false)
	if waits := look(); waits != "" {
		t.Errorf("it ended since, and %s", waits)
	}
}

// A lineage is closed from its roots on. A canary closes a shard with all that came of it. Of one
// that ended without a canary all children must be known, and closed. Nothing else closes a shard.
func TestH115_ALineageIsClosedFromItsRoots(t *testing.T) {
	canary := func(id, parent string) checkpoint.Shard { return kit.SeenIn(kit.ShardOf(id, parent), 3, 0) }
	gap := func(id, parent string, generation uint32) checkpoint.Shard {
		sh := kit.DoneShard(id, parent, false)
		sh.State, sh.Generation = checkpoint.Gap, generation
		return sh
	}
	waiting := func(id, parent string) checkpoint.Shard {
		sh := kit.DoneShard(id, parent, false)
		sh.State, sh.Position = checkpoint.Waiting, cdc.SequenceNumber{}
		return sh
	}
	for name, c := range map[string]struct {
		shards []checkpoint.Shard
		waits  string
		proofs int
	}{
		"one leaf":                              {[]checkpoint.Shard{canary("a", "")}, "", 1},
		"it ended after its canary":             {[]checkpoint.Shard{kit.SeenIn(kit.DoneShard("a", "", false), 3, 0), waiting("b", "a")}, "", 1},
		"canaries in the children":              {[]checkpoint.Shard{kit.DoneShard("a", "", true), canary("b", "a"), canary("c", "a")}, "", 2},
		"a child may be listed late":            {[]checkpoint.Shard{kit.DoneShard("a", "", false), canary("b", "a")}, "shard a has ended, and its children may be listed late", 0},
		"no canary in one child":                {[]checkpoint.Shard{kit.DoneShard("a", "", true), canary("b", "a"), kit.ShardOf("c", "a")}, "1 of its shards may still hold changes that are not applied; the first is c", 0},
		"a child is not read":                   {[]checkpoint.Shard{canary("x", ""), kit.DoneShard("a", "", true), waiting("b", "a")}, "1 of its shards may still hold changes that are not applied; the first is b", 0},
		"a grandchild may be listed late":       {[]checkpoint.Shard{kit.DoneShard("a", "", true), canary("b", "a"), kit.DoneShard("c", "a", false)}, "shard c has ended, and its children may be listed late", 0},
		"a former gap":                          {[]checkpoint.Shard{gap("a", "", 4), canary("b", "")}, "", 1},
		"what follows a former gap":             {[]checkpoint.Shard{gap("a", "", 4), kit.ShardOf("b", "a"), canary("c", "")}, "1 of its shards may still hold changes that are not applied; the first is b", 0},
		"a former gap among children":           {[]checkpoint.Shard{kit.DoneShard("a", "", true), gap("b", "a", 4), canary("c", "a")}, "", 1},
		"a gap":                                 {[]checkpoint.Shard{canary("x", ""), gap("a", "", 5)}, "1 of its shards may still hold changes that are not applied; the first is a", 0},
		"a whole lineage that ended":            {[]checkpoint.Shard{canary("x", ""), kit.DoneShard("a", "", true), kit.DoneShard("b", "a", true)}, "", 2},
		"the parent's row is removed":           {[]checkpoint.Shard{canary("b", "removed")}, "", 1},
		"a shard of another stream":             {[]checkpoint.Shard{canary("a", ""), {ID: "former", Label: "former", State: checkpoint.Reading}}, "", 1},
		"its children are read, it is not":      {[]checkpoint.Shard{kit.ShardOf("a", ""), canary("b", "a")}, "1 of its shards may still hold changes that are not applied; the first is a", 0},
		"canaries of an earlier attempt":        {[]checkpoint.Shard{kit.SeenIn(kit.ShardOf("a", ""), 2, 0)}, "1 of 1 canaries are not read yet", 0},
		"a canary is in no shard that is known": {[]checkpoint.Shard{kit.SeenIn(kit.ShardOf("a", ""), 3, 1)}, "1 of 1 canaries are not read yet", 0},
	} {
		f := ready()
		f.Shards = c.shards
		p := &Proof{Written: []int{0}, Unseen: 1}
		proofs, waits := p.Prove(checkpoint.Cutover{Attempt: 3}, f, 20*time.Second)
		if waits != c.waits || len(proofs) != c.proofs {
			t.Errorf("%s: it waits for %q with %d proofs %+v, want %q with %d", name, waits, len(proofs), proofs, c.waits, c.proofs)
		}
	}
}

// Through a topic a shard is closed when what it had published by its canary is applied without a hole,
// however much is published since, and by whichever driver that is asked. If the ledger does not know
// it, that is what was published when a driver first asked.
func TestATopicIsAppliedUpToTheCanary(t *testing.T) {
	f := ready()
	f.State.Apply = checkpoint.Topic
	f.Shards = []checkpoint.Shard{kit.SeenIn(kit.ShardOf("s", ""), 3, 0)}
	sh := &f.Shards[0]
	sh.Apply, sh.Generation = checkpoint.Topic, 5
	type look struct {
		published, applied uint64
		proved             bool
	}
	for _, c := range []struct {
		before uint64
		others bool // each look is that of another driver
		looks  []look
	}{
		{0, false, []look{{7, 0, false}, {9, 6, false}, {12, 7, true}}},
		{0, true, []look{{7, 6, false}, {9, 8, false}, {12, 12, true}}},
		{6, false, []look{{7, 5, false}, {9, 6, true}}},
		{6, true, []look{{7, 0, false}, {9, 5, false}, {12, 6, true}}},
	} {
		p := &Proof{Written: []int{0}, Unseen: 1}
		sh.Sighted.Before = c.before
		for _, look := range c.looks {
			if c.others {
				p = &Proof{Written: []int{0}, Unseen: 1}
			}
			sh.Applied = look.published
			f.Merged = []checkpoint.Applied{{Track: checkpoint.Track{Generation: 5, Label: "l", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: look.applied}}}}
			if _, waits := p.Prove(checkpoint.Cutover{Attempt: 3}, f, 20*time.Second); (waits == "") != look.proved {
				t.Errorf("%+v: %+v: %q", c, look, waits)
			}
		}
	}
	f.State.Apply = checkpoint.Direct
	f.Merged = nil
	if _, waits := (&Proof{Written: []int{0}}).Prove(checkpoint.Cutover{Attempt: 3}, f, 20*time.Second); waits != "" {
		t.Errorf("the table has left the topic, and %s", waits)
	}
}

// The earliest proof of a shard is a matter of its row: children that may be listed late, or empty
// pages that are still to come once all canaries were read.
func TestTheEarliestProof(t *testing.T) {
	now := kit.Begin
	s := 20 * time.Second
	ended := kit.DoneShard("a", "", false)
	ended.DoneAt = now.Add(-30 * time.Second)
	late := ended
	late.DoneAt = now.Add(-time.Hour)
	quiet := &quietShard{read: now, since: now.Add(-15 * time.Second), changes: 9, position: cdc.SequenceOf(100)}
	for name, c := range map[string]struct {
		shard  checkpoint.Shard
		unseen int
		quiet  *quietShard
		left   time.Duration
		empty  bool
	}{
		"ended":             {ended, 0, nil, 90 * time.Second, false},
		"overdue":           {late, 0, nil, 0, false},
		"no canary":         {kit.ShardOf("a", ""), 0, nil, 20 * time.Second, true},
		"quiet for a while": {kit.ShardOf("a", ""), 0, quiet, 5 * time.Second, true},
		"canaries to come":  {kit.ShardOf("a", ""), 3, nil, 0, false},
	} {
		p := Proof{Written: []int{0, 1}, Unseen: c.unseen, quiet: map[string]*quietShard{}}
		if c.quiet != nil {
			p.quiet["a"] = c.quiet
		}
		at, empty := p.Earliest(&c.shard, 2*time.Minute, s, now)
		if at.Sub(now) != c.left || empty != c.empty {
			t.Errorf("%s: after %s, %t; want %s, %t", name, at.Sub(now), empty, c.left, c.empty)
		}
	}
}
