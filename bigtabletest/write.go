package bigtabletest

import (
	"context"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// lockWrites returns the table with its writes locked; nil if there is no such table.
func (s *Server) lockWrites(name string) *table {
	for {
		t := s.table(name)
		if t == nil {
			return nil
		}
		t.writes.Lock()
		if s.table(name) == t {
			return t
		}
		t.writes.Unlock() // it was deleted meanwhile
	}
}

// lockStream returns the table with its writes locked; nil if it has no change stream. The caller
// must unlock it in both cases.
func (s *Server) lockStream(name string) (t *table, unlock func()) {
	t = s.lockWrites(name)
	switch {
	case t == nil:
		return nil, func() {}
	case !s.streams(t):
		return nil, t.writes.Unlock
	}
	return t, t.writes.Unlock
}

func (s *Server) table(name string) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[name]
}

// streams reports whether the table has a change stream. Its writes must be locked.
func (s *Server) streams(t *table) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.stream != nil
}

// commit records a change that took effect. A change without mutations is none. The writes of the
// table must be locked.
func (s *Server) commit(t *table, row string, kind bigtablepb.ReadChangeStreamResponse_DataChange_Type, mutations []*bigtablepb.Mutation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(mutations) > 0 {
		t.stream.commit(row, kind, mutations, s.Now())
	}
}

// before returns the families of a row, if mutations delete the row.
func (t *table) before(ctx context.Context, row []byte, mutations ...[]*bigtablepb.Mutation) (families, error) {
	for _, m := range mutations {
		if deletesRow(m) {
			return t.familiesOf(ctx, &bigtablepb.RowSet{RowKeys: [][]byte{row}})
		}
	}
	return families{}, nil
}

func (s *Server) mutateRow(ctx context.Context, req *bigtablepb.MutateRowRequest, handler grpc.UnaryHandler) (any, error) {
	t, unlock := s.lockStream(req.GetTableName())
	defer unlock()
	if t == nil {
		return handler(ctx, req)
	}
	stamp(req.Mutations, s.Now(), t.unit)
	rows, err := t.before(ctx, req.RowKey, req.Mutations)
	if err != nil {
		return nil, err
	}
	answer, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	s.commit(t, string(req.RowKey), user, rows.expand(string(req.RowKey), req.Mutations))
	return answer, nil
}

func (s *Server) checkAndMutateRow(ctx context.Context, req *bigtablepb.CheckAndMutateRowRequest, handler grpc.UnaryHandler) (any, error) {
	t, unlock := s.lockStream(req.GetTableName())
	defer unlock()
	if t == nil {
		return handler(ctx, req)
	}
	stamp(req.TrueMutations, s.Now(), t.unit)
	stamp(req.FalseMutations, s.Now(), t.unit)
	rows, err := t.before(ctx, req.RowKey, req.TrueMutations, req.FalseMutations)
	if err != nil {
		return nil, err
	}
	answer, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	mutations := req.FalseMutations
	if answer.(*bigtablepb.CheckAndMutateRowResponse).PredicateMatched {
		mutations = req.TrueMutations
	}
	s.commit(t, string(req.RowKey), user, rows.expand(string(req.RowKey), mutations))
	return answer, nil
}

// readModifyWriteRow records the new cells, as the answer shows them.
func (s *Server) readModifyWriteRow(ctx context.Context, req *bigtablepb.ReadModifyWriteRowRequest, handler grpc.UnaryHandler) (any, error) {
	t := s.lockWrites(req.GetTableName())
	if t == nil {
		return handler(ctx, req)
	}
	defer t.writes.Unlock()
	answer, err := handler(ctx, req)
	if err == nil && s.streams(t) {
		s.commit(t, string(req.RowKey), user, cellsOf(answer.(*bigtablepb.ReadModifyWriteRowResponse).Row))
	}
	return answer, err
}

// mutateRows records the entries whose status is OK.
func (s *Server) mutateRows(req *bigtablepb.MutateRowsRequest, rows bigtablepb.BigtableServer, call *faultyCall) error {
	answers := &mutateRowsAnswers{ctx: call.Context()}
	if err := s.mutateEntries(req, rows, answers); err != nil {
		return err
	}
	if call.fault != nil {
		return nil // the error of the fault follows
	}
	for _, answer := range answers.sent {
		if err := call.SendMsg(answer); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) mutateEntries(req *bigtablepb.MutateRowsRequest, rows bigtablepb.BigtableServer, answers *mutateRowsAnswers) error {
	t, unlock := s.lockStream(req.GetTableName())
	defer unlock()
	if t == nil {
		return rows.MutateRows(req, answers)
	}
	var deleted [][]byte
	for _, entry := range req.Entries {
		stamp(entry.Mutations, s.Now(), t.unit)
		if deletesRow(entry.Mutations) {
			deleted = append(deleted, entry.RowKey)
		}
	}
	before := families{}
	if len(deleted) > 0 {
		var err error
		if before, err = t.familiesOf(answers.ctx, &bigtablepb.RowSet{RowKeys: deleted}); err != nil {
			return err
		}
	}
	if err := rows.MutateRows(req, answers); err != nil {
		return err
	}
	for _, answer := range answers.sent {
		for _, result := range answer.Entries {
			if result.GetStatus().GetCode() == int32(codes.OK) {
				entry := req.Entries[result.Index]
				s.commit(t, string(entry.RowKey), user, before.expand(string(entry.RowKey), entry.Mutations))
			}
		}
	}
	return nil
}

// mutateRowsAnswers collects the answers of a call to MutateRows inside of the process.
type mutateRowsAnswers struct {
	grpc.ServerStream
	ctx  context.Context
	sent []*bigtablepb.MutateRowsResponse
}

func (a *mutateRowsAnswers) Context() context.Context { return a.ctx }

func (a *mutateRowsAnswers) Send(m *bigtablepb.MutateRowsResponse) error {
	a.sent = append(a.sent, m)
	return nil
}

// familiesOf reads in which families the rows have cells.
func (t *table) familiesOf(ctx context.Context, rows *bigtablepb.RowSet) (families, error) {
	found := &familyReader{ctx: ctx, families: families{}}
	err := t.rows.ReadRows(&bigtablepb.ReadRowsRequest{TableName: t.name, Rows: rows, Filter: &bigtablepb.RowFilter{
		Filter: &bigtablepb.RowFilter_CellsPerColumnLimitFilter{CellsPerColumnLimitFilter: 1},
	}}, found)
	return found.families, err
}

// familyReader collects the families of rows from the answers to ReadRows.
type familyReader struct {
	grpc.ServerStream
	ctx      context.Context
	row      string
	families families
}

func (r *familyReader) Context() context.Context { return r.ctx }

func (r *familyReader) Send(m *bigtablepb.ReadRowsResponse) error {
	for _, c := range m.Chunks {
		if len(c.RowKey) > 0 {
			r.row = string(c.RowKey)
		}
		if c.FamilyName != nil {
			if r.families[r.row] == nil {
				r.families[r.row] = map[string]bool{}
			}
			r.families[r.row][c.FamilyName.Value] = true
		}
	}
	return nil
}
