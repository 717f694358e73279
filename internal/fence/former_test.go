package fence_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// fences are the families of the fence in a schema.
func fences(schema *families) (found []string) {
	for _, name := range schema.names {
		if strings.HasPrefix(name, "_cdc_w") {
			found = append(found, name)
		}
	}
	return found
}

// A target table that is protected against the loss of families keeps no fence: creating a family
// succeeds there, and dropping one never does. Neither a look at the families nor a raise forgets
// that, and no family is added for it, until a drop succeeds.
func TestAFenceThatCannotBeDroppedStaysWithheld(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		protect := func(on bool) {
			if schema.drops = nil; on {
				schema.drops = slices.Repeat([]error{failure(sink.Permanent, "FailedPrecondition")}, 9)
			}
		}
		stands := func(when string, withheld bool) {
			t.Helper()
			if target, _, err := f.Ledger.Target(ctx, "t"); err != nil || (target.Withheld != "") != withheld {
				t.Errorf("%s: %+v, %v", when, target, err)
			}
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
		protect(true)
		if why, err := f.Drop(ctx, "t", target.Fence); err != nil || why == "" {
			t.Fatalf("the drop: %q, %v", why, err)
		}
		was := len(schema.names)
		for range 3 {
			protect(true)
			if err := f.Mend(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			stands("after a look", true)
			protect(true)
			if _, err := f.Raise(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			stands("after a raise", true)
		}
		if len(schema.names) != was {
			t.Errorf("families were added: %v", schema.names)
		}
		schema.drops = []error{failure(sink.Unknown, "Unavailable")}
		if err := f.Mend(ctx, "t"); !sink.Is(err, sink.Unknown) {
			t.Errorf("a drop of unknown outcome: %v", err)
		}
		stands("after a drop of unknown outcome", true)
		protect(false)
		if err := f.Mend(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		stands("after a drop", false)
		if target, _, _ := f.Ledger.Target(ctx, "t"); !slices.Equal(fences(schema), []string{number(target.Fence)}) {
			t.Errorf("number %d, and families %v", target.Fence, schema.names)
		}
	})
}

// A table without any family of the fence shows whether it is protected only once one was created
// and dropped: withheld before, it stays so.
func TestAFenceIsTriedBeforeItIsKept(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		if _, err := (fence.Fence{Ledger: f.Ledger}).Raise(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			schema.drops = []error{failure(sink.Permanent, "FailedPrecondition"), failure(sink.Permanent, "FailedPrecondition")}
			if err := f.Mend(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			if got, _, err := f.Ledger.Target(ctx, "t"); err != nil || got.Withheld == "" || got.Fence != 0 || len(fences(schema)) != 1 {
				t.Errorf("look %d: %+v, %v, families %v", i, got, err, schema.names)
			}
		}
		schema.drops = nil
		if err := f.Mend(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.Ledger.Target(ctx, "t"); err != nil || got.Withheld != "" || !slices.Equal(fences(schema), []string{number(got.Fence)}) {
			t.Errorf("%+v, %v, families %v", got, err, schema.names)
		}
	})
}

// Former families of the fence do not pile up in a target table that many loads raise it for: two
// are there while a number is raised, and one at rest. Those of other ledgers stay.
func TestFormerFamiliesOfTheFenceAreDropped(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		other := sink.FenceFamily("another", 5)
		schema.names = append(schema.names, other)
		for range 12 {
			if _, err := f.Raise(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			if n := len(fences(schema)); n > 3 {
				t.Errorf("%d families: %v", n, schema.names)
			}
		}
		schema.drops = []error{failure(sink.Unknown, "Unavailable")}
		if _, err := f.Raise(ctx, "t"); err != nil {
			t.Errorf("a former number that cannot be dropped now is waited for: %v", err)
		}
		if err := f.Clear(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		target, _, err := f.Ledger.Target(ctx, "t")
		if want := []string{other, number(target.Fence)}; err != nil || !slices.Equal(fences(schema), want) {
			t.Errorf("%v, %v", schema.names, err)
		}
		schema.names = append(schema.names, number(7)) // of a creation that was executed late
		if err := f.Mend(ctx, "t"); err != nil || slices.Contains(schema.names, number(7)) {
			t.Errorf("after a look: %v, %v", schema.names, err)
		}
		schema.names, schema.drops = append(schema.names, number(8)), []error{failure(sink.Permanent, "FailedPrecondition")}
		if err := f.Clear(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if target, _, err := f.Ledger.Target(ctx, "t"); err != nil || target.Withheld == "" {
			t.Errorf("a table that is protected by now: %+v, %v", target, err)
		}
		if err := f.Clear(ctx, "t"); err != nil || !slices.Contains(schema.names, number(8)) {
			t.Errorf("what is withheld is left to a look: %v, %v", schema.names, err)
		}
	})
}

// A raise drops what is below its number first. If the service never does that, there can be no
// fence. Where the fence is withheld, what a try before left goes first, whatever its number was.
func TestWhatARaiseDropsFirst(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		first, err := f.Raise(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		schema.names, schema.drops = append(schema.names, number(7)), []error{failure(sink.Permanent, "FailedPrecondition")}
		got, err := f.Raise(ctx, "t")
		if err != nil || got.Withheld == "" || got.Fence != first.Fence || got.Last != first.Last {
			t.Errorf("a table that is protected: %+v, %v", got, err)
		}
		left := number(got.Last + 3)
		if _, err := f.Ledger.UpdateTarget(ctx, "t", func(t *checkpoint.Target) error { t.Last += 3; return nil }); err != nil {
			t.Fatal(err)
		}
		schema.names = append(schema.names, left) // of a try whose drop was refused
		next, err := f.Raise(ctx, "t")
		if err != nil || next.Withheld != "" || next.Fence != got.Last+4 || !slices.Equal(fences(schema), []string{number(next.Fence)}) {
			t.Errorf("%+v, %v, families %v", next, err, schema.names)
		}
	})
}
