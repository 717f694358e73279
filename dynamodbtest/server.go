package dynamodbtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the server's time. The server calls it from many goroutines.
type Clock func() time.Time

// Options configure a Server. The zero value is usable.
type Options struct {
	// Clock is the source of all times; default time.Now.
	Clock Clock
	// Seed determines shard ids, first sequence numbers and request ids.
	Seed uint64
	// Region appears in ARNs and records; default "us-east-1".
	Region string
	// AccountID appears in ARNs; default "000000000000".
	AccountID string
	// InitialShards is the number of shards of a new stream; default 1.
	InitialShards int
	// FirstSequenceNumber is the decimal number at which the first shards of every stream begin.
	// The default is a number of 21 digits. With a number just below a power of ten, the numbers
	// soon grow by a digit.
	FirstSequenceNumber string
	// AutoRoll closes every open shard that reaches this age, and gives it one child; 0 means
	// never. DynamoDB does this about every four hours.
	AutoRoll time.Duration
	// ExportsTo is the directory to which exports are written, as <bucket>/<key>. If it is empty,
	// exports are kept in memory. In both cases clients read them at this server's address as from
	// S3, in path style: GET /<bucket>/<key>.
	ExportsTo string
	// ExportTakes is how long an export takes, by Clock. The first request about exports after that
	// time completes the export.
	ExportTakes time.Duration
	// ExportFiles is the number of data files of an export; default 4. An export of DynamoDB has
	// one file per partition.
	ExportFiles int
	// RecoveryLag is how far the latest time that can be restored lies behind Clock. DynamoDB's lies
	// about five minutes behind. Exports of a later time are rejected.
	RecoveryLag time.Duration
	// Roles maps access key ids to the ARNs of the roles that sign with them. Other keys belong to
	// the account's root. The roles matter only for resource policies.
	Roles map[string]string
	// PolicyRest is how long a table's resource policy cannot be changed again after a change, by
	// Clock. 0 means 15 seconds, as with DynamoDB. A negative value turns the rest off.
	PolicyRest time.Duration
	// PolicyDelay is how long after a change a table's resource policy comes into force, by Clock.
	PolicyDelay time.Duration
	// SignatureWindow is how much the time of a request's signature may differ from the time at
	// which the request arrives, by Clock. DynamoDB allows some minutes. 0 means that the server
	// does not check this time.
	SignatureWindow time.Duration
	// Control mounts the HTTP endpoint /_control/, through which another process can call the
	// methods of Server.
	Control bool
}

// Server is the embedded DynamoDB and DynamoDB Streams. Create it with New. Its methods may be
// called at any time from any goroutine.
type Server struct {
	opts     Options
	root     string // ARN of the account's root
	requests atomic.Uint64
	offset   atomic.Int64 // nanoseconds added to the clock

	faults   faultList
	late     lateList
	policies atomic.Bool // a table has or had a resource policy

	mu      sync.RWMutex // guards the maps, but not the values in them
	tables  map[string]*table
	streams map[string]*stream // by ARN, including streams of deleted tables
	created uint64             // number of tables ever created, so that each table draws its own random numbers
	tokens  map[string]transactToken
	exports []*export         // in the order of their requests
	roles   map[string]string // ARNs by access key id

	objects *objects
}

// New returns a Server without tables.
func New(opts Options) *Server {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Region == "" {
		opts.Region = "us-east-1"
	}
	if opts.AccountID == "" {
		opts.AccountID = "000000000000"
	}
	if opts.InitialShards <= 0 {
		opts.InitialShards = 1
	}
	if opts.ExportFiles <= 0 {
		opts.ExportFiles = 4
	}
	if opts.FirstSequenceNumber == "" {
		opts.FirstSequenceNumber = "100000000000000000001"
	}
	if opts.PolicyRest == 0 {
		opts.PolicyRest = defaultPolicyRest
	}
	roles := maps.Clone(opts.Roles)
	if roles == nil {
		roles = map[string]string{}
	}
	return &Server{opts: opts, root: "arn:aws:iam::" + opts.AccountID + ":root", roles: roles, tables: map[string]*table{}, streams: map[string]*stream{}, tokens: map[string]transactToken{},
		objects: &objects{dir: opts.ExportsTo, known: map[string][]byte{}}}
}

// Now returns the server's time: the clock plus what AdvanceClock added.
func (s *Server) Now() time.Time {
	return s.opts.Clock().Add(time.Duration(s.offset.Load()))
}

// maxBody bounds a request: 16 MB of a batch of writes, as JSON with base64.
const maxBody = 32 << 20

const targetHeader = "X-Amz-Target"

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ServeHTTP answers one request of either service, or of /_control/ if that is enabled.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.opts.Control && strings.HasPrefix(r.URL.Path, controlPrefix) {
		s.serveControl(w, r)
		return
	}
	if r.Method != http.MethodPost && r.URL.Path != "/" {
		s.serveObjects(w, r)
		return
	}
	if r.Method == http.MethodGet {
		// The services answer a plain GET in this way, for the health checks of load balancers.
		w.Header().Set("Date", s.date())
		_, _ = io.WriteString(w, "healthy: dynamodb."+s.opts.Region+".amazonaws.com ")
		return
	}
	answer, err := s.serveOperation(r)
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		api := asError(err)
		s.respond(w, api.status, api.body())
		return
	}
	waitForSender(r, len(answer))
	s.respond(w, http.StatusOK, answer)
}

