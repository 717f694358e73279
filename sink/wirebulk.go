package sink

import (
	"context"
	"errors"
	"io"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const mutateRows = "/google.bigtable.v2.Bigtable/MutateRows"

var mutateRowsStream = grpc.StreamDesc{StreamName: "MutateRows", ServerStreams: true}

// ApplyAll implements bulkTable. No layer below it retries the request.
func (b *Bigtable) ApplyAll(ctx context.Context, table string, entries []Entry) []error {
	errs := make([]error, len(entries))
	answered := make([]bool, len(entries))
	err := b.wire.applyAll(ctx, table, entries, func(index int, status error) {
		if index >= 0 && index < len(entries) {
			errs[index], answered[index] = classify("MutateRows", status), true
		}
	})
	for i := range errs {
		if answered[i] {
			continue
		}
		// An entry without a status may or may not have been executed.
		if errs[i] = classify("MutateRows", err); err == nil {
			errs[i] = &Error{Op: "MutateRows", Reason: Unknown, Code: codes.Unknown.String(), Text: "no status for the entry"}
		}
	}
	return errs
}

// applyAll sends a bulk request once, and calls f with the status of each entry.
func (w *wire) applyAll(ctx context.Context, table string, entries []Entry, f func(index int, status error)) error {
	t := w.table(table)
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, t.headers))
	defer cancel()
	stream, err := w.pool.NewStream(ctx, &mutateRowsStream, mutateRows, bulkOptions...)
	if err != nil {
		return err
	}
	// SendMsg returns io.EOF if the stream has ended; RecvMsg then returns the status.
	if err := stream.SendMsg(&bulkMessage{entries, t.name, w.instance.AppProfile}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var answer bigtablepb.MutateRowsResponse
		switch err := stream.RecvMsg(&answer); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for _, e := range answer.Entries {
			if e.Status != nil { // without a status, the outcome is unknown
				f(int(e.Index), grpcstatus.ErrorProto(e.Status))
			}
		}
	}
}

var bulkOptions = []grpc.CallOption{grpc.ForceCodecV2(bulkCodec{})}

type bulkMessage struct {
	entries        []Entry
	table, profile string
}

// bulkCodec encodes bulkMessages, and decodes the answers to them.
type bulkCodec struct{}

func (bulkCodec) Name() string { return "" }

func (bulkCodec) Marshal(message any) (mem.BufferSlice, error) {
	m, ok := message.(*bulkMessage)
	if !ok {
		return nil, errors.New("not a bulk request of replicator")
	}
	size := 0
	for i := range m.entries {
		size += int(m.entries[i].size())
	}
	return mem.BufferSlice{mem.SliceBuffer(AppendBulk(make([]byte, 0, size), m.table, m.profile, m.entries))}, nil
}

func (bulkCodec) Unmarshal(data mem.BufferSlice, message any) error {
	answer, ok := message.(*bigtablepb.MutateRowsResponse)
	if !ok {
		return errors.New("not an answer to a bulk request")
	}
	return proto.Unmarshal(data.Materialize(), answer)
}

// AppendBulk appends entries as a google.bigtable.v2.MutateRowsRequest, for a table by its full
// name.
func AppendBulk(b []byte, table, appProfile string, entries []Entry) []byte {
	b = appendText(b, 1, table)
	for i := range entries {
		e := &entries[i]
		guess := len(e.Row) + 4
		for j := range e.Ops {
			guess += opSize(&e.Ops[j])
		}
		var at message
		b, at = begin(b, 2, guess)
		b = appendText(b, 1, e.Row)
		for j := range e.Ops {
			op := &e.Ops[j]
			var mutation message
			b, mutation = begin(b, 2, opSize(op)-2)
			b = mutation.end(appendOp(b, op))
		}
		b = at.end(b)
	}
	return appendText(b, 3, appProfile)
}

// opSize returns approximately how many bytes an operation takes.
func opSize(op *Op) int { return len(op.Family) + len(op.Qualifier) + len(op.Value) + 20 }
