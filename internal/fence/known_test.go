package fence_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// A target table that is protected against the loss of families keeps no fence: creating a family
// succeeds there, and dropping one never does. Mend does not forget that.
func TestAFenceThatCannotBeDroppedStaysWithheld(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		protect := func() {
			schema.drops = []error{failure(sink.Permanent, "FailedPrecondition"), failure(sink.Permanent, "FailedPrecondition")}
		}
		for range 2 {
			if _, err := f.Raise(ctx, "t"); err != nil {
				t.Fatal(err)
			}
		}
		target, _, err := f.Ledger.Target(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		protect()
		if why, err := f.Drop(ctx, "t", target.Fence); err != nil || why == "" {
			t.Fatalf("the drop: %q, %v", why, err)
		}
		protect()
		if err := f.Mend(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if target, _, err = f.Ledger.Target(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		known.Defect(t, 45, "after Mend the fence counts as kept", known.Expect(target.Withheld != "", "after Mend the fence counts as kept"))
	})
}

// Former families of the fence do not pile up in a target table that many loads raise it for.
func TestFormerFamiliesOfTheFenceAreDropped(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		for range 12 {
			if _, err := f.Raise(ctx, "t"); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Mend(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, name := range schema.names {
			if strings.HasPrefix(name, "_cdc_w") {
				n++
			}
		}
		known.Defect(t, 45, "12 families of the fence are left", known.Expect(n <= 2, "%d families of the fence are left", n))
	})
}
