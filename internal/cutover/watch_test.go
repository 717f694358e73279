package cutover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The last comparison before the switch must be clean, of this generation, and of everything; and no
// more items may be unmapped than when the checks ended.
func TestFinalVerify(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *checkpoint.TableState)
		why    string
	}{
		"clean":            {func(s *checkpoint.TableState) {}, ""},
		"needs a load":     {func(s *checkpoint.TableState) { s.NeedsLoad, s.Reason = true, "a gap" }, "needs a load: a gap"},
		"differs":          {func(s *checkpoint.TableState) { s.Verify.Result.Extra = 2 }, "result of the final verify: 2 rows differ, 30m ago"},
		"of another":       {func(s *checkpoint.TableState) { s.Verify.Result.Generation = 4 }, "result of the final verify: clean, 30m ago"},
		"a sample differs": {func(s *checkpoint.TableState) { s.Sampled.Differing = 1 }, "rows of a sample differ"},
		"in flight":        {func(s *checkpoint.TableState) { s.Verify.Result.InFlight = 1 }, "result of the final verify: 1 row in flight, 30m ago"},
		"of a sample":      {func(s *checkpoint.TableState) { s.Verify.Result.Sample = 0.1 }, "the final verify did not compare everything"},
		"of what changed":  {func(s *checkpoint.TableState) { s.Verify.Result.Since = kit.Noon }, "the final verify did not compare everything"},
		"unmapped":         {func(s *checkpoint.TableState) { s.Verify.Result.Unmapped = 2 }, ""},
		"more unmapped":    {func(s *checkpoint.TableState) { s.Verify.Result.Unmapped = 3 }, "3 items cannot be mapped, but there were only 2 when the checks ended"},
	} {
		s := ready().State
		c.change(&s)
		if why := finally(s, s.Verify.Result, 2, kit.Noon); why != c.why {
			t.Errorf("%s: %q; want %q", name, why, c.why)
		}
	}
}

// A final verify that finds something cancels.
func TestTheStepVerify(t *testing.T) {
	playScene(t, func(s *scene) {
		s.final = func(source string) checkpoint.VerifyResult {
			r := checkpoint.VerifyResult{}
			if source == "Parts" {
				r.Different = 3
			}
			return r
		}
		s.expect(s.play(plan()), checkpoint.CutoverCancelled, "table Parts: result of the final verify: 3 rows differ", FreezeWrites, UnfreezeWrites)
	})
}

// After the switch the streams are read on: who writes then is named, once, and neither canaries
// nor what the time to live removes, nor what was written before the freeze. At the end of the watch
// the tables are done for good.
func TestTheWatch(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		p.WatchFor = 5 * time.Minute
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("before")))
		s.Sleep(5 * time.Second)
		s.start(p)
		s.drive(settled)
		if state := s.Table("Orders"); !state.Halt.Switched || state.Halt.Done {
			t.Errorf("once it has switched: %+v", state.Halt)
		}
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("late")))
		s.driveFor(time.Minute)
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("later")))
		s.Source.Changes["Parts"] = append(s.Source.Changes["Parts"], cdc.Change{Event: cdc.Remove, Keys: kit.Item("old"), Sequence: kit.Position(1000), Time: s.Now(), Expired: true})
		s.driver.Ledger = s.Open("next") // which reads from the positions of the ledger
		c := s.driveFor(time.Minute)
		if c.Step != checkpoint.CutoverWatching || c.Strays != 2 || len(c.Stragglers) != 2 || c.Stragglers[0].Table != "Parts" || c.Stragglers[0].Key == c.Stragglers[1].Key {
			t.Errorf("%s: %d strays, %+v", c.Step, c.Strays, c.Stragglers)
		}
		if n := len(c.Timeline); c.Timeline[n-1].Text != "writes after the switch to table Parts: item "+c.Stragglers[1].Key {
			t.Errorf("the timeline ends with %+v", c.Timeline[n-1])
		}
		if left := len(s.Source.Items["Orders"]); left != 1 {
			t.Errorf("%d items, want the one that is no canary", left)
		}
		c = s.drive(at(checkpoint.CutoverDone))
		if over := c.EndedAt.Sub(c.SwitchedAt); c.Step != checkpoint.CutoverDone || over < 5*time.Minute || over > 6*time.Minute {
			t.Errorf("%s, after %s", c.Step, over)
		}
		if state := s.Table("Parts"); !state.Halt.Done || c.Step.Active() {
			t.Errorf("after the watch: %+v", state.Halt)
		}
	})
}

