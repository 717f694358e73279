package load

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// unreachable is a topic that does not answer for the first minute.
type unreachable struct {
	published map[string]relay.Change
	look      func(ctx context.Context)
}

func (u unreachable) Publish(ctx context.Context, messages []relay.Message) ([]error, int) {
	u.look(ctx)
	outcomes := make([]error, len(messages))
	for i, m := range messages {
		if task.Mono(ctx) < time.Minute {
			outcomes[i] = &relay.Error{Op: "Publish", Name: "t", Reason: relay.Unavailable}
			continue
		}
		c, err := relay.Decode(m.Data)
		subject, _ := relay.Subject(c.Table, c.Keys)
		u.published[subject], outcomes[i] = c, err
	}
	return outcomes, 0
}

// Items of a load count as copied only after they are published: while the topic is unavailable,
// the parts do not move.
func TestALoadIsPublishedBeforeItIsSaved(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		looks := 0
		topic := unreachable{published: map[string]relay.Change{}}
		topic.look = func(ctx context.Context) {
			looks++
			saved := checkpoint.PartsDone(s.parts(ctx), 2).Items
			if n := len(topic.published); int(saved) > n || len(s.live(ctx)) > n {
				t.Errorf("%d items are copied and %d in the target, and %d are published", saved, len(s.live(ctx)), n)
			}
		}
		s.Mode, s.Topic, s.PublishLoads = checkpoint.Both, topic, true
		s.change(ctx, func(state *checkpoint.TableState) { state.StreamARN = "arn" })
		s.sealed(ctx, 2)
		s.check(s.work(ctx, 10*time.Minute, false))
		if done := checkpoint.PartsDone(s.parts(ctx), 2); done.Items != 12 || looks < 15 || len(topic.published) != 12 || len(s.live(ctx)) != 12 {
			t.Errorf("%d items are copied and %d published, of 12", done.Items, len(topic.published))
		}
		for key, c := range topic.published {
			want, err := relay.Subject("Orders", c.New)
			if !c.Loaded || err != nil || key != want || c.Generation != 2 || c.Hop != 0 {
				t.Errorf("published %+v", c)
			}
		}
	})
}
