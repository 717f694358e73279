package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Instance names a Bigtable instance and the app profile to use.
type Instance struct {
	Project  string
	Instance string
	// AppProfile must have single-cluster routing and single-row transactions (Admin.Profile);
	// empty means the instance's default.
	AppProfile string
	// Emulator is the address of an emulator, host:port. If it is empty, BIGTABLE_EMULATOR_HOST
	// names the emulator, if there is one.
	Emulator string
}

// Bigtable implements Table and Reader with the data client of Cloud Bigtable. Its method Records
// returns the store of parked records.
type Bigtable struct {
	client *bigtable.Client
	wire   *wire // for conditional writes

	mu     sync.Mutex
	tables map[string]*bigtable.Table
}

// maxMessageBytes bounds one request or response. Bigtable's own limit is 256 MB. Source:
// https://cloud.google.com/bigtable/quotas#limits-operations
const maxMessageBytes = 1 << 28

// alive closes a connection that has died silently, which the client does not do. Without alive, a
// call without a deadline would wait on such a connection forever, and every later call would use
// it too. Pings are sent only while calls are in flight and nothing has arrived for a while. Such
// rare pings satisfy any server's policy.
var alive = grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second})

// Connect opens the data client with Application Default Credentials. It uses the emulator that
// in.Emulator or BIGTABLE_EMULATOR_HOST names. A caller that must not use an emulator must check
// that variable first (H67). A connection in `opts` takes precedence over both. Connect does not
// wait for an answer of the service; Ping does.
func Connect(ctx context.Context, in Instance, opts ...option.ClientOption) (*Bigtable, error) {
	// The session data plane and the client's own metrics would need permissions beyond reading and
	// writing the tables.
	config := bigtable.ClientConfig{
		AppProfile: in.AppProfile, DisableSession: true, MetricsProvider: bigtable.NoopMetricsProvider{},
	}
	base := []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessageBytes), grpc.MaxCallRecvMsgSize(maxMessageBytes))),
		option.WithGRPCDialOption(alive),
		option.WithUserAgent(build.UserAgent()),
	}
	emulator, err := dialEmulator(in)
	if err != nil {
		return nil, err
	}
	if emulator != nil {
		base = append(base, option.WithGRPCConn(emulator))
	}
	opts = append(base, opts...) // if there are several connections, the last one is used
	client, err := bigtable.NewClientWithConfig(ctx, in.Project, in.Instance, config, opts...)
	if err != nil {
		return nil, in.notOpened(err)
	}
	wire, err := dialWire(ctx, in, opts)
	if err != nil {
		_ = client.Close()
		return nil, in.notOpened(err)
	}
	return &Bigtable{client: client, wire: wire, tables: map[string]*bigtable.Table{}}, nil
}

// dialEmulator connects to the emulator that the instance or the environment names, or returns nil.
// The client could dial the emulator itself, but only with gRPC's default message size. A large
// item exceeds that size.
func dialEmulator(in Instance) (*grpc.ClientConn, error) {
	host := cmp.Or(in.Emulator, os.Getenv("BIGTABLE_EMULATOR_HOST"))
	if host == "" {
		return nil, nil
	}
	for _, scheme := range []string{"http://", "https://", "passthrough:///"} {
		host = strings.TrimPrefix(host, scheme)
	}
	conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(insecure.NewCredentials()), alive, grpc.WithUserAgent(build.UserAgent()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessageBytes), grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		return nil, fmt.Errorf("connect to the Bigtable emulator at %s: %w", host, err)
	}
	return conn, nil
}

// Close closes the connections.
func (b *Bigtable) Close() error { return errors.Join(b.wire.close(), b.client.Close()) }

// ping is the only request that names no table. Bigtable's client also opens its connections with
// this request. The request and its response name the instance and the app profile.
const ping = "PingAndWarm"

