package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Target implements the interfaces of package sink.
type Target struct{ *Bigtable }

// writeKinds maps the operations of a request to the model's.
var writeKinds = map[sink.OpKind]writeKind{
	sink.DeleteFamily: deleteFamily, sink.DeleteColumn: deleteColumn, sink.SetCell: SetCell, sink.DeleteFrom: deleteFrom, sink.DeleteBefore: deleteBefore, sink.DeleteAt: deleteAt, sink.AddToCell: addToCell,
}

// Apply implements sink.Table.
func (t Target) Apply(ctx context.Context, sent *sink.Request) (bool, error) {
	r := received(sent)
	writes := writesOf(r.Ops)
	refuse := func(row *Row) bool {
		for _, c := range row.Cols {
			if !slices.Contains(r.Refuse.Families, c.Family) || c.Qualifier != r.Refuse.Qualifier {
				continue
			}
			for _, cell := range c.Cells { // any cell, whatever its age
				if cell.Value > string(r.Refuse.AtLeast) && !r.Refuse.Exactly {
					t.world.Inject("request executed after a newer one")
				}
				if cell.Value == string(r.Refuse.AtLeast) || !r.Refuse.Exactly && cell.Value > string(r.Refuse.AtLeast) {
					return !r.Refuse.Exactly
				}
			}
		}
		return r.Refuse.Exactly
	}
	if t.Reject != nil && t.Reject(r.Table, r.Row, writes) {
		if err := task.Sleep(ctx, t.oneWay()); err != nil {
			return false, sinkError("CheckAndMutateRow", err)
		}
		t.world.Inject("row rejected")
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	}
	applied, err := t.conditional(ctx, Call{"CheckAndMutateRow", r.Table, r.Row, string(r.Refuse.AtLeast)}, refuse, writes)
	return applied, sinkError("CheckAndMutateRow", err)
}

func writesOf(ops []sink.Op) []Mutation {
	writes := make([]Mutation, len(ops))
	for i, op := range ops {
		kind, known := writeKinds[op.Kind]
		if !known {
			panic(fmt.Sprintf("sim: unknown operation %d", op.Kind)) // as the real client does
		}
		writes[i] = Mutation{Kind: kind, Family: op.Family, Qualifier: op.Qualifier, micros: op.Timestamp, Value: string(op.Value)}
	}
	return writes
}

// bulkOp is the operation of a bulk request's entries.
const bulkOp = "MutateRows"

// ApplyAll implements bulk requests. Each entry has its own fate, and its own server: a request
// may be refused in part, executed in part, or in part long after it was answered.
func (t Target) ApplyAll(ctx context.Context, table string, sent []sink.Entry) []error {
	entries := receivedBulk(table, sent)
	errs := make([]error, len(entries))
	g := task.NewGroup(ctx, 0)
	for i, e := range entries {
		writes := writesOf(e.Ops)
		if t.Reject != nil && t.Reject(table, e.Row, writes) {
			t.world.Inject("row rejected")
			errs[i] = &sink.Error{Op: bulkOp, Reason: sink.Rejected, Code: "InvalidArgument"}
			continue
		}
		g.Go("entry", func(ctx context.Context) error {
			_, err := t.conditional(ctx, Call{bulkOp, table, e.Row, ""}, nil, writes)
			if errors.Is(err, errNoSuchTable) && t.world.Chance(0.5) {
				err = errUnknown // the code of a refusal by the fence is not known
			}
			errs[i] = sinkError(bulkOp, err)
			return nil
		})
	}
	_ = g.Wait()
	for i := range errs {
		if errs[i] == nil && context.Cause(ctx) != nil {
			errs[i] = sinkError(bulkOp, context.Cause(ctx))
		}
	}
	return errs
}

func sinkError(op string, err error) error {
	var typed *sink.Error
	switch {
	case err == nil || errors.As(err, &typed):
		return err
	case errors.Is(err, errNoSuchTable):
		return &sink.Error{Op: op, Reason: sink.Permanent, Code: "NotFound"}
	}
	return &sink.Error{Op: op, Reason: sink.Unknown, Code: "Unavailable"}
}

