package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The same random requests run on the model and, through the product's clients, on Google's
// emulator: guarded and other writes, reads, records, and the ledger's compare-and-set, without
// network faults. Answers and rows must be equal.
//
// The model differs on purpose: it loses, delays and repeats requests, refuses whole requests that
// name a missing family, and keeps times as given.
func TestBigtableEqualsEmulator(t *testing.T) {
	const runs, steps = max(2, 8/fewer), 250
	done := map[string]int{}
	for seed := range uint64(runs) {
		b := newBoth(t, seed)
		b.done = done
		for b.step = range steps {
			b.act()
			if b.step%25 == 0 {
				b.compareAll()
			}
		}
		b.compareAll()
	}
	t.Log(done)
	for _, event := range []string{
		"put", "remove", "other request", "applied", "refused", "no table", "no family", "read of no table", "rows", "rows of a range", "record", "record deleted",
		"records", "swap", "swap lost", "ledger row removed", "ledger read",
	} {
		if done[event] == 0 {
			t.Errorf("%q never happened", event)
		}
	}
}

// both is a target on both sides: the table "t" (families d, e and replicator's) and the state
// table.
type both struct {
	t      *testing.T
	seed   uint64
	step   int
	random *rand.Rand
	done   map[string]int

	world   *virtual.World
	model   *Bigtable
	there   *sink.Bigtable
	ctx     context.Context
	records sink.Records // of the emulator
	ledgers [2]checkpoint.Store
	witness [2]checkpoint.Store
	counter map[string]uint64
}

func newBoth(t *testing.T, seed uint64) *both {
	t.Helper()
	w := virtual.NewWorld(seed, start, false)
	b := &both{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 99)), world: w, model: NewBigtable(w), ctx: t.Context(),
		counter: map[string]uint64{}, done: map[string]int{},
	}
	b.model.Create("t", "d", "e", sink.LiveFamily, sink.GoneFamily)
	b.model.Create(StateTable, LedgerFamily, sink.ParkedFamily)
	b.there = emulator(t)
	b.records = b.there.Records(StateTable)
	b.ledgers = [2]checkpoint.Store{Store{b.model, StateTable, LedgerFamily}, checkpoint.Bigtable(b.there.Open(StateTable), LedgerFamily)}
	b.witness = [2]checkpoint.Store{Store{b.model, "t", sink.LiveFamily}, checkpoint.Bigtable(b.there.Open("t"), sink.LiveFamily)}
	return b
}