// A verify that is under way at the switch ends with its reason, though no worker takes its parts any
// more: rows may differ from now on.
func TestAVerifyEndsWithTheSwitch(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverFence))
		number := s.Table("Parts").Verify.Number + 1
		s.Change("Parts", func(state *checkpoint.TableState) {
			s.Must(state.BeginVerify(number, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1, MappingHash: state.MappingHash}))
		})
		c := s.drive(settled)
		if v := s.Table("Parts").Verify; c.Step != checkpoint.CutoverWatching || v.Running() || v.Number != number || v.Result.Number != number-1 || !strings.HasPrefix(v.Ended, "the application has left") {
			t.Errorf("%s: verify %d, running %v, ended %q", c.Step, v.Number, v.Running(), v.Ended)
		}
	})
}

// Streams that cannot be read keep the watch from its end for an hour; then it ends and says so.
func TestAWatchThatCannotRead(t *testing.T) {
	for _, unread := range []string{"ListPage", "Read"} {
		playScene(t, func(s *scene) {
			p := plan()
			p.WatchFor = time.Minute
			s.start(p)
			s.drive(settled)
			s.driver.Settings.Pass = 20 * time.Second
			s.Source.Fail = func(call string) error {
				if call == unread {
					return errors.New("no stream")
				}
				return nil
			}
			if c := s.driveFor(59 * time.Minute); c.Step != checkpoint.CutoverWatching || len(s.failed) == 0 {
				t.Errorf("within the hour: %s; failed: %q", c.Step, s.failed)
			}
			c := s.driveFor(5 * time.Minute)
			if c.Step != checkpoint.CutoverDone || len(c.Unwatched) != 1 || c.Unwatched[0].Until.Sub(c.Unwatched[0].From) < time.Hour {
				t.Errorf("%s: %+v", c.Step, c.Timeline)
			}
		})
	}
}

// What could not be noted is read again.
func TestStrayIsNotedAfterAFailure(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(settled)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("late")))
		lost := 0
		execute := s.Store.OnSwap
		s.Store.OnSwap = func(_ context.Context, key string, do func() bool) (bool, error) {
			if key == "p/cutover" && lost < 2 {
				lost++
				return false, errAway
			}
			return do(), nil
		}
		c := s.driveFor(time.Minute)
		s.Store.OnSwap = execute
		if c.Strays != 1 || lost != 2 {
			t.Errorf("%d strays after %d lost writes", c.Strays, lost)
		}
	})
}

// expiring is a stream whose iterators are good until a read fails.
type expiring struct {
	cdc.Source
	good  bool
	fails int          // reads from now on
	first []cdc.Change // what the first read gives
	seeks []cdc.Position
}

func (e *expiring) Seek(_ context.Context, _ string, at cdc.Position) (cdc.Iterator, error) {
	e.good, e.seeks = true, append(e.seeks, at)
	return "i", nil
}

func (e *expiring) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	if len(e.first) > 0 {
		page := cdc.Page{Changes: e.first, Next: "i"}
		e.first = nil
		return page, nil
	}
	if e.fails--; e.fails >= 0 || !e.good {
		e.good = false
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Expired}
	}
	return cdc.Page{Next: "i"}, nil
}

// ListPage lists two shards.
func (e *expiring) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "done"}, {ID: kit.Shard}}, At: kit.Begin}, nil
}

// After a read that failed a shard is sought again at the last change that was seen: its iterator may
// have expired meanwhile, and no later read with it would see a missed writer.
func TestAWatchedShardIsSoughtAgainAfterAFailure(t *testing.T) {
	e := &expiring{fails: 1, first: []cdc.Change{{Sequence: kit.Position(4)}, {Sequence: kit.Position(5)}}}
	r := &watchedShard{at: cdc.Position{After: kit.Position(3)}}
	if changes, err := r.read(t.Context(), e, kit.Shard); err == nil || len(changes) != 2 {
		t.Errorf("the failure is not told: %v, after the changes %v", err, changes)
	}
	if _, err := r.read(t.Context(), e, kit.Shard); err != nil || len(e.seeks) != 2 || e.seeks[0].After != kit.Position(3) || e.seeks[1].After != kit.Position(5) {
		t.Errorf("%v, sought at %v", err, e.seeks)
	}
}

