package exports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// FuzzLine: no line makes the parser panic, both parsers agree, and an item that was read survives
// writing and reading.
func FuzzLine(f *testing.F) {
	for _, line := range []string{hat, changed, removed, `{"Item":{}}`, `{"Keys":{"a":{"S":""}},"Keys":{}}`, "{}", `{"Item":{"a":{"L":[{"M":{"b":{"N":"1e3"}}}]}}} `,
		`{"It\u0065m":{"a":{"S":"\ud83d\ude00"}}}`, `null`, `{"Item":null}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.ReplaceAll(line, []byte{'\n'}, []byte{' '})
		fast, err := parse(line, memberNames[:])
		slow, strict := parseStrictly(line)
		if err == nil {
			if strict != nil {
				t.Fatalf("strictly: %v", strict)
			}
			for i, item := range fast {
				if !item.Equal(slow[memberNames[i]]) {
					t.Fatalf("member %s differs", memberNames[i])
				}
			}
		}
		if r, err := ParseItem(line); err == nil {
			again, err := ParseItem(fmt.Appendf(nil, `{"Item":%s}`, attribute.AppendItem(nil, r.New)))
			if err != nil || !again.New.Equal(r.New) {
				t.Fatalf("written again it is another item: %v", err)
			}
		}
		if r, err := ParseChange(line); err == nil && (!r.Keys.Exists() || r.Written.IsZero()) {
			t.Fatalf("a change without key or time: %v", r)
		}
	})
}

// TestDeepItems: items as deep as DynamoDB accepts.
func TestDeepItems(t *testing.T) {
	line := `{"Item":{"id":` + strings.Repeat(`{"M":{"a":`, 32) + `{"S":"x"}` + strings.Repeat(`}}`, 32) + `}}`
	if r, err := ParseItem([]byte(line)); err != nil || !r.New.Exists() {
		t.Error(err)
	}
	if m, err := parseStrictly([]byte(line)); err != nil || !m["Item"].Exists() {
		t.Error(err)
	}
}
