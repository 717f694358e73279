package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// retold records what a process tells its operator about failures, each as a line.
func (s *scene) retold() *[]string {
	var lines []string
	s.Events.Retry = func(table, step string, wait time.Duration, err error) {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%v", table, step, wait, err))
	}
	return &lines
}

// broken is a subscription whose named requests fail, while it is broken.
type broken struct {
	*scene
	pull, extend, nack error
	extended           []string // each extension with its duration
}

func (b *broken) Pull(ctx context.Context, most int) ([]relay.Delivery, error) {
	if b.pull != nil {
		return nil, b.pull
	}
	return b.scene.Pull(ctx, most)
}

func (b *broken) Extend(ctx context.Context, ids []string, by time.Duration) error {
	b.extended = append(b.extended, fmt.Sprint(ids, " by ", by))
	if by > 0 {
		return b.extend
	}
	b.told = append(b.told, "nack "+ids[0])
	return b.nack
}

// Each failure is told once, with its table, its step, the wait and the whole cause. A refusal
// names both its reason and why the message was not published to the dead letter.
func TestFailuresAreToldWhole(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		do   func(s *scene, a *appliers)
		want []string
	}{
		"a message that is no message": {func(s *scene, a *appliers) {
			s.must(a.room.Acquire(s.ctx, 1))
			s.must(a.sort(engine.Until(s.ctx), &relay.Decoder{}, relay.Delivery{ID: "d", Data: []byte("none")}))
		}, []string{"|read a message|0s|" + errPoison.Error() + "\n" + relay.ErrMessage.Error() + ": not a CloudEvent in structured JSON"}},
		"a refusal without a dead-letter topic": {func(s *scene, a *appliers) {
			s.must(a.room.Acquire(s.ctx, 1))
			a.reject(engine.Until(s.ctx), []refusal{{&message{id: "d", change: relay.Change{Origin: relay.Origin{Table: "Orders"}}}, "the hop differs"}})
		}, []string{"Orders|read a message|0s|" + errPoison.Error() + "\nthe hop differs"}},
		"a refusal that is not published": {func(s *scene, a *appliers) {
			a.DeadTopic = deniedTopic{}
			s.must(a.room.Acquire(s.ctx, 1))
			a.reject(engine.Until(s.ctx), []refusal{{&message{id: "d", change: relay.Change{Origin: relay.Origin{Table: "Orders"}}}, "the hop differs"}})
		}, []string{"Orders|read a message|0s|" + errPoison.Error() + "\nthe hop differs\nPublish of dead: PermissionDenied"}},
		"an extension": {func(s *scene, a *appliers) {
			a.Subscription = &broken{scene: s, extend: away}
			a.extendBy(s.ctx, nil, heldFor)
			a.extendBy(s.ctx, []string{"d"}, heldFor)
		}, []string{"|extend deadlines (ModifyAckDeadline)|2s|away"}},
		"a nack of what was set aside": {func(s *scene, a *appliers) {
			a.Subscription = &broken{scene: s, nack: away}
			a.giveBack(s.ctx, []string{"d"})
		}, []string{"|nack messages (ModifyAckDeadline)|10m0s|away"}},
		"a nack of what is refused": {func(s *scene, a *appliers) { // the message comes again after its deadline
			a.Subscription = &broken{scene: s, nack: away}
			s.must(a.room.Acquire(s.ctx, 1))
			a.refuse(s.ctx, "d", "Orders", away)
		}, []string{"Orders|read a message|0s|" + errPoison.Error() + "\naway"}},
	} {
		playScene(t, func(s *scene) {
			lines := s.retold()
			a, _ := s.process()
			if c.do(s, a); !slices.Equal(*lines, c.want) {
				t.Errorf("%s: told %q, want %q", name, *lines, c.want)
			}
		})
	}
}

