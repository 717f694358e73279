package bigtabletest_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// testClock is a clock that moves only when it is advanced.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const (
	parent    = "projects/p/instances/i"
	tableName = parent + "/tables/t"
	day       = 24 * time.Hour
)

// start has a fraction of a microsecond, so that rounding shows.
var start = time.Date(2026, 11, 21, 10, 0, 0, 500_000_500, time.UTC)

// fixture is a server with a stopped clock, and its gRPC clients.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	clock  *testClock
	server *bigtabletest.Server
	conn   *grpc.ClientConn
	data   bigtablepb.BigtableClient
	admin  adminpb.BigtableTableAdminClient
}

func newFixture(t *testing.T, opts bigtabletest.Options) *fixture {
	t.Helper()
	clock := &testClock{now: start}
	opts.Clock = clock.Now
	server, err := bigtabletest.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	f := connect(t, "passthrough:///"+server.Addr())
	f.clock, f.server = clock, server
	return f
}

// connect returns a fixture with the clients alone.
func connect(t *testing.T, address string) *fixture {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &fixture{t: t, ctx: ctx, conn: conn, data: bigtablepb.NewBigtableClient(conn), admin: adminpb.NewBigtableTableAdminClient(conn)}
}

// newStream returns a fixture with a table whose change stream is kept for a day and whose
// partitions are divided by the keys.
func newStream(t *testing.T, opts bigtabletest.Options, splits ...string) *fixture {
	t.Helper()
	f := newFixture(t, opts)
	f.create(day, splits...)
	return f
}

// create creates the table with the families f and g. Without a retention period it has no change
// stream.
func (f *fixture) create(retention time.Duration, splits ...string) {
	f.t.Helper()
	req := &adminpb.CreateTableRequest{Parent: parent, TableId: "t", Table: &adminpb.Table{ColumnFamilies: map[string]*adminpb.ColumnFamily{"f": {}, "g": {}}}}
	if retention > 0 {
		req.Table.ChangeStreamConfig = &adminpb.ChangeStreamConfig{RetentionPeriod: durationpb.New(retention)}
	}
	for _, key := range splits {
		req.InitialSplits = append(req.InitialSplits, &adminpb.CreateTableRequest_Split{Key: []byte(key)})
	}
	if _, err := f.admin.CreateTable(f.ctx, req); err != nil {
		f.t.Fatal(err)
	}
}

// update sets the retention period of the table; 0 disables the change stream.
func (f *fixture) update(retention time.Duration) error {
	req := &adminpb.UpdateTableRequest{Table: &adminpb.Table{Name: tableName}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"change_stream_config"}}}
	if retention > 0 {
		req.Table.ChangeStreamConfig = &adminpb.ChangeStreamConfig{RetentionPeriod: durationpb.New(retention)}
	}
	_, err := f.admin.UpdateTable(f.ctx, req)
	return err
}

// must fails the test if a control fails.
func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// wants fails the test unless an error has a code.
func (f *fixture) wants(code codes.Code, err error) {
	f.t.Helper()
	if status.Code(err) != code {
		f.t.Fatalf("got %v, want %s", err, code)
	}
}

func set(family, column, value string) *bigtablepb.Mutation {
	return &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_SetCell_{SetCell: &bigtablepb.Mutation_SetCell{
		FamilyName: family, ColumnQualifier: []byte(column), TimestampMicros: 1000, Value: []byte(value),
	}}}
}

func deleteRow() *bigtablepb.Mutation {
	return &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromRow_{DeleteFromRow: &bigtablepb.Mutation_DeleteFromRow{}}}
}

func deleteFamily(family string) *bigtablepb.Mutation {
	return &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromFamily_{DeleteFromFamily: &bigtablepb.Mutation_DeleteFromFamily{FamilyName: family}}}
}

// mutate applies mutations to a row.
func (f *fixture) mutate(row string, mutations ...*bigtablepb.Mutation) {
	f.t.Helper()
	_, err := f.data.MutateRow(f.ctx, &bigtablepb.MutateRowRequest{TableName: tableName, RowKey: []byte(row), Mutations: mutations})
	f.must(err)
}

// put sets a cell of each row to its key.
func (f *fixture) put(rows ...string) {
	f.t.Helper()
	for _, row := range rows {
		f.mutate(row, set("f", "c", row))
	}
}

func part(from, to string) *bigtablepb.StreamPartition {
	return &bigtablepb.StreamPartition{RowRange: &bigtablepb.RowRange{
		StartKey: &bigtablepb.RowRange_StartKeyClosed{StartKeyClosed: []byte(from)},
		EndKey:   &bigtablepb.RowRange_EndKeyOpen{EndKeyOpen: []byte(to)},
	}}
}

// rangeOf shows a partition as "a:m".
func rangeOf(p *bigtablepb.StreamPartition) string {
	return string(p.GetRowRange().GetStartKeyClosed()) + ":" + string(p.GetRowRange().GetEndKeyOpen())
}

// tail is one request to read a partition.
type tail struct {
	f      *fixture
	of     *bigtablepb.StreamPartition
	stream bigtablepb.Bigtable_ReadChangeStreamClient
}

type readRequest = bigtablepb.ReadChangeStreamRequest

// request changes the request of a tail.
type request func(*readRequest)