// Look implements sink.Looker.
func (t Target) Look(ctx context.Context, m *transform.RowMutation, _ int64) (sink.Row, error) {
	found := sink.Row{Key: m.Row}
	err := t.ReadRows(ctx, m.Table, sink.Single(m.Row), func(r sink.Row) error { found = r; return nil })
	return found, err
}

// ReadRows implements sink.Reader.
func (t Target) ReadRows(ctx context.Context, table string, r sink.Range, f func(sink.Row) error) error {
	keys, rows, err := t.read(ctx, "ReadRows", table, r.From, func(key string) bool { return r.To == "" || key < r.To })
	for i, key := range keys {
		var cells []transform.Cell
		for _, c := range rows[i].Cols {
			for _, cell := range c.Cells {
				cells = append(cells, transform.Cell{Family: c.Family, Qualifier: c.Qualifier, Timestamp: cell.Micros, Value: []byte(cell.Value)})
			}
		}
		if err := f(sink.NewRow(key, cells)); err != nil {
			return err
		}
	}
	return sinkError("ReadRows", err)
}

// ReadMarks implements sink.MarkReader.
func (t Target) ReadMarks(ctx context.Context, table string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error {
	return sinktest.Marked(limit, unmarked, f, func(f func(sink.Row) error) error { return t.ReadRows(ctx, table, r, f) })
}

// ReadSet implements sink.SetReader, row by row.
func (t Target) ReadSet(ctx context.Context, table string, rows []string, f func(sink.Row) error) error {
	for _, key := range slices.Sorted(slices.Values(rows)) {
		if err := t.ReadRows(ctx, table, sink.Single(key), f); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt implements sink.MarkReader.
func (t Target) ReadAt(ctx context.Context, table string, rows []string, at int64, f func(sink.Row) error) error {
	return sinktest.At(at, f, func(f func(sink.Row) error) error { return t.ReadSet(ctx, table, rows, f) })
}

// ReadSince implements sink.SetReader.
func (t Target) ReadSince(ctx context.Context, table string, r sink.Range, since int64, f func(key string) error) error {
	keys, rows, err := t.read(ctx, "ReadRows", table, r.From, func(key string) bool { return r.To == "" || key < r.To })
	for i, key := range keys {
		recent := slices.ContainsFunc(rows[i].Cols, func(c Column) bool {
			return slices.ContainsFunc(c.Cells, func(cell Cell) bool { return cell.Micros >= since })
		})
		if !recent {
			continue
		}
		if err := f(key); err != nil {
			return err
		}
	}
	return sinkError("ReadRows", err)
}

// SampleKeys implements sink.MarkReader.
func (t Target) SampleKeys(ctx context.Context, table string) ([]string, error) {
	keys, _, err := t.read(ctx, "SampleRowKeys", table, "", func(string) bool { return true })
	return sinktest.Sampled(keys), sinkError("SampleRowKeys", err)
}

// Put implements sink.Records in the state table.
func (t Target) Put(ctx context.Context, key string, data []byte) error {
	_, err := t.conditional(ctx, Call{Op: "MutateRow", Table: StateTable, Row: key}, nil,
		[]Mutation{{Kind: SetCell, Family: sink.ParkedFamily, Qualifier: sink.ParkedColumn, Value: string(data)}})
	return sinkError("MutateRow", err)
}

// Delete implements sink.Records.
func (t Target) Delete(ctx context.Context, key string) error {
	_, err := t.conditional(ctx, Call{Op: "MutateRow", Table: StateTable, Row: key}, nil, []Mutation{{Kind: deleteRow}})
	return sinkError("MutateRow", err)
}

// Scan implements sink.Records.
func (t Target) Scan(ctx context.Context, prefix string, _ bool, f func(key string, data []byte) error) error {
	keys, rows, err := t.read(ctx, "ReadRows", StateTable, prefix, func(key string) bool { return strings.HasPrefix(key, prefix) })
	for i, key := range keys {
		if value, ok := rows[i].Value(sink.ParkedFamily, sink.ParkedColumn); ok {
			if err := f(key, []byte(value)); err != nil {
				return err
			}
		}
	}
	return sinkError("ReadRows", err)
}

// ledgerFamily is the family of the ledger's rows in the state table.
const (
	StateTable   = "replicator_state"
	LedgerFamily = "ledger"
)

// Rows of the ledger and of witnesses use two columns, as in the real store.
const (
	CounterColumn = "c"
	RecordColumn  = "r"
)

// Records returns the parked records, for commands.
func (t Target) Records(string) sink.Records { return t }

// Ledger returns the ledger's store, for commands.
func (t Target) Ledger(stateTable string) checkpoint.Store {
	return Store{Bigtable: t.Bigtable, Table: stateTable, Family: LedgerFamily}
}

// Store implements the interface of package checkpoint.
type Store struct {
	*Bigtable
	Table, Family string
}

// Read implements checkpoint.Store.
func (s Store) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	keys, found, err := s.read(ctx, "ReadRows", s.Table, prefix, func(key string) bool { return strings.HasPrefix(key, prefix) })
	if err != nil {
		return nil, plain(err)
	}
	rows := make([]checkpoint.Row, 0, len(keys))
	for i, key := range keys {
		row := found[i]
		if row.stored == nil {
			counter, ok := row.Value(s.Family, CounterColumn)
			if !ok {
				continue
			}
			n, _ := strconv.ParseUint(counter, 10, 64)
			data, _ := row.Value(s.Family, RecordColumn)
			row.stored = &checkpoint.Row{Key: key, Counter: n, Data: []byte(data)}
		}
		rows = append(rows, *row.stored)
	}
	return rows, nil
}

// plain converts an error to one of the ledger's store, which does not know package sink.
func plain(err error) error {
	var typed *sink.Error
	if errors.As(err, &typed) {
		return fmt.Errorf("sim: %s", typed)
	}
	return err
}

// Swap implements checkpoint.Store.
func (s Store) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	refuse := func(row *Row) bool {
		counter, ok := row.Value(s.Family, CounterColumn)
		if was == 0 {
			return ok
		}
		return counter != strconv.FormatUint(was, 10)
	}
	writes := []Mutation{{Kind: deleteFamily, Family: s.Family}}
	if data != nil {
		writes = []Mutation{
			{Kind: SetCell, Family: s.Family, Qualifier: CounterColumn, Value: strconv.FormatUint(next, 10)},
			{Kind: SetCell, Family: s.Family, Qualifier: RecordColumn, Value: string(data)},
		}
	}
	done, err := s.conditional(ctx, Call{Op: "Swap", Table: s.Table, Row: key}, refuse, writes)
	return done, plain(err)
}

// Describe implements pipeline.Database.
func (t *Table) Describe(ctx context.Context, table string) (backfill.Description, error) {
	if err := t.Call(ctx, "DescribeTable", ""); err != nil {
		return backfill.Description{}, err
	}
	if table != t.Name || t.OutOfSight() {
		return backfill.Description{}, Fail("DescribeTable", cdc.NotFound)
	}
	s, enabled := t.described()
	d := backfill.Description{
		Name: t.Name, ARN: t.ARN, ID: t.ID, Status: "ACTIVE", StreamARN: s.ARN, StreamLabel: s.Label, StreamEnabled: enabled, Items: int64(len(t.ByID)),
		At: t.world.Now().Truncate(time.Second),
	}
	if d.StreamEnabled {
		d.ViewType = s.view()
	}
	return d, nil
}

// described returns the table's stream and whether it is enabled: the current state or, for some
// time after a change, the earlier one, because DescribeTable is eventually consistent.
func (t *Table) described() (s *Stream, enabled bool) {
	s = t.Stream()
	if len(t.changed) > 0 && t.world.Now().Before(t.StaleUntil) && t.world.Rand().IntN(2) == 0 {
		t.world.Inject("table described late")
		was := t.changed[t.world.Rand().IntN(len(t.changed))]
		return was.stream, was.enabled
	}
	return s, !s.Ended
}

// scanPage is the most items in a page of a scan. The service returns up to 1 MB, which may be any
// number of items.
const scanPage = 7

// place is an item's position in the order of a scan.
type place struct {
	hash uint64
	id   string
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.hash, o.hash), strings.Compare(p.id, o.id))
}