// A table of unknown name is looked up at once and then twice a minute, and each failure names the
// table. The messages of one table delay neither the search for another table nor the process.
func TestStrangersAreLookedUpInTurn(t *testing.T) {
	playScene(t, func(s *scene) {
		s.must(task.Sleep(s.ctx, time.Hour))
		lines := s.retold()
		var found []string
		s.Find = func(ctx context.Context, table string) (engine.Spec, bool, error) {
			found = append(found, fmt.Sprintf("%s at %s", table, s.took().Truncate(time.Second)))
			if table == "Away" {
				return engine.Spec{}, false, errors.New("away")
			}
			return engine.Spec{}, false, nil
		}
		for _, table := range []string{"Away", "Other"} {
			_, err := s.Ledger.UpdateTable(s.ctx, table, func(t *checkpoint.TableState) error { t.Generation = 1; return nil })
			s.must(err)
			s.send(uint64(len(table)), func(c *relay.Change) { c.Table = table })
		}
		s.applies(70 * time.Second)
		var times, want []string
		for _, at := range []string{"0s", "30s", "1m0s"} {
			times = append(times, "Away at "+at, "Other at "+at)
			want = append(want, "Away|find the table of a message|30s|away", "Other|find the table of a message|30s|"+errStranger.Error())
		}
		if len(found) < 6 || len(found) != len(*lines) || !slices.Equal(found[len(found)-4:], times[2:]) || !slices.Equal((*lines)[len(*lines)-4:], want[2:]) {
			t.Errorf("looked up %q, told %q", found, *lines)
		}
	})
}

// A message of an unknown table is held for a while from its arrival. Then all messages of the
// table are nacked once, so that they are refused when they come again.
func TestAnUnknownTableHasItsTime(t *testing.T) {
	playScene(t, func(s *scene) {
		s.must(task.Sleep(s.ctx, time.Hour))
		a, _ := s.process()
		life := engine.Until(s.ctx)
		hold := func(id string) {
			s.must(a.room.Acquire(s.ctx, 1))
			s.must(a.data.Acquire(s.ctx, 100))
			a.held.hold([]relay.Delivery{{ID: id}}, task.Mono(s.ctx))
			a.holdStranger(life, &message{id: id, bytes: 100, since: task.Mono(s.ctx), change: relay.Change{Origin: relay.Origin{Table: "Nowhere"}}})
		}
		hold("a")
		s.must(task.Sleep(s.ctx, doubtFor-1))
		hold("b")
		s.must(a.meetTable(life, "Nowhere"))
		if len(s.told) > 0 || a.absent != 2 || !a.held.due["a"].aside || !a.held.due["b"].aside {
			t.Errorf("before its time: %q, %d are kept, held %+v", s.told, a.absent, a.held.due)
		}
		s.must(task.Sleep(s.ctx, 1))
		s.must(a.meetTable(life, "Nowhere"))
		s.must(a.meetTable(life, "Nowhere"))
		if !slices.Equal(s.told, []string{"give back a b"}) || a.absent != 0 || len(a.held.due) != 0 {
			t.Errorf("after its time: %q, %d are kept, held %+v", s.told, a.absent, a.held.due)
		}
		hold("a")
		if !slices.Equal(s.told, []string{"give back a b", "give back a"}) || a.absent != 0 || len(a.held.due) != 0 {
			t.Errorf("again: %q, %d are kept, held %+v", s.told, a.absent, a.held.due)
		}
		if free, all := a.room.TryAcquire(int64(a.Held)), a.data.TryAcquire(dataBytes); !free || !all {
			t.Errorf("the room is free: %t, and that of data: %t", free, all)
		}
	})
}

