package cutover

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// rechecking is a table with an open shard and one that is done, before the freeze: all is rechecked
// since before verify 4, which was clean.
func rechecking() (checkpoint.TableState, []checkpoint.Shard) {
	s := checkpoint.TableState{Source: "T", Label: "L", Generation: 5, Recheck: checkpoint.Recheck{Verify: 4, Until: kit.Noon.Add(time.Hour)}}
	s.Verify.Number = 4
	s.Verify.Full = checkpoint.VerifyResult{Number: 4, Generation: 5, BegunAt: kit.Noon.Add(-time.Hour), EndedAt: kit.Noon.Add(-time.Minute)}
	r := checkpoint.Rechecked{Verify: 4, Since: kit.Noon.Add(-2 * time.Hour), To: cdc.SequenceOf(9), Through: cdc.SequenceOf(9)}
	open := checkpoint.Shard{Source: "T", Label: "L", ID: "open", State: checkpoint.Reading, Position: cdc.SequenceOf(9), Rechecked: r}
	done := open
	done.ID, done.State, done.DoneAt = "done", checkpoint.Done, kit.Noon.Add(-30*time.Minute)
	return s, []checkpoint.Shard{open, done}
}

// What comes next before the freeze.
func TestRecheckOf(t *testing.T) {
	const again = "changes of shard "
	for name, c := range map[string]struct {
		change func(s *checkpoint.TableState, shards []checkpoint.Shard)
		want   rechecked
	}{
		"all":             {func(*checkpoint.TableState, []checkpoint.Shard) {}, rechecked{}},
		"never asked for": {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Recheck = checkpoint.Recheck{} }, rechecked{begin: true, waits: "workers compare the rows of all changes again"}},
		"long ago": {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Recheck.Until = kit.Noon.Add(-time.Second) },
			rechecked{begin: true, waits: "workers compare the rows of all changes again"}},
		"a shard has not begun": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number, shards[0].Rechecked.Verify = 3, 3, 0
		}, rechecked{waits: "the changes of 1 shards are not compared again yet"}},
		"all shards have begun": {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Verify.Number, s.Verify.Full.Number = 3, 3 },
			rechecked{verify: true, waits: "a full verify begins while the application writes"}},
		"one has begun just now": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number, shards[0].Rechecked.Since = 3, 3, kit.Noon.Add(-9*time.Second)
		}, rechecked{waits: "the full verify is about to begin"}},
		"a child is not read yet": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number = 3, 3
			shards[0].State, shards[0].Rechecked = checkpoint.Waiting, checkpoint.Rechecked{}
		}, rechecked{verify: true, waits: "a full verify begins while the application writes"}},
		"another verify runs": {func(s *checkpoint.TableState, _ []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number, s.Verify.Phase = 3, 3, 1
		}, rechecked{waits: "another verify is running"}},
		"it runs": {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Verify.Full.Number, s.Verify.Phase = 3, 1 },
			rechecked{waits: "a full verify is running while the application writes"}},
		"it was cancelled": {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Verify.Full.Number = 3 },
			rechecked{begin: true, waits: "the full verify was cancelled; it begins again"}},
		"a later one is as good": {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Verify.Number, s.Verify.Full.Number = 6, 6 }, rechecked{}},
		"rows differ":            {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Verify.Full.Extra = 1 }, rechecked{why: "result of the full verify: 1 row differs, 1m ago"}},
		"of another generation":  {func(s *checkpoint.TableState, _ []checkpoint.Shard) { s.Generation = 6 }, rechecked{why: "result of the full verify: clean, 1m ago"}},
		"changed rows differ": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) { shards[0].Rechecked.Differing = 2 },
			rechecked{waits: "rows of changed items differ: 2"}},
		"of another stream": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[0].Label, shards[0].Rechecked = "K", checkpoint.Rechecked{}
		}, rechecked{}},
		"of another stream, before the verify": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number = 3, 3
			shards[0].Label, shards[0].Rechecked = "K", checkpoint.Rechecked{}
			shards[1].Label, shards[1].State, shards[1].Rechecked.Since = "K", checkpoint.Reading, kit.Noon
		}, rechecked{verify: true, waits: "a full verify begins while the application writes"}},
		"rows of another stream differ": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[0].Label, shards[0].Rechecked.Differing = "K", 2
		}, rechecked{}},
		"done, before the verify": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number, shards[1].Rechecked = 3, 3, checkpoint.Rechecked{}
		}, rechecked{verify: true, waits: "a full verify begins while the application writes"}},
		"a waiting child was read, before the verify": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number = 3, 3
			shards[0].State, shards[0].FirstRead, shards[0].Rechecked = checkpoint.Waiting, kit.Noon.Add(-time.Hour), checkpoint.Rechecked{}
		}, rechecked{waits: "the changes of 1 shards are not compared again yet"}},
		"the first of two has begun just now": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number = 3, 3
			shards[0].Rechecked.Since, shards[1].State = kit.Noon.Add(-9*time.Second), checkpoint.Reading
		}, rechecked{waits: "the full verify is about to begin"}},
		"the second of two has begun just now": {func(s *checkpoint.TableState, shards []checkpoint.Shard) {
			s.Verify.Number, s.Verify.Full.Number = 3, 3
			shards[1].Rechecked.Since, shards[1].State = kit.Noon.Add(-9*time.Second), checkpoint.Reading
		}, rechecked{waits: "the full verify is about to begin"}},
		"a worker does not": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[0].Rechecked = checkpoint.Rechecked{}
		}, rechecked{begin: true, waits: again + "open were not compared again"}},
		"a worker has given up": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[0].Rechecked = checkpoint.Rechecked{Lost: "why"}
		}, rechecked{begin: true, waits: again + "open were not compared again: why"}},
		"begun after the verify": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[0].Rechecked.Since = kit.Noon.Add(-time.Hour - 9*time.Second)
		}, rechecked{begin: true, waits: again + "open were compared again too late"}},
		"from its start": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) { shards[0].Rechecked.Since = time.Time{} }, rechecked{}},
		"done before the verify": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[1].DoneAt, shards[1].Rechecked = kit.Noon.Add(-time.Hour-11*time.Second), checkpoint.Rechecked{}
		}, rechecked{}},
		"done about when it began": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[1].DoneAt, shards[1].Rechecked = kit.Noon.Add(-time.Hour-9*time.Second), checkpoint.Rechecked{}
		}, rechecked{begin: true, waits: again + "done were not compared again"}},
		"done at an unknown time": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[1].DoneAt, shards[1].Rechecked = time.Time{}, checkpoint.Rechecked{}
		}, rechecked{begin: true, waits: again + "done were not compared again"}},
		"done, not to its end": {func(_ *checkpoint.TableState, shards []checkpoint.Shard) {
			shards[1].Rechecked.Through = cdc.SequenceOf(8)
		}, rechecked{begin: true, waits: again + "done, which is done, were not all compared again"}},
	} {
		s, shards := rechecking()
		c.change(&s, shards)
		if got := recheckOf(s, shards, kit.Noon); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// After the drain, the rows of all changes up to the proved positions must be equal.
func TestRecheckedTo(t *testing.T) {
	s, shards := rechecking()
	proofs := []checkpoint.CutoverProof{{Table: "T", Shard: "open", Position: "9"}, {Table: "U", Shard: "open", Position: "99"}, {Table: "T", Shard: "done"}}
	if waits := recheckedTo(s, shards, proofs); waits != "" {
		t.Errorf("all is rechecked: %q", waits)
	}
	shards[0].Rechecked.Through = cdc.SequenceOf(8)
	if waits := recheckedTo(s, shards, proofs); waits != "the last changes of 1 shards are not compared again yet" {
		t.Errorf("one change is left: %q", waits)
	}
	shards[0].Rechecked.Differing = 1
	if waits := recheckedTo(s, shards, proofs); waits != "rows of changed items differ: 1" {
		t.Errorf("a row differs: %q", waits)
	}
	for name, change := range map[string]func(*checkpoint.Shard){
		"another stream":  func(sh *checkpoint.Shard) { sh.Label = "K" },
		"another recheck": func(sh *checkpoint.Shard) { sh.Rechecked.Verify = 3 },
	} {
		_, others := rechecking()
		others[0].Rechecked.Differing, others[0].Rechecked.Through = 1, cdc.SequenceOf(8)
		change(&others[0])
		if waits := recheckedTo(s, others, proofs); waits != "" {
			t.Errorf("a row of %s differs: %q", name, waits)
		}
	}
}
