package sink

import (
	"context"
	"errors"
	"io"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// This file reads change streams. Bigtable's Go client has no function for them.

const (
	readChangeStream  = "/google.bigtable.v2.Bigtable/ReadChangeStream"
	initialPartitions = "/google.bigtable.v2.Bigtable/GenerateInitialChangeStreamPartitions"
)

var (
	readChangeStreamStream  = grpc.StreamDesc{StreamName: "ReadChangeStream", ServerStreams: true}
	initialPartitionsStream = grpc.StreamDesc{StreamName: "GenerateInitialChangeStreamPartitions", ServerStreams: true}
)

// ChangePosition is where a part of a change stream is read on: at a token for a range of rows. The
// token is opaque.
type ChangePosition struct {
	Range Range
	Token string
	// Into is the partition that continues the range, in the end of a partition.
	Into Range
}

// ChangeRecord is a record of a change stream.
type ChangeRecord struct {
	// Row is the key of the row that changed; nil for a record without a change.
	Row *string
	// Token continues the partition after this record. It is empty in the end of a partition.
	Token string
	// Watermark is an estimate of the commit time before which no change follows.
	Watermark time.Time
	// Ended reports that the partition has ended. Next are the positions that continue it. Without
	// any, the stream itself has ended.
	Ended bool
	Next  []ChangePosition
}

// ChangePartitions returns the partitions of a table's change stream.
func (b *Bigtable) ChangePartitions(ctx context.Context, table string) (all []Range, err error) {
	err = b.wire.stream(ctx, table, &initialPartitionsStream, initialPartitions,
		&bigtablepb.GenerateInitialChangeStreamPartitionsRequest{TableName: b.wire.table(table).name, AppProfileId: b.wire.instance.AppProfile},
		func(receive func(message any) error) error {
			var answer bigtablepb.GenerateInitialChangeStreamPartitionsResponse
			if err := receive(&answer); err != nil {
				return err
			}
			all = append(all, partitionOf(answer.Partition))
			return nil
		})
	return all, classify("GenerateInitialChangeStreamPartitions", err)
}

// ReadChanges reads a partition of a table's change stream and calls f for each record, in order.
// Reading begins at the positions, which cover the partition, or at a time if there are none. It
// ends with an error, with the error of f, or after a record that ends the partition.
func (b *Bigtable) ReadChanges(ctx context.Context, table string, partition Range, from []ChangePosition, since time.Time, heartbeat time.Duration, f func(ChangeRecord) error) error {
	request := &bigtablepb.ReadChangeStreamRequest{
		TableName: b.wire.table(table).name, AppProfileId: b.wire.instance.AppProfile,
		Partition: partitionMessage(partition), HeartbeatDuration: durationpb.New(heartbeat),
	}
	if len(from) == 0 {
		request.StartFrom = &bigtablepb.ReadChangeStreamRequest_StartTime{StartTime: timestamppb.New(since)}
	} else {
		tokens := &bigtablepb.StreamContinuationTokens{}
		for _, p := range from {
			tokens.Tokens = append(tokens.Tokens, &bigtablepb.StreamContinuationToken{Partition: partitionMessage(p.Range), Token: p.Token})
		}
		request.StartFrom = &bigtablepb.ReadChangeStreamRequest_ContinuationTokens{ContinuationTokens: tokens}
	}
	var row []byte // of a change in several messages, which only the first message names
	var stop error
	err := b.wire.stream(ctx, table, &readChangeStreamStream, readChangeStream, request, func(receive func(message any) error) error {
		var answer bigtablepb.ReadChangeStreamResponse
		if err := receive(&answer); err != nil {
			return err
		}
		record, complete, err := changeOf(&answer, &row)
		if err != nil || !complete {
			return err
		}
		if stop = f(record); stop == nil && record.Ended {
			stop = io.EOF
		}
		return stop
	})
	switch {
	case errors.Is(stop, io.EOF):
		return nil
	case stop != nil:
		return stop
	case err == nil:
		err = &Error{Op: "ReadChangeStream", Reason: Unknown, Code: codes.Unavailable.String(), Text: "the service ended the stream"}
	}
	return classify("ReadChangeStream", err)
}

// changeOf returns the record of a message. The result `complete` is false for a part of a change
// whose other parts follow. The argument `row` keeps the change's row between its parts.
func changeOf(answer *bigtablepb.ReadChangeStreamResponse, row *[]byte) (record ChangeRecord, complete bool, err error) {
	switch r := answer.StreamRecord.(type) {
	case *bigtablepb.ReadChangeStreamResponse_DataChange_:
		change := r.DataChange
		if change.Type != bigtablepb.ReadChangeStreamResponse_DataChange_CONTINUATION {
			*row = change.RowKey
		}
		if !change.Done {
			return ChangeRecord{}, false, nil
		}
		key := string(*row)
		return ChangeRecord{Row: &key, Token: change.Token, Watermark: change.EstimatedLowWatermark.AsTime()}, true, nil
	case *bigtablepb.ReadChangeStreamResponse_Heartbeat_:
		return ChangeRecord{Token: r.Heartbeat.ContinuationToken.GetToken(), Watermark: r.Heartbeat.EstimatedLowWatermark.AsTime()}, true, nil
	case *bigtablepb.ReadChangeStreamResponse_CloseStream_:
		record = ChangeRecord{Ended: true}
		for i, t := range r.CloseStream.ContinuationTokens {
			p := ChangePosition{Range: partitionOf(t.Partition), Token: t.Token, Into: partitionOf(t.Partition)}
			if i < len(r.CloseStream.NewPartitions) {
				p.Into = partitionOf(r.CloseStream.NewPartitions[i])
			}
			record.Next = append(record.Next, p)
		}
		if status := r.CloseStream.Status; len(record.Next) == 0 && status.GetCode() != int32(codes.OK) {
			return ChangeRecord{}, false, grpcstatus.ErrorProto(status)
		}
		return record, true, nil
	}
	return ChangeRecord{}, false, &Error{Op: "ReadChangeStream", Reason: Permanent, Code: codes.Unimplemented.String(), Text: "a record of an unknown kind"}
}

// LostChanges reports whether an error means that a change stream cannot be continued at its
// position: the position is too old or foreign, or the table or its stream is gone.
func LostChanges(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case codes.OutOfRange.String(), codes.InvalidArgument.String(), codes.NotFound.String(), codes.FailedPrecondition.String():
		return true
	}
	return false
}

func partitionOf(p *bigtablepb.StreamPartition) Range {
	return Range{string(p.GetRowRange().GetStartKeyClosed()), string(p.GetRowRange().GetEndKeyOpen())}
}

func partitionMessage(r Range) *bigtablepb.StreamPartition {
	return &bigtablepb.StreamPartition{RowRange: &bigtablepb.RowRange{
		StartKey: &bigtablepb.RowRange_StartKeyClosed{StartKeyClosed: []byte(r.From)},
		EndKey:   &bigtablepb.RowRange_EndKeyOpen{EndKeyOpen: []byte(r.To)},
	}}
}

// stream sends one request and calls next until it returns an error or the answers end.
func (w *wire) stream(ctx context.Context, table string, desc *grpc.StreamDesc, method string, request any, next func(receive func(message any) error) error) error {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, w.table(table).headers))
	defer cancel()
	stream, err := w.pool.NewStream(ctx, desc, method)
	if err != nil {
		return err
	}
	// SendMsg returns io.EOF if the stream has ended; RecvMsg then returns the status.
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	ended := false
	for {
		err := next(func(message any) error {
			err := stream.RecvMsg(message)
			ended = errors.Is(err, io.EOF)
			return err
		})
		if ended {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
