package inspect

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Octets are bytes that JSON documents show as text if they are UTF-8, and otherwise as {"base64":
// "…"}.
type Octets []byte

// MarshalJSON implements json.Marshaler.
func (o Octets) MarshalJSON() ([]byte, error) {
	if utf8.Valid(o) {
		return json.Marshal(string(o))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(o)})
}

// String returns the bytes as printable text.
func (o Octets) String() string { return diag.Quoted(string(o)) }
