package switchover

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The keys of late writes are read from the stream on request alone: neither the record nor a status
// without --show-keys has them. A key that the stream no longer holds is missing, and said to be.
func TestShowKeys(t *testing.T) {
	show := func(keys bool, output string) func(context.Context, *Operator) error {
		return func(ctx context.Context, o *Operator) error {
			o.ShowKeys, o.Output = keys, output
			return o.Show(ctx)
		}
	}
	playScene(t, func(s *scene) {
		s.stands(checkpoint.CutoverWatching)
		frozen := s.Now()
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.FrozenAt = frozen; return nil }))
		s.Sleep(10 * time.Second)
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("late")))
		at := s.Now()
		key := &transform.Mapping{PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}
		hash, gone := sink.HashOf(key.ItemKey(kit.Item("late"))), sink.HashOf("trimmed")
		s.Must(s.Update(func(c *checkpoint.Cutover) error {
			c.Strays, c.Stragglers = 2, []checkpoint.CutoverStraggler{{Table: "Orders", Key: hash, At: at}, {Table: "Orders", Key: gone, At: at}}
			return nil
		}))
		d, code := s.run(s.Ctx, show(false, "json"))
		if code != "" || d.StrayKeys != nil || !slices.ContainsFunc(d.Stragglers, func(c checkpoint.CutoverStraggler) bool { return c.Key == hash }) || strings.Contains(s.stdout.String(), "late\"") {
			t.Errorf("%s: %s", code, &s.stdout)
		}
		if d, code = s.run(s.Ctx, show(true, "json")); code != "" || len(d.StrayKeys) != 1 || !strings.Contains(string(d.StrayKeys[hash]), "late") {
			t.Errorf("%s: %s", code, &s.stdout)
		}
		o := s.operator()
		s.stdout.Reset()
		s.Must(show(true, "text")(s.Ctx, o))
		if text := s.stdout.String(); !strings.Contains(text, "item "+hash+" of table Orders") || !strings.Contains(text, `"late"`) || !strings.Contains(text, ": the stream no longer has its key") {
			t.Errorf("%s", text)
		}
	})
}
