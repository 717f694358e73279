package checkpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Two processes have read the record of a table's freeze. Only the first one can write it.
func TestTableFreezeIsSavedOnce(t *testing.T) {
	ctx := t.Context()
	l := openOn(t, ctx, &checkpointtest.Memory{}, "a", time.Second)
	first, err := l.TableFreeze(ctx, "Orders")
	if err != nil || first.Attempt != 0 || first.Source != "Orders" {
		t.Fatalf("before the first freeze: %+v, %v", first, err)
	}
	second, err := l.TableFreeze(ctx, "Orders")
	if err != nil {
		t.Fatal(err)
	}
	first.FreezeState = checkpoint.FreezeState{Attempt: 3, Sid: "S3", Open: true, Signed: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	if err := l.SaveTableFreeze(ctx, &first); err != nil {
		t.Fatal(err)
	}
	second.Attempt = 2
	if err := l.SaveTableFreeze(ctx, &second); !errors.Is(err, checkpoint.ErrMoved) {
		t.Errorf("the other process saves an older record: %v", err)
	}
	first.Ends = true
	if err := l.SaveTableFreeze(ctx, &first); err != nil {
		t.Errorf("the second write of the first process: %v", err)
	}
	if got, err := l.TableFreeze(ctx, "Orders"); err != nil || got.FreezeState != first.FreezeState {
		t.Errorf("the record is %+v, want %+v: %v", got, first, err)
	}
	if got, err := l.TableFreeze(ctx, "Orders2"); err != nil || got.Attempt != 0 {
		t.Errorf("another table: %+v, %v", got, err)
	}
}
