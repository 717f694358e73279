package status

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
)

// The document shows whether late writes are rejected. If they are not, the text shows it too, with
// the reason.
func TestFenceIsTold(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		l := s.worker("a")
		s.begin(ctx, l, "1")
		tables := []config.Table{{From: "Orders", To: "orders"}}
		for i, c := range []struct{ withheld, want string }{{"", `"fence":null,"fence_reason":null`}, {"", `"fence":"kept","fence_reason":null`},
			{"the permission is missing", `"fence":"withheld","fence_reason":"the permission is missing"`}} {
			if i > 0 {
				_, err := l.UpdateTarget(ctx, "orders", func(t *checkpoint.Target) error { t.Fence, t.Withheld = 7, c.withheld; return nil })
				s.check(err)
			}
			inputs, err := readTables(ctx, l, sink.NewParking(&sinktest.Records{}, "test"), tables)
			s.check(err)
			s.check(readFences(ctx, l, tables, inputs))
			m := NewDocument(&config.Config{}, func(string) (string, bool) { return "", false }, noon)
			m.add(tables[0], inputs[0])
			m.conclude()
			text, err := json.Marshal(m)
			s.check(err)
			if !strings.Contains(string(text), c.want) {
				t.Errorf("%d: %s", i, text)
			}
			var shown bytes.Buffer
			s.check(m.Render(&shown, false))
			if told := strings.Contains(shown.String(), "Fence: Orders: late writes are not rejected: "+c.withheld); told != (c.withheld != "") {
				t.Errorf("%d: %s", i, shown.String())
			}
		}
	})
}
