package bigtabletest

import (
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type (
	response   = bigtablepb.ReadChangeStreamResponse
	dataChange = bigtablepb.ReadChangeStreamResponse_DataChange
	chunk      = bigtablepb.ReadChangeStreamResponse_MutationChunk
)

// dataChanges returns the messages of a change. Only the last has the token and the watermark. A
// message has at most size bytes of values.
func dataChanges(c *change, cluster, token string, low time.Time, size int) []*response {
	bundles := chunksOf(c.mutations, size)
	messages := make([]*response, len(bundles))
	for i, chunks := range bundles {
		d := &dataChange{Type: bigtablepb.ReadChangeStreamResponse_DataChange_CONTINUATION, Chunks: chunks}
		if i == 0 {
			d.Type, d.RowKey, d.CommitTimestamp = c.kind, []byte(c.key), timestamppb.New(c.at)
			if c.kind == bigtablepb.ReadChangeStreamResponse_DataChange_USER {
				d.SourceClusterId = cluster
			}
		}
		if i == len(bundles)-1 {
			d.Done, d.Token, d.EstimatedLowWatermark = true, token, timestamppb.New(low)
		}
		messages[i] = &response{StreamRecord: &bigtablepb.ReadChangeStreamResponse_DataChange_{DataChange: d}}
	}
	return messages
}

// chunksOf distributes mutations over messages with at most size bytes of values each. A value that
// is larger is divided, and its first chunk starts a message.
func chunksOf(mutations []*bigtablepb.Mutation, size int) [][]*chunk {
	bundles, used := [][]*chunk{nil}, 0
	turn := func() {
		if len(bundles[len(bundles)-1]) > 0 {
			bundles, used = append(bundles, nil), 0
		}
	}
	add := func(c *chunk, bytes int) {
		if used+bytes > size {
			turn()
		}
		last := len(bundles) - 1
		bundles[last], used = append(bundles[last], c), used+bytes
	}
	for _, m := range mutations {
		set := m.GetSetCell()
		if len(set.GetValue()) <= size {
			add(&chunk{Mutation: m}, len(set.GetValue()))
			continue
		}
		turn()
		for offset := 0; offset < len(set.Value); offset += size {
			c := chunkOf(set, offset, min(offset+size, len(set.Value)))
			add(c, len(c.Mutation.GetSetCell().Value))
		}
	}
	return bundles
}

// chunkOf returns the bytes of a cell's value between two offsets. Only the first chunk has the
// fields besides the value.
func chunkOf(set *bigtablepb.Mutation_SetCell, from, to int) *chunk {
	cell := &bigtablepb.Mutation_SetCell{Value: set.Value[from:to]}
	if from == 0 {
		cell.FamilyName, cell.ColumnQualifier, cell.TimestampMicros = set.FamilyName, set.ColumnQualifier, set.TimestampMicros
	}
	return &chunk{
		ChunkInfo: &bigtablepb.ReadChangeStreamResponse_MutationChunk_ChunkInfo{
			ChunkedValueSize: int32(len(set.Value)), ChunkedValueOffset: int32(from), LastChunk: to == len(set.Value),
		},
		Mutation: &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_SetCell_{SetCell: cell}},
	}
}

func heartbeat(at position, low time.Time) *response {
	return &response{StreamRecord: &bigtablepb.ReadChangeStreamResponse_Heartbeat_{
		Heartbeat: &bigtablepb.ReadChangeStreamResponse_Heartbeat{ContinuationToken: at.proto(), EstimatedLowWatermark: timestamppb.New(low)},
	}}
}

// closeOf returns the last message of a stream. Its status is OK without tokens, at the end time,
// and OUT_OF_RANGE with tokens. Google's clients for Java reject other combinations.
func closeOf(tokens []position, partitions []Partition) *response {
	c := &bigtablepb.ReadChangeStreamResponse_CloseStream{Status: &rpc.Status{Code: int32(codes.OK)}}
	if len(tokens) > 0 {
		c.Status = &rpc.Status{Code: int32(codes.OutOfRange), Message: "the partition was split or merged: read the new partitions"}
	}
	for i, token := range tokens {
		c.ContinuationTokens = append(c.ContinuationTokens, token.proto())
		c.NewPartitions = append(c.NewPartitions, partitions[i].proto())
	}
	return &response{StreamRecord: &bigtablepb.ReadChangeStreamResponse_CloseStream_{CloseStream: c}}
}
