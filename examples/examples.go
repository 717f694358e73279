// Package examples holds the worked examples: one folder for each shape of data, with its
// configuration, source table, items and cells. Tests and the simulation read them through Files.
package examples

import "embed"

// Files has the configurations, tables and items of all examples, by folder.
//
//go:embed */replicator.yaml */table.json */items.jsonl */changes.jsonl
var Files embed.FS
