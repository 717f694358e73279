package apply

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A message is noted before it is acknowledged. A process that ends between the two gets it again;
// in the other order the message might never be known as applied.
func TestWhatIsAppliedIsNotedBeforeItIsAcknowledged(t *testing.T) {
	playScene(t, func(s *scene) {
		s.message(1, 7)
		s.applies(10 * time.Second)
		if !slices.Equal(s.told, []string{"note", "ack d1"}) || s.writes != 1 || !s.noted(1) {
			t.Errorf("%q after %d writes", s.told, s.writes)
		}
	})
}

// The room of a message is freed whatever happens to it: acknowledged, given back, dropped, or
// pulled in vain. The process continues to pull.
func TestRoomIsFreeAfterEachMessage(t *testing.T) {
	for name, leave := range map[string]func(s *scene){
		"acknowledged": func(s *scene) { s.message(uint64(len(s.waiting)+2), 7) },
		"given back":   func(s *scene) { s.waiting = append(s.waiting, relay.Delivery{ID: "poison", Data: []byte("none")}) },
		"dropped": func(s *scene) {
			s.change(func(state *checkpoint.TableState) { state.Load.Generation = 7 })
			s.message(uint64(len(s.waiting)+2), 6)
		},
		"pulled in vain":  func(*scene) {},
		"in another form": func(s *scene) { s.waiting = append(s.waiting, relay.Delivery{ID: "poison"}) },
	} {
		playScene(t, func(s *scene) {
			s.Held = 2
			for range 5 {
				leave(s)
			}
			s.meanwhile = func(after time.Duration) {
				if after > 20*time.Second && !slices.Contains(s.told, "ack d1") && len(s.waiting) == 0 {
					s.message(1, 7)
					s.meanwhile = nil
				}
			}
			s.applies(time.Minute)
			if !slices.Contains(s.told, "ack d1") || !s.noted(1) {
				t.Errorf("%s: %q", name, s.told)
			}
		})
	}
}

// If the application writes too, a message counts as applied after its second, exact application.
// If a load of a newer generation begins in between, the message is dropped and does not count.
func TestASecondApplicationDecidesWhatCounts(t *testing.T) {
	for _, overtaken := range []bool{false, true} {
		playScene(t, func(s *scene) {
			s.Tables[0].Late = 30 * time.Second
			s.message(1, 7)
			raised := false
			s.meanwhile = func(after time.Duration) {
				if overtaken && after > 10*time.Second && !raised {
					raised = true
					s.change(func(state *checkpoint.TableState) { state.Generation, state.Load.Generation = 8, 8 })
				}
				if after < 30*time.Second && len(s.told) > 0 {
					t.Errorf("overtaken %t: after %s %q", overtaken, after, s.told)
				}
			}
			s.applies(time.Minute)
			want, writes := []string{"note", "ack d1"}, 2
			if overtaken {
				want, writes = []string{"ack d1"}, 1
			}
			if !slices.Equal(s.told, want) || s.writes != writes || s.noted(1) == overtaken {
				t.Errorf("overtaken %t: %q after %d writes", overtaken, s.told, s.writes)
			}
		})
	}
}

// The right to write is proved again after a moment. A message that a newer load has made obsolete
// is not written on an old proof.
func TestTheRightToWriteIsProvedAgain(t *testing.T) {
	playScene(t, func(s *scene) {
		s.message(1, 7)
		sent := false
		s.meanwhile = func(after time.Duration) {
			if after > 5*time.Second && !sent {
				sent = true
				s.message(2, 7)
			}
			if after > time.Second && after < 2*time.Second {
				s.change(func(state *checkpoint.TableState) { state.Generation, state.Load.Generation = 8, 8 })
			}
		}
		s.applies(20 * time.Second)
		if s.writes != 1 || !slices.Contains(s.told, "ack d2") || !s.noted(1) || s.noted(2) {
			t.Errorf("%d writes, %q", s.writes, s.told)
		}
	})
}

// A delivery that was given back or acknowledged during its extension is not extended again if that
// fails: the process no longer holds it. A held one is extended again immediately, with the same
// deadline: one that was set aside stays so.
func TestWhatIsNotHeldIsNotExtendedAgain(t *testing.T) {
	d := deadlines{due: map[string]deadline{}}
	taken := func(now time.Duration, held, aside string) {
		t.Helper()
		ids, others := d.take(now)
		if got := strings.Join(ids, " "); got != held || strings.Join(others, " ") != aside {
			t.Errorf("at %s: held %q, aside %q; want %q and %q", now, got, others, held, aside)
		}
	}
	d.hold([]relay.Delivery{{ID: "a"}, {ID: "b"}}, 0)
	taken(extendFirst-1, "", "") // what is applied soon keeps its own deadline, which is short
	taken(extendFirst, "a b", "")
	taken(extendFirst+extendEach-1, "", "")
	d.forget("a")
	d.again([]string{"a", "b"})
	taken(extendFirst+1, "b", "")
	taken(extendFirst+1+extendEach, "b", "")

	d.forget("b")
	now := time.Hour
	d.setAside("kept", false)
	d.setAside("full", true)
	taken(now, "", "full kept")
	taken(now+asideEach-1, "", "")
	taken(now+asideEach, "", "kept")
	taken(now+2*asideEach, "", "kept")
	d.again([]string{"kept", "full"})
	taken(now+2*asideEach+1, "", "kept")
}

// H39: a message is due before its delay has passed only if the application promised that its
// writes for the change have ended. A promise moves no other message.
func TestH39_APromiseHastensTheMessagesThatItCovers(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Tables[0].Late = 5 * time.Minute
		exact := map[uint64]time.Duration{}
		s.answer = func(_ context.Context, r *sink.Request) error {
			if v := r.Refuse.AtLeast; v.Count() == transform.CountExact {
				number, _ := strconv.ParseUint(strings.TrimLeft(v.Sequence().String(), "0"), 10, 64)
				exact[number] = s.took()
			}
			return nil
		}
		promise := task.Now(s.ctx).Add(20 * time.Second)
		s.after(10*time.Second, func() {
			s.message(1, 7)
			s.send(2, func(c *relay.Change) { c.Time = promise.Add(time.Second) })
			s.send(3, func(c *relay.Change) {
				c.Time, c.Expired, c.Event, c.Old, c.New = promise.Add(time.Second), true, cdc.Remove, c.New, attribute.Item{}
			})
			s.send(4, func(c *relay.Change) { c.Time = promise })
		})
		s.after(time.Minute, func() {
			s.change(func(state *checkpoint.TableState) {
				state.Quieten(checkpoint.Quiet{At: promise, To: promise.Add(time.Second)})
			})
		})
		s.applies(10 * time.Minute)
		for number, early := range map[uint64]bool{1: true, 2: false, 3: true, 4: true} {
			if at := exact[number]; early && (at < time.Minute || at > 65*time.Second) || !early && (at < 310*time.Second || at > 320*time.Second) || !s.noted(number) {
				t.Errorf("message %d: settled after %s", number, at)
			}
		}
	})
	if covers(checkpoint.Quiet{At: time.Unix(100, 0)}, cdc.Change{}) {
		t.Error("a change without a time is covered")
	}
}
