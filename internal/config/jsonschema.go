package config

import _ "embed"

// jsonSchema is generated from the schema and the comments of Config by TestJSONSchemaIsGenerated.
//
//go:embed replicator.schema.json
var jsonSchema []byte

// JSONSchema returns the JSON Schema (draft 7, which editors support best) of the configuration.
// Load refuses everything that the schema refuses. The schema knows all keys, and which of them are
// sections, lists and values. It checks each value by itself. It ignores YAML features that Load
// refuses, such as anchors, and the meaning of a mapping. It accepts every value with a $, because
// the value of a variable is unknown.
func JSONSchema() []byte { return jsonSchema }
