package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/mappingtest"
)

func newTest(p *program) *cobra.Command {
	var update bool
	c := &cobra.Command{
		Use:     "test [FILE|DIRECTORY]... [flags]",
		Short:   "Run mapping examples: item in, cells out",
		GroupID: groupPrepare,
		Long: `Run mapping examples offline: items are copied and changed, and the cells are compared with those
expected.

It searches directories for examples (default: the current one). An example is a directory, or a
txtar file whose name ends in` + mappingtest.Suffix + `, with these parts:

  replicator.yaml  the config; without it, the one of -c
  table.json       the table, as "aws dynamodb create-table
                   --cli-input-json" takes it
  items.jsonl      items that exist at the beginning, in DynamoDB's JSON or as
                   lines of an export; in a directory items.json.gz, too
  changes.jsonl    later changes: {"put": item} or {"delete": key}; optional
  cells.txt        the cells after the copy and after the changes; --update
                   writes it

Before its parts a txtar file may have the lines "config: FILE" and "table: NAME" and, instead of
table.json, "primary_key: PK S, SK N".

Items are copied at 2026-11-20T10:20:00Z, and changes happen an hour later. All writes are
repeated in reverse order, which must change nothing. The exit status is 3 if an example differs. Item data is
shown on stdout.`,
		Example: `  replicator test
  replicator test -c replicator.yaml \
    examples/videos mapping/orders.example.txtar
  replicator test --update`,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.testMapping(ctx, args, update)
		},
	}
	c.Flags().BoolVar(&update, "update", false, "record the results of the examples as expected")
	return c
}

func (p *program) testMapping(ctx context.Context, paths []string, update bool) error {
	runner := mappingtest.Runner{Env: p.Env, Config: func() (*config.Config, error) { return p.load() }, Update: update}
	results, err := runner.Run(ctx, paths)
	if err != nil {
		return err
	}
	if err := results.Render(&p.Console, p.tell); err != nil {
		return err
	}
	if refused := results.Refused(); refused != nil {
		return &reported{refused}
	}
	return results.Verdict()
}
