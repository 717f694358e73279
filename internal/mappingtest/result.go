package mappingtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Result is the result of one example.
type Result struct {
	Path string `json:"path"`
	// Result is ok, differs, updated or refused. It is refused if the example or its configuration
	// cannot be used.
	Result string  `json:"result"`
	Diff   *string `json:"diff"`  // expected lines (-) and actual lines (+); null if they are the same
	Error  *string `json:"error"` // why the example is refused; null if it is not refused

	err error
}

// The results of an example.
const (
	exampleOK      = "ok"
	exampleDiffers = "differs"
	exampleUpdated = "updated"
	exampleRefused = "refused"
)

// Results holds the results of all examples.
type Results []Result

// Runner runs the examples that paths name.
type Runner struct {
	Env    config.Lookup
	Config func() (*config.Config, error) // configuration of examples without their own
	Update bool                           // store the actual results as the expected results
}

// Run runs the examples in files and directories, by default in the current directory, until ctx
// ends.
func (r *Runner) Run(ctx context.Context, paths []string) (Results, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	results := Results{}
	for _, path := range paths {
		found, err := Find(path)
		if err == nil && len(found) == 0 {
			err = errors.New("no example found below it")
		}
		if err != nil {
			return nil, &diag.Error{Code: diag.Usage, What: "no example found in " + path, Err: err,
				Fix: "name a directory with items.jsonl, or a file *" + Suffix}
		}
		for _, one := range found {
			if ctx.Err() != nil {
				return nil, terminal.Ended(ctx)
			}
			results = append(results, r.run(ctx, one))
		}
	}
	return results, nil
}

// run runs one example.
func (r *Runner) run(ctx context.Context, path string) Result {
	result := Result{Path: filepath.ToSlash(path), Result: exampleOK}
	e, err := Read(path)
	if err != nil {
		return result.refused(err)
	}
	cfg, err := r.configOf(e)
	if err != nil {
		return result.refused(err)
	}
	table, ok := e.TableOf(cfg)
	if !ok {
		return result.refused(fmt.Errorf("table %q has no entry in the configuration; name it in table.json, or in a line table: NAME", e.Table))
	}
	got, err := e.Run(ctx, &table)
	if err != nil {
		return result.refused(err)
	}
	changes := string(diff.Diff("expected", e.Want, "became", []byte(got)))
	if changes == "" {
		return result
	}
	result.Result, result.Diff = exampleDiffers, &changes
	if r.Update {
		result.Result = exampleUpdated
		if err := e.Update(got); err != nil {
			return result.refused(err)
		}
	}
	return result
}

// refused returns the result for an example that cannot be used.
func (r Result) refused(err error) Result {
	var known *diag.Error
	var list diag.List
	if !errors.As(err, &known) && !errors.As(err, &list) {
		fix := "see `replicator test --help` for the parts of an example"
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

// configOf returns the configuration of an example: its own, the configuration that it names, or
// the runner's.
func (r *Runner) configOf(e *Example) (*config.Config, error) {
	switch {
	case e.Config != nil:
		return config.Parse(filepath.Join(e.Path, ConfigPart), e.Config, r.Env)
	case e.ConfigFile != "":
		return config.Load(e.ConfigFile, r.Env)
	}
	return r.Config()
}

// Render writes the results. In text mode, it calls explain for each example that cannot be used.
func (r Results) Render(c *terminal.Console, explain func(error) error) error {
	if c.AsJSON() {
		return c.WriteJSON(struct {
			Schema   string  `json:"schema"`
			Examples Results `json:"examples"`
		}{"replicator.test/v1", r})
	}
	counts := map[string]int{}
	for i := range r {
		counts[r[i].Result]++
		if err := r[i].write(c.Stdout); err != nil {
			return err
		}
		if r[i].err != nil {
			if err := explain(r[i].err); err != nil {
				return err
			}
		}
	}
	summary := terminal.Plural(len(r), "example")
	for _, kind := range []string{exampleUpdated, exampleDiffers, exampleRefused} {
		if counts[kind] > 0 {
			summary += fmt.Sprintf(", %d %s", counts[kind], kind)
		}
	}
	_, err := fmt.Fprintln(c.Stdout, summary)
	return err
}

// write writes one result as a line, with the differences below it.
func (r *Result) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-8s %s\n", r.Result, diag.Printable(r.Path)); err != nil || r.Diff == nil {
		return err
	}
	_, lines, _ := strings.Cut(*r.Diff, "--- ")
	for line := range strings.Lines("--- " + lines) {
		if _, err := fmt.Fprintf(w, "  %s", diag.PrintableLines(line)); err != nil {
			return err
		}
	}
	return nil
}

// Refused returns the error of the first example that cannot be used; nil if all can be used.
func (r Results) Refused() error {
	for _, one := range r {
		if one.err != nil {
			return one.err
		}
	}
	return nil
}

// Verdict returns an error if the results of examples differ from the expected results.
func (r Results) Verdict() error {
	differs := 0
	for _, one := range r {
		if one.Result == exampleDiffers {
			differs++
		}
	}
	if differs == 0 {
		return nil
	}
	return &diag.Error{Code: diag.ExamplesDiffer, What: fmt.Sprintf("%s of the mapping: cells differ from those expected", terminal.Plural(differs, "example"))}
}
