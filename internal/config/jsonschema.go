package config

import _ "embed"

// jsonSchema is generated from the schema and the comments of Config by TestJSONSchemaIsGenerated.
//
//go:embed replicator.schema.json
var jsonSchema []byte

// JSONSchema returns the JSON Schema (draft 7, which editors support best) of the configuration.
// Load refuses everything that the schema refuses, and more. The schema defines all keys, their
// types, and the allowed values of each key. It does not check how values fit together, what a
// mapping means, or YAML features such as anchors. It accepts every value that contains a $,
// because the value of a variable is unknown.
func JSONSchema() []byte { return jsonSchema }