// notOpened returns the error for an instance that could not be opened: *Error if the service
// returned a status.
func (in Instance) notOpened(err error) error {
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		return classifyControl(ping, answer.GRPCStatus().Err())
	}
	return fmt.Errorf("open Bigtable instance %s of project %s: %w", in.Instance, in.Project, err)
}

// Ping returns nil when the instance answers, otherwise the service's *Error. An instance without
// tables answers a ping with NotFound, which Ping treats as success.
func (b *Bigtable) Ping(ctx context.Context) error {
	err := b.client.PingAndWarm(ctx)
	if ofNoTable(err) {
		return nil
	}
	return classifyControl(ping, err)
}

// Open returns the client's handle of a table, for the ledger's store.
func (b *Bigtable) Open(table string) *bigtable.Table {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tables[table]
	if t == nil {
		t = b.client.Open(table)
		b.tables[table] = t
	}
	return t
}

// Apply implements Table. No layer below Apply retries the request.
func (b *Bigtable) Apply(ctx context.Context, r *Request) (applied bool, err error) {
	refused, err := b.wire.apply(ctx, r)
	if err != nil {
		return false, classify("CheckAndMutateRow", err)
	}
	return !refused, nil
}

// ReadRows implements Reader. The client retries reads itself and resumes a broken stream after the
// last row, until ctx ends. So the caller must bound ctx.
func (b *Bigtable) ReadRows(ctx context.Context, table string, r Range, f func(Row) error) error {
	var stop error
	err := b.Open(table).ReadRows(ctx, rowRange(r), func(row bigtable.Row) bool {
		stop = f(rowOf(row))
		return stop == nil
	})
	if stop != nil {
		return stop
	}
	return classify("ReadRows", err)
}

// ReadMarks implements MarkReader. A cell that passes both filters is returned twice, once without
// its value.
func (b *Bigtable) ReadMarks(ctx context.Context, table string, r Range, unmarked bool, limit int, f func(Row) error) error {
	filter := bigtable.InterleaveFilters(bigtable.ColumnRangeFilter(LiveFamily, "", ""), bigtable.ColumnRangeFilter(GoneFamily, "", ""))
	if unmarked {
		first := bigtable.ChainFilters(bigtable.CellsPerRowLimitFilter(1), bigtable.StripValueFilter())
		filter = bigtable.InterleaveFilters(bigtable.ColumnRangeFilter(LiveFamily, "", ""), bigtable.ColumnRangeFilter(GoneFamily, "", ""), first)
	}
	options := []bigtable.ReadOption{bigtable.RowFilter(filter)}
	if limit > 0 {
		options = append(options, bigtable.LimitRows(int64(limit)))
	}
	var stop error
	err := b.Open(table).ReadRows(ctx, rowRange(r), func(row bigtable.Row) bool {
		stop = f(MarksOf(rowOf(row)))
		return stop == nil
	}, options...)
	if stop != nil {
		return stop
	}
	return classify("ReadRows", err)
}

// ReadSet implements SetReader. The client puts as many rows as fit into each request.
func (b *Bigtable) ReadSet(ctx context.Context, table string, rows []string, f func(Row) error) error {
	if len(rows) == 0 {
		return nil // an empty set would read the whole table
	}
	var stop error
	err := b.Open(table).ReadRows(ctx, bigtable.RowList(rows), func(row bigtable.Row) bool {
		stop = f(rowOf(row))
		return stop == nil
	})
	if stop != nil {
		return stop
	}
	return classify("ReadRows", err)
}

// ReadAt implements MarkReader.
func (b *Bigtable) ReadAt(ctx context.Context, table string, rows []string, at int64, f func(Row) error) error {
	if len(rows) == 0 {
		return nil // an empty set would read the whole table
	}
	var stop error
	exactly := bigtable.TimestampRangeFilterMicros(bigtable.Timestamp(at), bigtable.Timestamp(at+millisecond))
	err := b.Open(table).ReadRows(ctx, bigtable.RowList(rows), func(row bigtable.Row) bool {
		stop = f(rowOf(row))
		return stop == nil
	}, bigtable.RowFilter(exactly))
	if stop != nil {
		return stop
	}
	return classify("ReadRows", err)
}