func since(at time.Time) request {
	return func(r *readRequest) {
		r.StartFrom = &bigtablepb.ReadChangeStreamRequest_StartTime{StartTime: timestamppb.New(at)}
	}
}

func until(at time.Time) request {
	return func(r *readRequest) { r.EndTime = timestamppb.New(at) }
}

func after(tokens ...*bigtablepb.StreamContinuationToken) request {
	return func(r *readRequest) {
		r.StartFrom = &bigtablepb.ReadChangeStreamRequest_ContinuationTokens{ContinuationTokens: &bigtablepb.StreamContinuationTokens{Tokens: tokens}}
	}
}

// send sends a request. Without options it starts when the fixture was created.
func (f *fixture) send(of *bigtablepb.StreamPartition, options ...request) *tail {
	f.t.Helper()
	req := &readRequest{TableName: tableName, Partition: of}
	for _, option := range append([]request{since(start)}, options...) {
		option(req)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.t.Cleanup(cancel)
	stream, err := f.data.ReadChangeStream(ctx, req)
	f.must(err)
	return &tail{f: f, of: of, stream: stream}
}

// read sends a request and waits until it is open.
func (f *fixture) read(of *bigtablepb.StreamPartition, options ...request) *tail {
	f.t.Helper()
	s := f.send(of, options...)
	header, err := s.stream.Header()
	f.must(err)
	if header == nil {
		_, err = s.stream.Recv()
		f.t.Fatalf("the request failed: %v", err)
	}
	return s
}

// all reads the whole key space, in a table with one partition.
func (f *fixture) all(options ...request) *tail {
	f.t.Helper()
	return f.read(part("", ""), options...)
}

func (s *tail) next() *bigtablepb.ReadChangeStreamResponse {
	s.f.t.Helper()
	m, err := s.stream.Recv()
	s.f.must(err)
	return m
}

// change returns the next message, which must be a record.
func (s *tail) change() *bigtablepb.ReadChangeStreamResponse_DataChange {
	s.f.t.Helper()
	m := s.next()
	if m.GetDataChange() == nil {
		s.f.t.Fatalf("got %v, want a record", m)
	}
	return m.GetDataChange()
}

// rows fails the test unless the next records are of these rows, in this order.
func (s *tail) rows(want ...string) (last *bigtablepb.ReadChangeStreamResponse_DataChange) {
	s.f.t.Helper()
	for _, row := range want {
		if last = s.change(); string(last.RowKey) != row {
			s.f.t.Fatalf("got a record of row %q, want %q", last.RowKey, row)
		}
	}
	return last
}

// quiet fails the test unless nothing comes before the next heartbeat, which it returns.
func (s *tail) quiet() *bigtablepb.ReadChangeStreamResponse_Heartbeat {
	s.f.t.Helper()
	s.f.server.AdvanceClock(5 * time.Second)
	m := s.next()
	if m.GetHeartbeat() == nil {
		s.f.t.Fatalf("got %v, want a heartbeat", m)
	}
	return m.GetHeartbeat()
}

// closes returns the next message, which must be the last.
func (s *tail) closes() *bigtablepb.ReadChangeStreamResponse_CloseStream {
	s.f.t.Helper()
	m := s.next()
	if m.GetCloseStream() == nil {
		s.f.t.Fatalf("got %v, want a CloseStream", m)
	}
	if _, err := s.stream.Recv(); err != io.EOF {
		s.f.t.Fatalf("the stream goes on after its CloseStream: %v", err)
	}
	return m.GetCloseStream()
}

// fails fails the test unless the stream ends with a code.
func (s *tail) fails(code codes.Code) {
	s.f.t.Helper()
	_, err := s.stream.Recv()
	s.f.wants(code, err)
}

// token is the token of a record for the partition of the request.
func (s *tail) token(c *bigtablepb.ReadChangeStreamResponse_DataChange) *bigtablepb.StreamContinuationToken {
	return &bigtablepb.StreamContinuationToken{Partition: s.of, Token: c.Token}
}

// shape shows a CloseStream: status, and token ranges with their new partitions.
func shape(c *bigtablepb.ReadChangeStreamResponse_CloseStream) string {
	words := []string{codes.Code(c.GetStatus().GetCode()).String()}
	for i, token := range c.ContinuationTokens {
		words = append(words, rangeOf(token.Partition)+" in "+rangeOf(c.NewPartitions[i]))
	}
	return strings.Join(words, ", ")
}

// mutationsOf shows the mutations of a record.
func mutationsOf(c *bigtablepb.ReadChangeStreamResponse_DataChange) string {
	var words []string
	for _, chunk := range c.Chunks {
		switch m := chunk.Mutation.Mutation.(type) {
		case *bigtablepb.Mutation_SetCell_:
			words = append(words, "set "+m.SetCell.FamilyName+"."+string(m.SetCell.ColumnQualifier)+"="+string(m.SetCell.Value))
		case *bigtablepb.Mutation_DeleteFromColumn_:
			words = append(words, "delete "+m.DeleteFromColumn.FamilyName+"."+string(m.DeleteFromColumn.ColumnQualifier))
		case *bigtablepb.Mutation_DeleteFromFamily_:
			words = append(words, "delete "+m.DeleteFromFamily.FamilyName)
		default:
			words = append(words, "unexpected")
		}
	}
	return strings.Join(words, ", ")
}
