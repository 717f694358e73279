package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// follows SOURCE STATE ATTRIBUTES... records a cutover of a table whose source follows its target. The
// types of the attributes are S.
func follows(ts *testscript.TestScript, _ bool, args []string) {
	table, done := openTable(ts, "replicator_state")
	defer done()
	ctx := context.Background()
	ledger, err := checkpoint.Open(ctx, checkpoint.Bigtable(table, "ledger"), "default", checkpoint.Options{Worker: "script", ID: "script"})
	ts.Check(err)
	types := transform.Types{}
	for _, name := range args[2:] {
		types[name] = transform.Seen{Kinds: transform.KindsOf(attribute.KindS)}
	}
	text, err := json.Marshal(types)
	ts.Check(err)
	_, err = ledger.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error {
		c.Attempt, c.Step, c.Tables, c.SwitchedAt = 1, checkpoint.CutoverWatching, args[:1], time.Now()
		c.Forms = map[string]checkpoint.CutoverForm{args[0]: {Types: text}}
		return nil
	})
	ts.Check(err)
	_, err = ledger.UpdateFallback(ctx, args[0], 0, func(f *checkpoint.Fallback) error {
		f.Attempt, f.State, f.Since, f.Reason = 1, checkpoint.FallbackState(args[1]), time.Now(), "changes were lost"
		return nil
	})
	ts.Check(err)
}
