package bigtabletest

import (
	"context"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// defaultHeartbeat is the time between heartbeats if the request names none.
const defaultHeartbeat = 5 * time.Second

// pollEvery is how often a waiting request reads a clock that is not the machine's.
const pollEvery = 10 * time.Millisecond

// streamOf returns the change stream of a table. The mutex of the Server must be held.
func (s *Server) streamOf(name string) (*changeStream, error) {
	t := s.tables[name]
	if t == nil {
		return nil, status.Errorf(codes.NotFound, "table %q not found", name)
	}
	if t.stream == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "change stream is not enabled for table %q: set change_stream_config.retention_period", name)
	}
	return t.stream, nil
}

func (s *Server) generatePartitions(req *bigtablepb.GenerateInitialChangeStreamPartitionsRequest, call *faultyCall) error {
	partitions, err := s.Partitions(req.GetTableName())
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if err := call.SendMsg(&bigtablepb.GenerateInitialChangeStreamPartitionsResponse{Partition: p.proto()}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) readChangeStream(req *bigtablepb.ReadChangeStreamRequest, call *faultyCall) error {
	r, err := s.open(req)
	if err != nil {
		return err
	}
	defer s.close(r)
	// A client that waits for the header knows that later changes and controls affect its request.
	if err := call.SendHeader(nil); err != nil {
		return err
	}
	for {
		next, changed := s.step(r)
		switch {
		case next.err != nil:
			return next.err
		case next.message == nil:
			if err := s.wait(call.Context(), changed, next.wait); err != nil {
				return err
			}
			continue
		}
		if err := call.SendMsg(next.message); err != nil || next.last {
			return err
		}
	}
}

// step returns a reader's next step, and a channel that is closed once there may be another one.
func (s *Server) step(r *reader) (step, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.next(s.Now()), r.stream.changed
}

// wait returns once the channel is closed or the time has come. It may return earlier. It returns
// the error of a context that ends first.
func (s *Server) wait(ctx context.Context, changed <-chan struct{}, until time.Time) error {
	d := max(until.Sub(s.Now()), time.Millisecond)
	if s.polls {
		d = min(d, pollEvery)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-changed:
	case <-timer.C:
	}
	return nil
}

func (s *Server) close(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.stream.open--
}

// open returns the reader of a request.
func (s *Server) open(req *bigtablepb.ReadChangeStreamRequest) (*reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream, err := s.streamOf(req.GetTableName())
	if err != nil {
		return nil, err
	}
	if req.GetPartition() == nil {
		return nil, status.Error(codes.InvalidArgument, "partition is missing: name one of GenerateInitialChangeStreamPartitions or CloseStream")
	}
	now := stream.tick(s.Now())
	stream.publish(now)
	r := &reader{
		stream: stream, cluster: s.opts.Cluster, chunkSize: s.opts.ChunkSize, tooOld: s.opts.TooOld,
		cuts: stream.cuts, passed: -1, every: defaultHeartbeat,
	}
	if r.partition, err = partitionOf(req.GetPartition()); err != nil {
		return nil, err
	}
	if req.EndTime != nil {
		r.until = req.EndTime.AsTime().Truncate(time.Microsecond)
	}
	if req.HeartbeatDuration != nil {
		if r.every = req.HeartbeatDuration.AsDuration(); r.every <= 0 {
			return nil, status.Error(codes.InvalidArgument, "heartbeat_duration must be more than 0")
		}
	}
	switch from := req.StartFrom.(type) {
	case *bigtablepb.ReadChangeStreamRequest_StartTime:
		err = r.startAt(from.StartTime.AsTime().Truncate(time.Microsecond), now)
	case *bigtablepb.ReadChangeStreamRequest_ContinuationTokens:
		err = r.resume(from.ContinuationTokens.GetTokens(), now)
	default:
		err = r.startAt(now, now)
	}
	if err != nil {
		return nil, err
	}
	r.id, r.beat = stream.layout.id(r.partition), now.Add(r.every)
	stream.open++
	return r, nil
}

// startAt positions a reader at the first record of a time or later.
func (r *reader) startAt(from, now time.Time) error {
	switch {
	case from.After(now):
		return status.Error(codes.InvalidArgument, "start_time is in the future: choose the current time or an earlier one")
	case from.Before(r.stream.created):
		return status.Error(r.tooOld, "start_time is before the change stream was enabled: choose a later one")
	case r.stream.expired(from, now):
		return status.Error(r.tooOld, "start_time is older than the retention period: choose a later one")
	case !r.until.IsZero() && r.until.Before(from):
		return status.Error(codes.InvalidArgument, "end_time is before start_time: choose a later one")
	}
	r.from, r.index = from, r.stream.indexAt(from)
	return nil
}

// resume positions a reader at the earliest of the positions of its tokens. After a merge, records
// of one of the old partitions can so be delivered again.
func (r *reader) resume(tokens []*bigtablepb.StreamContinuationToken, now time.Time) error {
	var parts []Partition
	index := len(r.stream.log)
	for _, token := range tokens {
		p, err := positionOf(token)
		switch {
		case err != nil:
			return err
		case p.Epoch != r.stream.epoch:
			return status.Error(r.tooOld, "continuation_tokens: a token is of an earlier change stream: start at a time")
		case r.stream.expired(p.low(), now):
			return status.Error(r.tooOld, "continuation_tokens: a token is older than the retention period: start at a later time")
		case p.Index < 0 || p.Index > len(r.stream.log):
			return status.Error(codes.InvalidArgument, "continuation_tokens: a token is malformed: return tokens unchanged")
		}
		parts, index = append(parts, p.partition()), min(index, p.Index)
	}
	if !covers(r.partition, parts) {
		return status.Error(codes.InvalidArgument, "continuation_tokens: the partitions of the tokens do not exactly cover the partition of the request")
	}
	r.index = r.stream.before(r.partition, index, r.stream.rewind, now)
	return nil
}
