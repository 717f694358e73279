package plan

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The plan counts the sampled items that get another row.
func TestItemsThatMove(t *testing.T) {
	key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
	mapping := func(rowKey string) *transform.Mapping {
		text := "version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders, to: orders, families: {d: maxversions=1}, rules: [{row_key: '" + rowKey + "', columns: {'*': d}}]}]\n"
		cfg, err := config.Parse("f", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		table, _ := cfg.Table("Orders")
		m, err := preflight.MapTable(table, key)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	var sample []attribute.Item
	for _, pk := range []string{"a", "b", "c"} {
		sample = append(sample, attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}}))
	}
	state := checkpoint.TableState{Mapping: mapping("{pk}").Describe()}
	if c := changeOf(state, mapping("x#{pk}"), sample); !c.Kept || !c.RowKeys || c.Sampled != 3 || c.Moved != 3 {
		t.Errorf("with another row key: %+v", c)
	}
	if c := changeOf(state, mapping("{pk}"), sample); c.RowKeys || c.Moved != 0 {
		t.Errorf("with the same: %+v", c)
	}
	if c := changeOf(checkpoint.TableState{}, mapping("{pk}"), sample); c.Kept {
		t.Errorf("of nothing: %+v", c)
	}
}

// The ledger judges an export until the table is copied, by any generation.
func TestAnExportOfAKnownTable(t *testing.T) {
	now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		state   checkpoint.TableState
		copied  bool
		refused bool
	}{
		"unknown":  {checkpoint.TableState{}, false, true},
		"followed": {checkpoint.TableState{Generation: 1, Label: "L"}, false, false},
		"loaded":   {checkpoint.TableState{Generation: 2, Base: 1}, true, true},
		"loading":  {checkpoint.TableState{Generation: 1, Load: checkpoint.Load{Generation: 1}}, true, true},
	} {
		s := newScene(t, "")
		out := s.orders()
		out.found.Description.At = now
		out.Export = &Export{Address: "s3://b/e", At: now.Add(-100 * time.Hour)}
		out.refuse(out.found.Description, "as it was read")
		s.in.judgeExport(out, c.state, nil)
		if out.copied != c.copied || (out.refused != nil) != c.refused {
			t.Errorf("%s: copied %t, refused %v", name, out.copied, out.refused)
		}
	}
}
