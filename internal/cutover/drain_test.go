package cutover

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// A shard proves itself by a canary of this attempt alone, read by somebody who holds its lease, and
// with nothing that settles.
func TestHowAShardIsProved(t *testing.T) {
	s := Settings{}.orDefault()
	for name, c := range map[string]struct {
		change func(sh *checkpoint.Shard)
		how    string
	}{
		"canary":          {func(sh *checkpoint.Shard) {}, "a canary"},
		"of another":      {func(sh *checkpoint.Shard) { sh.Sighted.Canary = 2 }, ""},
		"nobody reads":    {func(sh *checkpoint.Shard) { sh.Owner = "" }, ""},
		"it settles":      {func(sh *checkpoint.Shard) { sh.Settling.Changes = 1 }, ""},
		"its end settles": {func(sh *checkpoint.Shard) { sh.EndedAt = noon }, ""},
		"waiting":         {func(sh *checkpoint.Shard) { sh.State = checkpoint.Waiting }, ""},
		"a gap":           {func(sh *checkpoint.Shard) { sh.State, sh.Generation = checkpoint.Gap, 5 }, ""},
		"a filled gap":    {func(sh *checkpoint.Shard) { sh.State, sh.Generation = checkpoint.Gap, 4 }, "a gap that the load of generation 5 filled"},
		"done too late":   {func(sh *checkpoint.Shard) { sh.State = checkpoint.Done }, ""},
	} {
		d := &drainedTable{quiet: map[string]*quietShard{}, ended: map[string]bool{}}
		sh := ready().Shards[0]
		sh.Sighted.See(3, 0)
		c.change(&sh)
		if got := d.how(checkpoint.Cutover{Attempt: 3}, 5, &sh, s); got != c.how {
			t.Errorf("%s: %q, want %q", name, got, c.how)
		}
	}
}

