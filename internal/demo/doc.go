// Package demo runs a whole migration on one machine, with no cloud account: an embedded DynamoDB and an embedded Bigtable on
// loopback, a table of items of every type, two workers that are processes of the program itself, and a live workload while
// shards split and roll and one of the workers is killed and replaced. At the end both stores are compared cell by cell.
//
// Nothing in it is staged: the workers are started as an operator would start them, with a configuration file and the vendors'
// own environment variables, they are observed through their HTTP endpoints, and the verdict comes from reading both stores.
package demo
