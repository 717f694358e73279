// Package dynamodbtest is an embedded Amazon DynamoDB with DynamoDB Streams, for
// tests and demonstrations. A Server is an http.Handler that speaks the services'
// own protocol (AWS JSON 1.0), so that the AWS SDKs, the AWS CLI and boto3 use it
// unchanged: point AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_DYNAMODB_STREAMS
// at it. Signatures are not verified and every account is the same account.
//
// # What it is for
//
// Programs that read streams meet their hazards rarely and never on demand:
// shards that split and roll, children listed late, iterators that expire, records
// trimmed after 24 hours, sequence numbers that grow a digit. Here each of them is
// one call on the Server, and time is an injected Clock, so a test of them is
// deterministic and takes no time.
//
// # What it promises
//
// Where the AWS documentation leaves a choice, the server takes the one that is
// harder on its client. What it does not implement it refuses with a
// ValidationException or UnknownOperationException that names it; nothing is
// silently ignored. Given the same clock readings, seed and order of requests it
// gives the same answers, including shard ids, sequence numbers and the order of
// scans. It does not imitate throughput limits, propagation delays of tables, or
// eventual consistency of reads: every read is consistent, and a table is active
// as soon as it is created.
//
// # Invariants
//
//   - S1 The open shards of an enabled stream own disjoint ranges of the hash of the
//     partition key that cover all of it.
//   - S2 A shard has at most one parent, and the parent was closed before the shard
//     took its first record.
//   - S3 Sequence numbers rise strictly inside a shard, as numbers.
//   - S4 A write that leaves the item as it was makes no record.
//   - S5 Only the end of a closed shard is answered without a next iterator.
//   - S6 A record is readable until it is 24 hours old and not afterwards.
//
// # Files
//
// The protocol is in server.go and error.go, tables in table.go and tableops.go,
// items in itemops.go, batches and scans in batch.go and scan.go, streams in
// stream.go, shard.go, iterator.go and streamops.go, faults and controls in fault.go, control.go
// and controlhttp.go. Values and expressions have packages of their own.
package dynamodbtest
