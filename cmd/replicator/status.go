package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// statusFlags are what status can be told.
type statusFlags struct {
	table    string
	shards   bool
	watch    bool
	interval time.Duration
	schema   bool
}

func newStatus(p *program) *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:     "status [flags]",
		Short:   "Phase, lag, headroom, progress and next steps",
		GroupID: groupOperate,
		Long: `Show the state of the migration from the ledger: no worker needs to run, and nothing is changed. If a table is in sync and no worker
keeps it, its target is checked for loss or a restore.

Lag is the age of the last applied change while there are more, and otherwise the time since the stream was last found empty,
which is marked with ~. Headroom is the time left of the 24 hours that a stream keeps; < marks one that may be less, and > the lag of a
pattern's tables that may be more, because the lag of one of them is unknown. Changes a second, and the time a copy still needs, are
the workers' last figures. Unknown figures are -, in JSON null; figures of a silent worker are called old.

--shards draws the shards below their parents, each with its owner, its position, and why it waits: ↳ is an only child, which follows
a shard that was rolled; ├─ and └─ are the children of a split.

--watch repeats until it is interrupted: a terminal is redrawn; otherwise a block or, with -o json, a line with one document follows
the last.

The exit status is 0 if the ledger could be read. --schema prints the JSON Schema of the document.`,
		Example: `  replicator status
  replicator status --table Orders --shards
  replicator status --watch --interval 5s
  replicator status -o json | jq -r '.next_steps[].command'
  replicator status --schema > status.schema.json`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.schema {
				_, err := p.stdout.Write(statusJSONSchema)
				return err
			}
			if !f.watch && c.Flags().Changed("interval") {
				return usage("--interval is for --watch", "add --watch, or leave --interval out")
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.status(ctx, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.table, "table", "", "only this source `TABLE`")
	flags.BoolVar(&f.shards, "shards", false, "also show every shard: lineage, owner, position, lag and why it waits; and every worker")
	flags.BoolVar(&f.watch, "watch", false, "repeat until interrupted")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "`DURATION` between two readings of --watch")
	flags.BoolVar(&f.schema, "schema", false, "print the JSON Schema of the document of -o json, and nothing else")
	allowEmulatorOfReader(c)
	return c
}

// statusJSONSchema describes the document of -o json and of /api/v1/status. A test validates every golden document with it.
//
//go:embed status.schema.json
var statusJSONSchema []byte

// allowFlags adds the flags by which a command that writes accepts endpoints besides those of the clouds.
func allowFlags(c *cobra.Command, allowed *config.Allowed) {
	c.Flags().BoolVar(&allowed.Emulator, "allow-emulator", false, "accept BIGTABLE_EMULATOR_HOST, and an AWS endpoint that is http or none of Amazon's")
	c.Flags().BoolVar(&allowed.Insecure, "allow-insecure-endpoint", false, "accept an AWS endpoint that is http on another host")
}

// allowEmulatorOfReader adds a flag that commands which only read accept, so that a script can pass it to all of them, but do
// not demand: they say EMULATOR where it matters.
func allowEmulatorOfReader(c *cobra.Command) {
	c.Flags().Bool("allow-emulator", false, "accepted as by run; a command that only reads names an emulator, and does not refuse it")
}