// emulator starts Google's emulator with the same tables, without garbage collection rules.
func emulator(t *testing.T) *sink.Bigtable {
	t.Helper()
	server, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	dial := func() option.ClientOption {
		conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return option.WithGRPCConn(conn)
	}
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", dial())
	if err != nil {
		t.Fatal(err)
	}
	for table, families := range map[string][]string{"t": {"d", "e", sink.LiveFamily, sink.GoneFamily}, StateTable: {LedgerFamily, sink.ParkedFamily}} {
		config := &bigtable.TableConf{TableID: table, Families: map[string]bigtable.GCPolicy{}}
		for _, f := range families {
			config.Families[f] = bigtable.NoGcPolicy()
		}
		if err := admin.CreateTableFromConf(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	there, err := sink.Connect(t.Context(), sink.Instance{Project: "p", Instance: "i", AppProfile: "one"}, dial())
	if err != nil {
		t.Fatal(err)
	}
	return there
}

func (b *both) fail(format string, args ...any) {
	b.t.Helper()
	b.t.Fatalf("seed %d, step %d: %s", b.seed, b.step, fmt.Sprintf(format, args...))
}

// here calls the model from within its world.
func (b *both) here(f func(ctx context.Context)) { runWorld(b.world, f) }

// act makes one random call on both sides.
func (b *both) act() {
	switch n := b.random.IntN(100); {
	case n < 30:
		b.apply(b.guarded())
	case n < 55:
		b.done["other request"]++
		b.apply(b.request())
	case n < 58:
		r := b.request()
		r.Table = "absent"
		b.done["no table"]++
		b.apply(r)
	case n < 61:
		r := b.request()
		// Only the first operation names a missing family, and the predicate never holds, because
		// the emulator checks only the operations that it executes.
		r.Ops[0], r.Refuse = sink.Op{Kind: sink.SetCell, Family: "absent", Qualifier: "x"}, never
		b.done["no family"]++
		b.apply(r)
	case n < 68:
		b.read()
	case n < 80:
		b.record()
	case n < 95:
		b.swap()
	default:
		b.readLedger()
	}
}

func (b *both) pick(of ...string) string { return of[b.random.IntN(len(of))] }

func (b *both) version() transform.Version {
	return transform.NewVersion(1, cdc.RootHop, cdc.SequenceOf(8+b.random.Uint64N(6)), transform.CountExact)
}

var rowKeys = []string{"a", "a#1", "a#1\x00", "b", "\xff", "\xff\xff"}

// guarded returns a put or a removal.
func (b *both) guarded() sink.Request {
	m := transform.RowMutation{Item: "S:cg", Table: "t", Row: b.pick(rowKeys...), Version: b.version(), Families: []string{b.pick("d", "d", "e")}}
	if b.random.IntN(3) == 0 {
		m.Remove = true
		b.done["remove"]++
		return sink.Guard(m)
	}
	for n := b.random.IntN(4); n > 0; n-- {
		m.Cells = append(m.Cells, transform.Cell{
			Family: m.Families[0], Qualifier: b.pick("", "x", "a.c", "abc", "x\x00"), Timestamp: b.random.Int64N(3) * 1000, Value: []byte(b.pick("", "1", "2\xff")),
		})
	}
	b.done["put"]++
	return sink.Guard(m)
}

// never is a predicate that holds for no row.
var never = sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"}

// request returns any valid request. The server stamps none of its cells, because the clocks
// differ.
func (b *both) request() sink.Request {
	families := []string{"d", "e", sink.LiveFamily, sink.GoneFamily}
	qualifiers := []string{"", "v", "v", "x", "a.c", "abc", "x\x00"}
	r := sink.Request{Table: "t", Row: b.pick(rowKeys...), Refuse: sink.Predicate{
		Families: []string{b.pick("d", sink.LiveFamily), b.pick("e", sink.GoneFamily, "absent")}[:1+b.random.IntN(2)], Qualifier: b.pick(qualifiers...), AtLeast: b.version(),
	}}
	for range 1 + b.random.IntN(4) {
		op := sink.Op{Kind: sink.SetCell, Family: b.pick(families...), Qualifier: b.pick(qualifiers...), Timestamp: b.random.Int64N(4) * 1000, Value: []byte(b.version())}
		switch b.random.IntN(8) {
		case 0:
			op = sink.Op{Kind: sink.DeleteFamily, Family: op.Family}
		case 1:
			op = sink.Op{Kind: sink.DeleteColumn, Family: op.Family, Qualifier: op.Qualifier}
		case 2:
			op = sink.Op{Kind: sink.DeleteFrom, Family: op.Family, Qualifier: op.Qualifier, Timestamp: op.Timestamp}
		case 3:
			op = sink.Op{Kind: sink.DeleteBefore, Family: op.Family, Qualifier: op.Qualifier, Timestamp: op.Timestamp + 1000}
		}
		r.Ops = append(r.Ops, op)
	}
	return r
}

// targetOutcome returns the meaning of a target's error, or "".
func targetOutcome(err error) string {
	var e *sink.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Op + ": " + e.Reason.String()
	}
	return "an error that is no *sink.Error"
}

func (b *both) apply(r sink.Request) {
	var here bool
	var errHere error
	b.here(func(ctx context.Context) { here, errHere = Target{b.model}.Apply(ctx, &r) })
	there, errThere := b.there.Apply(b.ctx, &r)
	if here != there || targetOutcome(errHere) != targetOutcome(errThere) {
		b.fail("%+v: applied %v, %v here; %v, %v there", r, here, errHere, there, errThere)
	}
	if errHere == nil {
		b.done[map[bool]string{true: "applied", false: "refused"}[here]]++
	}
}

// read compares the rows of a range.
func (b *both) read() {
	table, r := "t", sink.Range{}
	switch b.random.IntN(6) {
	case 0:
		table = "absent"
		b.done["read of no table"]++
	case 1:
		r = sink.Prefix(b.pick(rowKeys...))
	case 2:
		r = sink.Single(b.pick(rowKeys...))
	case 3:
		r.From = b.pick(rowKeys...)
	case 4:
		r.To = b.pick(rowKeys...)
	}
	if r != (sink.Range{}) {
		b.done["rows of a range"]++
	}
	b.compare(table, r)
}

func (b *both) compare(table string, r sink.Range) {
	var here, there []string
	var errHere error
	b.here(func(ctx context.Context) {
		errHere = Target{b.model}.ReadRows(ctx, table, r, func(row sink.Row) error { here = append(here, showRow(row)); return nil })
	})
	errThere := b.there.ReadRows(b.ctx, table, r, func(row sink.Row) error { there = append(there, showRow(row)); return nil })
	if targetOutcome(errHere) != targetOutcome(errThere) {
		b.fail("reading %q: %v here, %v there", r, errHere, errThere)
	}
	unmarked, limit := b.random.IntN(2) == 0, b.random.IntN(4)
	b.here(func(ctx context.Context) {
		errHere = Target{b.model}.ReadMarks(ctx, table, r, unmarked, limit, func(row sink.Row) error { here = append(here, showRow(row)); return nil })
	})
	errThere = b.there.ReadMarks(b.ctx, table, r, unmarked, limit, func(row sink.Row) error { there = append(there, showRow(row)); return nil })
	if targetOutcome(errHere) != targetOutcome(errThere) {
		b.fail("reading marks of %q: %v here, %v there", r, errHere, errThere)
	}
	if a, c := strings.Join(here, "\n"), strings.Join(there, "\n"); a != c {
		b.fail("rows of %q\nhere:\n%s\nthere:\n%s", r, a, c)
	}
	b.done["rows"] += len(here)
}

// showRow formats a row, without the times of tombstones, which the server sets.
func showRow(r sink.Row) string {
	text := fmt.Sprintf("%q live %q gone %q", r.Key, r.Version, r.Gone)
	for _, c := range append(r.Cells, r.Own...) {
		text += fmt.Sprintf(" %s:%q@%d=%q", c.Family, c.Qualifier, c.Timestamp, c.Value)
	}
	return text
}

func (b *both) compareAll() {
	b.compare("t", sink.Range{})
	b.scan("")
	b.ledger(0, "")
	b.ledger(1, "\xff")
}

// record writes, deletes or reads records of parked items.
func (b *both) record() {
	key, data := "parked/"+b.pick("1", "2", "20", "3/\xff"), []byte(b.pick("one", "two", "{}"))
	var errHere, errThere error
	switch b.random.IntN(4) {
	case 0:
		b.scan("parked/" + b.pick("", "2", "3/"))
	case 1:
		b.here(func(ctx context.Context) { errHere = Target{b.model}.Delete(ctx, key) })
		errThere = b.records.Delete(b.ctx, key)
		b.done["record deleted"]++
	default:
		b.here(func(ctx context.Context) { errHere = Target{b.model}.Put(ctx, key, data) })
		errThere = b.records.Put(b.ctx, key, data)
		b.done["record"]++
	}
	if errHere != nil || errThere != nil {
		b.fail("record: %v here, %v there", errHere, errThere)
	}
}

// scan compares records. On both sides, a prefix of ledger rows has no records.
func (b *both) scan(prefix string) {
	var here, there []string
	var errHere error
	keysOnly := b.random.IntN(4) == 0
	add := func(list *[]string) func(string, []byte) error {
		return func(key string, data []byte) error {
			if keysOnly {
				data = nil // the model returns data anyway
			}
			*list = append(*list, fmt.Sprintf("%q=%q", key, data))
			return nil
		}
	}
	b.here(func(ctx context.Context) { errHere = Target{b.model}.Scan(ctx, prefix, keysOnly, add(&here)) })
	errThere := b.records.Scan(b.ctx, prefix, keysOnly, add(&there))
	if a, c := strings.Join(here, " "), strings.Join(there, " "); a != c || errHere != nil || errThere != nil {
		b.fail("records: %s, %v here; %s, %v there", a, errHere, c, errThere)
	}
	b.done["records"] += len(here)
}

// swap tries a compare-and-set on a row of the ledger or on a witness, mostly with the right counter.
func (b *both) swap() {
	which, key := 0, "p/"+b.pick("shard/a", "shard/b", "table/a")
	if b.random.IntN(4) == 0 {
		which, key = 1, "\xff_cdc~witness~"+b.pick("a", "b")
	}
	was := b.counter[key]
	if b.random.IntN(4) == 0 {
		was = b.random.Uint64N(13)
	}
	data := []byte(b.pick(`{"n":1}`, `{"n":2}`))
	if b.random.IntN(8) == 0 {
		data = nil
	}
	next := was + 1
	if b.random.IntN(8) == 0 {
		next = 1 + b.random.Uint64N(13)
	}
	var here bool
	var errHere error
	b.here(func(ctx context.Context) { here, errHere = b.stores(which)[0].Swap(ctx, key, was, next, data) })
	there, errThere := b.stores(which)[1].Swap(b.ctx, key, was, next, data)
	if here != there || errHere != nil || errThere != nil {
		b.fail("swap of %q at %d: %v, %v here; %v, %v there", key, was, here, errHere, there, errThere)
	}
	switch {
	case !here:
		b.done["swap lost"]++
	case data == nil:
		b.counter[key] = 0
		b.done["ledger row removed"]++
	default:
		b.counter[key] = next
		b.done["swap"]++
	}
}

func (b *both) stores(which int) [2]checkpoint.Store {
	return [2][2]checkpoint.Store{b.ledgers, b.witness}[which]
}

func (b *both) readLedger() {
	if b.random.IntN(3) == 0 {
		b.ledger(1, "\xff"+b.pick("", "_cdc~witness~a"))
		return
	}
	b.ledger(0, "p/"+b.pick("", "shard/", "shard/a", "table/a", "none"))
}

func (b *both) ledger(which int, prefix string) {
	var here []checkpoint.Row
	var errHere error
	b.here(func(ctx context.Context) { here, errHere = b.stores(which)[0].Read(ctx, prefix) })
	there, errThere := b.stores(which)[1].Read(b.ctx, prefix)
	if a, c := showLedger(here), showLedger(there); a != c || errHere != nil || errThere != nil {
		b.fail("ledger under %q: %s, %v here; %s, %v there", prefix, a, errHere, c, errThere)
	}
	b.done["ledger read"] += len(here)
}

func showLedger(rows []checkpoint.Row) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, fmt.Sprintf("%q %d %s", r.Key, r.Counter, r.Data))
	}
	return strings.Join(parts, ", ")
}
