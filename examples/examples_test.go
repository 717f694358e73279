// Package examples_test runs the worked examples: their items are copied, their changes follow, and the cells of the target are
// compared with cells.txt.
package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var update = flag.Bool("update", false, "write cells.txt anew")

func TestExamples(t *testing.T) {
	folders, err := filepath.Glob("*/replicator.yaml")
	if err != nil || len(folders) < 10 {
		t.Fatal(folders, err)
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(folder, func(t *testing.T) {
			e := newExample(t, folder)
			out := "after the copy\n\n" + e.copy() + "\nafter the changes\n\n" + e.follow()
			golden := filepath.Join(folder, "cells.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(e.read("cells.txt")), out); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// example is one folder with a target in memory.
type example struct {
	t       *testing.T
	folder  string
	mapping *transform.Mapping
	target  *sinktest.Memory
	items   map[string]cdc.Item
}

func newExample(t *testing.T, folder string) *example {
	e := &example{t: t, folder: folder, target: &sinktest.Memory{}, items: map[string]cdc.Item{}}
	c, err := config.Parse("replicator.yaml", e.read("replicator.yaml"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	table := &c.Tables[0]
	if e.mapping, err = table.Mapping(e.key()); err != nil {
		t.Fatal(err)
	}
	var families []string
	for _, f := range table.TargetFamilies() {
		name := f.Name
		if f.Aggregate != transform.NoAggregate {
			name += ":intsum" // as good as any: each column is emptied before
		}
		families = append(families, name)
	}
	e.target.Create(table.To, families...)
	return e
}

func (e *example) read(name string) []byte {
	content, err := os.ReadFile(filepath.Join(e.folder, name))
	if err != nil && !*update {
		e.t.Fatal(err)
	}
	return content
}

// key is the key schema of table.json.
func (e *example) key() []transform.KeyAttribute {
	var table struct {
		KeySchema            []struct{ AttributeName string }
		AttributeDefinitions []struct{ AttributeName, AttributeType string }
	}
	if err := json.Unmarshal(e.read("table.json"), &table); err != nil {
		e.t.Fatal(err)
	}
	kinds := map[string]cdc.Kind{"S": cdc.KindS, "N": cdc.KindN, "B": cdc.KindB}
	var key []transform.KeyAttribute
	for _, k := range table.KeySchema {
		for _, a := range table.AttributeDefinitions {
			if a.AttributeName == k.AttributeName {
				key = append(key, transform.KeyAttribute{Name: a.AttributeName, Type: kinds[a.AttributeType]})
			}
		}
	}
	return key
}

func (e *example) item(text []byte) cdc.Item {
	item, err := cdc.UnmarshalItem(text)
	if err != nil {
		e.t.Fatalf("%s: %v", text, err)
	}
	return item
}

func lines(content []byte) [][]byte {
	return bytes.Split(bytes.TrimSpace(content), []byte("\n"))
}

// at is when the examples take place.
var at = time.Unix(1_795_170_000, 0)

func (e *example) copy() string {
	var items []cdc.Item
	for _, line := range lines(e.read("items.jsonl")) {
		item := e.item(line)
		items = append(items, item)
		e.items[e.mapping.ItemKey(item)] = item
	}
	return e.apply(transform.Load(e.mapping, items, 1, at))
}

func (e *example) follow() string {
	var page []cdc.Change
	for i, line := range lines(e.read("changes.jsonl")) {
		var change struct{ Put, Delete json.RawMessage }
		if err := json.Unmarshal(line, &change); err != nil {
			e.t.Fatal(err)
		}
		c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(100 + i)), Time: at.Add(time.Hour)}
		if change.Put != nil {
			c.New = e.item(change.Put)
			c.Keys = e.mapping.Keys(c.New)
		} else {
			c.Event, c.Keys = cdc.Remove, e.item(change.Delete)
		}
		c.Old = e.items[e.mapping.ItemKey(c.Keys)]
		if !c.Old.Exists() {
			c.Event = cdc.Insert
		}
		e.items[e.mapping.ItemKey(c.Keys)] = c.New
		page = append(page, c)
	}
	return e.apply(transform.Fold(e.mapping, page, transform.Stamp{Generation: 1, Hop: 500_000}))
}

// apply writes a batch under the guard, and again backwards, which must change nothing. It returns the target.
func (e *example) apply(b transform.Batch) string {
	ctx := context.Background()
	for _, p := range b.Parked {
		e.t.Errorf("an item is parked: %s", p.Reason)
	}
	for pass := range 2 {
		for i := range b.Rows {
			row := b.Rows[i]
			if pass == 1 {
				row = b.Rows[len(b.Rows)-1-i]
			}
			request := sink.Guard(row)
			if applied, err := e.target.Apply(ctx, &request); err != nil || applied != (pass == 0) {
				e.t.Fatalf("pass %d: applied %v, %v", pass, applied, err)
			}
		}
	}
	var out strings.Builder
	err := e.target.ReadRows(ctx, e.mapping.Table, sink.Range{}, func(r sink.Row) error {
		if len(r.Cells) == 0 {
			return nil // only a tombstone
		}
		fmt.Fprintf(&out, "%s\n", show(r.Key))
		for _, c := range r.Cells {
			fmt.Fprintf(&out, "  %-28s @%s  %s\n", c.Family+":"+show(c.Qualifier), time.UnixMicro(c.Timestamp).UTC().Format("2006-01-02T15:04:05.999Z"), show(string(c.Value)))
		}
		return nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return out.String()
}

// show is text as it is, and quoted if it cannot be printed.
func show(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", text)
	}
	return text
}
