package readiness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

var noon = kit.Noon

// ready is a table whose gates are all ready.
func ready() Figures {
	s, shard := kit.Copied()
	return Figures{Found: true, State: s, Shards: []checkpoint.Shard{shard}, Targets: []checkpoint.Target{{Table: "orders", Fence: 7}}}
}

// published has a table publish 5,000 messages to a topic. They are applied up to one of an age.
func published(to uint64, age time.Duration) func(f *Figures) {
	return func(f *Figures) {
		s := &f.Shards[0]
		f.State.Apply, s.Apply, s.Applied, s.Generation = checkpoint.Topic, checkpoint.Topic, 5000, 5
		if to > 0 {
			f.Merged = []checkpoint.Applied{{Track: checkpoint.Track{Generation: 5, Label: "l", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: to, At: noon.Add(-age)}}}}
		}
	}
}

// Each gate is ready by its own figure alone, and without a figure it is not.
func TestGates(t *testing.T) {
	r := Limits{LagBelow: 5 * time.Second, LagHeldFor: 10 * time.Minute, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour, Lease: 20 * time.Second}
	for _, c := range []struct {
		name   string
		change func(f *Figures)
		open   []string
	}{
		{"ready", func(*Figures) {}, nil},
		{"gap", func(f *Figures) { f.State.NeedsLoad, f.State.Reason = true, "a gap" }, []string{GateCopy}},
		{"raised", func(f *Figures) { f.State.Generation = 6 }, []string{GateCopy, GateVerify, GateFull}},
		{"set aside", func(f *Figures) { f.State.Suspended.Reason = "dropped" }, []string{GateCopy}},
		{"behind of late", func(f *Figures) { f.Shards[0].Sighted.BehindAt = noon.Add(-9 * time.Minute) }, []string{GateLag}},
		{"not behind for long enough", func(f *Figures) { f.Shards[0].Sighted.BehindAt = noon.Add(-11 * time.Minute) }, nil},
		{"nobody reads", func(f *Figures) { f.Shards[0].Owner = "" }, []string{GateLag}},
		{"no shard", func(f *Figures) { f.Shards = nil }, []string{GateLag, GateHeadroom}},
		{"far behind", func(f *Figures) {
			f.Shards[0].AppliedTo = noon.Add(-13 * time.Hour)
			f.Shards[0].FirstRead = f.Shards[0].AppliedTo
		}, []string{GateLag, GateHeadroom}},
		{"old verify", func(f *Figures) { f.State.Verify.Result.EndedAt = noon.Add(-2 * time.Hour) }, []string{GateVerify}},
		{"never all", func(f *Figures) { f.State.Verify.Full = checkpoint.VerifyResult{} }, []string{GateFull}},
		{"all too long ago", func(f *Figures) { f.State.Verify.Full.EndedAt = noon.Add(-25 * time.Hour) }, []string{GateFull}},
		{"differs", func(f *Figures) { f.State.Verify.Result.Missing = 1 }, []string{GateVerify}},
		{"a sample differs", func(f *Figures) { f.State.Sampled.Differing = 1 }, []string{GateVerify}},
		{"parked", func(f *Figures) { f.Parked = 1 }, []string{GateParked}},
		{"unmapped", func(f *Figures) { f.State.Verify.Full.Unmapped = 1 }, []string{GateParked}},
		{"paused", func(f *Figures) { f.State.Pause = checkpoint.Pause{Since: noon} }, []string{GateCopy}},
		{"disabled", func(f *Figures) { f.State.StreamEnded = true }, []string{GateCopy}},
		{"not adopted", func(f *Figures) { f.State.Adopted = 4 }, []string{GateCopy}},
		{"a gap to declare", func(f *Figures) {
			f.Shards = append(f.Shards, checkpoint.Shard{ID: "g", Label: "l", State: checkpoint.Gap, Generation: 5})
		}, []string{GateCopy}},
		{"at the bound of the lag", func(f *Figures) { f.Shards[0].AppliedTo = noon.Add(-65 * time.Second) }, nil},
		{"above the bound of the lag", func(f *Figures) { f.Shards[0].AppliedTo = noon.Add(-66 * time.Second) }, []string{GateLag}},
		{"held just now", func(f *Figures) { f.Shards[0].Sighted.BehindAt = noon.Add(-10 * time.Minute) }, nil},
		{"held almost", func(f *Figures) { f.Shards[0].Sighted.BehindAt = noon.Add(-10*time.Minute + 1) }, []string{GateLag}},
		{"one shard of two is behind", func(f *Figures) {
			other := f.Shards[0]
			other.ID, other.Sighted.BehindAt = "t", noon.Add(-time.Minute)
			f.Shards = append(f.Shards, other)
		}, []string{GateLag}},
		{"behind of late, after one that was before", func(f *Figures) {
			other := f.Shards[0]
			other.ID, other.Sighted.BehindAt = "t", noon.Add(-time.Minute)
			f.Shards[0].Sighted.BehindAt = noon.Add(-time.Hour)
			f.Shards = append(f.Shards, other)
		}, []string{GateLag}},
		{"behind before, after one that was of late", func(f *Figures) {
			other := f.Shards[0]
			other.ID, other.Sighted.BehindAt = "t", noon.Add(-time.Hour)
			f.Shards[0].Sighted.BehindAt = noon.Add(-time.Minute)
			f.Shards = append(f.Shards, other)
		}, []string{GateLag}},
		{"not read yet", func(f *Figures) {
			f.Shards[0].State, f.Shards[0].AppliedTo, f.Shards[0].FirstRead, f.Shards[0].Position = checkpoint.Waiting, time.Time{}, time.Time{}, cdc.SequenceNumber{}
		},
			[]string{GateLag, GateHeadroom}},
		{"taken, and not read yet", func(f *Figures) {
			f.Shards[0].AppliedTo, f.Shards[0].FirstRead, f.Shards[0].Position = time.Time{}, time.Time{}, cdc.SequenceNumber{}
		}, []string{GateLag, GateHeadroom}},
		{"waiting with an owner", func(f *Figures) { f.Shards[0].State = checkpoint.Waiting }, []string{GateLag}},
		{"one of two was never read", func(f *Figures) {
			f.Shards = append(f.Shards, checkpoint.Shard{ID: "t", Label: "l", State: checkpoint.Reading, Owner: "w"})
		}, []string{GateLag, GateHeadroom}},
		{"of another stream", func(f *Figures) { f.Shards[0].Label = "former" }, []string{GateLag, GateHeadroom}},
		{"at the bound of the headroom", func(f *Figures) {
			f.Shards[0].AppliedTo = noon.Add(-12 * time.Hour)
			f.Shards[0].FirstRead = f.Shards[0].AppliedTo
		}, []string{GateLag, GateHeadroom}},
		{"verified in time", func(f *Figures) { f.State.Verify.Result.EndedAt = noon.Add(-time.Hour) }, nil},
		{"verified too early", func(f *Figures) { f.State.Verify.Result.EndedAt = noon.Add(-time.Hour - 1) }, []string{GateVerify}},
		{"verified before a load", func(f *Figures) { f.State.Verify.Result.Generation = 4 }, []string{GateVerify}},
		{"all before a load", func(f *Figures) { f.State.Verify.Full.Generation = 4 }, []string{GateFull}},
		{"its worker is silent", func(f *Figures) {
			f.Shards[0].AppliedTo, f.Shards[0].ReadAt = noon.Add(-61*time.Second), noon.Add(-61*time.Second)
		}, []string{GateLag}},
		{"the coordinator cannot list", func(f *Figures) {
			f.Coordinator = checkpoint.Heartbeat{WrittenAt: noon, Trouble: checkpoint.Trouble{Step: "list shards", Cause: "denied", Since: noon.Add(-time.Hour)}}
		}, []string{GateLag}},
		{"messages in the dead letter", func(f *Figures) {
			f.State.Apply, f.DeadLetter = checkpoint.Topic, checkpoint.DeadLetter{Messages: 1, Since: noon}
		}, []string{GateLag}},
		{"no message of the topic is known to be applied", published(0, 0), []string{GateLag}},
		{"messages wait in the topic for as long as the bound", published(4000, time.Minute), nil},
		{"messages wait in the topic for longer", published(4000, time.Minute+1), []string{GateLag}},
		{"last read hours ago, with changes to settle", func(f *Figures) {
			f.Shards[0].AppliedTo, f.Shards[0].ReadAt, f.Shards[0].Settling.Changes = noon.Add(-3*time.Hour), noon.Add(-3*time.Hour), 3
		}, []string{GateLag}},
		{"the target is not the one that was written", func(f *Figures) {
			f.Doubts = []standing.Doubt{{Reason: standing.TargetLost, Cause: "it is so", Since: noon}}
		}, []string{GateLag}},
		{"no number", func(f *Figures) { f.Targets[0].Fence = 0 }, []string{GateFence}},
		{"withheld", func(f *Figures) { f.Targets[0].Withheld = "denied" }, []string{GateFence}},
		{"unknown", func(f *Figures) { *f = Figures{Targets: f.Targets} }, []string{GateCopy, GateLag, GateVerify, GateFull, GateParked, GateHeadroom, GateFence}},
	} {
		f := ready()
		c.change(&f)
		var open []string
		for _, g := range Open(f.Judge("Orders", r, noon)) {
			open = append(open, g.Name)
			if g.Figure == "" || g.Cure == "" {
				t.Errorf("%s: gate %s has the figure %q and the cure %q", c.name, g.Name, g.Figure, g.Cure)
			}
		}
		if len(open) != len(c.open) {
			t.Errorf("%s: open are %v, wanted %v", c.name, open, c.open)
			continue
		}
		for i := range open {
			if open[i] != c.open[i] {
				t.Errorf("%s: open are %v, wanted %v", c.name, open, c.open)
			}
		}
	}
}