// waitForSender briefly delays a large answer to the AWS SDK for Go. The SDK (smithy-go 1.28)
// closes its request's body as soon as the answer's headers arrive. If net/http has then sent the
// body but has not yet read its end, net/http takes the closed body for a failure. Then net/http
// closes the connection. The part of the answer beyond the buffer of 4 KB is then lost: "use of
// closed network connection". An answer over a network is never that fast. From this server, one in
// ten answers of 1 MB was lost. See https://github.com/aws/aws-sdk-go-v2/issues/2737.
func waitForSender(r *http.Request, size int) {
	const buffered, pause = 3 << 10, 2 * time.Millisecond
	if size > buffered && strings.HasPrefix(r.UserAgent(), "aws-sdk-go-v2/") {
		time.Sleep(pause)
	}
}

func (s *Server) serveOperation(r *http.Request) ([]byte, error) {
	now := s.Now()
	s.late.execute(now)
	if err := checkSignature(r.Header, now, s.opts.SignatureWindow); err != nil {
		return nil, err
	}
	service, name, _ := strings.Cut(r.Header.Get(targetHeader), ".")
	op, ok := operations[service][name]
	if !ok {
		return nil, newError("UnknownOperationException", unknownOperation(service, name))
	}
	buf := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(buf)
	buf.Reset()
	if err := readBody(buf, r); err != nil {
		return nil, newError("SerializationException", "The request body could not be read or is too large")
	}
	return op(s, call{name, s.callerOf(r.Header.Get("Authorization"))}, buf.Bytes())
}

// readBody reads a request's body, which may be compressed with gzip. The limit applies to the
// compressed and to the decompressed size.
func readBody(buf *bytes.Buffer, r *http.Request) error {
	body := http.MaxBytesReader(nil, r.Body, maxBody)
	if strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip") {
		plain, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = http.MaxBytesReader(nil, plain, maxBody)
	}
	_, err := buf.ReadFrom(body)
	return err
}

func unknownOperation(service, name string) string {
	switch {
	case name == "":
		return "The request has no X-Amz-Target header of the form Service_Version.Operation"
	case operations[service] == nil:
		return "Unknown service " + strconv.Quote(service)
	}
	return "Operation " + strconv.Quote(name) + " is not supported by this server"
}

func (s *Server) respond(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/x-amz-json-1.0"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Amz-Crc32"] = []string{strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)}
	h["X-Amzn-Requestid"] = []string{s.requestID()}
	h["Date"] = []string{s.date()}
	h["Server"] = []string{"Server"}
	w.WriteHeader(status)
	// A failed write means that the client is gone, so the error cannot be reported.
	_, _ = w.Write(body)
}

func (s *Server) date() string { return s.Now().UTC().Format(http.TimeFormat) }

// requestID has the form of the services' ids: 52 capital letters and digits.
func (s *Server) requestID() string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
	n := s.requests.Add(1)
	var id [52]byte
	for i := range 4 {
		bits := mix(s.opts.Seed ^ mix(n*4+uint64(i)))
		for j := range 13 {
			id[i*13+j] = alphabet[bits&31]
			bits >>= 5
		}
	}
	return string(id[:])
}

// mix returns the finalizer of splitmix64: a bijection whose outputs look random.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// call is what a handler needs of a request in addition to its body: the operation's name, and the
// caller's ARN.
type call struct{ operation, caller string }

// handler executes an operation. It gets the request's body, and returns the response's body.
type handler func(s *Server, c call, body []byte) ([]byte, error)

// request is implemented by the parameters of every operation. Its subject is the table and shard
// of the request. Faults that are limited to one table or shard use it. The table or the shard may
// be empty.
type request interface {
	subject() (table, shard string)
}

// wire is a response that is already JSON.
type wire []byte

// operation adapts a method of Server to a handler: strict decoding, then authorization, then
// faults, then the method, then encoding.
func operation[T any, P interface {
	*T
	request
}](method func(*Server, P) (any, error)) handler {
	return func(s *Server, c call, body []byte) ([]byte, error) {
		var req T
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&req); err != nil {
			return nil, err
		}
		if by, ok := any(&req).(interface{ setCaller(arn string) }); ok {
			by.setCaller(c.caller)
		}
		s.faults.arrived(c.operation)
		if err := s.authorize(c.caller, c.operation, P(&req)); err != nil {
			return nil, err
		}
		tableName, shardID := P(&req).subject()
		fault := s.faults.take(c.operation, tableName, shardID)
		if fault != nil && fault.Late > 0 {
			s.late.add(lateCall{due: s.Now().Add(fault.Late), run: func() {
				// The client is gone, so its answer or error has no receiver.
				_, _ = method(s, &req)
			}})
			return nil, errCut
		}
		if fault != nil && !fault.AfterEffect {
			return nil, fault.error()
		}
		answer, err := method(s, &req)
		if err != nil {
			return nil, err
		}
		if fault != nil {
			return nil, fault.error()
		}
		if raw, ok := answer.(wire); ok {
			return raw, nil
		}
		return json.Marshal(answer)
	}
}