// A watch reads each shard on from where replicator read it last, once: one that was read to its
// end has nothing more, and a shard of a former stream that has the same name is another one.
func TestWhereAWatchBegins(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("before")))
		s.Sleep(5 * time.Second)
		for _, sh := range []checkpoint.Shard{{ID: "done", Label: "L", State: checkpoint.Done}, {ID: kit.Shard, Label: "Z", State: checkpoint.Done}} {
			sh.Source, sh.Generation = "Orders", 5
			s.Must(s.Ledger.CreateShard(s.Ctx, sh))
		}
		e := &expiring{}
		s.driver.Open = func(string) cdc.Source { return e }
		v := &drive{Driver: s.driver, watching: watching{reads: map[string]*watchedShard{}}}
		c := checkpoint.Cutover{CutoverPlan: plan()}
		for range 3 {
			_, err := v.look(s.Ctx, c, "Orders", v.readListed)
			s.Must(err)
		}
		if len(e.seeks) != 1 || e.seeks[0].After != kit.Position(1) {
			t.Errorf("sought at %v", e.seeks)
		}
	})
}

// A watch notes once in the tables' records that the application has switched, and keeps its
// iterators from look to look.
func TestAWatchGoesOnFromLookToLook(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverSwitching))
		seeks, reads := 0, 0
		s.Source.Fail = func(call string) error {
			if call == "Seek" {
				seeks++
			}
			return nil
		}
		s.Store.OnRead = func(_ context.Context, prefix string) error {
			if prefix == "p/table/Orders" {
				reads++
			}
			return nil
		}
		c := s.driveFor(2 * time.Minute)
		if c.Step != checkpoint.CutoverWatching || seeks != 2 || reads > 200 {
			t.Errorf("%s: %d seeks in two streams, %d reads of a table's record", c.Step, seeks, reads)
		}
	})
}

// A straggler is who wrote surely after the freeze: no canary, no removal by the time to live. What
// the freeze may have seen is a late tail, if the drain was responsible for its shard. Both are
// noted with the second of the change, and the record is not written where there is none.
func TestWhoIsAStraggler(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		frozen := s.Now()
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.FrozenAt = frozen; return nil }))
		c, v := s.Cutover(), &drive{Driver: s.driver}
		key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
		at := func(pk string, after time.Duration) cdc.Change {
			return cdc.Change{Keys: kit.Item(pk), Time: frozen.Add(after)}
		}
		expired := at("expired", time.Minute)
		expired.Expired = true
		canary := cdc.Change{Keys: v.canaries("Orders").Key(3, key), Time: frozen.Add(time.Minute)}
		of := func(counted bool, changes ...cdc.Change) (all []unapplied) {
			for _, change := range changes {
				all = append(all, unapplied{change, counted})
			}
			return all
		}
		before, then := at("before", -time.Minute), at("then", time.Second)
		if strays := v.straysOf(c, "Orders", key, of(false, before, then, expired, canary)); len(strays) > 0 {
			t.Errorf("nobody wrote: %+v", strays)
		}
		expired.Time = before.Time
		tails := v.straysOf(c, "Orders", key, of(true, before, then, expired, canary))
		if len(tails) != 2 || !tails[0].Tail || !tails[1].Tail || !tails[0].At.Equal(before.Time) || tails[0].Key == tails[1].Key {
			t.Errorf("late tails %+v", tails)
		}
		late := at("late", 61*time.Second+300*time.Millisecond)
		got := checkpoint.Cutover{}
		noteStrays(&got, v.straysOf(c, "Orders", key, append(of(false, late), of(true, late)...)), "late")
		if want := late.Time.Truncate(time.Second); got.Strays != 1 || got.Stragglers[0].Tail || got.Stragglers[0].Table != "Orders" || !got.Stragglers[0].At.Equal(want) || got.Stragglers[0].Key == "" {
			t.Errorf("%+v, want one at %v", got.Stragglers, want)
		}
	})
}

