package inspect

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Octets are bytes as documents for programs hold them: text where they are UTF-8, otherwise
// {"base64": "…"}.
type Octets []byte

// MarshalJSON implements json.Marshaler.
func (o Octets) MarshalJSON() ([]byte, error) {
	if utf8.Valid(o) {
		return json.Marshal(string(o))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(o)})
}

// String is for people: the text as it is if all of it can be printed, otherwise quoted.
func (o Octets) String() string {
	text := string(o)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, unprintable) < 0 && text != "" {
		return text
	}
	return strconv.Quote(text)
}
