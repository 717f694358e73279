package mappingtest

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

const configuration = `version: 1
target: { project: p, instance: i }
tables: [{ from: Hats }]
`

// read writes an example into a file and reads it.
func read(t *testing.T, text string) (*Example, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "one"+Suffix)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(path)
}

// Every mistake in an example is reported without its data.
func TestRefusedExamples(t *testing.T) {
	c, err := config.Parse("replicator.yaml", []byte(configuration), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	const table = `{"TableName":"Hats","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]}`
	const item = `{"pk":{"S":"secret"}}`
	for text, want := range map[string]string{
		"primary_key: pk S\n":                                                 "items.jsonl is missing or empty",
		"-- items.jsonl --\n" + item:                                          "the primary key is unknown",
		"primary_key: pk X\n-- items.jsonl --\n" + item:                       "primary_key must look like",
		"primary_key:\n-- items.jsonl --\n" + item:                            "not a setting like",
		"a sentence\n-- items.jsonl --\n" + item:                              "comments begin with #",
		"primary_key: id\n-- items.jsonl --\n" + item:                         `entry 1 lacks attribute "id"`,
		"primary_key: pk N\n-- items.jsonl --\n" + item:                       `lacks attribute "pk" of type N`,
		"primary_key: pk\n-- items.jsonl --\n" + item + "\n" + item:           "entry 2 has the primary key of items.jsonl: entry 1",
		"primary_key: pk\n-- items.jsonl --\n" + item + "\nsecret":            "entry 2 is not JSON",
		"primary_key: pk\n-- items.jsonl --\n$ion_1_0 {Item:{pk:\"secret\"}}": "items.jsonl: it is Amazon Ion",
		"primary_key: pk\n-- items.jsonl --\n{}":                              "entry 1: an item without attributes",
		"primary_key: pk\n-- items.jsonl --\n" + item + "\n-- changes.jsonl --\n{\"put\":{\"x\":{\"S\":\"secret\"}}}":                         "changes.jsonl: entry 1 lacks attribute",
		"primary_key: pk\n-- items.jsonl --\n" + item + "\n-- changes.jsonl --\n{\"delete\":{\"pk\":{\"S\":\"a\"},\"x\":{\"S\":\"secret\"}}}": "beyond the primary key",
		"primary_key: pk\n-- items.jsonl --\n" + item + "\n-- changes.jsonl --\n{\"drop\":1}":                                                 "is not {\"put\": item}",
		"primary_key: pk\n-- items.jsonl --\n" + item + "\n-- table.json --\n" + table:                                                        "table.json does too",
		"-- items.jsonl --\n" + item + "\n-- table.json --\n{}":                                                                               "a key schema of 0 attributes",
		"-- items.jsonl --\n" + item + "\n-- items.jsonl --\n" + item + "\n":                                                                  "occurs twice",
	} {
		e, err := read(t, text)
		if err == nil {
			_, err = e.Run(context.Background(), &c.Tables[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s\ngives %v, not %s", text, err, want)
		}
	}
}

// Editors and shells of Windows write byte order marks and UTF-16. An example and its parts read
// the same.
func TestExamplesInOtherEncodings(t *testing.T) {
	c, err := config.Parse("replicator.yaml", []byte(configuration), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	const mark = "\ufeff"
	text := mark + "primary_key: pk S\r\n-- items.jsonl --\r\n" + mark + "{\"pk\":{\"S\":\"a\"}}\r\n-- changes.jsonl --\r\n" + mark + "{\"delete\":{\"pk\":{\"S\":\"a\"}}}\r\n"
	var wide []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		wide = binary.LittleEndian.AppendUint16(wide, unit)
	}
	for _, file := range []string{text, string(wide)} {
		e, err := read(t, file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Run(context.Background(), &c.Tables[0]); err != nil || !strings.Contains(got, "after the changes") {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A deletion of a missing item leaves no record in a stream, and so no change in the target.
func TestChangesAreTheStreams(t *testing.T) {
	c, err := config.Parse("replicator.yaml", []byte(configuration), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	e, err := read(t, `primary_key: pk S
-- items.jsonl --
{"pk":{"S":"a"}}
-- changes.jsonl --
{"delete":{"pk":{"S":"b"}}}
{"delete":{"pk":{"S":"a"}}}
{"put":{"pk":{"S":"a"},"n":{"N":"1"}}}
{"put":{"pk":{"S":"c"}}}
{"delete":{"pk":{"S":"c"}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(context.Background(), &c.Tables[0])
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = strings.Cut(got, "after the changes\n\n")
	if want := "a\n  d:n                          @2026-11-20T11:20:00Z  1\n  d:pk                         @2026-11-20T11:20:00Z  a\n"; got != want {
		t.Errorf("got:\n%s", got)
	}
}

// A row key that looks like the start of a part of the file is quoted, so that an updated example
// reads the same.
func TestUpdateKeepsTheParts(t *testing.T) {
	c, err := config.Parse("replicator.yaml", []byte(configuration), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	e, err := read(t, "primary_key: pk S\n-- items.jsonl --\n{\"pk\":{\"S\":\"-- cells.txt --\"}}\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(context.Background(), &c.Tables[0])
	if err == nil {
		err = e.Update(got)
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(e.Path)
	if err != nil || len(again.archive.Files) != 2 || string(again.archive.Files[1].Data) != got || !strings.Contains(got, "\n\"-- cells.txt --\"\n") {
		t.Errorf("%q reads as %+v, %v", got, again, err)
	}
}
