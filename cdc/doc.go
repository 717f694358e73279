// Package cdc reads DynamoDB Streams: shards, their lineage, changes.
//
// Its nouns are the stream's own: a Stream has Shards, each with at most one parent; a shard is read from a Position in
// Pages of Changes; a change carries a SequenceNumber and the item's images as Values. The package imports nothing of ours
// but the runtime seam. The AWS client is used in one file, dynamodbstreams.go; strict.go makes its decoding refuse what it would
// misread.
//
// Errors and printed values hold no item data: names of attributes, types, sizes and places only (H65).
package cdc
