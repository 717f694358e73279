package sim

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// start is the start of every simulated run.
var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func item(pk, sk, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{
		{Name: "pk", Value: attribute.String(pk)}, {Name: "sk", Value: attribute.String(sk)}, {Name: "value", Value: attribute.String(value)},
	})
}

// runs plays a script for at most the given time. It expects that the script ends and the checkers
// find nothing.
func runs(t *testing.T, m *Migration, atMost time.Duration, script func(ctx context.Context)) {
	t.Helper()
	if err := m.World.Run(atMost, script); err != nil {
		t.Error(err)
	}
	for _, broken := range m.Broken() {
		t.Error(broken)
	}
}
