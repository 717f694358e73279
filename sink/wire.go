package sink

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/api/option/internaloption"
	gtransport "google.golang.org/api/transport/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/dynamodb-bigtable/replicator/internal/build"
)

// Nearly all requests of a worker are conditional writes. In Bigtable's client, half of their cost
// is spent in the client's layers and on objects that are built only to be marshalled once. So this
// file encodes these requests from a Request and sends them over its own connections. All other
// requests go through the client. No other code can use the client's connections.
//
// The connections are made like the client's, with the same credentials, endpoint, scope and
// headers. Four things differ. Their number is always connectionPool, while the client's pool grows
// with load. They are not reopened every hour or so, because gRPC does this when the server
// requests it. They do not use DirectPath. No header has the time of the request, because a header
// that always changes displaces the others from HTTP/2's header table.

// connectionPool is the number of connections, as many as the client opens. The service accepts 100
// concurrent requests on each.
const connectionPool = 10

const checkAndMutateRow = "/google.bigtable.v2.Bigtable/CheckAndMutateRow"

// wire sends conditional writes.
type wire struct {
	pool     gtransport.ConnPool
	instance Instance

	mu     sync.Mutex
	tables map[string]*wireTable
}

// wireTable holds the parts that all requests for a table share.
type wireTable struct {
	name    string
	headers metadata.MD
}

// dialWire opens the connections, or uses the connection in opts.
func dialWire(ctx context.Context, in Instance, opts []option.ClientOption) (*wire, error) {
	own := []option.ClientOption{
		internaloption.WithDefaultEndpointTemplate("bigtable.UNIVERSE_DOMAIN:443"),
		internaloption.WithDefaultMTLSEndpoint("bigtable.mtls.googleapis.com:443"),
		internaloption.WithDefaultUniverseDomain("googleapis.com"),
		internaloption.EnableNewAuthLibrary(),
		internaloption.EnableJwtWithScope(),
		option.WithScopes(bigtable.Scope),
		option.WithUserAgent(build.UserAgent()),
		option.WithGRPCConnectionPool(connectionPool),
	}
	pool, err := gtransport.DialPool(ctx, append(own, opts...)...)
	if err != nil {
		return nil, err
	}
	return &wire{pool: pool, instance: in, tables: map[string]*wireTable{}}, nil
}

// close closes the connections. It leaves a connection from the options to the client, which closes
// it.
func (w *wire) close() error {
	if w.pool.Num() <= 1 {
		return nil
	}
	return w.pool.Close()
}

func (w *wire) table(name string) *wireTable {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tables[name]
	if t == nil {
		full := fmt.Sprintf("projects/%s/instances/%s/tables/%s", w.instance.Project, w.instance.Instance, name)
		t = &wireTable{full, metadata.Pairs(
			"google-cloud-resource-prefix", full,
			"x-goog-request-params", fmt.Sprintf("table_name=%s&app_profile_id=%s", url.QueryEscape(full), url.QueryEscape(w.instance.AppProfile)),
			"bigtable-features", features(),
			"x-goog-api-client", "gl-go/"+strings.TrimPrefix(runtime.Version(), "go")+" grpc/"+grpc.Version,
		)}
		w.tables[name] = t
	}
	return t
}

// features returns the feature flags that the client declares. The service may use features that
// this file lacks. Its responses to them are in headers, which this file ignores.
func features() string {
	direct, err := strconv.ParseBool(os.Getenv("CBT_ENABLE_DIRECTPATH"))
	direct = direct || err != nil && os.Getenv("CBT_ENABLE_DIRECTPATH") == ""
	b, _ := proto.Marshal(&bigtablepb.FeatureFlags{ // known types, so this cannot fail
		RoutingCookie: true, ReverseScans: true, LastScannedRowResponses: true, RetryInfo: true, SessionsCompatible: true, PeerInfo: true,
		TrafficDirectorEnabled: direct, DirectAccessRequested: direct,
	})
	return base64.URLEncoding.EncodeToString(b)
}

// apply sends a request once. The result `refused` reports that the request's predicate prevented
// the execution.
func (w *wire) apply(ctx context.Context, r *Request) (refused bool, err error) {
	t := w.table(r.Table)
	ctx = metadata.NewOutgoingContext(ctx, t.headers)
	out := wireRequest{Request: r, table: t.name, profile: w.instance.AppProfile}
	var in wireAnswer
	err = w.pool.Invoke(ctx, checkAndMutateRow, &out, &in, wireOptions...)
	return in.matched != r.Refuse.Exactly, err
}

var wireOptions = []grpc.CallOption{grpc.ForceCodecV2(wireCodec{})}

type wireRequest struct {
	*Request
	table, profile string
}

// wireAnswer is a CheckAndMutateRowResponse.
type wireAnswer struct{ matched bool }

