// Package examples holds the worked examples: one folder for each shape of data, with its configuration, source table, items and cells. Files
// is what tests and the simulation read of them.
package examples

import "embed"

// Files are the configurations, tables and items of all examples, by folder.
//
//go:embed */replicator.yaml */table.json */items.jsonl */changes.jsonl
var Files embed.FS
