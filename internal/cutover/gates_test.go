package cutover

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// ready is a table whose gates are all ready.
func ready() Figures {
	clean := checkpoint.VerifyResult{Number: 1, EndedAt: noon.Add(-30 * time.Minute), Generation: 5}
	s := checkpoint.TableState{Source: "Orders", Label: "l", Generation: 5, Adopted: 5, Listed: 5, Base: 5, Load: checkpoint.Load{Generation: 5, DoneAt: noon}}
	s.Verify.Result, s.Verify.Full = clean, clean
	shard := checkpoint.Shard{ID: "s", Label: "l", State: checkpoint.Reading, Owner: "w", AppliedTo: noon.Add(-time.Second), FirstRead: noon.Add(-time.Hour),
		ReadAt: noon.Add(-time.Second), Position: cdc.SequenceOf(9)}
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
	r := Ready{LagBelow: 5 * time.Second, LagHeldFor: 10 * time.Minute, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour, Lease: 20 * time.Second}
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
	r := Ready{LagBelow: 5 * time.Second, HeadroomAbove: 12 * time.Hour, Lease: 20 * time.Second}
	for most, open := range map[int]int{2: 1, 3: 0} {
		if r.ParkedAtMost = most; len(Open(f.Judge("Orders", r, noon))) != open {
			t.Errorf("with at most %d parked: %+v", most, Open(f.Judge("Orders", r, noon)))
		}
	}
	if got := Open([]checkpoint.CutoverGate{{Name: "a"}, {Name: "b", Ready: true}, {Name: "c", Overridden: "x"}}); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("open are %+v", got)
	}
}

func TestSpell(t *testing.T) {
	for want, d := range map[string]time.Duration{"24h": 24 * time.Hour, "23h50m": 23*time.Hour + 50*time.Minute, "1m": time.Minute, "10s": 10 * time.Second, "0s": 0} {
		if got := spell(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