func (p place) in(segment, total int) bool { return p.hash*uint64(total)/hashSpace == uint64(segment) }

// Scan implements backfill.ScanSource. It returns pages of a few items or none. Each page is read
// at one moment, and changes may happen between pages.
func (t *Table) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	if err := t.Call(ctx, "Scan", ""); err != nil {
		return backfill.ScanPage{}, err
	}
	if table != t.Name || t.OutOfSight() {
		return backfill.ScanPage{}, Fail("Scan", cdc.NotFound)
	}
	var from place // "" is before all items
	if after.Exists() {
		_, id := t.KeyOf(after)
		from = place{hashOf(id), id}
	}
	var left []place
	for id := range t.ByID {
		if p := (place{hashOf(id), id}); p.in(segment, total) && (from.id == "" || p.compare(from) > 0) {
			left = append(left, p)
		}
	}
	slices.SortFunc(left, place.compare)
	page := backfill.ScanPage{At: t.world.Now().Truncate(time.Second)}
	if page.Next = t.passed(segment, total, from, left); !page.Next.Exists() {
		size := 1 + t.world.Rand().IntN(scanPage)
		if limit > 0 {
			size = min(size, limit)
		}
		for _, p := range left[:min(size, len(left))] {
			page.Items = append(page.Items, t.ByID[p.id])
		}
		if size < len(left) {
			page.Next, _ = t.KeyOf(page.Items[size-1])
		}
	}
	if err := t.answer(ctx); err != nil {
		return backfill.ScanPage{}, err
	}
	t.world.Tracef("scan of segment %d gives %d items", segment, len(page.Items))
	return page, nil
}

