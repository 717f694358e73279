package bigtabletest

import (
	"context"
	"path"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
)

// serveUnary answers the methods with one answer. The emulator answers all of them. This function
// adds what concerns change streams.
func (s *Server) serveUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	fault := s.faults.take(path.Base(info.FullMethod), tableOf(req))
	if fault != nil && !fault.AfterEffect {
		return nil, fault.error()
	}
	answer, err := s.unary(ctx, req, info, handler)
	if err == nil && fault != nil {
		return nil, fault.error()
	}
	return answer, err
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch req := req.(type) {
	case *bigtablepb.MutateRowRequest:
		return s.mutateRow(ctx, req, handler)
	case *bigtablepb.CheckAndMutateRowRequest:
		return s.checkAndMutateRow(ctx, req, handler)
	case *bigtablepb.ReadModifyWriteRowRequest:
		return s.readModifyWriteRow(ctx, req, handler)
	case *adminpb.CreateTableRequest:
		return s.createTable(ctx, req, info.Server.(bigtablepb.BigtableServer), handler)
	case *adminpb.UpdateTableRequest:
		return s.updateTable(ctx, req, info.Server.(adminpb.BigtableTableAdminServer), handler)
	case *adminpb.DeleteTableRequest:
		return s.deleteTable(ctx, req, handler)
	case *adminpb.DropRowRangeRequest:
		return s.dropRowRange(ctx, req, handler)
	}
	answer, err := handler(ctx, req)
	switch answer := answer.(type) {
	case *adminpb.Table:
		s.addConfig(answer)
	case *adminpb.ListTablesResponse:
		for _, t := range answer.GetTables() {
			s.addConfig(t)
		}
	}
	return answer, err
}

// serveStream answers the methods with a stream of answers. The emulator does not have the methods
// of change streams.
func (s *Server) serveStream(srv any, calls grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	call := &faultyCall{ServerStream: calls, server: s, method: path.Base(info.FullMethod)}
	var err error
	switch info.FullMethod {
	case bigtablepb.Bigtable_MutateRows_FullMethodName:
		req := &bigtablepb.MutateRowsRequest{}
		if err = call.RecvMsg(req); err == nil {
			err = s.mutateRows(req, srv.(bigtablepb.BigtableServer), call)
		}
	case bigtablepb.Bigtable_GenerateInitialChangeStreamPartitions_FullMethodName:
		req := &bigtablepb.GenerateInitialChangeStreamPartitionsRequest{}
		if err = call.RecvMsg(req); err == nil {
			err = s.generatePartitions(req, call)
		}
	case bigtablepb.Bigtable_ReadChangeStream_FullMethodName:
		req := &bigtablepb.ReadChangeStreamRequest{}
		if err = call.RecvMsg(req); err == nil {
			err = s.readChangeStream(req, call)
		}
	default:
		err = handler(srv, call)
	}
	if err == nil && call.fault != nil {
		return call.fault.error()
	}
	return err
}

// faultyCall is a call with a stream of answers. Its table is known only after the request was
// received, so the fault of the call is looked up then.
type faultyCall struct {
	grpc.ServerStream
	server *Server
	method string
	fault  *Fault // that takes effect after the call
}

// RecvMsg receives the request. It returns the error of a fault.
func (c *faultyCall) RecvMsg(m any) error {
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	fault := c.server.faults.take(c.method, tableOf(m))
	if fault != nil && !fault.AfterEffect {
		return fault.error()
	}
	c.fault = fault
	return nil
}

// tableOf returns the full name of the table of a request; "" if it has none.
func tableOf(req any) string {
	switch req := req.(type) {
	case *adminpb.CreateTableRequest:
		return req.GetParent() + "/tables/" + req.GetTableId()
	case *adminpb.UpdateTableRequest:
		return req.GetTable().GetName()
	case interface{ GetTableName() string }:
		return req.GetTableName()
	case interface{ GetName() string }:
		return req.GetName()
	}
	return ""
}
