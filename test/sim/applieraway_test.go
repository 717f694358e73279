package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// piped is a scene with workers that publish and appliers that write.
type piped struct {
	*scene
	topic        *model.Topic
	subscription *model.Subscription
	hired        int
}

// pipe gives a scene a topic with faults, whose messages are kept for the time kept, a worker that
// publishes to it, and appliers.
func pipe(s *scene, appliers int, kept time.Duration) (p *piped, relayer *Worker, all []*Worker) {
	p = lay(s, kept)
	p.topic.Stored = func(m relay.Message) { p.subscription.Take(m) }
	relayer = p.relays()
	s.until(2*time.Hour, "a first generation", func() bool { return s.State().Generation > 0 })
	for range appliers {
		all = append(all, p.applies())
	}
	s.until(4*time.Hour, "loaded", func() bool { return s.State().Loaded() })
	return p, relayer, all
}

// lay gives a scene only the topic.
func lay(s *scene, kept time.Duration) *piped {
	s.Lease, s.FromTopic = 10*time.Minute, true
	s.Timing = engine.Timing{Poll: 5 * time.Minute, Pass: 5 * time.Minute, List: 10 * time.Minute}
	p := &piped{scene: s, topic: model.NewTopic(s.World), subscription: model.NewSubscription(s.World)}
	p.topic.Fail, p.topic.LoseReply, p.topic.Late = 0.1, 0.1, 0.05
	p.subscription.Twice, p.subscription.Forget, p.subscription.Fail = 0.1, 0.2, 0.1
	p.subscription.Kept = kept
	return p
}

func (p *piped) relays() *Worker {
	p.hired++
	return p.Start(fmt.Sprint("relay", p.hired), func(o *engine.Options) { o.Mode, o.Topic, o.Kept = checkpoint.Topic, p.topic, p.subscription.Kept })
}

func (p *piped) applies() *Worker {
	p.hired++
	return p.StartApplier(fmt.Sprint("applier", p.hired), "h1", p.subscription, time.Minute)
}

// changes writes to some items until the time has passed.
func (p *piped) changes(during time.Duration) {
	for until := p.World.Elapsed() + during; p.World.Elapsed() < until; p.sleep(time.Hour) {
		key := fmt.Sprint("k", p.World.Rand().IntN(6))
		p.put(key, fmt.Sprint(p.World.Elapsed()))
		if p.World.Chance(0.2) {
			p.del(key)
		}
	}
}

// I11: no applier runs for two days, no relay for twenty hours, and then neither. Nothing is lost,
// and no gap is declared.
func TestLongAbsencesLoseNothing(t *testing.T) {
	const appliersAway, relayAway = 48 * time.Hour, 20 * time.Hour
	for name, away := range map[string]struct{ appliers, relay bool }{
		"appliers": {appliers: true}, "relay": {relay: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 3, 2, func(s *scene) {
				p, relayer, appliers := pipe(s, 2, checkpoint.LongestKept)
				p.changes(2 * time.Hour)
				if away.appliers {
					appliers[0].Kill()
					p.stop(appliers[1])
				}
				if away.relay {
					relayer.Kill()
					p.changes(relayAway)
					p.relays()
				}
				if away.appliers && away.relay {
					p.changes(appliersAway - relayAway)
				} else if away.appliers {
					p.changes(appliersAway)
				}
				if away.appliers {
					if p.subscription.Backlog() == 0 {
						s.failf("nothing waits for appliers")
					}
					p.applies()
				}
				s.inSync(4 * time.Hour)
				s.until(4*time.Hour, "all is known to be applied", func() bool { return p.unapplied() == 0 })
			})
		})
	}
}

// unapplied returns how many shards have messages that are not confirmed as applied.
func (p *piped) unapplied() int {
	ledger, err := p.Ledger(p.ctx)
	if err != nil {
		return 1
	}
	merged, err := ledger.Merged(p.ctx, p.Source.Name)
	if err != nil {
		return 1
	}
	return len(checkpoint.Unapplied(p.State(), p.Shards(), merged))
}

// I5, I11: messages that expire before an applier applies them are a gap, and the table is loaded
// again.
func TestExpiredMessagesAreAGap(t *testing.T) {
	t.Parallel()
	play(t, 3, 2, func(s *scene) {
		p, _, appliers := pipe(s, 1, 3*time.Hour)
		p.changes(2 * time.Hour)
		p.stop(appliers[0])
		p.changes(8 * time.Hour)
		p.applies()
		s.gap(2*time.Hour, "messages after number")
		s.until(4*time.Hour, "all is known to be applied", func() bool { return p.unapplied() == 0 })
		s.readsOn(2*time.Hour, "k0", "k1")
	})
}