// A bound may allow some parked items, and verifies of any age.
func TestBoundsOfGates(t *testing.T) {
	f := ready()
	f.Parked, f.State.Verify.Result.EndedAt = 3, noon.Add(-100*time.Hour)
	r := Limits{LagBelow: 5 * time.Second, HeadroomAbove: 12 * time.Hour, Lease: 20 * time.Second}
	for most, open := range map[int]int{2: 1, 3: 0} {
		if r.ParkedAtMost = most; len(Open(f.Judge("Orders", r, noon))) != open {
			t.Errorf("with at most %d parked: %+v", most, Open(f.Judge("Orders", r, noon)))
		}
	}
	if got := Open([]checkpoint.CutoverGate{{Name: "a"}, {Name: "b", Ready: true}, {Name: "c", Overridden: "x"}}); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("open are %+v", got)
	}
}

// The final verify is as long as the last full one, and has to end within its deadline: a cutover in
// which it would take more than half of it is refused before the freeze.
func TestALongVerifyIsRefusedBeforeTheFreeze(t *testing.T) {
	for _, c := range []struct {
		took, within time.Duration
		items        int64
		yes          bool
	}{{5 * time.Minute, 10 * time.Minute, 1000, true}, {5*time.Minute + 1, 10 * time.Minute, 1000, false}, {time.Hour, 0, 1000, true},
		{time.Hour, 10 * time.Minute, 999, true}} { // the driver compares fewer by itself
		f := ready()
		f.State.Verify.Full.Items, f.State.Apply = c.items, checkpoint.Topic
		f.State.Verify.Full.BegunAt = f.State.Verify.Full.EndedAt.Add(-c.took)
		yes, figure, cure := f.full("T", c.within, 1000, noon)
		if yes != c.yes || yes == (cure != "") || !yes && !strings.Contains(figure, "more than half of cutover.freeze_deadline (10m)") {
			t.Errorf("%s of %s: %t, %q, %q", c.took, c.within, yes, figure, cure)
		}
		f.State.Apply = checkpoint.Direct // its changes are compared again instead
		if yes, figure, _ := f.full("T", c.within, 1000, noon); !yes {
			t.Errorf("%s of %s: %q", c.took, c.within, figure)
		}
	}
}