// The deadlines of a delivery, from its arrival on. A message of which only the id is kept has the
// longest deadline, and one without room for its id has it once.
func TestDeadlinesOfADelivery(t *testing.T) {
	const start = time.Hour
	d := deadlines{due: map[string]deadline{}}
	d.hold([]relay.Delivery{{ID: "b"}, {ID: "a"}}, start)
	var got []string
	look := func(at time.Duration) {
		ids, aside := d.take(at)
		got = append(got, fmt.Sprintf("%s%s%s", at-start, ids, aside))
	}
	look(start + extendFirst - 1)
	look(start + extendFirst)
	look(start + extendFirst)
	look(start + extendFirst + extendEach - 1)
	look(start + extendFirst + extendEach)
	d.setAside("a", false)
	d.setAside("b", true)
	look(start + time.Minute)
	look(start + time.Minute + asideEach - 1)
	d.again([]string{"a", "b"}) // the extension of both failed, and b is forgotten
	look(start + time.Minute + asideEach - 1)
	look(start + time.Minute + 2*asideEach - 1)
	d.forget("a")
	look(start + 24*time.Hour)
	want := []string{"1.999999999s[][]", "2s[a b][]", "2s[][]", "21.999999999s[][]", "22s[a b][]", "1m0s[][a b]", "4m19.999999999s[][]", "4m19.999999999s[][a]", "7m39.999999999s[][a]", "24h0m0s[][]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Held messages get a minute with each extension, and messages that are set aside get ten.
func TestExtensionsHaveTheirTime(t *testing.T) {
	playScene(t, func(s *scene) {
		a, _ := s.process()
		subscription := &broken{scene: s}
		a.Subscription = subscription
		a.held.hold([]relay.Delivery{{ID: "held"}}, task.Mono(s.ctx))
		a.held.setAside("aside", false)
		limited, cancel := task.WithTimeout(s.ctx, 3*time.Second)
		defer cancel()
		s.must(a.extend(limited))
		if want := []string{"[held] by 1m0s", "[aside] by 10m0s"}; !slices.Equal(subscription.extended, want) {
			t.Errorf("%q, want %q", subscription.extended, want)
		}
	})
}

// The dead letter is looked into twice a minute, at most a hundred messages each time. All of them
// are nacked, also if the count could not be noted, and an empty dead letter is noted as empty.
func TestTheDeadLetterIsCounted(t *testing.T) {
	playScene(t, func(s *scene) {
		s.must(task.Sleep(s.ctx, time.Hour))
		lines := s.retold()
		dead := &counting{deadLetter: deadLetter{scene: s}}
		for i := range 3 {
			dead.waiting = append(dead.waiting, relay.Delivery{ID: fmt.Sprint("x", i)})
		}
		a, _ := s.process()
		a.DeadLetter = dead
		noted := func() string {
			got, err := s.Ledger.DeadLetter(s.ctx)
			s.must(err)
			return fmt.Sprintf("%d, now %t", got.Messages, got.SeenAt.Equal(task.Now(s.ctx)))
		}
		s.must(a.lookIntoDeadLetter(s.ctx))
		if noted() != "3, now true" || dead.ids() != "x0 x1 x2" {
			t.Errorf("noted %s, %s stand in it", noted(), dead.ids())
		}
		away := errors.New("away")
		s.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, away }
		s.must(task.Sleep(s.ctx, time.Minute))
		if err := a.lookIntoDeadLetter(s.ctx); !errors.Is(err, away) || dead.ids() != "x0 x1 x2" {
			t.Errorf("the ledger is away: %v, %s stand in it", err, dead.ids())
		}
		s.store.OnSwap, dead.denied = nil, away
		if err := a.lookIntoDeadLetter(s.ctx); !errors.Is(err, away) || noted() != "3, now true" {
			t.Errorf("a nack fails: %v, noted %s", err, noted())
		}
		dead.denied, dead.waiting = nil, nil
		s.must(task.Sleep(s.ctx, checkpoint.DeadLetterRest))
		s.must(a.lookIntoDeadLetter(s.ctx))
		if noted() != "0, now false" || !slices.Equal(dead.most, []int{100, 100, 100, 100}) {
			t.Errorf("empty: noted %s, pulled %d", noted(), dead.most)
		}
		dead.fails, dead.most, *lines = away, nil, nil
		limited, cancel := task.WithTimeout(s.ctx, 70*time.Second)
		defer cancel()
		s.must(a.watchDeadLetter(limited))
		line := "|read the dead-letter subscription|30s|away"
		if len(dead.most) != 3 || !slices.Equal(*lines, []string{line, line, line}) {
			t.Errorf("looked %d times in 70 s, told %q", len(dead.most), *lines)
		}
	})
}

// counting is a dead letter that records how many messages are asked for.
type counting struct {
	deadLetter
	most   []int
	denied error // of nacks
}

func (c *counting) Pull(ctx context.Context, most int) ([]relay.Delivery, error) {
	c.most = append(c.most, most)
	return c.deadLetter.Pull(ctx, most)
}

func (c *counting) Extend(ctx context.Context, ids []string, by time.Duration) error {
	return errors.Join(c.deadLetter.Extend(ctx, ids, by), c.denied)
}