// Now returns the current item.
func (t *Table) Now(keys attribute.Item) attribute.Item {
	_, id := t.KeyOf(keys)
	return t.ByID[id]
}

// Get reads one item, strongly consistently. For a missing item, Exists returns false.
func (t *Table) Get(ctx context.Context, keys attribute.Item) (attribute.Item, error) {
	if err := t.Call(ctx, "GetItem", ""); err != nil {
		return attribute.Item{}, err
	}
	item := t.Now(keys)
	return item, t.answer(ctx)
}

// passed sometimes returns the key at which a page without items ends: the key of an item that no
// longer exists. Otherwise it returns no item.
func (t *Table) passed(segment, total int, from place, left []place) attribute.Item {
	if t.world.Rand().IntN(4) > 0 {
		return attribute.Item{}
	}
	for range 8 {
		gone := make([]attribute.Attribute, len(t.Key))
		for i, name := range t.Key {
			gone[i] = attribute.Attribute{Name: name, Value: attribute.String(fmt.Sprintf("once %d", t.world.Rand().IntN(1000)))}
		}
		keys, id := t.KeyOf(attribute.NewItem(gone))
		p := place{hashOf(id), id}
		if p.in(segment, total) && (from.id == "" || p.compare(from) > 0) && (len(left) == 0 || p.compare(left[0]) < 0) {
			t.world.Inject("page of a scan without items")
			return keys
		}
	}
	return attribute.Item{}
}

// Write is a write without a guard, by an application that writes the target itself. It first
// deletes the whole row if deleteFirst is set. It is executed immediately.
func (t Target) Write(table, row string, deleteFirst bool, ops ...sink.Op) error {
	var writes []Mutation
	if deleteFirst {
		writes = append(writes, Mutation{Kind: deleteRow})
	}
	for _, op := range ops {
		writes = append(writes, Mutation{Kind: writeKinds[op.Kind], Family: op.Family, Qualifier: op.Qualifier, micros: op.Timestamp, Value: string(op.Value)})
	}
	executed := t.Executed
	t.Bigtable.Executed = nil // checkers judge only replicator's writes
	defer func() { t.Bigtable.Executed = executed }()
	_, err := t.Execute("application", table, row, nil, writes)
	return err
}
