package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var listingsBegin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// pagedStream is a stream whose listing has a page for each of its lists of shards. A call takes 20
// ms.
type pagedStream struct {
	cdc.Source
	pages [][]cdc.Shard
	asked []string // where the pages that were asked for began
	// before, if set, is called before each answer, which it may fail.
	before func(ctx context.Context, after string) error
	silent bool // it does not say what time it is
}

func (s *pagedStream) ListPage(ctx context.Context, _, after string) (cdc.ListingPage, error) {
	if err := task.Sleep(ctx, 20*time.Millisecond); err != nil {
		return cdc.ListingPage{}, &cdc.Error{Reason: cdc.Unavailable, Err: err}
	}
	s.asked = append(s.asked, after)
	if s.before != nil {
		if err := s.before(ctx, after); err != nil {
			return cdc.ListingPage{}, err
		}
	}
	i := 0
	if after != "" {
		_, _ = fmt.Sscanf(after, "page %d", &i)
	}
	page := cdc.ListingPage{Shards: s.pages[i]}
	if !s.silent {
		page.At = task.Now(ctx)
	}
	if i+1 < len(s.pages) {
		page.Next = fmt.Sprintf("page %d", i+1)
	}
	return page, nil
}

// listed runs a script with the keeper of a table that has the given stream, in virtual time.
func listed(t *testing.T, stream *pagedStream, script func(ctx context.Context, k *rig, state checkpoint.TableState)) {
	t.Helper()
	w := virtual.NewWorld(1, listingsBegin, false)
	err := w.Run(48*time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "list", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Error(err)
			return
		}
		state, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.Generation, s.Adopted, s.Listed = "arn", "label", 1, 1, 1
			return nil
		})
		if err != nil {
			t.Error(err)
			return
		}
		k := newRig(ledger, Table{})
		k.Open = func(string) cdc.Source { return stream }
		script(ctx, k, state)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a table in a test, with the parts that are asked for. They are made of the options then.
type rig struct {
	*Options
	Table
	shared *shared
	parts  map[any]any
}

func newRig(ledger *checkpoint.Ledger, spec Table) *rig {
	if ledger == nil {
		ledger = &checkpoint.Ledger{}
	}
	if spec.Mapping == nil {
		spec.Mapping = &transform.Mapping{Source: "Orders"}
	}
	return &rig{Options: &Options{Ledger: ledger, Floors: &Floors{}, Events: Events{}.orSilent()}, Table: spec}
}

// table is what the parts share.
func (r *rig) table() *shared {
	if r.shared == nil {
		r.shared, r.parts = newShared(newProcess(r.Options, func(error) {}), r.Table), map[any]any{}
	}
	return r.shared
}

// reset forgets all parts: the next that is asked for is made of the options as they are then.
func (r *rig) reset() { r.shared, r.parts = nil, nil }

// partOf gives the part of a rig that is of this type, which it makes the first time.
func partOf[T any](r *rig, made func(s *shared) T) T {
	s, key := r.table(), any(*new(T))
	if r.parts[key] == nil {
		r.parts[key] = made(s)
	}
	return r.parts[key].(T)
}

// unfenced is a right that nobody takes away, to a target without a fence.
func unfenced() *right { return &right{fencing: &fencing{}, stamps: sink.Unfenced(), proved: true} }

// ordersMapping is a mapping of the table Orders without rules.
func ordersMapping(t testing.TB) *transform.Mapping {
	t.Helper()
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// schema is the families of the table orders in memory.
type schema struct {
	*sinktest.Memory
	names []string
	did   *[]string
}

func (s *schema) note(what string) {
	if s.did != nil {
		*s.did = append(*s.did, what)
	}
}

func (s *schema) ListFamilies(context.Context, string) ([]string, error) {
	if s.names == nil {
		return nil, &sink.Error{Op: "GetTable", Reason: sink.Permanent, Code: "NotFound"}
	}
	return slices.Clone(s.names), nil
}

func (s *schema) CreateFamily(_ context.Context, table, family string) error {
	s.note("raise")
	s.names = append(s.names, family)
	s.Memory.Raise(table, family)
	return nil
}

func (s *schema) DropFamily(_ context.Context, table, family string) error {
	s.names = slices.DeleteFunc(s.names, func(name string) bool { return name == family })
	s.Memory.Drop(table, family)
	return nil
}

func (*schema) DropDelay() time.Duration { return sink.DefaultTimeout }

// dropped is a database in which no table is any more.
type dropped struct{ Database }

func (dropped) Describe(context.Context, string) (backfill.Description, error) {
	return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no such table")}
}

// endedStream is one that the service does not know any more.
type endedStream struct{ cdc.Source }

func (endedStream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.NotFound, Err: errors.New("no such stream")}
}

// answering is a database that says the same of every table.
type answering struct {
	Database
	described backfill.Description
	err       error
}

