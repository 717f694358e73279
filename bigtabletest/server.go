package bigtabletest

import (
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Clock returns the server's time. The server calls it from many goroutines.
type Clock func() time.Time

// Options configure a Server. The zero value is usable.
type Options struct {
	// Address is where the server listens; default "127.0.0.1:0", which is a free port. A path with
	// a slash is a Unix socket.
	Address string
	// Clock is the source of commit times, watermarks, heartbeats and retention; default time.Now.
	// The emulator itself, which keeps the rows, uses the machine's time.
	Clock Clock
	// Seed determines the order of records after Shuffle.
	Seed uint64
	// Cluster is the source cluster of records; default "cluster-1".
	Cluster string
	// ChunkSize is the most bytes of values in one message; default 1 MiB. Larger records are sent
	// as several messages, and larger values as several chunks.
	ChunkSize int
	// TooOld is the status code for a start time or token that is older than the retention period
	// or than the change stream; default OutOfRange. Google does not document the code.
	TooOld codes.Code
}

// maxMessage is the largest gRPC message. The default of 4 MiB is less than the largest row.
const maxMessage = 256 << 20

// Server is the embedded Bigtable. Create it with New. Its methods may be called at any time from
// any goroutine.
type Server struct {
	opts     Options
	bigtable *bttest.Server
	polls    bool         // the clock is not the machine's
	offset   atomic.Int64 // nanoseconds added to the clock
	faults   faultList

	mu     sync.Mutex        // guards everything below, and the change streams
	tables map[string]*table // by full name
	epochs uint64            // change streams so far
}

// New starts a Server without tables.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts, polls: opts.Clock != nil, tables: map[string]*table{}}
	if s.opts.Address == "" {
		s.opts.Address = "127.0.0.1:0"
	}
	if s.opts.Clock == nil {
		s.opts.Clock = time.Now
	}
	if s.opts.Cluster == "" {
		s.opts.Cluster = "cluster-1"
	}
	if s.opts.ChunkSize <= 0 {
		s.opts.ChunkSize = 1 << 20
	}
	if s.opts.TooOld == codes.OK {
		s.opts.TooOld = codes.OutOfRange
	}
	var err error
	s.bigtable, err = bttest.NewServer(s.opts.Address, grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.UnaryInterceptor(s.serveUnary), grpc.StreamInterceptor(s.serveStream))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Addr returns the address at which the server listens, for BIGTABLE_EMULATOR_HOST or a gRPC
// connection without TLS.
func (s *Server) Addr() string { return s.bigtable.Addr }

// Close stops the server and ends all requests.
func (s *Server) Close() { s.bigtable.Close() }

// Now returns the server's time: the clock plus what AdvanceClock added.
func (s *Server) Now() time.Time {
	return s.opts.Clock().Add(time.Duration(s.offset.Load()))
}

// mix returns the finalizer of splitmix64: a bijection whose outputs look random.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
