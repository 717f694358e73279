package status

import (
	"bytes"
	"flag"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// judged returns the status of one table.
func judged(in TableInput) *Document {
	l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []TableInput{in}}
	return l.Judge(nothingSet, "", noon)
}

func testConfig() *config.Config {
	return &config.Config{Name: "test", Tables: []config.Table{{From: "Orders", To: "orders"}}, Source: config.Source{Region: "eu-west-1"}, Target: config.Target{Project: "p", Instance: "i"},
		State: config.State{Lease: 15 * time.Second}}
}

func nothingSet(string) (string, bool) { return "", false }

func loadedTable() checkpoint.TableState {
	return checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7,
		Load: checkpoint.Load{Generation: 7, StartedAt: ago(time.Hour), DoneAt: ago(50 * time.Minute), Items: 10, Estimate: 10}}
}

// followed returns a table that is loaded, and whose only shard was found empty a second ago.
func followed() TableInput {
	s := held("s", "w", ago(time.Second))
	s.CaughtUp, s.ReadAt, s.AppliedTo, s.FirstRead = true, ago(time.Second), ago(time.Second), ago(time.Hour)
	return TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{s}}
}

// held returns a shard that a worker holds and last wrote at a given time.
func held(id, worker string, written time.Time) checkpoint.Shard {
	return checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Reading, Owner: worker, Heartbeat: checkpoint.Heartbeat{WrittenAt: written}}
}

const monthly = `version: 1
target: { project: p, instance: i }
tables:
  - from: Log_{year:4}_{month:2}
    to: logs
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$year}{$month}#{id}"
        columns: { "*": r }
  - from: Orders
`

func monthlyConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse("replicator.yaml", []byte(monthly), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

var update = flag.Bool("update", false, "write the golden files anew")

func validateStatus(t *testing.T, document []byte) {
	t.Helper()
	form, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("status.schema.json", form); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("the document does not fit its schema: %v\n%s", err, document)
	}
}
