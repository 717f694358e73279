package checkpoint_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func TestH60_MappingHash(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		begun := 0
		mapping := func(l *checkpoint.Ledger, hash string, accept bool) error {
			_, raised, err := l.CheckMapping(ctx, source, checkpoint.Mapping{Hash: hash}, accept)
			if raised {
				begun++
			}
			return err
		}
		// Until something is written under it, a mapping may be replaced.
		check(t, mapping(a, "wrong", false))
		check(t, mapping(a, "h1", false))
		create(t, ctx, a, shard("s", ""), shard("r", ""))
		check(t, mapping(a, "h1", false))
		if err := mapping(b, "h2", false); !errors.Is(err, checkpoint.ErrMappingChanged) {
			t.Fatalf("another mapping: %v", err)
		}
		if state := table(t, ctx, a); state.MappingHash != "h1" || state.Generation != 1 || state.NeedsLoad {
			t.Fatalf("a refused mapping changed the ledger: %+v", state)
		}
		held := take(t, ctx, a, "s")
		check(t, mapping(b, "h2", true))
		state := p.adopted(ctx, b, 1)
		if state.MappingHash != "h2" || !state.NeedsLoad || len(state.Gaps) != 1 || state.Reason != checkpoint.ChangedMapping || begun != 1 {
			t.Errorf("%+v, %d generations told", state, begun)
		}
		// The worker with the old mapping is stopped, both when it commits and when it takes a
		// lease.
		if err := held.Commit(ctx, at(1)); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("it commits: %v", err)
		}
		if _, err := attempt(t, ctx, a, "s"); !errors.Is(err, checkpoint.ErrMappingChanged) {
			t.Errorf("it takes a lease: %v", err)
		}
		take(t, ctx, b, "s")
		check(t, mapping(b, "h2", true))
		if now := table(t, ctx, b); now.Generation != state.Generation {
			t.Errorf("accepting the same mapping raised to %d", now.Generation)
		}
	})
}

func TestH46_OtherCluster(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		for _, id := range []string{"", "c1", "c1", ""} {
			check(t, a.CheckCluster(ctx, id))
		}
		_, b := p.worker("b")
		for range 2 {
			if err := b.CheckCluster(ctx, "c2"); !errors.Is(err, checkpoint.ErrClusterChanged) {
				t.Errorf("another cluster: %v", err)
			}
		}
		check(t, b.CheckCluster(ctx, "c1"))
	})
}

func TestLedgerThatWasExchangedIsNoticed(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		if a.ID() != b.ID() || a.ID() != "ledger of a" {
			t.Fatalf("ledgers %q and %q", a.ID(), b.ID())
		}
		check(t, b.Check(ctx))
		p.store.Clear()
		if err := a.Check(ctx); !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("without its row: %v", err)
		}
		_, _ = p.worker("c")
		for _, err := range []error{a.Check(ctx), b.CheckCluster(ctx, "c1")} {
			if !errors.Is(err, checkpoint.ErrLedgerExchanged) {
				t.Errorf("with the row of another: %v", err)
			}
		}
	})
}

func TestOpen(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		read := checkpoint.Options{ReadOnly: true}
		if _, err := checkpoint.Open(ctx, p.store, "p", read); !errors.Is(err, checkpoint.ErrNoLedger) {
			t.Errorf("read only: %v", err)
		}
		for name, o := range map[string]checkpoint.Options{"": {Worker: "w", ID: "l"}, "a/b": {Worker: "w", ID: "l"}, "p": {ID: "l"}, "q": {Worker: "w"}} {
			if _, err := checkpoint.Open(ctx, p.store, name, o); err == nil {
				t.Errorf("opened %q with %+v", name, o)
			}
		}
		// The answer to the creation is lost, and another worker was faster.
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			p.store.OnSwap = nil
			_, _ = p.worker("b")
			return execute(), errNoAnswer
		}
		_, a := p.worker("a")
		if a.ID() != "ledger of b" {
			t.Errorf("the ledger is %q", a.ID())
		}
		l, err := checkpoint.Open(ctx, p.store, "p", read)
		check(t, err)
		if l.ID() != a.ID() || l.Lease() != lease {
			t.Errorf("%q, lease %s", l.ID(), l.Lease())
		}
	})
}

// One table's name is a prefix of another's.
func TestTablesWithSimilarNames(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		for _, name := range []string{"T.x", "Tx", "T-x"} {
			_, err := a.UpdateTable(ctx, name, func(s *checkpoint.TableState) error { s.Generation = 7; return nil })
			check(t, err)
			s := shard("s", "")
			s.Source = name
			check(t, a.CreateShard(ctx, s))
		}
		if state, found, err := a.Table(ctx, source); found || err != nil || state.Source != source {
			t.Errorf("%+v, %v, %v", state, found, err)
		}
		if left := rows(t, ctx, a); len(left) > 0 {
			t.Errorf("shards of other tables: %v", left)
		}
		lease, err := a.CoordinatorLease(ctx, "Tx")
		check(t, err)
		_, err = a.TakeCoordinatorLease(ctx, lease)
		check(t, err)
		if lease, err = a.CoordinatorLease(ctx, source); err != nil || lease.Owner() != "" {
			t.Errorf("the coordinator lease is %q's, %v", lease.Owner(), err)
		}
		create(t, ctx, a)
		all, err := a.Tables(ctx)
		var names []string
		for _, s := range all {
			names = append(names, s.Source)
		}
		if got := strings.Join(names, " "); err != nil || got != "T T-x T.x Tx" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestUpdateTable(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a)
		items := func(l *checkpoint.Ledger, n int64) error {
			_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Load.Items = n; return nil })
			return err
		}
		swaps := 0
		count := func(_ context.Context, _ string, execute func() bool) (bool, error) { swaps++; return execute(), nil }
		p.store.OnSwap = count
		check(t, items(a, 7))
		written := p.world.Now()
		p.sleep(ctx, time.Second)
		check(t, items(a, 7)) // nothing to write
		if swaps != 1 {
			t.Errorf("%d writes", swaps)
		}
		if changed := table(t, ctx, a).Changed; !changed.Equal(written) {
			t.Errorf("the record was last written at %s, and says %s", written, changed)
		}
		// Another writer is faster, once: the change is made on its record.
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			p.store.OnSwap = nil
			_, err := b.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Load.Estimate = 9; return nil })
			check(t, err)
			return execute(), nil
		}
		check(t, items(a, 8))
		if load := table(t, ctx, a).Load; load.Items != 8 || load.Estimate != 9 {
			t.Errorf("%+v", load)
		}
		// The answer is lost, but the write took place: reading the row shows that.
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			p.store.OnSwap = nil
			execute()
			return false, errNoAnswer
		}
		check(t, items(a, 9))
		// The write did not take place: the error is returned, and repeating is right.
		p.store.OnSwap = func(context.Context, string, func() bool) (bool, error) {
			p.store.OnSwap = nil
			return false, errNoAnswer
		}
		if err := items(a, 10); !errors.Is(err, errNoAnswer) {
			t.Errorf("%v", err)
		}
		check(t, items(a, 10))
		// Other writers are always faster: the attempts are bounded.
		p.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, nil }
		if err := items(a, 11); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("%v", err)
		}
		refused := errors.New("refused")
		_, err := a.UpdateTable(ctx, source, func(*checkpoint.TableState) error { return refused })
		if !errors.Is(err, refused) {
			t.Errorf("%v", err)
		}
	})
}