// Empty pages of a shard count from the second read on that is known to be later than the last
// canary, by one reader, and at the tip; a rehearsal, in which the application writes, does not ask
// for the tip.
func TestEmptyPagesOfAShard(t *testing.T) {
	s := Settings{Quiet: 10 * time.Second}.orDefault()
	for name, c := range map[string]struct {
		change   func(i int, sh *checkpoint.Shard)
		rehearse bool
		proved   int // the first look that proves it; 0: none of fifteen
	}{
		"idle":           {func(int, *checkpoint.Shard) {}, false, 12},
		"another reader": {func(i int, sh *checkpoint.Shard) { sh.Owner = []string{"a", "b"}[min(i/6, 1)] }, false, 0},
		"behind":         {func(_ int, sh *checkpoint.Shard) { sh.CaughtUp = false }, false, 0},
		"rehearsed":      {func(_ int, sh *checkpoint.Shard) { sh.CaughtUp = false }, true, 12},
		"read seldom":    {func(i int, sh *checkpoint.Shard) { sh.ReadAt = noon.Add(time.Duration(i/2*4) * time.Second) }, false, 10},
		"not read":       {func(i int, sh *checkpoint.Shard) { sh.ReadAt = noon }, false, 0},
		"it moves":       {func(i int, sh *checkpoint.Shard) { sh.Position = cdc.SequenceOf(uint64(i)) }, false, 0},
	} {
		d, proved := &drainedTable{quiet: map[string]*quietShard{}}, 0
		for i := range 15 {
			sh := ready().Shards[0]
			sh.CaughtUp, sh.ReadAt = true, noon.Add(time.Duration(i)*time.Second)
			sh.Position, sh.Applied = cdc.SequenceOf(100), 7
			c.change(i, &sh)
			if how := d.how(checkpoint.Cutover{Attempt: 3, CutoverPlan: checkpoint.CutoverPlan{Rehearse: c.rehearse}}, 5, &sh, s); how != "" && proved == 0 {
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

// Empty pages count from the last canary on, whichever shard gave it.
func TestEmptyPagesCountFromTheLastCanary(t *testing.T) {
	d := &drainedTable{quiet: map[string]*quietShard{}, all: 2, listed: map[string]bool{}, ended: map[string]bool{}, equal: true}
	f := ready()
	f.Shards = append(f.Shards, f.Shards[0])
	f.Shards[1].ID = "idle"
	f.Shards[1].CaughtUp = true
	f.Shards[0].Sighted.See(3, 0)
	proved := 0
	for i := range 40 {
		if i == 11 {
			f.Shards[0].Sighted.See(3, 1)
		}
		f.Shards[1].ReadAt = noon.Add(time.Duration(i) * time.Second)
		if _, waits := d.prove(checkpoint.Cutover{Attempt: 3}, f, Settings{Quiet: 10 * time.Second}.orDefault()); waits == "" && proved == 0 {
			proved = i
		}
	}
	if proved != 11+12 {
		t.Errorf("proved at look %d", proved)
	}
}

// What the drain waits for, in the order in which it is said.
func TestWhatADrainWaitsFor(t *testing.T) {
	for want, change := range map[string]func(f *Figures, d *drainedTable){
		"":                                 func(*Figures, *drainedTable) {},
		"1 of 2 canaries are not read yet": func(_ *Figures, d *drainedTable) { d.all = 2 },
		"1 of its shards are not proved to be applied; the first is s": func(f *Figures, _ *drainedTable) { f.Shards[0].Owner = "" },
		"1 of its shards are not proved to be applied; the first is t": func(_ *Figures, d *drainedTable) { d.listed["t"] = true },
		"messages that wait in the topic, not applied yet: 7": func(f *Figures, _ *drainedTable) {
			f.State.Apply = checkpoint.Topic
			f.Shards[0].Apply, f.Shards[0].Applied, f.Shards[0].Generation = checkpoint.Topic, 7, 5
		},
		"#all messages are applied": func(f *Figures, _ *drainedTable) {
			f.State.Apply = checkpoint.Topic
			f.Shards[0].Apply, f.Shards[0].Applied, f.Shards[0].Generation = checkpoint.Topic, 7, 5
			track := checkpoint.Track{Generation: 5, Label: "l", Shard: "s"}
			f.Merged = []checkpoint.Applied{{Track: track, Runs: checkpoint.Runs{{From: 1, To: 7}}}}
		},
		"#the topic is left": func(f *Figures, _ *drainedTable) {
			f.Shards[0].Apply, f.Shards[0].Applied, f.Shards[0].Generation = checkpoint.Topic, 7, 5
		},
		"the children of a shard that ended are not listed yet": func(f *Figures, d *drainedTable) {
			f.Shards = append(f.Shards, checkpoint.Shard{ID: "parent", Label: "l", State: checkpoint.Done})
			d.ended["parent"] = true
		},
		"two equal listings of the stream, 2m apart, are needed": func(_ *Figures, d *drainedTable) { d.equal = false },
	} {
		f := ready()
		f.Shards[0].Sighted.See(3, 0)
		f.Shards = append(f.Shards, checkpoint.Shard{ID: "former", Label: "another stream", State: checkpoint.Reading})
		d := &drainedTable{quiet: map[string]*quietShard{}, all: 1, listed: map[string]bool{"s": true}, ended: map[string]bool{}, equal: true}
		change(&f, d)
		proofs, waits := d.prove(checkpoint.Cutover{Attempt: 3}, f, Settings{}.orDefault())
		want, _, _ = strings.Cut(want, "#")
		if waits != want || (len(proofs) == 1) != (want == "") {
			t.Errorf("it waits for %q with proofs %v, want %q", waits, proofs, want)
		}
	}
}

// Two listings count that are equal and far enough apart; a shard that ends in between begins them
// anew.
func TestTwoEqualListings(t *testing.T) {
	playScene(t, func(s *scene) {
		v := &drive{Driver: s.driver, settings: Settings{Lists: time.Minute}.orDefault()}
		f := Figures{State: s.Table("Orders")}
		d := &drainedTable{quiet: map[string]*quietShard{}, all: 26}
		look := func(after time.Duration, equal bool) {
			t.Helper()
			s.Sleep(after)
			s.Must(v.list(s.Ctx, f, d))
			if d.equal != equal {
				t.Errorf("equal: %t, want %t", d.equal, equal)
			}
		}
		look(time.Minute, false)
		if d.listed != nil {
			t.Error("it is listed before the canaries are written")
		}
		d.written = 26
		look(0, false)
		look(59*time.Second, false)
		look(time.Second, true)
		s.Source.Listed = []cdc.Shard{{ID: kit.Shard}, {ID: "shardId-2"}}
		look(59*time.Second, true)
		look(time.Second, false)
		look(time.Minute, true)
		f.Shards = []checkpoint.Shard{{ID: kit.Shard, Label: "L", State: checkpoint.Done}}
		look(time.Minute, false)
		look(time.Minute, true)
		if !d.ended[kit.Shard] {
			t.Error("the shard that ended is not known")
		}
		f.Shards = append(f.Shards, checkpoint.Shard{ID: "shardId-2", Label: "L", State: checkpoint.Reading}, checkpoint.Shard{ID: "former", Label: "former", State: checkpoint.Done})
		look(time.Minute, true) // neither is a shard of the stream that ended
		s.Source.Listed, d = []cdc.Shard{}, &drainedTable{}
		look(0, false) // nothing was listed before
		look(time.Minute, true)
	})
}
