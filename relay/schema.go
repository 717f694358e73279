package relay

import _ "embed"

// schema is generated from the tags of Body by TestSchemaIsGenerated.
//
//go:embed message.schema.json
var schema []byte

// JSONSchema returns the JSON Schema (draft 2020-12) of a message of a change: a CloudEvent whose
// data is a Body.
func JSONSchema() []byte { return schema }