// ReadSince implements SetReader.
func (b *Bigtable) ReadSince(ctx context.Context, table string, r Range, since int64, f func(key string) error) error {
	var stop error
	recent := bigtable.ChainFilters(bigtable.TimestampRangeFilterMicros(bigtable.Timestamp(since), 0), bigtable.CellsPerRowLimitFilter(1), bigtable.StripValueFilter())
	err := b.Open(table).ReadRows(ctx, rowRange(r), func(row bigtable.Row) bool {
		stop = f(row.Key())
		return stop == nil
	}, bigtable.RowFilter(recent))
	if stop != nil {
		return stop
	}
	return classify("ReadRows", err)
}

// HasRow reports whether a range of a table has a row, with cells in any family.
func (b *Bigtable) HasRow(ctx context.Context, table string, r Range) (bool, error) {
	found, one := false, bigtable.ChainFilters(bigtable.CellsPerRowLimitFilter(1), bigtable.StripValueFilter())
	err := b.Open(table).ReadRows(ctx, rowRange(r), func(bigtable.Row) bool { found = true; return false }, bigtable.RowFilter(one), bigtable.LimitRows(1))
	return found, classify("ReadRows", err)
}

// SampleKeys implements MarkReader. The service returns the end of the table as an empty key.
func (b *Bigtable) SampleKeys(ctx context.Context, table string) ([]string, error) {
	keys, err := b.Open(table).SampleRowKeys(ctx)
	return slices.DeleteFunc(keys, func(key string) bool { return key == "" }), classify("SampleRowKeys", err)
}

// Look implements Looker.
func (b *Bigtable) Look(ctx context.Context, m *transform.RowMutation, before int64) (Row, error) {
	found := Row{Key: m.Row}
	row, err := b.Open(m.Table).ReadRow(ctx, m.Row, bigtable.RowFilter(lookFilter(m, before)))
	if err != nil || row == nil {
		return found, classify("ReadRows", err)
	}
	return rowOf(row), nil
}

// maxLookBytes bounds the filter of a Look. Bigtable accepts filters of up to 20 KB; the sizes
// below are upper estimates. Source: https://cloud.google.com/bigtable/quotas#limits-operations
const maxLookBytes = 19_000

// lookFilter returns a filter that passes the cells that Look must return.
func lookFilter(m *transform.RowMutation, before int64) bigtable.Filter {
	version := itemColumn(VersionColumn, m.Owner)
	filters := []bigtable.Filter{only(LiveFamily, version), only(GoneFamily, version)}
	for _, part := range lookParts(m, maxLookBytes-lookBytes(LiveFamily, version)-lookBytes(GoneFamily, version)) {
		filters = append(filters, bigtable.ChainFilters(part, bigtable.LatestNFilter(1)))
		if before > 0 { // an end of 0 would mean infinity
			filters = append(filters, bigtable.ChainFilters(part, bigtable.TimestampRangeFilterMicros(0, bigtable.Timestamp(before)), bigtable.LatestNFilter(1)))
		}
	}
	return bigtable.InterleaveFilters(filters...)
}

// only returns a filter for the cells of one column. The end of a range is exclusive.
func only(family, qualifier string) bigtable.Filter {
	return bigtable.ColumnRangeFilter(family, qualifier, qualifier+"\x00")
}

// lookBytes estimates the size of a Look's filter for one column or family.
func lookBytes(family, qualifier string) int { return len(family) + 2*len(qualifier) + 64 }

