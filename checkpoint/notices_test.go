package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// The record of the notifications belongs to the last holder of the lease. An earlier holder cannot
// replace it, and an equal record is not written again.
func TestNoticesBelongToTheLastHolder(t *testing.T) {
	ctx, store := context.Background(), &checkpointtest.Memory{}
	open := func(worker string) *checkpoint.Ledger {
		ledger, err := checkpoint.Open(ctx, store, "n", checkpoint.Options{Worker: worker, ID: "l", Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return ledger
	}
	first, second := open("a"), open("b")
	if n, found, err := first.Notices(ctx); found || err != nil {
		t.Fatalf("%+v, %v", n, err)
	}
	at := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	want := checkpoint.Notices{Noticed: []checkpoint.Noticed{{Kind: "parked", Table: "Orders", Since: at}},
		Unsent: []checkpoint.Unsent{{At: at, To: []string{"r"}, Body: json.RawMessage(`{"id":"1"}`)}}}
	for _, c := range []struct {
		by    *checkpoint.Ledger
		epoch uint64
		want  error
	}{{first, 1, nil}, {first, 1, nil}, {second, 2, nil}, {first, 1, checkpoint.ErrNoticesTaken}} {
		if err := c.by.SaveNotices(ctx, c.epoch, want); !errors.Is(err, c.want) {
			t.Errorf("epoch %d: %v, want %v", c.epoch, err, c.want)
		}
	}
	got, found, err := first.Notices(ctx)
	if err != nil || !found || got.Epoch != 2 || len(got.Noticed) != 1 || got.Noticed[0] != want.Noticed[0] || string(got.Unsent[0].Body) != `{"id":"1"}` {
		t.Errorf("%+v, %t, %v", got, found, err)
	}
	rows, err := store.Read(ctx, "n/notices")
	if err != nil || len(rows) != 1 || rows[0].Counter != 2 {
		t.Errorf("%+v, %v: want one row that was written twice", rows, err)
	}
}

// A request has lapsed if it was cancelled at its expiry, or because no moment came, before a freeze.
func TestLapsedRequests(t *testing.T) {
	at := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		record checkpoint.Cutover
		want   bool
	}{
		{"waits", checkpoint.Cutover{Step: checkpoint.CutoverRequested, CutoverPlan: checkpoint.CutoverPlan{Expires: at}}, false},
		{"expired", checkpoint.Cutover{Step: checkpoint.CutoverCancelled, EndedAt: at, CutoverPlan: checkpoint.CutoverPlan{Expires: at}}, true},
		{"cancelled earlier", checkpoint.Cutover{Step: checkpoint.CutoverCancelled, EndedAt: at.Add(-1), CutoverPlan: checkpoint.CutoverPlan{Expires: at}}, false},
		{"cancelled without an expiry", checkpoint.Cutover{Step: checkpoint.CutoverCancelled, EndedAt: at}, false},
		{"cancelled after a freeze", checkpoint.Cutover{Step: checkpoint.CutoverCancelled, EndedAt: at, FreezeBegunAt: at, CutoverPlan: checkpoint.CutoverPlan{Expires: at}}, false},
		{"no moment", checkpoint.Cutover{Step: checkpoint.CutoverCancelled, EndedAt: at, NoMoment: true}, true},
	} {
		if got := c.record.Lapsed(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
