package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/apply"
	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// appliers are the processes of a run in mode topic that write the messages of the topic. They are
// killed, stopped, and paused for hours with messages in flight, singly and all at the same time.
// Sometimes they are away for longer than the subscription keeps messages.
type appliers struct {
	r            *relaying
	subscription *model.Subscription
	all          []*Worker
	hired        int
	away         time.Duration // until then, no ended applier is replaced
}

// drawAppliers returns how many appliers a publishing run has: in some none, where the readers
// write, in most a few, and in a few up to fifty.
func drawAppliers(seed uint64) int {
	rng := stream(seed, "how many appliers")
	switch rng.IntN(25) {
	case 0, 1, 2, 3:
		return 0
	case 4:
		return 8 + rng.IntN(43)
	}
	return 1 + rng.IntN(4)
}

func newAppliers(r *relaying, number int) *appliers {
	a := &appliers{r: r, subscription: model.NewSubscription(r.s.World), all: make([]*Worker, number)}
	rng := stream(r.s.plan.seed, "subscription")
	part := func(most float64) float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return most * rng.Float64()
	}
	a.subscription.Twice, a.subscription.Forget, a.subscription.Fail = part(0.2), part(0.3), part(0.2)
	a.subscription.Down = r.topic.Down
	a.subscription.Kept = checkpoint.LongestKept
	if r.s.TombstoneAge == 0 && rng.IntN(6) == 0 {
		a.subscription.Kept = time.Duration((2 + 6*rng.Float64()) * float64(time.Hour))
	}
	return a
}

// begin starts the processes and their faults, until the faults are over.
func (a *appliers) begin() {
	s := a.r.s
	for i := range a.all {
		a.hire(i)
	}
	rng := stream(s.plan.seed, "appliers")
	if rng.IntN(4) == 0 {
		begins := time.Duration(rng.Int64N(int64(s.plan.length)))
		long := s.limit(time.Duration(float64(48*time.Hour) * rng.Float64() * rng.Float64()))
		s.World.After(begins, func() { a.allAway(rng.IntN(3), long) })
	}
	each := 40 * time.Minute / time.Duration(1+len(a.all)/8)
	s.World.Go("appliers", func(ctx context.Context) {
		for task.Sleep(ctx, time.Duration(float64(each)*rng.Float64())) == nil {
			if w := a.all[rng.IntN(len(a.all))]; s.World.Elapsed() < s.plan.length && !w.Over && !w.Dead() {
				a.disturb(w, rng)
			}
			a.replace()
		}
	})
}

func (a *appliers) disturb(w *Worker, rng *rand.Rand) {
	s := a.r.s
	switch chance := rng.Float64(); {
	case chance < 0.2:
		s.World.Inject("applier killed")
		w.Kill()
	case chance < 0.3:
		s.World.Inject("applier stopped")
		w.stop(context.Canceled)
	case chance < 0.5:
		long := 3 * time.Hour
		if chance > 0.47 {
			long = s.limit(24 * time.Hour)
		}
		s.World.Inject("applier stands still")
		a.still(w, time.Duration(float64(long)*rng.Float64()*rng.Float64()))
	}
}

func (a *appliers) still(w *Worker, long time.Duration) {
	w.Pause(long)
	a.r.s.begun = max(a.r.s.begun, a.r.s.World.Elapsed()+long)
}

// allAway takes all appliers away for a time: killed, stopped, or paused with their messages.
func (a *appliers) allAway(how int, long time.Duration) {
	s := a.r.s
	s.World.Inject("all appliers away")
	s.World.Tracef("all appliers are away for %s", long)
	a.away = s.World.Elapsed() + long
	s.begun = max(s.begun, a.away)
	for _, w := range a.all {
		switch how {
		case 0:
			w.Kill()
		case 1:
			w.stop(context.Canceled)
		default:
			a.still(w, long)
		}
	}
}

// replace starts new appliers for those that ended.
func (a *appliers) replace() {
	s := a.r.s
	for i, w := range a.all {
		if w.Over && w.Err != nil && !s.excused(w.Err) && !errors.Is(w.Err, context.Canceled) {
			s.fail("I10", "%s ended by itself: %v", w.Name(), w.Err)
		}
		if (w.Over || w.Dead()) && s.World.Elapsed() >= a.away {
			a.hire(i)
		}
	}
}

// hire starts an applier. In a large crew each records its progress less often, because idle
// appliers cost the most.
func (a *appliers) hire(i int) {
	s := a.r.s
	a.hired++
	a.all[i] = s.StartApplier(fmt.Sprintf("applier%d", a.hired), s.hash, a.subscription, time.Duration(len(a.all))*time.Second)
}

