package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The hazards of this file concern items: some cannot be stored, some move, and none may appear in
// a log.

// tooLong is an attribute name that exceeds Bigtable's limit for a qualifier.
var tooLong = strings.Repeat("n", transform.MaxQualifierBytes+1)

// TestH38_PoisonItem: an item that Bigtable cannot hold is parked whole. The shard continues, the
// item's earlier cells are removed, and a later valid change repairs the row (I5, I10).
func TestH38_PoisonItem(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.putWith("poison", "value", "good")
		if s.World.Rand().IntN(2) == 0 {
			s.putWith("loaded", tooLong, "v") // an item that the load finds
		}
		poisoned := len(s.Source.Items()) - 1
		s.Source.EnableStream(1)
		s.running("a")
		s.put("other", "before")
		s.inSync(time.Minute)
		s.Source.PageSize = 1 + s.World.Rand().IntN(3)
		s.putWith("poison", "value", "good", tooLong, "v")
		s.put("other", "after")
		s.inSync(time.Minute)
		if s.Parked() != poisoned+1 {
			s.failf("%d items are parked, not %d", s.Parked(), poisoned+1)
		}
		if _, there := s.row("poison").Value("d", "value"); there {
			s.failf("the row of the parked item still holds what the item was before")
		}
		s.putWith("poison", "value", "healed")
		s.inSync(time.Minute)
		if s.value("poison") != "healed" {
			s.failf("a good change has not healed the row: %q", s.value("poison"))
		}
		target := model.Target{Bigtable: s.Target}
		resolved, left, err := sink.NewParking(target, "default").Resolve(s.ctx, s.Mapping, target)
		if err != nil || resolved != 1 || left != poisoned {
			s.failf("%d parked items are resolved, %d are left, %v", resolved, left, err)
		}
	})
}

// TestH38_PoisonItemWithoutAnAddress: an item without a row key is parked once, however often it
// changes. A valid change or its removal resolves it, although no row shows this (I5, I10).
func TestH38_PoisonItemWithoutAnAddress(t *testing.T) {
	playWith(t, 20, moving, func(s *scene) {
		s.move("other", "a")
		for _, key := range []string{"corrected", "removed", "left"} {
			s.putWith(key, "value", "loaded") // there is no tenant
		}
		s.Source.EnableStream(1)
		a := s.running("a")
		s.inSync(time.Minute)
		s.Source.PageSize = 1 + s.World.Rand().IntN(3)
		for i := range 5 {
			for _, key := range []string{"corrected", "removed", "left"} {
				s.putWith(key, "value", fmt.Sprint(i))
			}
			s.sleep(s.upTo(10 * time.Second))
		}
		s.inSync(time.Minute)
		s.until(time.Minute, "three changes are parked", func() bool { return s.Parked() == 3 })
		if s.World.Rand().IntN(2) == 0 {
			a.Kill()
			s.Start("b")
		}
		s.move("corrected", "a")
		s.Source.Delete(item("removed", "removed", ""))
		s.inSync(2 * time.Minute)
		s.until(time.Minute, "one change is parked", func() bool { return s.Parked() == 1 })
	})
}

// TestH50_TargetTableMissing: a failure of the whole table is not the fault of an item. There are
// few attempts, events and the ledger show the failure, nothing is parked, no shard is released,
// and work continues as soon as the table is back (I10).
func TestH50_TargetTableMissing(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		left := 0
		a := s.Start("a", func(o *engine.Options) {
			o.Events.ShardLeft = func(_, _ string, _ error) { left++ }
		})
		s.put("k", "before")
		s.inSync(2 * time.Minute)
		restore := s.Target.Remove("orders")
		calls := 0
		s.Target.Fault = func(op, _, _ string) error {
			if op == "CheckAndMutateRow" {
				calls++
			}
			return nil
		}
		for i := range 30 {
			s.Source.Put(item(fmt.Sprint(i), fmt.Sprint(i), "v"))
		}
		s.sleep(10 * time.Minute)
		for _, shard := range s.Shards() {
			if t := shard.Trouble; t.Step != "write" || t.Cause != "Bigtable: refused by the target (NotFound)" {
				s.failf("of shard %s the ledger says %+v", shard.ID, t)
			}
		}
		restore()
		if calls > 16*60 || left > 0 || s.Retries["write"] == 0 || s.Retries["coordinate the table"] == 0 || s.Parked() > 0 || a.Over {
			s.failf("%d attempts in 10 minutes, %d times a shard was left, retries %v, %d parked, ended %v", calls, left, s.Retries, s.Parked(), a.Over)
		}
		s.inSync(2 * time.Minute)
	})
}

// moving is a migration whose row key begins with an attribute outside the primary key, so its
// items can move.
func moving(w *virtual.World) *Migration { return NewMigration(w, 1, "tenant", "pk", "sk") }

func (s *scene) move(key, tenant string) { s.putWith(key, "tenant", tenant) }

// TestH72_ItemMovesWithinAPage: a→b→c in one page: neither a nor b may stay (I1).
func TestH72_ItemMovesWithinAPage(t *testing.T) {
	playWith(t, 20, moving, func(s *scene) {
		s.move("k", "a")
		s.running("w")
		s.inSync(time.Minute)
		for _, tenants := range []string{"bc", "dab", "ef", "a", "ba"} {
			for _, tenant := range tenants {
				s.move("k", string(tenant))
			}
			s.inSync(time.Minute)
		}
		s.move("k", "x")
		s.move("k", "y")
		s.del("k")
		s.inSync(time.Minute)
	})
}

