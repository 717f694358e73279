package dynamodbtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Limits from the Streams API reference: DescribeStream and ListStreams, GetRecords.
const (
	maxListed      = 100
	maxRecords     = 1000
	maxRecordBytes = 1 << 20
)

// seconds is a time in the form of AWS JSON: Unix seconds with milliseconds.
type seconds time.Time

func (t seconds) MarshalJSON() ([]byte, error) {
	ms := time.Time(t).UnixMilli()
	return fmt.Appendf(nil, "%d.%03d", ms/1000, ms%1000), nil
}

// tableOfARN returns the table's name in the ARN of a table, stream or iterator. It returns "" for
// any other ARN.
func tableOfARN(arn string) string {
	_, resource, found := strings.Cut(arn, ":table/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(resource, "/")
	return name
}

// withStream locks the table, tends the stream and calls read with it.
func (s *Server) withStream(arn string, read func(*stream, time.Time) error) error {
	if tableOfARN(arn) == "" || !strings.Contains(arn, "/stream/") {
		return validation("Invalid StreamArn")
	}
	s.mu.RLock()
	st := s.streams[arn]
	s.mu.RUnlock()
	missing := resourceNotFound("Requested resource not found: Stream: %s not found", arn)
	if st == nil {
		return missing
	}
	st.table.mu.Lock()
	now := s.Now()
	if !st.gone(now) {
		defer st.table.mu.Unlock()
		st.tend(now)
		return read(st, now)
	}
	st.table.mu.Unlock()
	s.forget(st)
	return missing
}

// forget removes a stream whose retention has ended.
func (s *Server) forget(st *stream) {
	s.mu.Lock()
	delete(s.streams, st.arn)
	s.mu.Unlock()
	st.table.mu.Lock()
	st.table.streams = slices.DeleteFunc(st.table.streams, func(other *stream) bool { return other == st })
	st.table.mu.Unlock()
}

type listStreamsRequest struct {
	TableName               string
	Limit                   *int
	ExclusiveStartStreamArn string
}

func (r *listStreamsRequest) subject() (string, string) { return r.TableName, "" }

type listedStream struct {
	StreamArn   string
	TableName   string
	StreamLabel string
}

type listStreamsResponse struct {
	Streams                []listedStream
	LastEvaluatedStreamArn string `json:",omitempty"`
}

func (s *Server) listStreams(req *listStreamsRequest) (any, error) {
	limit, err := listLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.Now()
	response := listStreamsResponse{Streams: []listedStream{}}
	for _, arn := range sortedKeys(s.streams) {
		st := s.streams[arn]
		if req.TableName != "" && st.table.name != req.TableName || arn <= req.ExclusiveStartStreamArn {
			continue
		}
		st.table.mu.RLock()
		gone := st.gone(now)
		st.table.mu.RUnlock()
		if gone {
			continue
		}
		if len(response.Streams) == limit {
			response.LastEvaluatedStreamArn = response.Streams[limit-1].StreamArn
			break
		}
		response.Streams = append(response.Streams, listedStream{st.arn, st.table.name, st.label})
	}
	return response, nil
}

func listLimit(limit *int) (int, error) {
	if limit == nil {
		return maxListed, nil
	}
	if *limit < 1 || *limit > maxListed {
		return 0, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and %d", *limit, maxListed)
	}
	return *limit, nil
}

type describeStreamRequest struct {
	StreamArn             string
	Limit                 *int
	ExclusiveStartShardId string
	ShardFilter           *struct {
		Type    string
		ShardId string
	}
}

func (r *describeStreamRequest) subject() (string, string) { return tableOfARN(r.StreamArn), "" }

type sequenceNumberRange struct {
	StartingSequenceNumber string
	EndingSequenceNumber   string `json:",omitempty"`
}

type listedShard struct {
	ShardId             string
	ParentShardId       string `json:",omitempty"`
	SequenceNumberRange sequenceNumberRange
}

type streamDescription struct {
	StreamArn               string
	StreamLabel             string
	StreamStatus            string
	StreamViewType          string
	CreationRequestDateTime seconds
	TableName               string
	KeySchema               []keyElement
	Shards                  []listedShard
	LastEvaluatedShardId    string `json:",omitempty"`
}

func (s *Server) describeStream(req *describeStreamRequest) (any, error) {
	limit, err := listLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	parent := ""
	if f := req.ShardFilter; f != nil {
		if f.Type != "CHILD_SHARDS" || f.ShardId == "" {
			return nil, validation("ShardFilter must have the type CHILD_SHARDS and a ShardId")
		}
		parent = f.ShardId
	}
	var d streamDescription
	err = s.withStream(req.StreamArn, func(st *stream, now time.Time) error {
		d = streamDescription{
			StreamArn: st.arn, StreamLabel: st.label, StreamStatus: st.status(), StreamViewType: st.view,
			CreationRequestDateTime: seconds(st.created), TableName: st.table.name,
			KeySchema: st.table.schema.elements(),
		}
		d.Shards, d.LastEvaluatedShardId = st.listing(now, parent, req.ExclusiveStartShardId, limit)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return struct{ StreamDescription streamDescription }{d}, nil
}

// listing returns one page of the stream's shards after a shard id, with the faults that a test has
// set. Parent restricts the page to the children of one shard.
func (st *stream) listing(now time.Time, parent, after string, limit int) (page []listedShard, last string) {
	if n := st.table.listingPage; n > 0 {
		limit = min(limit, n)
	}
	var all []listedShard
	start := 0
	for _, sh := range st.shards {
		if now.Before(sh.hiddenUntil) || parent != "" && sh.parent != parent {
			continue
		}
		if sh.id <= after {
			start++
		}
		listed := listedShard{ShardId: sh.id, ParentShardId: sh.parent}
		listed.SequenceNumberRange.StartingSequenceNumber = sh.starting
		if !sh.open() && !now.Before(sh.shownOpenUntil) {
			listed.SequenceNumberRange.EndingSequenceNumber = sh.ending
		}
		all = append(all, listed)
	}
	if after != "" && st.table.repeatPages > 0 {
		st.table.repeatPages--
		return append([]listedShard{}, all[max(0, start-limit):start]...), after
	}
	end := min(start+limit, len(all))
	page = append([]listedShard{}, all[start:end]...)
	if end < len(all) {
		last = all[end-1].ShardId
	}
	return page, last
}

type getShardIteratorRequest struct {
	StreamArn         string
	ShardId           string
	ShardIteratorType string
	SequenceNumber    *string
	Timestamp         *float64
}

func (r *getShardIteratorRequest) subject() (string, string) {
	return tableOfARN(r.StreamArn), r.ShardId
}

func (s *Server) getShardIterator(req *getShardIteratorRequest) (any, error) {
	var text string
	err := s.withStream(req.StreamArn, func(st *stream, now time.Time) error {
		sh := st.shard(req.ShardId)
		if sh == nil {
			return shardNotFound(st, req.ShardId)
		}
		position, err := sh.locate(req, now)
		if err != nil {
			return err
		}
		text = iterator{st.arn, sh.id, now, st.epoch, position}.encode(s.opts.Seed)
		return nil
	})
	return struct{ ShardIterator string }{text}, err
}

func shardNotFound(st *stream, id string) error {
	return resourceNotFound("Requested resource not found: Shard: %s in Stream: %s not found", id, st.arn)
}

// locate returns the position that a request for an iterator names.
func (sh *shard) locate(req *getShardIteratorRequest, now time.Time) (int64, error) {
	kind := req.ShardIteratorType
	numbered := kind == "AT_SEQUENCE_NUMBER" || kind == "AFTER_SEQUENCE_NUMBER"
	if numbered == (req.SequenceNumber == nil) {
		return 0, validation("SequenceNumber must be given with AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER, and only with these")
	}
	if (kind == "AT_TIMESTAMP") == (req.Timestamp == nil) {
		return 0, validation("Timestamp must be given with AT_TIMESTAMP, and only with it")
	}
	switch kind {
	case "TRIM_HORIZON":
		return horizon, nil
	case "LATEST":
		return sh.end(), nil
	case "AT_TIMESTAMP":
		return sh.locateTime(*req.Timestamp, now)
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		return sh.locateSequence(*req.SequenceNumber, kind == "AFTER_SEQUENCE_NUMBER")
	}
	return 0, validation("Unknown ShardIteratorType")
}

// locateTime finds the first record at or after a time in Unix seconds. If record times went back,
// it returns the earliest record at or after that time.
func (sh *shard) locateTime(at float64, now time.Time) (int64, error) {
	ms := math.Round(at * 1000) // the service's precision, without binary fractions
	if ms > float64(now.UnixMilli()) {
		return 0, validation("Timestamp must not lie in the future")
	}
	if ms < float64(now.Add(-retention).UnixMilli()) {
		return horizon, nil
	}
	i := slices.IndexFunc(sh.records, func(r record) bool { return float64(r.second)*1000 >= ms })
	if i < 0 {
		return sh.end(), nil
	}
	return sh.trimmed + int64(i), nil
}

// locateSequence finds a sequence number, or the record after it. It rejects a number that this
// shard never used, because such a number belongs to another shard.
func (sh *shard) locateSequence(number string, after bool) (int64, error) {
	if !validSequence(number) {
		return 0, validation("SequenceNumber must be a decimal number of at most 40 digits")
	}
	if compareSequence(number, sh.starting) < 0 || compareSequence(number, sh.last) > 0 {
		return 0, validation("SequenceNumber lies outside the range of the shard")
	}
	if sh.lastTrimmed != "" && compareSequence(number, sh.lastTrimmed) <= 0 {
		return 0, trimmedAccess()
	}
	return sh.seek(func(r *record) bool {
		order := compareSequence(r.sequence, number)
		return order > 0 || order == 0 && !after
	}), nil
}

func trimmedAccess() error {
	return newError("TrimmedDataAccessException", "The operation attempted to read past the oldest stream record in a shard")
}

type getRecordsRequest struct {
	ShardIterator string
	Limit         *int
}

func (r *getRecordsRequest) subject() (string, string) {
	return tableOfARN(r.ShardIterator), shardOfIterator(r.ShardIterator)
}

func (s *Server) getRecords(req *getRecordsRequest) (any, error) {
	limit := maxRecords
	if req.Limit != nil {
		if limit = *req.Limit; limit < 1 || limit > maxRecords {
			return nil, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and %d", limit, maxRecords)
		}
	}
	it, err := decodeIterator(req.ShardIterator, s.opts.Seed)
	if err != nil {
		return nil, err
	}
	var page recordPage
	err = s.withStream(it.arn, func(st *stream, now time.Time) error {
		if it.epoch != st.epoch || now.Sub(it.issued) >= iteratorLife {
			return newError("ExpiredIteratorException", "The shard iterator is expired; it was given out more than 15 minutes ago")
		}
		sh := st.shard(it.shard)
		if sh == nil {
			return shardNotFound(st, it.shard)
		}
		if it.position != horizon && it.position < sh.trimmed {
			return trimmedAccess()
		}
		page = st.read(sh, it, limit, now)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page.encode(s.opts.Seed), nil
}

// recordPage is the result of a GetRecords call. It stays valid without the lock, because records
// never change.
type recordPage struct {
	stream  *stream
	shard   *shard
	records []record
	next    *iterator
}

// read reads a page at the iterator's position. It sets the next iterator, except at the end of a
// closed shard (S5).
func (st *stream) read(sh *shard, it iterator, limit int, now time.Time) recordPage {
	if it.position == horizon {
		it.position = sh.trimmed
	}
	page := recordPage{stream: st, shard: sh}
	it.issued = now
	if sh.emptyPages > 0 {
		sh.emptyPages--
		page.next = &it
		return page
	}
	rest := sh.records[it.position-sh.trimmed:]
	n, bytes := 0, 0
	for n < len(rest) && n < limit {
		bytes += rest[n].size
		if n > 0 && bytes > maxRecordBytes {
			break
		}
		n++
	}
	page.records = slices.Clone(rest[:n])
	it.position += int64(n)
	if sh.open() || it.position < sh.end() {
		page.next = &it
	}
	return page
}

func (p recordPage) encode(seed uint64) wire {
	size := 256
	for i := range p.records {
		size += 2*p.records[i].size + 512
	}
	dst := append(make([]byte, 0, size), `{"Records":[`...)
	for i := range p.records {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.stream.appendRecord(dst, p.shard, &p.records[i])
	}
	dst = append(dst, ']')
	if p.next != nil {
		dst = append(dst, `,"NextShardIterator":`...)
		dst = attribute.AppendString(dst, p.next.encode(seed))
	}
	return append(dst, '}')
}
