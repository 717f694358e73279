package bigtabletest

import (
	"context"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// AdvanceClock shifts the server's time relative to its Clock by d. Open requests notice at once.
// Commit times and watermarks never go back, even if d is negative.
func (s *Server) AdvanceClock(d time.Duration) {
	s.offset.Add(int64(d))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if t.stream != nil {
			t.stream.wake()
		}
	}
}

// Fail makes future calls fail.
func (s *Server) Fail(f Fault) { s.faults.add(f) }

// ClearFaults removes every fault that Fail added and that has not occurred yet.
func (s *Server) ClearFaults() { s.faults.clear() }

// Calls returns how many calls of the method, such as "MutateRow", arrived, including failed ones.
func (s *Server) Calls(method string) int { return s.faults.count(method) }

// withStream calls change for the change stream of a table and wakes its readers. A table is named
// in full: projects/<project>/instances/<instance>/tables/<table>. The errors of controls are
// errors of the API: NOT_FOUND without the table, and FAILED_PRECONDITION without a change stream.
func (s *Server) withStream(table string, change func(*changeStream) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream, err := s.streamOf(table)
	if err != nil {
		return err
	}
	defer stream.wake()
	return change(stream)
}

// Partitions lists the current partitions of the table in the order of their keys.
func (s *Server) Partitions(table string) (partitions []Partition, err error) {
	err = s.withStream(table, func(stream *changeStream) error {
		partitions = stream.layout.partitions()
		return nil
	})
	return partitions, err
}

// Split divides the partition that holds the key. The key starts the second half. Open requests for
// the old partition end with a CloseStream and two tokens. If the key starts a partition already,
// the error is INVALID_ARGUMENT.
func (s *Server) Split(table, key string) error {
	return s.withStream(table, func(stream *changeStream) error { return stream.layout.split(key) })
}

// Merge unites the two partitions that meet at the key. Open requests for them end with a
// CloseStream and one token, and the united partition needs both tokens. If no partitions meet at
// the key, the error is INVALID_ARGUMENT.
func (s *Server) Merge(table, key string) error {
	return s.withStream(table, func(stream *changeStream) error { return stream.layout.merge(key) })
}

// Delay makes the records of future changes readable only this long after their commits. The low
// watermark waits for them.
func (s *Server) Delay(table string, d time.Duration) error {
	return s.withStream(table, func(stream *changeStream) error {
		stream.delay = max(d, 0)
		return nil
	})
}

// Shuffle delays the record of each future change by its own time, which is less than within, in
// addition to Delay. So records of different rows change their order, and those of one row do not.
// Seed and number of the commit determine the time.
func (s *Server) Shuffle(table string, within time.Duration) error {
	return s.withStream(table, func(stream *changeStream) error {
		stream.spread = max(within, 0)
		return nil
	})
}

// Repeat delivers each record so many times more, in the same stream and one after the other.
func (s *Server) Repeat(table string, times int) error {
	return s.withStream(table, func(stream *changeStream) error {
		stream.repeat = max(times, 0)
		return nil
	})
}

// Rewind makes each request with tokens start so many records before the position of the tokens.
func (s *Server) Rewind(table string, records int) error {
	return s.withStream(table, func(stream *changeStream) error {
		stream.rewind = max(records, 0)
		return nil
	})
}

// Silence stops the messages of all streams of the table for a time, by the server's clock. With
// heartbeats, only heartbeats are sent. Without, nothing is sent.
func (s *Server) Silence(table string, d time.Duration, heartbeats bool) error {
	return s.withStream(table, func(stream *changeStream) error {
		stream.quietUntil, stream.heartbeats = stream.tick(s.Now()).Add(d), heartbeats
		return nil
	})
}

// HoldWatermark holds the reported low watermarks of the table at the current time or below, until
// it is called with false.
func (s *Server) HoldWatermark(table string, hold bool) error {
	return s.withStream(table, func(stream *changeStream) error {
		stream.held = time.Time{}
		if hold {
			stream.held = stream.tick(s.Now())
		}
		return nil
	})
}

// CutStreams ends all open requests to read the table's change stream with a status code; OK means
// Unavailable. It returns their number.
func (s *Server) CutStreams(table string, code codes.Code) (open int, err error) {
	err = s.withStream(table, func(stream *changeStream) error {
		if code == codes.OK {
			code = codes.Unavailable
		}
		stream.cuts++
		stream.cutWith, open = code, stream.open
		return nil
	})
	return open, err
}

// CollectGarbage deletes cells of a row and records the change as garbage collection. The deletions
// are mutations that delete from a column, from a family or from the row. Other mutations are
// INVALID_ARGUMENT.
func (s *Server) CollectGarbage(table, row string, deletions ...*bigtablepb.Mutation) error {
	for _, m := range deletions {
		switch m.Mutation.(type) {
		case *bigtablepb.Mutation_DeleteFromColumn_, *bigtablepb.Mutation_DeleteFromFamily_, *bigtablepb.Mutation_DeleteFromRow_:
		default:
			return status.Error(codes.InvalidArgument, "garbage collection only deletes: remove the other mutations")
		}
	}
	t := s.lockWrites(table)
	if t == nil {
		return status.Errorf(codes.NotFound, "table %q not found", table)
	}
	defer t.writes.Unlock()
	ctx := context.Background()
	rows, err := t.before(ctx, []byte(row), deletions)
	if err != nil {
		return err
	}
	if _, err := t.rows.MutateRow(ctx, &bigtablepb.MutateRowRequest{TableName: table, RowKey: []byte(row), Mutations: deletions}); err != nil {
		return err
	}
	if s.streams(t) {
		s.commit(t, row, collected, rows.expand(row, deletions))
	}
	return nil
}
