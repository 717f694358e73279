// Package relay publishes changes to Pub/Sub. Each message is a CloudEvent.
//
// It gives four guarantees:
//
//   - R1 Each change is published at least once before the checkpoint passes it. A repeated publish
//     of a change sends the same message again, under the same id (H58).
//   - R2 The messages of one item are in the order of its changes, except for repeats. Repeats are
//     possible, because no fence stops a process that was paused from publishing. A consumer must
//     keep the highest version that it has seen of an item, and drop lower versions (I11).
//   - R3 The subject is a hash of table and item key, and the ordering key a bucket of that hash
//     (Keying). Neither is the key itself. A DynamoDB key may be binary and up to 3 KB long, but an
//     ordering key is text of at most 1 KB (H95).
//   - R4 Within a generation, the messages of a shard are numbered without holes. They get their
//     numbers before any message is folded or omitted. So the numbers alone show which messages
//     were applied.
package relay