// wireCodec encodes wireRequests and decodes wireAnswers. It has no name, so its requests have the
// same content type as other requests.
type wireCodec struct{}

func (wireCodec) Name() string { return "" }

// wireBuffers holds buffers of requests that gRPC has sent. gRPC's own pool would fill each with
// zeros before it is reused.
var wireBuffers wirePool

type wirePool struct{ pool sync.Pool }

// largestBuffer is the largest buffer that the pool keeps. Requests for large items are rare.
const largestBuffer = 64 << 10

// Get returns an empty buffer with room for length bytes.
func (p *wirePool) Get(length int) *[]byte {
	if b, _ := p.pool.Get().(*[]byte); b != nil && cap(*b) >= length {
		return b
	}
	b := make([]byte, 0, max(length, 2048))
	return &b
}

// Put returns a buffer to the pool.
func (p *wirePool) Put(b *[]byte) {
	if cap(*b) <= largestBuffer {
		p.pool.Put(b)
	}
}

func (wireCodec) Marshal(message any) (mem.BufferSlice, error) {
	r, ok := message.(*wireRequest)
	if !ok {
		return nil, errors.New("not a request of replicator")
	}
	buffer := wireBuffers.Get(int(r.Size()))
	*buffer = r.AppendProto((*buffer)[:0], r.table, r.profile)
	return mem.BufferSlice{mem.NewBuffer(buffer, &wireBuffers)}, nil
}

func (wireCodec) Unmarshal(data mem.BufferSlice, message any) error {
	answer, ok := message.(*wireAnswer)
	if !ok {
		return errors.New("not an answer of replicator")
	}
	var b []byte
	if len(data) == 1 {
		b = data[0].ReadOnlyData()
	} else {
		b = data.Materialize()
	}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if field == 1 && kind == protowire.VarintType {
			v, n := protowire.ConsumeVarint(b)
			answer.matched = n > 0 && protowire.DecodeBool(v)
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

// AppendProto appends the request as a google.bigtable.v2.CheckAndMutateRowRequest, for a table by
// its full name. The changes must be made only if the predicate does not hold, so they are the
// false mutations. For an exact predicate the changes are the true mutations.
func (r *Request) AppendProto(b []byte, table, appProfile string) []byte {
	b = appendText(b, 1, table)
	b = appendText(b, 2, r.Row)
	holds := protowire.Number(5)
	if r.Refuse.Exactly {
		holds = 4
	}
	for i := range r.Ops {
		var at message
		b, at = begin(b, holds, len(r.Ops[i].Family)+len(r.Ops[i].Qualifier)+len(r.Ops[i].Value)+16)
		b = at.end(appendOp(b, &r.Ops[i]))
	}
	b, predicate := begin(b, 6, 256)
	b = predicate.end(appendPredicate(b, &r.Refuse))
	return appendText(b, 7, appProfile)
}

// appendOp appends an operation as a Mutation.
func appendOp(b []byte, op *Op) []byte {
	if op.Kind == SetCell {
		return appendSet(b, op)
	}
	kinds := [...]protowire.Number{DeleteFamily: 3, DeleteColumn: 2, DeleteFrom: 2, DeleteBefore: 2, DeleteAt: 2, AddToCell: 5}
	if int(op.Kind) >= len(kinds) || kinds[op.Kind] == 0 {
		panic(fmt.Sprintf("sink: unknown operation %d", op.Kind))
	}
	b, at := begin(b, kinds[op.Kind], len(op.Family)+len(op.Qualifier)+len(op.Value)+12)
	b = appendText(b, 1, op.Family)
	switch op.Kind {
	case DeleteColumn:
		b = appendText(b, 2, op.Qualifier)
	case DeleteFrom: // an end of 0 means infinity (H51)
		b = appendText(b, 2, op.Qualifier)
		var span message
		b, span = begin(b, 3, 0)
		b = span.end(appendInt(b, 1, millis(op.Timestamp)))
	case DeleteBefore:
		end := millis(op.Timestamp)
		if end <= 0 {
			panic("sink: a delete by time range would have no end") // it would delete the whole column (H51)
		}
		b = appendText(b, 2, op.Qualifier)
		var span message
		b, span = begin(b, 3, 10)
		b = span.end(appendInt(b, 2, end))
	case DeleteAt:
		start := millis(op.Timestamp)
		b = appendText(b, 2, op.Qualifier)
		var span message
		b, span = begin(b, 3, 20)
		b = span.end(appendInt(appendInt(b, 1, start), 2, start+millisecond))
	case AddToCell:
		var value message
		b, value = begin(b, 2, len(op.Qualifier)+8)
		b = value.end(protowire.AppendString(protowire.AppendTag(b, 8, protowire.BytesType), op.Qualifier))
		b, value = begin(b, 3, 0)
		b = value.end(protowire.AppendVarint(protowire.AppendTag(b, 9, protowire.VarintType), uint64(millis(op.Timestamp))))
		b, value = begin(b, 4, 0)
		b = value.end(protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), binary.BigEndian.Uint64(op.Value)))
	}
	return at.end(b)
}

