// Package relay publishes changes to Pub/Sub. Each message is a CloudEvent.
//
// It guarantees:
//
//   - R1 Each change is published at least once before the checkpoint passes it. A replay publishes
//     the same message again, under the same id (H58).
//   - R2 The messages of one item are in the order of its changes, except for repeats: no fence
//     stops the publish of a process that was paused. A consumer keeps the highest version that it
//     has seen of an item, and drops lower ones (I11).
//   - R3 The ordering key is a hash of table and item key, never the key itself: a DynamoDB key may
//     be binary and up to 3 KB long, but an ordering key is text of at most 1 KB (H95).
//   - R4 The messages of a shard are numbered without holes within a generation, before any are
//     folded or omitted. So the numbers alone show which messages were applied.
package relay
