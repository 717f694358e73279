// Package enginetest builds the parts of one table for tests.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

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

var ListingsBegin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// PagedStream is a stream whose listing has one page for each of its lists of shards. A call takes
// 20 ms.
type PagedStream struct {
	cdc.Source
	Pages [][]cdc.Shard
	Asked []string // where each requested page began
	// Before, if set, is called before each answer. Its error fails the call.
	Before func(ctx context.Context, after string) error
	Silent bool // it does not return the time
}

func (s *PagedStream) ListPage(ctx context.Context, _, after string) (cdc.ListingPage, error) {
	if err := task.Sleep(ctx, 20*time.Millisecond); err != nil {
		return cdc.ListingPage{}, &cdc.Error{Reason: cdc.Unavailable, Err: err}
	}
	s.Asked = append(s.Asked, after)
	if s.Before != nil {
		if err := s.Before(ctx, after); err != nil {
			return cdc.ListingPage{}, err
		}
	}
	i := 0
	if after != "" {
		_, _ = fmt.Sscanf(after, "page %d", &i)
	}
	page := cdc.ListingPage{Shards: s.Pages[i]}
	if !s.Silent {
		page.At = task.Now(ctx)
	}
	if i+1 < len(s.Pages) {
		page.Next = fmt.Sprintf("page %d", i+1)
	}
	return page, nil
}

// Listed runs a script with the coordinator of a table that has the given stream, in virtual time.
func Listed(t *testing.T, stream *PagedStream, script func(ctx context.Context, k *Rig, state checkpoint.TableState)) {
	t.Helper()
	w := virtual.NewWorld(1, ListingsBegin, false)
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
		k := NewRig(ledger, engine.Spec{})
		k.Open = func(string) cdc.Source { return stream }
		script(ctx, k, state)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rig is a table in a test. It creates each part on first use, from the options of that moment.
type Rig struct {
	*engine.Options
	engine.Spec
	shared *engine.Table
	parts  map[any]any
}

func NewRig(ledger *checkpoint.Ledger, spec engine.Spec) *Rig {
	if ledger == nil {
		ledger = &checkpoint.Ledger{}
	}
	if spec.Mapping == nil {
		spec.Mapping = &transform.Mapping{Source: "Orders"}
	}
	return &Rig{Options: &engine.Options{Ledger: ledger, Floors: &engine.Floors{}, Events: engine.Events{}.OrSilent()}, Spec: spec}
}

// Table returns what the parts share.
func (r *Rig) Table() *engine.Table {
	if r.shared == nil {
		r.shared, r.parts = engine.NewTable(engine.NewWorker(r.Options, func(error) {}), r.Spec), map[any]any{}
	}
	return r.shared
}

// Reset forgets all parts, so that the next use creates them from the current options.
func (r *Rig) Reset() { r.shared, r.parts = nil, nil }

// PartOf returns the rig's part of this type, and creates it on first use.
func PartOf[T any](r *Rig, made func(s *engine.Table) T) T {
	s, key := r.Table(), any(*new(T))
	if r.parts[key] == nil {
		r.parts[key] = made(s)
	}
	return r.parts[key].(T)
}

// Unfenced returns a right to write that is never lost, for a target without a fence.
func Unfenced() *engine.Right {
	return &engine.Right{Fencing: &engine.Fencing{}, Stamps: sink.Unfenced(), Proved: true}
}

// OrdersMapping returns a mapping of the table Orders without rules.
func OrdersMapping(t testing.TB) *transform.Mapping {
	t.Helper()
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Schema holds the families of the table orders in memory.
type Schema struct {
	*sinktest.Memory
	Names []string
	Aged  []string // families with an age rule
	Did   *[]string
}

func (s *Schema) note(what string) {
	if s.Did != nil {
		*s.Did = append(*s.Did, what)
	}
}

func (s *Schema) ListFamilies(context.Context, string) ([]string, error) {
	if s.Names == nil {
		return nil, &sink.Error{Op: "GetTable", Reason: sink.Permanent, Code: "NotFound"}
	}
	return slices.Clone(s.Names), nil
}

func (s *Schema) CreateFamily(_ context.Context, table, family string) error {
	s.note("raise")
	s.Names = append(s.Names, family)
	s.Memory.Raise(table, family)
	return nil
}

func (s *Schema) DropFamily(_ context.Context, table, family string) error {
	s.Names = slices.DeleteFunc(s.Names, func(name string) bool { return name == family })
	s.Memory.Drop(table, family)
	return nil
}

// AgeRules returns the families with an age rule.
func (s *Schema) AgeRules(context.Context, string) ([]string, error) { return s.Aged, nil }

func (*Schema) DropDelay() time.Duration { return sink.DefaultTimeout }

// Dropped is a database whose tables have all been dropped.
type Dropped struct{ engine.Database }

func (Dropped) Describe(context.Context, string) (backfill.Description, error) {
	return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no such table")}
}

// EndedStream is a stream that the service no longer knows.
type EndedStream struct{ cdc.Source }

func (EndedStream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.NotFound, Err: errors.New("no such stream")}
}

// Answering is a database that gives the same answer for every table.
type Answering struct {
	engine.Database
	Described backfill.Description
	Err       error
}

func (a Answering) Describe(context.Context, string) (backfill.Description, error) {
	return a.Described, a.Err
}

func (Answering) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	return backfill.ScanPage{}, errors.New("it is scanned")
}

