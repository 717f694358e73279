// Package dynamodbtest is an embedded DynamoDB with streams. It serves tests and demonstrations. A
// Server is an http.Handler that speaks the services' own protocol (AWS JSON 1.0). So the AWS SDKs,
// the AWS CLI and boto3 can use it unchanged if AWS_ENDPOINT_URL_DYNAMODB and
// AWS_ENDPOINT_URL_DYNAMODB_STREAMS name it. It does not verify signatures, and it
// has the tables of one account. It can check the time of signatures, and the access key id of a signature decides
// which role calls.
//
// # Purpose
//
// Programs that read streams meet the hazards of streams only rarely, and never on demand. Shards
// split and roll, children are listed late, iterators expire, records are trimmed after 24 hours,
// and sequence numbers grow by a digit. With this package, one call on the Server causes each of
// these hazards. Time comes from an injected Clock. So a test of a hazard is deterministic and
// takes no time.
//
// # Guarantees
//
// If the AWS documentation allows several behaviours, the server chooses the one that is hardest
// for its client. Sequence numbers have gaps, and restart from shard to shard on request. The
// numbers that bound a shard belong to no record. It has every operation on items, with expressions
// or with the parameters that they replaced, secondary indexes, transactions, time to live, tags,
// resource policies, streams, point-in-time recovery and exports. It does not implement some
// features, such as
// PartiQL, restores and global tables. It rejects them with a ValidationException or
// UnknownOperationException that names the feature. It never ignores a feature silently. With the
// same clock readings, seed and order of requests it gives the same answers, including shard ids,
// sequence numbers and the order of scans. Scans follow the MD5 of the partition key.
//
// It does not imitate throughput limits, propagation delays of tables, or eventual consistency of
// reads. Every read is consistent, and a table is active as soon as it is created. Throttling can
// be injected as a Fault. Error messages are the service's own if these are known, but they never
// repeat values or keys.
//
// # Exports
//
// With point-in-time recovery a table's history is kept in memory. ExportTableToPointInTime writes
// full and incremental exports to a directory or to memory, with the service's folders, manifests
// and files (no Ion). Clients read the exports at the server's own address as from S3, in path
// style.
//
// # Resource policies and late writes
//
// A table can have a resource-based policy. Options.Roles maps access key ids to roles.
// Other keys belong to the account's root. A statement with the effect Deny refuses calls with
// AccessDeniedException. Without one, each call is allowed, because all identities of the server
// have all permissions. Expired items are deleted regardless of the policy. A policy may have the
// elements Effect, Principal, Action, Resource and Condition. A condition may compare
// aws:PrincipalArn with the operators StringEquals, StringLike, ArnEquals, ArnLike and their
// negations. PutResourcePolicy rejects all else with a ValidationException that names it: policy
// variables, other operators and keys, and resources other than the table and its indexes. It also
// rejects policies of streams, and CreateTable rejects a policy.
//
// A role of another account than Options.AccountID reaches a table only by its ARN, and only if a
// statement with the effect Allow includes the call. Its requests by name find no table. Streams
// have no policies here, so callers of every account may read them. The ARN of a table in another
// account or region is refused.
//
// After a change of a policy, the next change is refused for 15 seconds (Options.PolicyRest). AWS
// documents this time, but not the error, and this server answers ResourceInUseException. A changed
// policy comes into force after Options.PolicyDelay, at one moment for all calls. GetResourcePolicy
// returns it immediately. With OldPolicyReads it returns the former policy until then.
//
// With Options.SignatureWindow the server refuses requests that were signed too early or too late,
// with InvalidSignatureException. The check, like the authorization, happens when a request
// arrives. Straggle and Fault.Late let a write in at that time, cut its connection, and execute it
// later by the server's clock, before any request or control of that time or later. So a test can
// show a write that passes a fence.
//
// # Controls from another process
//
// With Options.Control, a POST to /_control/<name> calls the method of Server with that name. Its
// body has the parameters as JSON. /_control/ without a name returns all names.
//
//	curl -X POST localhost:8000/_control/shards -d '{"table":"Orders"}'
//	curl -X POST localhost:8000/_control/split -d '{"table":"Orders","shard":"shardId-…"}'
//	curl -X POST localhost:8000/_control/hide-shard -d '{"table":"Orders","shard":"shardId-…","after":"90s"}'
//	curl -X POST localhost:8000/_control/fail -d '{"fault":{"operation":"GetRecords","error":"LimitExceededException","times":3}}'
//	curl -X POST localhost:8000/_control/straggle -d '{"table":"Orders","count":1,"after":"4m"}'
//	curl -X POST localhost:8000/_control/advance-clock -d '{"duration":"25h"}'
//
// # Invariants
//
//   - S1 The open shards of an enabled stream own disjoint ranges of the hash of the partition key.
//     Together the ranges cover all hashes.
//   - S2 A shard has at most one parent. The parent was closed before the shard took its first
//     record.
//   - S3 Sequence numbers, compared as numbers, rise strictly inside a shard.
//   - S4 A write that does not change the item makes no record.
//   - S5 An answer has no next iterator only at the end of a closed shard.
//   - S6 A record can be read until it is 24 hours old, and not later.
//   - S7 The policy in force when a call arrives decides whether the call is let in. Later policies
//     do not affect the call.
//
// # Files
//
// server.go, operations.go, error.go and response.go implement the protocol. tableops.go and
// table.go implement tables, index.go and key.go the storage of items, indexspec.go and
// secondary.go secondary indexes. write.go decides a write; itemops.go, batch.go and transaction.go
// are the operations that write. source.go, page.go, scan.go and query.go read. legacy.go reads the
// parameters that expressions replaced. capacity.go adds up consumed capacity. stream.go, shard.go,
// sequence.go, iterator.go and streamops.go implement streams. ttl.go expires items, and tags.go
// keeps tags. policy.go reads resource policies, access.go decides with them, and policyops.go
// changes them. signature.go checks the time of signatures, and late.go executes late calls.
// history.go and backups.go implement point-in-time recovery, export.go writes exports,
// and objects.go serves them. fault.go, control.go and controlhttp.go are for tests. Values come
// from package attribute, their wire form is in package item, and expressions are in package
// expression.
package dynamodbtest