// What settles was applied once: there the last read counts, and otherwise the shard's position.
func TestHowFarAShardIsApplied(t *testing.T) {
	for name, c := range map[string]struct {
		changes uint64
		readAt  time.Time
		want    time.Time
	}{
		"nothing settles":          {0, noon.Add(time.Minute), noon},
		"something settles":        {1, noon.Add(time.Minute), noon.Add(time.Minute)},
		"it was read before":       {1, noon.Add(-time.Minute), noon},
		"it settles, and was lost": {1, time.Time{}, noon},
	} {
		s := checkpoint.Shard{AppliedTo: noon, ReadAt: c.readAt}
		s.Settling.Changes = c.changes
		if got := reached(&s); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// closed are the names of the gates that are not ready.
func closed(f Figures) (names []string) {
	ready := Limits{LagBelow: 5 * time.Second, LagHeldFor: 10 * time.Minute, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour, Lease: 20 * time.Second}
	for _, g := range Open(f.Judge("T", ready, noon)) {
		names = append(names, g.Name)
	}
	return names
}

// A shard that was last read hours ago is behind, with changes to settle as without.
func TestChangesToSettleHideNoLag(t *testing.T) {
	f := ready()
	sh := &f.Shards[0]
	sh.FirstRead, sh.AppliedTo, sh.ReadAt = noon.Add(-20*time.Hour), noon.Add(-3*time.Hour), noon.Add(-3*time.Hour)
	if names := closed(f); !slices.Contains(names, GateLag) {
		t.Errorf("without changes to settle: %v", names)
	}
	sh.Settling.Changes = 3
	names := closed(f)
	if !slices.Contains(names, GateLag) {
		t.Errorf("last read three hours ago: closed gates %v", names)
	}
}

// What waits in the topic is not applied, and a gate says so.
func TestWhatWaitsInTheTopicClosesAGate(t *testing.T) {
	f := ready()
	published(0, 0)(&f)
	if n := len(checkpoint.Unapplied(f.State, f.Shards, f.Merged)); n != 1 {
		t.Errorf("messages of %d shards wait", n)
	}
	names := closed(f)
	if len(names) == 0 {
		t.Errorf("5000 messages wait: closed gates %v", names)
	}
}

// The gate of the lag holds once every shard has been caught up for long enough.
func TestHowLongTheLagHasHeld(t *testing.T) {
	r := Limits{LagBelow: 5 * time.Second, LagHeldFor: time.Minute, Lease: 20 * time.Second}
	for name, c := range map[string]struct {
		behind time.Duration // ago; 0 for never
		holds  bool
		text   string
	}{"never behind": {0, true, "held since the copy"}, "long ago": {2 * time.Minute, true, "held 2m (1m needed)"}, "just now": {30 * time.Second, false, "held 30s (1m needed)"}} {
		f := ready()
		if c.behind > 0 {
			f.Shards[0].Sighted.BehindAt = noon.Add(-c.behind)
		}
		st := f.standing(r.Lease, noon)
		if holds, text := f.lag(&st, r, noon); holds != c.holds || text != c.text {
			t.Errorf("%s: %v, %q", name, holds, text)
		}
	}
	if one, two := differing(1), differing(2); !strings.HasPrefix(one, "1 row ") || !strings.HasPrefix(two, "2 rows ") {
		t.Errorf("%q, %q", one, two)
	}
}
