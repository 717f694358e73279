package checkpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A read that finds no message does not immediately count as empty, because another process may
// hold the messages.
func TestDeadLetterIsEmptyOnceItRests(t *testing.T) {
	ctx := context.Background()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "n", checkpoint.Options{Worker: "w", ID: "l", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	for i, look := range []struct {
		after           time.Duration
		finds, messages int
		since           time.Duration
	}{
		{0, 0, 0, 0}, {time.Minute, 3, 3, time.Minute}, {2 * time.Minute, 1, 3, time.Minute}, {6 * time.Minute, 0, 3, time.Minute},
		{7 * time.Minute, 0, 0, 0}, {8 * time.Minute, 1, 1, 8 * time.Minute},
	} {
		if err := ledger.NoteDeadLetter(ctx, began.Add(look.after), look.finds); err != nil {
			t.Fatal(err)
		}
		got, err := ledger.DeadLetter(ctx)
		if err != nil || got.Messages != look.messages || look.messages > 0 && !got.Since.Equal(began.Add(look.since)) {
			t.Errorf("look %d: %+v, %v; want %d since %s", i, got, err, look.messages, look.since)
		}
	}
}