// TestH72_ItemMovesAcrossACrash: pages are read again from a point within the moves, and late
// writes to earlier addresses are executed in between (I1, I8).
func TestH72_ItemMovesAcrossACrash(t *testing.T) {
	playWith(t, 40, moving, func(s *scene) {
		s.Target.Late, s.Target.LateBy = 0.1, 20*time.Second
		s.move("k", "a")
		a := s.running("a")
		s.Source.PageSize = 1 + s.World.Rand().IntN(3)
		writes, at := 0, 1+s.World.Rand().IntN(6)
		s.Watch = func(table, _ string, _, _ *model.Row) {
			if table == "orders" {
				if writes++; writes == at {
					a.Kill()
				}
			}
		}
		for i := range 8 {
			if s.World.Rand().IntN(5) == 0 {
				s.del("k")
			} else {
				s.move("k", string(rune('a'+(i*3)%5)))
			}
		}
		s.until(2*time.Minute, "killed", a.Dead)
		s.Start("b")
		s.inSync(3 * time.Minute)
		s.sleep(time.Minute)
		s.inSync(0)
	})
}

// TestH65_EventsAndErrorsShowNoItemData: the events and errors of a run with many faults are
// searched for the contents of items: keys, values, and all encodings of the ledger or a row key
// (I12).
func TestH65_EventsAndErrorsShowNoItemData(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		const secret = "s3cr3t"
		var said []string
		s.Writes = sink.Events{
			Failed: func(source, code string) { said = append(said, "Failed "+source+code) },
			Parked: func(source, reason string) { said = append(said, "Parked "+source+reason) },
		}
		listen := func(o *engine.Options) { listenAll(o, func(text string) { said = append(said, text) }) }
		s.Source.Throttle, s.Source.Expire = 0.05, 0.05
		s.Target.LoseReply, s.Target.Drop, s.Target.Late = 0.05, 0.05, 0.05
		put := func(i int) {
			s.putWith(fmt.Sprint(secret, i), "value", fmt.Sprint(secret, s.World.Steps()))
		}
		for i := range 5 {
			put(i)
		}
		s.putWith(secret+"loaded", tooLong, secret)
		a := s.Start("a", listen)
		s.inSync(10 * time.Minute)
		s.putWith(secret+"0", tooLong, secret)
		s.Source.Put(attribute.NewItem([]attribute.Attribute{
			{Name: "pk", Value: attribute.String(secret + strings.Repeat("#", 2000))}, {Name: "sk", Value: attribute.String(secret)},
		}))
		put(1)
		s.inSync(5 * time.Minute)
		restore := s.Target.Remove("orders")
		put(2)
		s.sleep(2 * time.Minute)
		restore()
		s.inSync(5 * time.Minute)
		a.Pause(time.Minute)
		b := s.Start("b", listen)
		for i := range 5 {
			put(i)
			s.del(fmt.Sprint(secret, i))
			s.sleep(s.upTo(10 * time.Second))
		}
		s.Source.Stream().Roll(s.only())
		s.inSync(5 * time.Minute)
		s.LoseTarget()
		s.gap(5*time.Minute, "the target table was")
		s.Source.View = "KEYS_ONLY"
		s.Source.EnableStream(1)
		put(3)
		s.until(5*time.Minute, "both workers end", func() bool { return a.Over && b.Over })
		said = append(said, fmt.Sprint(a.Err, b.Err, s.State(), s.Shards()))
		all := strings.Join(said, "\n")
		if len(said) < 50 || !strings.Contains(all, "Parked") || !strings.Contains(all, "Retry") {
			s.failf("only %d events were heard", len(said))
		}
		for _, form := range []string{secret, "czNjcjN0"} { // plain, and in base64 as in item keys
			if i := strings.Index(all, form); i >= 0 {
				s.failf("item data in: %s", all[max(0, i-200):min(len(all), i+100)])
			}
		}
	})
}

// listenAll passes every event of a worker to hear as text.
func listenAll(o *engine.Options, hear func(text string)) {
	say := func(name string, args ...any) { hear(name + " " + fmt.Sprint(args...)) }
	gap, retry := o.Events.Gap, o.Events.Retry
	o.Events = engine.Events{
		CoordinatorTaken: func(t string, epoch uint64) { say("KeeperTaken", t, epoch) },
		CoordinatorLeft:  func(t string, err error) { say("KeeperLeft", t, err) },
		ShardTaken:       func(t, shard string, epoch uint64) { say("ShardTaken", t, shard, epoch) },
		ShardLeft:        func(t, shard string, err error) { say("ShardLeft", t, shard, err) },
		ShardDone:        func(t, shard string) { say("ShardDone", t, shard) },
		Ledger:           func(state checkpoint.TableState, n map[checkpoint.State]int) { say("Ledger", state, n) },
		PageRead:         func(t string, n engine.Tally) { say("PageRead", t, n) },
		PageDone:         func(t string) { say("PageDone", t) },
		Applied:          func(t string, n engine.Tally, rows int) { say("Applied", t, n, rows) },
		Gap: func(t, shard, reason string) {
			gap(t, shard, reason)
			say("Gap", t, shard, reason)
		},
		Raised: func(t string, generation uint32, reason string) { say("Raised", t, generation, reason) },
		Retry: func(t, step string, wait time.Duration, err error) {
			retry(t, step, wait, err)
			say("Retry", t, step, wait, err)
		},
		CopyStarted: func(t string, estimate, done int64) { say("CopyStarted", t, estimate, done) },
		CopyDone:    func(t string, items int64) { say("CopyDone", t, items) },
		CopyLeft:    func(t string) { say("CopyLeft", t) },
	}
}
