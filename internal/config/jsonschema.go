package config

import _ "embed"

// jsonSchema is made of the schema and the comments of Config by TestJSONSchemaIsGenerated.
//
//go:embed replicator.schema.json
var jsonSchema []byte

// JSONSchema returns the JSON Schema (draft 7, which editors know best) of the configuration, for editors: what it refuses, Load
// refuses too. Of the keys and of where sections, lists and values stand it knows everything; of values, what can be said of each
// by itself; nothing of what YAML allows and Load does not, such as anchors, and nothing of what a mapping means. A value with a $ passes:
// what a variable will hold is not known.
func JSONSchema() []byte { return jsonSchema }
