// Package cdc reads changes of DynamoDB tables from DynamoDB Streams.
//
// Its nouns are the stream's own: a Stream has Shards, each with at most one parent; a shard is read from a Position in
// Pages of Changes; a change carries a SequenceNumber and the item's images as Values. The package imports nothing of ours
// but the runtime seam; the AWS client is used in one file, dynamodbstreams.go.
package cdc