func (a answering) Describe(context.Context, string) (backfill.Description, error) {
	return a.described, a.err
}

func (answering) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, errors.New("it is scanned")
}

// quietShard gives empty pages.
type quietShard struct{ cdc.Source }

func (quietShard) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) { return "i", nil }

func (quietShard) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{Next: "i"}, nil
}

func keyed(pk string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})
}

// failAt lets the call of a store with the given number fail for good: the ledger is not the one
// that this process was started with.
func failAt(store *checkpointtest.Memory, calls *int, n int) {
	next := func() error {
		if *calls++; *calls == n {
			return checkpoint.ErrLedgerExchanged
		}
		return nil
	}
	store.OnRead = func(context.Context, string) error { return next() }
	store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
		if err := next(); err != nil {
			return false, err
		}
		return execute(), nil
	}
}

// busy prepares a table that has something to do for every step of a pass: a generation that is not
// adopted, a gap that is not declared, one that can be read on, a shard whose children are not
// known, and one whose row says nothing any more.
func busy(ctx context.Context, l *checkpoint.Ledger) error {
	_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.StreamARN, s.Label, s.Generation, s.Adopted, s.Listed = "arn", "label", 7, 6, 7
		return nil
	})
	ago := func(hours int) time.Time { return listingsBegin.Add(-time.Duration(hours) * time.Hour) }
	for _, s := range []checkpoint.Shard{
		{ID: "gone", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7, DoneAt: ago(1)},
		{ID: "trimmed", State: checkpoint.Gap, Loss: checkpoint.Trimmed, Generation: 6, DoneAt: ago(1)},
		{ID: "done", State: checkpoint.Done, Generation: 7, DoneAt: ago(1)},
		{ID: "old", State: checkpoint.Done, Generation: 1, DoneAt: ago(90)},
		{ID: "younger", Parent: "old", State: checkpoint.Done, Generation: 1, DoneAt: ago(1)},
		{ID: "open", State: checkpoint.Waiting, Generation: 6},
	} {
		s.Source, s.StreamARN, s.Label, s.Hop = "Orders", "arn", "label", cdc.RootHop
		s.FirstRead = listingsBegin
		err = errors.Join(err, l.CreateShard(ctx, s))
	}
	return err
}

// callsFail calls a step again and again, each time with another call to the ledger that fails for
// good, until none does. What a step of the keeper finds out about its ledger is what the step must
// end with, at whichever of its calls that is: what could not be read is not what is not there, and
// a pass that could not note something has not noted it. Prepare, if not nil, changes the ledger of
// busy before.
func callsFail(t *testing.T, prepare func(ctx context.Context, l *checkpoint.Ledger) error, step func(ctx context.Context, k *rig, state checkpoint.TableState) error) {
	t.Helper()
	for n := 1; ; n++ {
		calls := 0
		err := virtual.NewWorld(1, listingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
			store := &checkpointtest.Memory{}
			ledger, err := checkpoint.Open(ctx, store, "fails", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Error(err)
				return
			}
			err = busy(ctx, ledger)
			if prepare != nil && err == nil {
				err = prepare(ctx, ledger)
			}
			state, _, errState := ledger.Table(ctx, "Orders")
			if err = errors.Join(err, errState); err != nil {
				t.Error(err)
			}
			stream := &pagedStream{pages: [][]cdc.Shard{{{ID: "open"}, {ID: "done", Closed: true}, {ID: "new"}}}}
			o := &Options{Ledger: ledger, Floors: &Floors{}, Open: func(string) cdc.Source { return stream }, Database: heldUpBy("arn", "label"),
				Witness: func(string) checkpoint.Store { return store }, Timing: Timing{}.orDefault(ledger.Lease()), Events: Events{}.orSilent()}
			k := &rig{Options: o, Table: Table{Mapping: ordersMapping(t)}}
			failAt(store, &calls, n)
			if err := step(ctx, k, state); calls >= n && !errors.Is(err, checkpoint.ErrLedgerExchanged) {
				t.Errorf("call %d: ended with %v", n, err)
			} else if calls < n && err != nil {
				t.Errorf("of %d calls none failed: %v", calls, err)
			}
		})
		if err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if calls < n {
			return
		}
		if n == 300 {
			t.Fatal("it does not end")
		}
	}
}

// heldUpBy is a database in which every table has the stream.
func heldUpBy(arn, label string) Database {
	return answering{described: backfill.Description{Name: "Orders", StreamARN: arn, StreamLabel: label, StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", At: listingsBegin}}
}

// targets is a target in which some tables are missing, and all others do not answer before a time.
type targets struct {
	sink.Table
	missing  string
	answered time.Duration // on the monotonic clock
}

func (t targets) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if r.Table == t.missing {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound"}
	}
	return true, task.Sleep(ctx, t.answered-task.Mono(ctx))
}
