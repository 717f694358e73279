package main

import (
	"context"
	_ "embed"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

type statusFlags struct {
	table    string
	shards   bool
	watch    bool
	interval time.Duration
	schema   bool
	exitCode bool
	wait     string
}

func newStatus(p *program) *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:     "status [flags]",
		Short:   "Show phase, lag, headroom, progress and next steps",
		GroupID: groupOperate,
		Long: `Show the state of the migration from the ledger. It changes nothing, and no worker needs to run.

While changes wait, lag is the age of the last applied change. Otherwise it is the time since the
stream was last empty, marked with ~. For a pattern, > marks a minimum, because the lag of one
table is unknown.

Headroom is the time left until the stream drops unread changes; < marks a maximum. Rates and
remaining times are the workers' last figures, called old if a worker is silent. Unknown figures are
-, in JSON null.

--shards shows the tree of shards, each with its owner, its position, and why it waits. ↳ is the
only child of its parent. ├─ and └─ are the children of a split.

--watch repeats until interrupted. On a terminal it redraws the screen. Otherwise it
prints the status again each time; with -o json, one document a line.

If a table is in sync but no worker runs, status checks that its target was not lost or restored.
The exit status is 0 if the ledger could be read. With --exit-code it is 3 unless every table is in
sync or done.

--wait ends with 0 once the state is reached, and with 3 if an operator must act first: because of
a pause, a gap, parked items, rows that differ, or a sweep that needs approval. With --timeout it
ends with 4.`,
		Example: `  replicator status
  replicator status --table Orders --shards
  replicator status --watch --interval 5s
  replicator status --wait in_sync --timeout 1h
  replicator status -o json | jq -r '.next_steps[].command'
  replicator status --schema > status.schema.json`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.schema {
				_, err := p.Stdout.Write(status.Schema)
				return err
			}
			if !f.watch && f.wait == "" && c.Flags().Changed("interval") {
				return diag.BadUsage("--interval needs --watch", "add --watch, or remove --interval")
			}
			if err := f.check(); err != nil {
				return err
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.status(ctx, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.table, "table", "", "only this source `TABLE`")
	flags.BoolVar(&f.shards, "shards", false, "also show every shard and every worker")
	flags.BoolVar(&f.watch, "watch", false, "repeat until interrupted")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "`DURATION` between updates of --watch, or checks of --wait")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with status 3 unless in sync or done")
	flags.StringVar(&f.wait, "wait", "", "wait until in `STATE`: in_sync, copied or done")
	flags.BoolVar(&f.schema, "schema", false, "print only the JSON Schema of the -o json output")
	allowEmulatorOfReader(c)
	return c
}

// allowFlags adds the flags with which a command that writes accepts emulators and insecure
// endpoints.
func allowFlags(c *cobra.Command, allowed *environment.Allowed) {
	c.Flags().BoolVar(&allowed.Emulator, "allow-emulator", false, "allow the Bigtable emulator, and AWS endpoints that are plain http or not Amazon's")
	c.Flags().BoolVar(&allowed.Insecure, "allow-insecure-endpoint", false, "allow an AWS endpoint that is plain http on another host")
}

// allowEmulatorOfReader adds --allow-emulator to commands that only read. So a script can pass it
// to all commands. These commands work without it. They print EMULATOR if they read from an
// emulator.
func allowEmulatorOfReader(c *cobra.Command) {
	c.Flags().Bool("allow-emulator", false, "has no effect: commands that only read always accept emulators, and print their addresses")
}

// check rejects flags that exclude each other, and states for which --wait cannot wait.
func (f *statusFlags) check() error {
	if f.watch && (f.exitCode || f.wait != "") {
		return diag.BadUsage("--watch excludes --wait and --exit-code", "remove --watch")
	}
	if f.wait == "" {
		return nil
	}
	var goals []string
	for _, g := range standing.Goals {
		goals = append(goals, string(g))
	}
	return oneOf("--wait", f.wait, goals)
}

func (p *program) status(ctx context.Context, f statusFlags) error {
	if err := checkInterval(f.interval); err != nil {
		return err
	}
	cfg, err := p.load()
	if err != nil {
		return err
	}
	m, err := desk.Ends{}.Open(ctx, &p.Console, cfg, desk.Request{Command: "status", Table: f.table})
	if err != nil {
		return err
	}
	defer m.Close()
	r := &status.Reader{Config: cfg, Migration: m, Env: p.Env, Hints: p.withConfig(), Shards: f.shards}
	if f.watch {
		return r.Watch(ctx, &p.Console, f.interval, p.tell)
	}
	var d *status.Document
	if f.wait != "" {
		d, err = r.Wait(ctx, standing.Goal(f.wait), f.interval)
	} else {
		d, err = r.Read(ctx)
	}
	if d == nil {
		return err
	}
	if shown := p.showStatus(d, f.shards); shown != nil {
		return shown
	}
	if err == nil && f.exitCode {
		err = d.Reached(standing.GoalInSync)
	}
	return err
}

func (p *program) showStatus(d *status.Document, shards bool) error {
	if p.AsJSON() {
		return p.WriteJSON(d)
	}
	return p.Show(p.Stdout, func(w io.Writer) error { return d.Render(w, shards) })
}

// minInterval is the shortest time between two reads of --watch.
const minInterval = 100 * time.Millisecond

// checkInterval rejects a watch that would read without a pause.
func checkInterval(interval time.Duration) error {
	if interval < minInterval {
		return diag.BadUsage("--interval is less than "+minInterval.String(), "every update reads the whole ledger; the default is 2s")
	}
	return nil
}

// withConfig returns the flags that a suggested command needs to use this command's configuration.
func (p *program) withConfig() string {
	if p.configPath == "" {
		return ""
	}
	path := p.configPath
	if strings.ContainsFunc(path, func(r rune) bool { return !strings.ContainsRune(plainInShell, r) }) {
		path = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return " -c " + path
}

// plainInShell are the characters that have no special meaning in any shell.
const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%"