func (p *program) status(ctx context.Context, f statusFlags) error {
	if err := checkInterval(f.interval); err != nil {
		return err
	}
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if err := knownTable(cfg, f.table); err != nil {
		return err
	}
	t, err := openTarget(ctx, cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	read := func(ctx context.Context) (*migration, error) {
		l, err := readLedger(ctx, cfg, t, f.table)
		if err != nil {
			return nil, err
		}
		l.lookAtTargets(ctx, t.witnessStore, time.Now())
		m := l.judge(p.env, p.withConfig(), time.Now())
		l.tellMappings(m)
		if !f.shards {
			m.Shards = nil
		}
		return m, nil
	}
	if f.watch {
		screen, err := p.onScreen()
		if err != nil {
			return err
		}
		ticker := time.NewTicker(f.interval)
		defer ticker.Stop()
		return watch(ctx, read, p.views(f.shards, screen), ticker.C)
	}
	m, err := read(ctx)
	if err != nil {
		return err
	}
	if p.asJSON() {
		return p.writeJSON(m)
	}
	return m.write(p.stdout, f.shards)
}

// withConfig are the flags with which a next step finds the configuration that this command was given.
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

// plainInShell are the characters that no shell takes for anything else.
const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%"

// knownTable refuses a --table that the configuration does not name.
func knownTable(cfg *config.Config, table string) error {
	if table == "" {
		return nil
	}
	var names, patterns []string
	if _, ok := cfg.Table(table); ok {
		return nil
	}
	for _, t := range cfg.Tables {
		if t.IsPattern() {
			patterns = append(patterns, t.From)
			continue
		}
		names = append(names, t.From)
	}
	fix := "use one of " + strings.Join(names, ", ")
	if len(patterns) > 0 {
		fix = "use the name of a table that matches " + strings.Join(patterns, " or ")
		if len(names) > 0 {
			fix += ", or one of " + strings.Join(names, ", ")
		}
	}
	if near := diag.Suggest(table, names); near != "" {
		fix = "did you mean " + near + "?"
	}
	return usage(fmt.Sprintf("the configuration has no source table %q", table), fix)
}

// ledgerInput is the ledger as it was read: what a status is judged from, now or later.
type ledgerInput struct {
	cfg    *config.Config
	tables []config.Table
	inputs []tableInput
	begun  bool // there is a ledger
	ledger *checkpoint.Ledger
}

// judge makes the status of what was read. With is added to the commands of next steps.
func (l *ledgerInput) judge(env config.Lookup, with string, now time.Time) *migration {
	m := newMigration(l.cfg, env, now)
	m.with, m.begun = with, l.begun
	for i, c := range l.tables {
		m.add(c, l.inputs[i])
	}
	m.conclude()
	return m
}

// tellMappings adds a trouble to each table whose mapping in this configuration is not the one that the ledger holds.
func (l *ledgerInput) tellMappings(m *migration) {
	for i := range m.Tables {
		if l.mappingDiffers(i) {
			m.Tables[i].troubled(checkpoint.Trouble{Step: "run this configuration", Since: m.At, Cause: differentMapping + " (" + diag.MappingChanged +
				"); run --accept-mapping-change takes it up, and then the table needs a load and a sweep"}, 0)
		}
	}
}

const differentMapping = "its mapping is not the one that the ledger was started with"

// mappingDiffers tells whether the ledger knows the table under another mapping.
func (l *ledgerInput) mappingDiffers(i int) bool {
	in := l.inputs[i]
	return in.found && in.state.Generation > 0 && in.state.MappingHash != l.cfg.Hash(l.tables[i])
}

// gather reads the ledger and makes the status of it.
func gather(ctx context.Context, cfg *config.Config, t *target, env config.Lookup, table string, now time.Time) (*migration, error) {
	l, err := readLedger(ctx, cfg, t, table)
	if err != nil {
		return nil, err
	}
	return l.judge(env, "", now), nil
}

// readLedger reads the ledger. Without one the migration has not begun, which is a status too.
func readLedger(ctx context.Context, cfg *config.Config, t *target, table string) (*ledgerInput, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTime, errReadTime)
	defer cancel()
	ledger, err := checkpoint.Open(ctx, ledgerStore(t, cfg), cfg.Name, checkpoint.Options{ReadOnly: true, Lease: cfg.State.Lease})
	began := err == nil
	if err != nil && !errors.Is(err, checkpoint.ErrNoLedger) && status.Code(err) != codes.NotFound {
		return nil, readingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
	}
	if !began {
		ledger = nil
	}
	tables, err := ledgerTables(ctx, cfg, ledger, table)
	if err != nil {
		return nil, readingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
	}
	l := &ledgerInput{cfg: cfg, tables: tables, inputs: make([]tableInput, len(tables))}
	if began {
		parking := sink.NewParking(t.data.Records(cfg.State.Table), cfg.Name)
		if l.inputs, err = readTables(ctx, ledger, parking, tables); err != nil {
			return nil, readingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
		}
	}
	l.begun, l.ledger = began, ledger
	return l, nil
}

// tablesAtOnce is how many tables are read at the same time. One after the other, a thousand would take longer than readTime.
const tablesAtOnce = 32

// readTables reads what the ledger holds of tables, in their order. The first failure ends the others.
func readTables(ctx context.Context, ledger *checkpoint.Ledger, parking *sink.Parking, tables []config.Table) ([]tableInput, error) {
	inputs := make([]tableInput, len(tables))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i := range tables {
		source := tables[i].From
		g.Go("read "+source, func(ctx context.Context) (err error) {
			if inputs[i], err = readTable(ctx, ledger, source); err == nil {
				inputs[i].parked, err = parking.CountOf(ctx, source)
			}
			return err
		})
	}
	return inputs, g.Wait()
}

// ledgerTables are the named one, or all tables of the configuration: of patterns those that the ledger knows. Ledger is nil before
// the migration has begun.
func ledgerTables(ctx context.Context, cfg *config.Config, ledger *checkpoint.Ledger, table string) ([]config.Table, error) {
	if t, ok := cfg.Table(table); ok && table != "" {
		return []config.Table{t}, nil
	}
	var sources []string
	if ledger != nil && cfg.HasPatterns() {
		states, err := ledger.Tables(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			sources = append(sources, s.Source)
		}
	}
	return cfg.Expand(sources), nil
}

// readTime bounds what a command reads of Bigtable: an unreachable endpoint would hold it for ever.
const readTime = 20 * time.Second

var errReadTime = fmt.Errorf("no answer within %s", config.FormatDuration(readTime))

// readingFailed explains an error of reading, saying so if the time was up.
func readingFailed(ctx context.Context, what string, err error) error {
	if errors.Is(context.Cause(ctx), errReadTime) {
		return &diag.Error{Code: diag.TargetUnreachable, What: what, Err: errReadTime}
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return explainLedger(what, err)
}

// readTable reads what the ledger's own rows tell of a table.
func readTable(ctx context.Context, ledger *checkpoint.Ledger, source string) (tableInput, error) {
	var in tableInput
	var err error
	if in.state, in.found, err = ledger.Table(ctx, source); err != nil {
		return in, err
	}
	if in.shards, err = ledger.Shards(ctx, source); err != nil {
		return in, err
	}
	unread := func(s checkpoint.Shard) bool { return !s.Finished() && s.ReadAt.IsZero() }
	if len(checkpoint.Unfollowed(in.state, in.shards, in.listings.At)) > 0 || slices.ContainsFunc(in.shards, unread) {
		if in.listings, err = ledger.Listings(ctx, source, in.state.Label); err != nil {
			return in, err
		}
	}
	seat, err := ledger.Seat(ctx, source)
	if err != nil {
		return in, err
	}
	in.seat = seatOf(seat, in.state.Generation)
	return in, nil
}
