// Package cdc reads DynamoDB Streams: shards, their lineage and changes.
//
// It uses the stream's own terms. A Stream has Shards, and each Shard has at most one parent. A
// shard is read from a Position in Pages of Changes. A change has a SequenceNumber and the item's
// images. The package imports only two other packages of this module: attribute and the runtime
// seam (internal/task). Only dynamodbstreams.go uses the AWS client. strict.go makes the client
// reject answers that it would misread.
//
// Errors and printed values contain no item data, only names of attributes, types, sizes and
// positions (H65).
package cdc
