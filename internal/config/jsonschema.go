package config

import _ "embed"

// jsonSchema is generated from the schema and the comments of Config by TestJSONSchemaIsGenerated.
//
//go:embed replicator.schema.json
var jsonSchema []byte

// JSONSchema returns the JSON Schema (draft 7, which editors support best) of the configuration.
// Everything that it refuses, Load refuses too. It knows all keys, and where sections, lists and
// values belong. It checks each value only by itself. It ignores YAML features that Load refuses,
// such as anchors, and the meaning of a mapping. A value with a $ passes, because the value of a
// variable is unknown.
func JSONSchema() []byte { return jsonSchema }
