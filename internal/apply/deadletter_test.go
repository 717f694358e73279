package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// The dead letter is counted and given back unchanged. A failure is reported and retried, but not
// one that is caused by the end of the process.
func TestTheDeadLetterIsLeftAsItIs(t *testing.T) {
	playScene(t, func(s *scene) {
		dead := &deadLetter{scene: s}
		s.DeadLetter = dead
		for i := range 3 {
			dead.waiting = append(dead.waiting, relay.Delivery{ID: fmt.Sprint("x", i)})
		}
		s.applies(70 * time.Second)
		if noted, err := s.Ledger.DeadLetter(s.ctx); err != nil || noted.Messages != 3 || dead.pulled != 3 || dead.ids() != "x0 x1 x2" || len(dead.acked) > 0 {
			t.Errorf("%+v, %v; looked %d times, %s stand in it, %d are acknowledged", noted, err, dead.pulled, dead.ids(), len(dead.acked))
		}
		dead.fails, s.failed = errors.New("away"), nil
		s.applies(10 * time.Second)
		if !slices.Equal(s.failed, []string{"read the dead-letter subscription"}) {
			t.Errorf("told %q", s.failed)
		}
		dead.fails, dead.slow, s.failed = nil, true, nil
		if s.applies(10 * time.Second); len(s.failed) > 0 {
			t.Errorf("a process that ends tells %q", s.failed)
		}
	})
	playScene(t, func(s *scene) { // an empty pull gives nothing back
		dead := &deadLetter{scene: s}
		s.DeadLetter = dead
		if s.applies(10 * time.Second); dead.given > 0 || dead.pulled != 1 {
			t.Errorf("given back %d times", dead.given)
		}
	})
}

// deadLetter is a subscription that returns all that it holds.
type deadLetter struct {
	*scene
	waiting []relay.Delivery
	acked   []string
	pulled  int
	given   int // how often something was given back
	fails   error
	slow    bool // it answers after a minute
}

func (d *deadLetter) ids() string {
	var ids []string
	for _, m := range d.waiting {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (d *deadLetter) Pull(ctx context.Context, _ int) ([]relay.Delivery, error) {
	if d.slow {
		return nil, task.Sleep(ctx, time.Minute)
	}
	got := d.waiting
	if d.fails == nil {
		d.waiting = nil
	}
	d.pulled++
	return got, d.fails
}

func (d *deadLetter) Ack(_ context.Context, ids []string) error {
	d.acked = append(d.acked, ids...)
	return nil
}

func (d *deadLetter) Extend(_ context.Context, ids []string, by time.Duration) error {
	d.given++
	for _, id := range ids {
		if by == 0 {
			d.waiting = append(d.waiting, relay.Delivery{ID: id})
		}
	}
	return nil
}