// lookParts returns filters that pass the columns that a mutation owns. Version columns with long
// keys may take most of the room in a filter. If the columns do not fit, lookParts uses their
// families. If the families do not fit, it uses the whole row.
func lookParts(m *transform.RowMutation, room int) (parts []bigtable.Filter) {
	families, columns, size := slices.Clone(m.Families), []transform.Column(nil), 0
	for _, c := range m.Columns {
		if !slices.Contains(m.Families, c.Family) {
			columns = append(columns, c)
			size += 2 * lookBytes(c.Family, c.Qualifier)
		}
	}
	for _, family := range families {
		size += 2 * lookBytes(family, "")
	}
	if size > room {
		for _, c := range columns {
			if !slices.Contains(families, c.Family) {
				families = append(families, c.Family)
			}
		}
		columns, size = nil, 0
		for _, family := range families {
			size += 2 * lookBytes(family, "")
		}
	}
	if size > room {
		return []bigtable.Filter{bigtable.PassAllFilter()}
	}
	for _, c := range columns {
		parts = append(parts, only(c.Family, c.Qualifier))
	}
	for _, family := range families {
		parts = append(parts, bigtable.ColumnRangeFilter(family, "", ""))
	}
	return parts
}

func rowRange(r Range) bigtable.RowRange {
	if r.To == "" {
		return bigtable.InfiniteRange(r.From)
	}
	return bigtable.NewRange(r.From, r.To)
}

// rowOf converts a row. Within a family, cells are sorted by qualifier and from newest to oldest. A
// cell that passes two filters may occur twice.
func rowOf(row bigtable.Row) Row {
	families, n := make([]string, 0, len(row)), 0
	for family, items := range row {
		families = append(families, family)
		n += len(items)
	}
	slices.Sort(families)
	cells := make([]transform.Cell, 0, n)
	for _, family := range families {
		for _, item := range row[family] {
			cells = append(cells, transform.Cell{
				Family: family, Qualifier: item.Column[len(family)+1:], Timestamp: int64(item.Timestamp), Value: item.Value,
			})
		}
	}
	return NewRow(row.Key(), cells)
}

// ParkedFamily holds parked records in the state table; ParkedColumn is its one column.
const (
	ParkedFamily = "parked"
	ParkedColumn = "r"
)

// Records returns the store of parked records in the state table.
func (b *Bigtable) Records(stateTable string) Records {
	return records{b.Open(stateTable)}
}

type records struct{ table *bigtable.Table }

// Put uses a conditional mutation with the same write in both branches, because the client never
// retries a conditional mutation. Other writes would be retried endlessly after a permanent error
// that asks for a retry (H50).
func (r records) Put(ctx context.Context, key string, data []byte) error {
	set := bigtable.NewMutation()
	set.Set(ParkedFamily, ParkedColumn, 0, data)
	return classify("CheckAndMutateRow", r.table.Apply(ctx, key, bigtable.NewCondMutation(bigtable.PassAllFilter(), set, set)))
}

func (r records) Delete(ctx context.Context, key string) error {
	drop := bigtable.NewMutation()
	drop.DeleteCellsInFamily(ParkedFamily)
	return classify("CheckAndMutateRow", r.table.Apply(ctx, key, bigtable.NewCondMutation(bigtable.PassAllFilter(), drop, nil)))
}

func (r records) Scan(ctx context.Context, prefix string, keysOnly bool, f func(key string, data []byte) error) error {
	column := bigtable.ChainFilters(only(ParkedFamily, ParkedColumn), bigtable.LatestNFilter(1))
	if keysOnly {
		column = bigtable.ChainFilters(column, bigtable.StripValueFilter())
	}
	var stop error
	err := r.table.ReadRows(ctx, rowRange(Prefix(prefix)), func(row bigtable.Row) bool {
		stop = errors.New("a row without a record")
		if items := row[ParkedFamily]; len(items) == 1 {
			data := items[0].Value
			if keysOnly {
				data = nil
			}
			stop = f(row.Key(), data)
		}
		return stop == nil
	}, bigtable.RowFilter(column))
	if stop != nil {
		return stop
	}
	return classify("ReadRows", err)
}
