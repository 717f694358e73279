package bigtabletest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// table is what the server knows of a table besides the emulator.
type table struct {
	name   string
	rows   bigtablepb.BigtableServer // the emulator
	unit   int64                     // granularity of cell timestamps in microseconds
	splits []string                  // where partitions start at first

	// writes is held during a write, so that records are in the order in which the writes take
	// effect. It is acquired before the mutex of the Server.
	writes sync.Mutex

	stream *changeStream // nil without a change stream; the mutex of the Server guards it
}

// config is the change stream configuration that a table shows.
func (t *table) config() *adminpb.ChangeStreamConfig {
	if t == nil || t.stream == nil {
		return nil
	}
	return &adminpb.ChangeStreamConfig{RetentionPeriod: durationpb.New(t.stream.retention)}
}

// shortest and longest bound the retention period.
const shortest, longest = 24 * time.Hour, 7 * 24 * time.Hour

// retentionOf returns the retention period of a configuration; 0 if it has none.
func retentionOf(c *adminpb.ChangeStreamConfig) (time.Duration, error) {
	if c.GetRetentionPeriod() == nil {
		return 0, nil
	}
	d := c.GetRetentionPeriod().AsDuration().Truncate(time.Microsecond)
	if d < shortest || d > longest {
		return 0, status.Errorf(codes.InvalidArgument, "change_stream_config.retention_period is %s: choose 1 to 7 days", d)
	}
	return d, nil
}

// setRetention enables the change stream of a table, changes its retention period, or disables it
// if the period is 0. The mutex of the Server must be held.
func (s *Server) setRetention(t *table, d time.Duration) {
	switch {
	case d == 0 && t.stream != nil:
		t.stream.end(codes.FailedPrecondition, "the change stream of the table was disabled")
		t.stream = nil
	case d == 0:
	case t.stream != nil:
		t.stream.retention = d
		t.stream.wake()
	default:
		s.epochs++
		t.stream = newChangeStream(s.epochs, s.opts.Seed, d, t.splits, s.Now())
	}
}

func (s *Server) createTable(ctx context.Context, req *adminpb.CreateTableRequest, rows bigtablepb.BigtableServer, handler grpc.UnaryHandler) (any, error) {
	retention, err := retentionOf(req.GetTable().GetChangeStreamConfig())
	if err != nil {
		return nil, err
	}
	answer, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	t := &table{name: tableOf(req), rows: rows, unit: 1000}
	if req.GetTable().GetGranularity() == adminpb.Table_MICROS {
		t.unit = 1
	}
	for _, split := range req.GetInitialSplits() {
		t.splits = append(t.splits, string(split.GetKey()))
	}
	s.mu.Lock()
	s.tables[t.name] = t
	s.setRetention(t, retention)
	s.mu.Unlock()
	s.addConfig(answer.(*adminpb.Table))
	return answer, nil
}

// concernsStream reports whether a path of an update mask is the change stream configuration.
func concernsStream(path string) bool {
	return path == "change_stream_config" || path == "change_stream_config.retention_period"
}

// updateTable applies the parts of an update that concern the change stream. The emulator sets the
// deletion protection in every update, so an update without it repeats the current one.
func (s *Server) updateTable(ctx context.Context, req *adminpb.UpdateTableRequest, admin adminpb.BigtableTableAdminServer, handler grpc.UnaryHandler) (any, error) {
	paths := req.GetUpdateMask().GetPaths()
	if !slices.ContainsFunc(paths, concernsStream) {
		answer, err := handler(ctx, req)
		if err != nil {
			return nil, err
		}
		return s.addConfigTo(answer.(*longrunningpb.Operation))
	}
	retention, err := retentionOf(req.GetTable().GetChangeStreamConfig())
	if err != nil {
		return nil, err
	}
	if !slices.Contains(paths, "deletion_protection") {
		current, err := admin.GetTable(ctx, &adminpb.GetTableRequest{Name: req.GetTable().GetName()})
		if err != nil {
			return nil, err
		}
		req.Table.DeletionProtection = current.DeletionProtection
	}
	t := s.lockWrites(req.GetTable().GetName())
	if t == nil {
		return handler(ctx, req)
	}
	defer t.writes.Unlock()
	answer, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.setRetention(t, retention)
	s.mu.Unlock()
	return s.addConfigTo(answer.(*longrunningpb.Operation))
}

func (s *Server) deleteTable(ctx context.Context, req *adminpb.DeleteTableRequest, handler grpc.UnaryHandler) (any, error) {
	t := s.lockWrites(req.GetName())
	if t == nil {
		return handler(ctx, req)
	}
	defer t.writes.Unlock()
	answer, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tables, t.name)
	if t.stream != nil {
		t.stream.end(codes.NotFound, "the table was deleted")
	}
	return answer, nil
}

// dropRowRange records the removal of each row. Google documents that change streams have them.
func (s *Server) dropRowRange(ctx context.Context, req *adminpb.DropRowRangeRequest, handler grpc.UnaryHandler) (any, error) {
	t, unlock := s.lockStream(req.GetName())
	defer unlock()
	if t == nil {
		return handler(ctx, req)
	}
	prefix := string(req.GetRowKeyPrefix())
	found, err := t.familiesOf(ctx, &bigtablepb.RowSet{RowRanges: []*bigtablepb.RowRange{
		{StartKey: &bigtablepb.RowRange_StartKeyClosed{StartKeyClosed: []byte(prefix)}},
	}})
	if err != nil {
		return nil, err
	}
	answer, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	for _, row := range found.keys() {
		if strings.HasPrefix(row, prefix) {
			s.commit(t, row, user, found.expand(row, []*bigtablepb.Mutation{deleteFromRow}))
		}
	}
	return answer, nil
}

// addConfig adds the change stream configuration to an answer of the emulator, which drops it.
func (s *Server) addConfig(answer *adminpb.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer != nil {
		answer.ChangeStreamConfig = s.tables[answer.Name].config()
	}
}

// addConfigTo does the same for the table in a completed operation.
func (s *Server) addConfigTo(op *longrunningpb.Operation) (*longrunningpb.Operation, error) {
	packed := op.GetResponse()
	if packed == nil {
		return op, nil
	}
	answer := &adminpb.Table{}
	if err := packed.UnmarshalTo(answer); err != nil {
		return nil, err
	}
	s.addConfig(answer)
	packed, err := anypb.New(answer)
	if err != nil {
		return nil, err
	}
	op.Result = &longrunningpb.Operation_Response{Response: packed}
	return op, nil
}