// StartApplier starts a process that writes the messages of a subscription, under a mapping's hash.
func (m *Migration) StartApplier(name, hash string, from *model.Subscription, commit time.Duration) *Worker {
	return startProcess(m.World, name, func(stop, _ context.Context) error {
		return m.applyTopic(stop, name, from, commit, engine.Spec{Mapping: m.Mapping, MappingHash: hash, Late: m.Late})
	})
}

func (m *Migration) applyTopic(ctx context.Context, name string, from *model.Subscription, commit time.Duration, tables ...engine.Spec) error {
	var ledger *checkpoint.Ledger
	for {
		var err error
		ledger, err = checkpoint.Open(ctx, m.Store(), "default", checkpoint.Options{Worker: name, ID: fmt.Sprintf("ledger-%d", m.World.Steps()), Lease: m.Lease})
		if err == nil {
			break
		}
		if err := task.Sleep(ctx, time.Second); err != nil {
			return nil
		}
	}
	target, timing := model.Target{Bigtable: m.Target}, m.Timing
	timing.Commit = commit
	held := 40
	if m.Late > 0 {
		held = 1000
	}
	return apply.Run(ctx, apply.Options{
		Ledger: ledger, Subscription: from, Timing: timing, Pulls: 2, Pull: 7, Held: held, SettleBytes: m.SettleBytes,
		Tables: tables,
		Writer: sink.NewWriter(sink.Options{Table: target, Rows: target, Parking: sink.NewParking(target, "default"), InFlight: 16, MaxImageAge: m.MaxImageAge,
			OnBadItem: m.Policy.onBadItem, MaxParked: m.Policy.maxParked}),
		Events: engine.Events{Retry: func(_, step string, _ time.Duration, err error) { m.World.Tracef("%s: %v", step, err) }},
	})
}

func (a *appliers) peace() {
	a.subscription.Twice, a.subscription.Forget, a.subscription.Fail = 0, 0, 0
}

// noted checks that everything an applier records as applied is applied or parked (I3).
func (a *appliers) noted(key string, after *model.Row) {
	s := a.r.s
	if s.isSetBack() || !strings.HasPrefix(key, "default/applied/"+s.Source.Name+"/") {
		return // two ledgers may have used the same generation
	}
	is := recordOf[struct {
		Tracks []checkpoint.Applied `json:"tracks"`
	}](after)
	for _, t := range is.Tracks {
		for n, messages := range a.r.numbers {
			if n.generation != t.Generation || n.label != t.Label || n.shard != t.Shard {
				continue
			}
			s.World.Tracef("%s: noted of generation %d of shard %s: %v", key, t.Generation, t.Shard, t.Runs)
			for _, run := range t.Runs {
				for number := run.From; number <= run.To; number++ {
					c, ok := messages[number]
					if !ok {
						s.fail("I3", "message %d of %s is noted, and nobody has published it", number, n.shard)
						return
					}
					a.checkWritten(c)
				}
			}
		}
	}
}

// expiry returns the longest time until expired messages are found to be missing; 0 if none have
// expired.
func (s *simulation) expiry() time.Duration {
	if s.relay == nil || s.relay.appliers == nil {
		return 0
	}
	// This counts what has expired, even if no applier pulls.
	s.relay.appliers.subscription.Backlog()
	if s.relay.appliers.subscription.Expired == 0 {
		return 0
	}
	return s.relay.appliers.subscription.Kept + checkpoint.Slack + s.patience()
}

// unsettled describes the messages that are not confirmed as applied, or returns "".
func (a *appliers) unsettled() string {
	s := a.r.s
	ledger, err := s.Ledger(s.ctx)
	if err != nil {
		return err.Error()
	}
	merged, err := ledger.Merged(s.ctx, s.Source.Name)
	if err != nil {
		return err.Error()
	}
	for _, shard := range checkpoint.Unapplied(s.State(), s.Shards(), merged) {
		n, _ := shard.Behind(merged)
		return fmt.Sprintf("%d messages of shard %s are not known to be applied; %d in the subscription", n, shard.ID, a.subscription.Backlog())
	}
	return ""
}

// checkWritten checks that the rows of a message's image hold its version or a higher one.
func (a *appliers) checkWritten(c relay.Change) {
	s := a.r.s
	image := c.New
	if !image.Exists() {
		image = c.Old
	}
	aged := s.TombstoneAge > 0 && s.World.Now().Sub(c.Time) > s.TombstoneAge
	if c.Omitted != "" || c.Expired && s.Outlives || aged || !image.Exists() || s.isSetBack() {
		return
	}
	rows, err := s.Mapping.Addresses(image)
	if err != nil {
		return // it is parked
	}
	for _, row := range rows {
		if heldIn(s.Target.Row(row.Table, row.Row), versionColumn(row.Owner)) < string(c.Version()) {
			s.fail("I3", "message %d of %s is noted as applied, and is not: %s", c.Number, c.Shard, c.Version())
		}
	}
}