// QuietShard returns empty pages.
type QuietShard struct{ cdc.Source }

func (QuietShard) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) { return "i", nil }

func (QuietShard) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{Next: "i"}, nil
}

func Keyed(pk string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})
}

// failAt makes the n-th call to a store fail permanently, with the error that the ledger is not the
// one with which this process was started.
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

// busy prepares a table that needs every step of a pass: a generation that is not adopted, a gap
// that is not declared, a gap that can be reopened, a shard whose children are unknown, and a shard
// whose row is obsolete.
func busy(ctx context.Context, l *checkpoint.Ledger) error {
	_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.StreamARN, s.Label, s.Generation, s.Adopted, s.Listed = "arn", "label", 7, 6, 7
		return nil
	})
	ago := func(hours int) time.Time { return ListingsBegin.Add(-time.Duration(hours) * time.Hour) }
	for _, s := range []checkpoint.Shard{
		{ID: "gone", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7, DoneAt: ago(1)},
		{ID: "trimmed", State: checkpoint.Gap, Loss: checkpoint.Trimmed, Generation: 6, DoneAt: ago(1)},
		{ID: "done", State: checkpoint.Done, Generation: 7, DoneAt: ago(1)},
		{ID: "old", State: checkpoint.Done, Generation: 1, DoneAt: ago(90)},
		{ID: "younger", Parent: "old", State: checkpoint.Done, Generation: 1, DoneAt: ago(1)},
		{ID: "open", State: checkpoint.Waiting, Generation: 6},
	} {
		s.Source, s.StreamARN, s.Label, s.Hop = "Orders", "arn", "label", cdc.RootHop
		s.FirstRead = ListingsBegin
		err = errors.Join(err, l.CreateShard(ctx, s))
	}
	return err
}

// CallsFail repeats a step. Each time another call to the ledger fails permanently, until no call
// is left to fail. Whichever call fails, the step must end with that error. A failed read must not
// count as "not found", and a failed write must not count as written. Prepare, if not nil, changes
// busy's ledger first.
func CallsFail(t *testing.T, prepare func(ctx context.Context, l *checkpoint.Ledger) error, step func(ctx context.Context, k *Rig, state checkpoint.TableState) error) {
	t.Helper()
	for n := 1; ; n++ {
		calls := 0
		err := virtual.NewWorld(1, ListingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
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
			stream := &PagedStream{Pages: [][]cdc.Shard{{{ID: "open"}, {ID: "done", Closed: true}, {ID: "new"}}}}
			o := &engine.Options{Ledger: ledger, Floors: &engine.Floors{}, Open: func(string) cdc.Source { return stream }, Database: HeldUpBy("arn", "label"),
				Witness: func(string) checkpoint.Store { return store }, Timing: engine.Timing{}.OrDefault(ledger.Lease()), Events: engine.Events{}.OrSilent()}
			k := &Rig{Options: o, Spec: engine.Spec{Mapping: OrdersMapping(t)}}
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

// HeldUpBy returns a database in which every table has the given stream.
func HeldUpBy(arn, label string) engine.Database {
	return Answering{Described: backfill.Description{Name: "Orders", StreamARN: arn, StreamLabel: label, StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", At: ListingsBegin}}
}

// Targets is a target in which some tables are missing. All others do not answer before a given
// time.
type Targets struct {
	sink.Table
	Missing  string
	Answered time.Duration // on the monotonic clock
}

func (t Targets) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if r.Table == t.Missing {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound"}
	}
	return true, task.Sleep(ctx, t.Answered-task.Mono(ctx))
}

// Streaming is a database whose tables have a stream.
type Streaming struct{ engine.Database }

func (Streaming) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	return backfill.Description{Name: "Orders", StreamEnabled: true, StreamARN: "arn/L", StreamLabel: "L", ViewType: "NEW_AND_OLD_IMAGES", At: task.Now(ctx)}, nil
}

// Behind prepares a ledger with the given number of shards for each table.
func Behind(shards int, tables ...string) func(ctx context.Context, l *checkpoint.Ledger) error {
	return func(ctx context.Context, l *checkpoint.Ledger) error {
		for _, table := range tables {
			_, err := l.UpdateTable(ctx, table, func(s *checkpoint.TableState) error {
				s.Generation, s.Adopted, s.Listed, s.Label, s.StreamARN = 7, 7, 7, "L", "arn/"+table
				return nil
			})
			for n := 0; err == nil && n < shards; n++ {
				err = l.CreateShard(ctx, checkpoint.Shard{Source: table, Label: "L", StreamARN: "arn/" + table, ID: fmt.Sprint(table, n),
					State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 7})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// Specs returns tables whose items have the key pk. Each has its own target table, with the same
// name in lower case.
func Specs(t testing.TB, tables ...string) (all []engine.Spec) {
	t.Helper()
	for _, table := range tables {
		m, err := transform.NewMapping(table, strings.ToLower(table), "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, engine.Spec{Mapping: m})
	}
	return all
}
