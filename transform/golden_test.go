package transform

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden reads cases from testdata/*.txt: a title, the key schema, the row key if it is not the
// default, an item as DynamoDB JSON, and then the expected result. Run with -update to rewrite the
// results, and review the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
				got = append(got, golden(t, block))
			}
			result := strings.Join(got, "\n\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(result), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if result != string(text) {
				t.Errorf("%s differs; got:\n%s", file, result)
			}
		})
	}
}

func golden(t *testing.T, block string) string {
	var in []string
	var keys []KeyAttribute
	var rowKey []string
	var item attribute.Item
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "keys":
			for word := range strings.FieldsSeq(value) {
				attr, kind, _ := strings.Cut(word, ":")
				keys = append(keys, KeyAttribute{attr, map[string]attribute.Kind{"S": attribute.KindS, "N": attribute.KindN, "B": attribute.KindB}[kind]})
			}
		case "row key":
			rowKey = strings.Fields(value)
		case "item":
			var err error
			if item, err = attribute.UnmarshalItem([]byte(value)); err != nil {
				t.Fatalf("%s: %v", in[0], err)
			}
		case "row", "cell", "row unmappable", "cells unmappable":
			continue
		default:
			if !strings.HasPrefix(line, "#") {
				t.Fatalf("not understood: %s", line)
			}
		}
		in = append(in, line)
	}
	m, err := NewMapping("T", "t", "d", keys, rowKey...)
	if err != nil {
		t.Fatalf("%s: %v", in[0], err)
	}
	row, err := m.Row(item)
	if err != nil {
		in = append(in, "row unmappable: "+err.(*Unmappable).Reason)
	} else {
		in = append(in, fmt.Sprintf("row: %q", row))
	}
	cells, err := m.Cells(item, 1_795_170_000_123_000)
	if err != nil {
		in = append(in, "cells unmappable: "+err.(*Unmappable).Reason)
	}
	for _, c := range cells {
		in = append(in, fmt.Sprintf("cell: %s:%s %s", c.Family, c.Qualifier, printable(c.Value)))
	}
	return strings.Join(in, "\n")
}

// printable returns a value unchanged if it is one line of printable text, and quoted otherwise.
func printable(b []byte) string {
	if q := fmt.Sprintf("%+q", b); q == `"`+string(b)+`"` && len(b) > 0 {
		return string(b)
	}
	if q := fmt.Sprintf("%q", b); len(b) == 0 || strings.Contains(q, `\x`) || strings.Contains(q, `\n`) {
		return q
	}
	return string(b)
}
