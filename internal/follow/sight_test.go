package follow

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// H100: of a canary only its round and index are noted, and the shard does not count as caught up.
func TestH100_CanariesAreNoted(t *testing.T) {
	at := time.Date(2026, 11, 2, 1, 0, 0, 0, time.UTC)
	mapping, set := enginetest.OrdersMapping(t), canary.New("ledger", "Orders")
	change := func(item attribute.Item) cdc.Change {
		pk, _ := item.Get("pk")
		return cdc.Change{Event: cdc.Insert, Time: at, Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: pk}}), New: item}
	}
	page := set.Strip(cdc.Page{At: at.Add(time.Minute), Changes: []cdc.Change{change(set.Item(7, mapping.PrimaryKey, 6, "once")), change(enginetest.Keyed("x"))}})
	progress := checkpoint.Progress{CaughtUp: true, Applied: 9}
	sight(&progress, mapping, page, 5*time.Second)
	if progress.Cutover.Canary != 6 || progress.CaughtUp || !progress.Cutover.BehindAt.Equal(page.At) || !progress.Cutover.WrittenAt.Equal(at) || progress.Cutover.Written == "" {
		t.Errorf("of the page is noted %+v", progress)
	}
	for _, c := range []struct {
		round  uint32
		before uint64
	}{{6, 9}, {7, 9}, {8, 20}, {6, 20}} { // of a round's canaries the first counts, and candidates prove nothing
		progress.Applied = 20
		sight(&progress, mapping, set.Strip(cdc.Page{Changes: []cdc.Change{change(set.Item(8, mapping.PrimaryKey, c.round, "once"))}}), 5*time.Second)
		if progress.Cutover.Before != c.before {
			t.Errorf("after a canary of round %d: %+v", c.round, progress.Cutover)
		}
	}
}

// A cutover that waits for a canary finds it at once: the page is committed with no delay, and the next
// one asked for soon. Without a canary the checkpoint has its time.
func TestACanaryIsCommittedAtOnce(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(_ context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Timing = engine.Timing{Poll: 3 * time.Second}.OrDefault(k.Ledger.Lease())
		f := assignerOf(k).follower
		before := checkpoint.Progress{}
		before.Cutover.See(6, 0)
		for _, c := range []struct {
			round uint32
			i     int
			want  bool
		}{{6, 0, false}, {6, 1, true}, {8, 0, true}, {7, 0, true}, {4, 1, false}} {
			at := before
			if at.Cutover.See(c.round, c.i); f.due(before, at, 0) != c.want {
				t.Errorf("canary %d of round %d is committed at once: %v", c.i, c.round, !c.want)
			}
		}
		for near, want := range map[bool]time.Duration{false: 3 * time.Second, true: 250 * time.Millisecond} {
			if f.tracker.SetNear(near); f.between(100, time.Hour) != want {
				t.Errorf("a freeze is near: %v; an idle shard is asked after %s", near, f.between(100, time.Hour))
			}
		}
	})
}

// Under dual writes a change after the freeze is in the shard's row as soon as it is read, not only
// once it settled up to ten minutes later: a cutover looks there for late writes. A canary is there
// once everything before it has settled, also when another change follows it or the shard ends. A
// candidate, which proves nothing, is there at once.
func TestALateWriteIsSeenBeforeItSettles(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, ended := range []bool{false, true} {
		s := &settler{follower: &follower{Common: &engine.Common{}, late: 10 * time.Minute, room: NewSettleRoom(1 << 20)}, reading: true}
		upTo := func(number int, written time.Time, key string, canaries ...int) checkpoint.Progress {
			p := checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(uint64(number))}, EventTime: written, Cutover: checkpoint.Sighted{WrittenAt: written, Written: key, BehindAt: written}}
			for _, i := range canaries {
				p.Cutover.See(6, i)
				p.Cutover.See(5, 10+i)
			}
			return p
		}
		first, last := upTo(7, at, "before", 0), upTo(8, at.Add(time.Minute), "late", 0, 1)
		s.hold(settledPage(1), 1, checkpoint.Progress{}, first, 10*time.Minute)
		s.hold(settledPage(2), 1, first, last, 11*time.Minute)
		s.read, s.ended = last, ended
		s.settled = checkpoint.Progress{Cutover: checkpoint.Sighted{WrittenAt: at.Add(-time.Hour), Written: "of before"}}
		for settled, canaries := range []string{"", "0", "0,1"} {
			p := s.progress().Cutover
			if p.Written != "late" || !p.WrittenAt.Equal(last.Cutover.WrittenAt) || !p.BehindAt.Equal(last.Cutover.BehindAt) || p.Canaries != canaries || p.Candidates != 2 || p.Reached != last.Cutover.Reached {
				t.Errorf("ended %t, %d pages settled: %+v, want canaries %q", ended, settled, p, canaries)
			}
			if len(s.queue) > 0 {
				s.settled, s.queue = s.queue[0].to, s.queue[1:]
			}
		}
	}
}
