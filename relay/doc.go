// Package relay publishes changes to Pub/Sub. Each message is a CloudEvent.
//
// What it holds to:
//
//   - R1 Each change is published at least once before the checkpoint passes it. A replay publishes
//     the same message again, under the same id (H58).
//   - R2 The messages of one item stand in the order of its changes, up to repeats: nothing fences
//     the publish of a process that was paused. A consumer keeps the highest version that it has
//     seen of an item and drops what is lower (I11).
//   - R3 The ordering key is a hash of table and item key, never the key itself: a key of DynamoDB
//     may be 3 KB and binary, an ordering key is text of at most 1 KB (H95).
//   - R4 The messages of a shard are numbered without holes within a generation, before anything is
//     folded or left out: so what was applied of them can be told from the numbers alone.
package relay