// The drain is responsible for the shards that have rows, and for what follows them. It is not for
// shards of before the migration, nor for a gap that the last load covers.
func TestTheShardsOfTheDrain(t *testing.T) {
	f := ready()
	gap := kit.ShardOf("gap", "")
	gap.State, gap.Generation = checkpoint.Gap, 4
	f.Shards = []checkpoint.Shard{kit.ShardOf("read", "old"), kit.DoneShard("done", "read", true), gap}
	known := map[string]checkpoint.Shard{}
	for _, sh := range f.Shards {
		known[sh.ID] = sh
	}
	listed := []cdc.Shard{
		{ID: "older"}, {ID: "old", Parent: "older"}, {ID: "read", Parent: "old"}, {ID: "done", Parent: "read"}, {ID: "late", Parent: "done"}, {ID: "later", Parent: "late"},
		{ID: "gap"}, {ID: "after gap", Parent: "gap"}, {ID: "lone"}, {ID: "orphan", Parent: "trimmed"}, {ID: "ring", Parent: "ring"},
	}
	want := []string{"read", "done", "late", "later", "after gap"}
	r := &streamRead{rows: known, lineage: drain.LineageOf(f), parents: map[string]string{}}
	for _, s := range listed {
		r.parents[s.ID] = s.Parent
	}
	for _, s := range listed {
		if got := r.counts(s.ID); got != slices.Contains(want, s.ID) {
			t.Errorf("shard %s: %t", s.ID, got)
		}
	}
}

// lateShard is a stream that lists another shard, with a change in it, once it is shown.
type lateShard struct {
	cdc.Source
	shown  *bool
	change cdc.Change
}

func (l lateShard) ListPage(ctx context.Context, parent, after string) (cdc.ListingPage, error) {
	page, err := l.Source.ListPage(ctx, parent, after)
	if *l.shown {
		page.Shards = append(page.Shards, cdc.Shard{ID: "late", Parent: kit.Shard})
	}
	return page, err
}

func (l lateShard) Seek(ctx context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	if shard == "late" {
		return "late/0", nil
	}
	return l.Source.Seek(ctx, shard, from)
}

func (l lateShard) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	switch at {
	case "late/0":
		return cdc.Page{Changes: []cdc.Change{l.change}, Next: "late/1"}, nil
	case "late/1":
		return cdc.Page{Next: "late/1"}, nil
	}
	return l.Source.Read(ctx, at)
}

// D13: a change from before the freeze is lost if the stream returns it out of order, or lists its
// shard late. If the last look finds it, the attempt is abandoned. If only the watch finds it, the record names it, and finalize
// waits until an operator has reviewed it.
func TestH115_ALateTailIsKnown(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverFence, checkpoint.CutoverWatching} {
		playScene(t, func(s *scene) {
			shown := false
			change := cdc.Change{Event: cdc.Insert, Keys: kit.Item("hot"), New: kit.Item("hot", "a=1"), Time: s.Now(), Sequence: kit.Position(1)}
			s.driver.Open = func(arn string) cdc.Source {
				if !strings.Contains(arn, "Parts") {
					return s.Source.Open(arn)
				}
				return lateShard{s.Source.Open(arn), &shown, change}
			}
			s.driver.OnStep = func(c checkpoint.Cutover) {
				switch {
				case c.Step != step:
				case step == checkpoint.CutoverFence:
					change.Sequence = kit.Position(len(s.Source.Changes["Parts"]) + 1)
					s.Source.Changes["Parts"] = append(s.Source.Changes["Parts"], change)
				default:
					shown = true
				}
			}
			s.start(brief(1))
			got := s.drive(settled)
			if step == checkpoint.CutoverFence {
				s.expect(got, checkpoint.CutoverCancelled, "before the freeze, but the stream returned the change only after the drain", FreezeWrites, UnfreezeWrites)
				return
			}
			got = s.driveFor(10 * time.Minute)
			hash := sink.HashOf((&transform.Mapping{PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}).ItemKey(change.Keys))
			want := checkpoint.CutoverStraggler{Table: "Parts", Key: hash, At: change.Time, Tail: true}
			if got.Step != checkpoint.CutoverWatching || got.Strays != 1 || got.Unanswered() != 1 || len(got.Stragglers) != 1 || got.Stragglers[0] != want {
				t.Errorf("%s: %+v, want %+v", got.Step, got.Stragglers, want)
			}
			if line := got.Timeline[len(got.Timeline)-1]; line.Text != "late tail in the stream of table Parts: item "+hash {
				t.Errorf("the timeline ends with %+v", line)
			}
			keys, err := s.driver.StrayKeys(s.Ctx, got)
			if err != nil || !keys[hash].Equal(change.Keys) {
				t.Errorf("keys %v: %v", keys, err)
			}
		})
	}
}
