package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/internal/mappingtest"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newTest(p *program) *cobra.Command {
	var update bool
	c := &cobra.Command{
		Use:     "test [FILE|DIRECTORY]... [flags]",
		Short:   "Run mapping examples: item in, cells out",
		GroupID: groupPrepare,
		Long: `Run examples of the mapping: items are copied and changed, and the resulting cells are compared with those expected.
It works offline, so it can run in CI. A directory is searched; without arguments the current one is.

An example is a directory, or one file in the format of txtar, with these parts:

  replicator.yaml  the configuration; without it, the one of -c
  table.json       the source table, as "aws dynamodb create-table --cli-input-json" takes it
  items.jsonl      items that exist when the migration begins, in DynamoDB's JSON, or lines of an export; in a directory
                   also items.json.gz, a file of an export as it is
  changes.jsonl    changes after that: {"put": item} or {"delete": key}; may be left out
  cells.txt        the target's cells after the copy, and after the changes; --update writes it

Files are found in directories by the suffix ` + mappingtest.Suffix + `. Before its parts a file may say, in lines,
"config: FILE", "table: NAME" and, instead of table.json, "primary_key: PK S, SK N".

Items are copied at 2026-11-20T10:20:00Z, and changes happen an hour later. Every write is made twice, the second time in the
opposite order. The exit status is 3 if an example differs. This shows item data on stdout.`,
		Example: `  replicator test
  replicator test examples/videos mapping/orders.example.txtar -c replicator.yaml
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

// exampleResult is what became of one example.
type exampleResult struct {
	Path string `json:"path"`
	// Result is ok, differs, updated or refused: the example or its configuration cannot be used.
	Result string  `json:"result"`
	Diff   *string `json:"diff"`  // from what is expected (-) to what it became (+); null if they are the same
	Error  *string `json:"error"` // why it is refused, or null

	err error
}

// The results of an example.
const (
	exampleOK      = "ok"
	exampleDiffers = "differs"
	exampleUpdated = "updated"
	exampleRefused = "refused"
)

func (p *program) testMapping(ctx context.Context, paths []string, update bool) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	results := []exampleResult{}
	for _, path := range paths {
		found, err := mappingtest.Find(path)
		if err == nil && len(found) == 0 {
			err = errors.New("there is no example below it")
		}
		if err != nil {
			return &diag.Error{Code: diag.Usage, What: "there is nothing to test in " + path, Err: err,
				Fix: "name a directory with items.jsonl, or a file *" + mappingtest.Suffix}
		}
		for _, one := range found {
			if err := ctx.Err(); err != nil {
				return terminal.Ended(ctx)
			}
			results = append(results, p.testExample(ctx, one, update))
		}
	}
	if err := p.showResults(results); err != nil {
		return err
	}
	return resultOf(results)
}

// testExample runs one example.
func (p *program) testExample(ctx context.Context, path string, update bool) exampleResult {
	r := exampleResult{Path: filepath.ToSlash(path), Result: exampleOK}
	fail := func(err error) exampleResult {
		var known *diag.Error
		var list diag.List
		if !errors.As(err, &known) && !errors.As(err, &list) {
			fix := "see `replicator test --help` for what an example has"
			var format *itemfile.FormatError
			if errors.As(err, &format) {
				fix = format.Fix
			}
			err = &diag.Error{Code: diag.Usage, What: "the example " + r.Path + " cannot be used", Err: err, Fix: fix}
		}
		text := err.Error()
		r.Result, r.Error, r.err = exampleRefused, &text, err
		return r
	}
	e, err := mappingtest.Read(path)
	if err != nil {
		return fail(err)
	}
	cfg, err := p.configOf(e)
	if err != nil {
		return fail(err)
	}
	table, ok := e.TableOf(cfg)
	if !ok {
		return fail(fmt.Errorf("table %q has no entry in the configuration; name it in table.json, or in a line table: NAME", e.Table))
	}
	got, err := e.Run(ctx, &table)
	if err != nil {
		return fail(err)
	}
	changes := string(diff.Diff("expected", e.Want, "became", []byte(got)))
	if changes == "" {
		return r
	}
	r.Result, r.Diff = exampleDiffers, &changes
	if update {
		r.Result = exampleUpdated
		if err := e.Update(got); err != nil {
			return fail(err)
		}
	}
	return r
}

// configOf is the configuration of an example: its own, the one it names, or the program's.
func (p *program) configOf(e *mappingtest.Example) (*config.Config, error) {
	switch {
	case e.Config != nil:
		return config.Parse(filepath.Join(e.Path, mappingtest.ConfigPart), e.Config, p.Env)
	case e.ConfigFile != "":
		return config.Load(e.ConfigFile, p.Env)
	}
	return p.load()
}

// showResults tells what became of the examples. Those that cannot be used are explained on stderr.
func (p *program) showResults(results []exampleResult) error {
	if p.AsJSON() {
		return p.WriteJSON(struct {
			Schema   string          `json:"schema"`
			Examples []exampleResult `json:"examples"`
		}{"replicator.test/v1", results})
	}
	counts := map[string]int{}
	for i := range results {
		counts[results[i].Result]++
		if err := results[i].write(p.Stdout); err != nil {
			return err
		}
		if results[i].err != nil {
			if err := p.tell(results[i].err); err != nil {
				return err
			}
		}
	}
	summary := terminal.Plural(len(results), "example")
	for _, kind := range []string{exampleUpdated, exampleDiffers, exampleRefused} {
		if counts[kind] > 0 {
			summary += fmt.Sprintf(", %d %s", counts[kind], kind)
		}
	}
	_, err := fmt.Fprintln(p.Stdout, summary)
	return err
}

// write tells one result in a line, and how it differs below.
func (r *exampleResult) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-8s %s\n", r.Result, r.Path); err != nil || r.Diff == nil {
		return err
	}
	_, lines, _ := strings.Cut(*r.Diff, "--- ")
	for line := range strings.Lines("--- " + lines) {
		if _, err := fmt.Fprintf(w, "  %s", line); err != nil {
			return err
		}
	}
	return nil
}

// resultOf is the error of a whole run: what cannot be used goes before what differs.
func resultOf(results []exampleResult) error {
	differs := 0
	for _, r := range results {
		if r.err != nil {
			return &reported{r.err}
		}
		if r.Result == exampleDiffers {
			differs++
		}
	}
	if differs == 0 {
		return nil
	}
	return &diag.Error{Code: diag.ExamplesDiffer, What: fmt.Sprintf("%s of the mapping: other cells than expected", terminal.Plural(differs, "example"))}
}