// appendSet appends a SetCell, which is what most operations are. Its size is computed first, so
// that nothing is moved.
func appendSet(b []byte, op *Op) []byte {
	at := uint64(millis(op.Timestamp))
	size := sizeOf(len(op.Family)) + sizeOf(len(op.Qualifier)) + sizeOf(len(op.Value))
	if at != 0 {
		size += 1 + protowire.SizeVarint(at)
	}
	b = appendLength(b, 1, size)
	b = appendText(b, 1, op.Family)
	b = appendText(b, 2, op.Qualifier)
	b = appendInt(b, 3, int64(at))
	if len(op.Value) > 0 {
		b = append(appendLength(b, 4, len(op.Value)), op.Value...)
	}
	return b
}

// sizeOf returns the size of a field of bytes, whose number is below 16. A field without bytes is
// left out.
func sizeOf(length int) int {
	if length == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(length)
}

// millis rounds a timestamp down to whole milliseconds, because Bigtable accepts no others. It
// leaves ServerTime unchanged.
func millis(timestamp int64) int64 {
	if timestamp == ServerTime {
		return timestamp
	}
	return timestamp - timestamp%1000
}

// appendPredicate appends a RowFilter that passes a cell exactly if the predicate holds. Columns
// are given as ranges, not as regular expressions. In a regular expression, a qualifier made from
// data could match other columns (H74). Cells are not limited to the latest one, because a server
// clock that stepped back between two tombstones would hide the higher version (H77).
func appendPredicate(b []byte, p *Predicate) []byte {
	b, chain := begin(b, 1, 240)
	b, column := begin(b, 1, 200)
	if len(p.Families) == 1 {
		b = appendColumn(b, p.Families[0], p.Qualifier)
	} else {
		var either, one message
		b, either = begin(b, 2, 180)
		for _, family := range p.Families {
			b, one = begin(b, 1, 0)
			b = one.end(appendColumn(b, family, p.Qualifier))
		}
		b = either.end(b)
	}
	b = column.end(b)
	b, value := begin(b, 1, 0)
	b, span := begin(b, 15, 0)
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), string(p.AtLeast))
	if p.Exactly {
		b = appendText(b, 3, string(p.AtLeast))
	}
	b = span.end(b)
	return chain.end(value.end(b))
}

// appendColumn appends a RowFilter for one column. The end of a range is exclusive.
func appendColumn(b []byte, family, qualifier string) []byte {
	b, span := begin(b, 7, 0)
	b = appendText(b, 1, family)
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), qualifier)
	b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.BytesType), uint64(len(qualifier)+1))
	return span.end(append(append(b, qualifier...), 0))
}

// appendText and appendInt append a field, unless its value is zero.
func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return append(appendLength(b, field, len(text)), text...)
}

// appendLength appends the tag of a field of bytes and its length. All fields of these messages
// have numbers below 16, so a tag is one byte.
func appendLength(b []byte, field protowire.Number, length int) []byte {
	b = append(b, byte(field)<<3|byte(protowire.BytesType))
	if length < 1<<7 {
		return append(b, byte(length))
	}
	return protowire.AppendVarint(b, uint64(length))
}

func appendInt(b []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, byte(field)<<3|byte(protowire.VarintType)), uint64(n))
}

// message is a nested message: the position of its length in the buffer, and the room left for the
// length.
type message struct{ at, room int }

// begin appends the tag of a nested message, and room for its length. The guess is the expected
// size of the message. Everything appended until end belongs to the message.
func begin(b []byte, field protowire.Number, guess int) ([]byte, message) {
	b = append(b, byte(field)<<3|byte(protowire.BytesType))
	m := message{len(b), protowire.SizeVarint(uint64(guess))}
	return append(b, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:m.room]...), m
}

// end writes the length. If the length needs more or less room than the guess, the message is
// moved.
func (m message) end(b []byte) []byte {
	length := len(b) - m.at - m.room
	if length < 1<<7 && m.room == 1 {
		b[m.at] = byte(length)
		return b
	}
	need := protowire.SizeVarint(uint64(length))
	if need != m.room {
		b = append(b, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:max(0, need-m.room)]...)
		copy(b[m.at+need:], b[m.at+m.room:m.at+m.room+length])
		b = b[:m.at+need+length]
	}
	protowire.AppendVarint(b[:m.at], uint64(length))
	return b
}
