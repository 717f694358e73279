// Package desk opens a migration for a command. Its table `commands` lists the checks that each
// command requires.
//
// It also provides the clock of the ledger: a command gets the current time from Migration.Now. All
// waits use internal/task, so tests can run in virtual time.
package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Request is an operator's request.
type Request struct {
	Command string // a key of commands
	Table   string // source table; "" for all
	Allowed environment.Allowed
	With    string // flags to append to commands in messages
	Version string // version of the program
	// As, if not "", replaces the prefix of the id under which the command writes to the ledger.
	As string
}

// Migration is a migration that was opened for one command.
type Migration struct {
	// Ledger is nil if the migration has not started and the command does not require it.
	Ledger *checkpoint.Ledger
	// Tables is the requested table, or all tables. For patterns, it includes the tables that the
	// ledger knows. Once the source was read, each table has a description and a mapping. A table that
	// the application has left has none, and with Needs.AnyRegion a table of a pattern that is missing.
	Tables []preflight.Table
	// To and From are the target and the source. From is nil before Connect or Reach.
	To   Target
	From Source
	// Target and Source are the same databases with their clients. Target and Source are nil if a
	// test or demo has replaced the configured databases.
	Target *preflight.Target
	Source *preflight.Source

	console *terminal.Console
	ends    Ends
	cfg     *config.Config
	request Request
	needs   Needs
	asked   bool  // whether the source was read for every table
	left    error // result of Left

	cutovers checkpoint.Cutovers
}

// Open opens a migration for a command. It first checks that the table is configured, that the
// environment redirects only where allowed, and that the target answers. Then it checks that the
// ledger exists, that the target's cluster is the ledger's, and that no cutover forbids the
// command. Last, it checks that rows were written with this mapping, and that the source has the
// tables that the ledger follows. If the target is an emulator, it reports this on stderr. A
// refusal is a *diag.Error.
func (e Ends) Open(ctx context.Context, console *terminal.Console, cfg *config.Config, r Request) (*Migration, error) {
	needs, known := commands[r.Command]
	if !known {
		return nil, fmt.Errorf("desk: no command %q opens a migration", r.Command)
	}
	if err := preflight.KnownTable(cfg, r.Table); err != nil {
		return nil, err
	}
	m := &Migration{ends: e, console: console, cfg: cfg, request: r, needs: needs}
	if needs.Write || needs.Source {
		if err := environment.Check(m.console.Env, r.Allowed).Err(); err != nil {
			return nil, err
		}
	}
	var err error
	if m.To, err = e.target(ctx, cfg); err != nil {
		return nil, err
	}
	m.Target, _ = m.To.(*preflight.Target)
	if name, emulated := preflight.TargetEnd(cfg, m.console.Env); emulated && !needs.Names {
		_, _ = fmt.Fprintln(m.console.Stderr, name)
	}
	if err = m.read(ctx); err == nil && needs.Source {
		err = m.Connect(ctx)
	}
	if err != nil {
		_ = m.Close() // the caller must see the refusal, and not the error of Close
		return nil, err
	}
	return m, nil
}

// Now returns the current time, by which ages in this migration are judged. It is the time of the
// ledger, or of this process if the migration has not started.
func (m *Migration) Now(ctx context.Context) time.Time {
	if m.Ledger == nil {
		return task.Now(ctx).UTC()
	}
	return m.Ledger.Now(ctx)
}

// Close closes the connections.
func (m *Migration) Close() error { return m.To.Close() }

// Refresh opens the ledger again, with the same checks. The migration may have begun since Open,
// and patterns may match other tables. Refresh drops the descriptions that were read from the
// source.
func (m *Migration) Refresh(ctx context.Context) error {
	m.asked = false
	return m.read(ctx)
}

// read opens the ledger, applies its refusals, and reads its tables.
func (m *Migration) read(ctx context.Context) error {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	what := "cannot read the ledger in table " + m.cfg.State.Table
	ledger, err := preflight.OpenLedger(ctx, m.To.Ledger(m.cfg.State.Table), m.cfg, cmp.Or(m.request.As, m.needs.Role), m.request.Version)
	if err != nil {
		return preflight.ReadingFailed(ctx, what, err)
	}
	if ledger != nil && m.Ledger != nil {
		ledger.Heard(ctx, m.Ledger.ServiceTime(ctx))
	}
	m.Ledger = ledger
	if ledger == nil && m.needs.Begun != "" {
		return m.NotStarted(m.request.Table)
	}
	if ledger != nil && m.needs.Cluster {
		if err := preflight.SameCluster(ctx, ledger, m.To.Cluster); err != nil {
			return preflight.ReadingFailed(ctx, m.refused(m.request.Table), err)
		}
	}
	tables, err := preflight.LedgerTables(ctx, m.cfg, ledger, m.request.Table)
	if err != nil {
		return preflight.ReadingFailed(ctx, what, err)
	}
	if ledger != nil {
		if m.cutovers, err = ledger.Cutovers(ctx); err == nil {
			tables, err = m.permitted(tables)
		}
		if err != nil {
			return preflight.ReadingFailed(ctx, m.refused(m.request.Table), err)
		}
	}
	m.Tables = nil
	for _, t := range tables {
		m.Tables = append(m.Tables, preflight.Table{Config: t})
	}
	return m.sameMapping(ctx)
}

// permitted refuses the command if the cutover of a table is too far advanced for the command. A command
// for all tables leaves out those that the application has left. It is refused if none remains.
func (m *Migration) permitted(tables []config.Table) (stay []config.Table, err error) {
	m.left = nil
	for _, t := range tables {
		if left := m.leftTable(t); left != nil {
			m.left = left
			continue
		}
		stay = append(stay, t)
	}
	if len(stay) > 0 {
		m.left = nil
	}
	if len(tables) == 0 { // no table of a pattern is known
		c := m.cutovers.OfGroup("", nil, nil)
		m.left = c.Left()
	}
	switch {
	case m.needs.Cutover == Whenever:
		return tables, nil
	case m.left != nil:
		return nil, m.left
	}
	for _, t := range stay {
		c := m.cutovers.Of(t.From, t.Pattern())
		if err := m.early(&c); err != nil {
			return nil, err
		}
	}
	return stay, nil
}

// Left returns nil if the application still uses the source of a table. Otherwise it returns the error of
// checkpoint.Cutover.Left, with the time of the last switch. After the switch, commands give no advice
// about the tables.
func (m *Migration) Left() error { return m.left }

// leftTable returns nil if the application still uses a source table. Otherwise it returns the error of
// checkpoint.Cutover.Left.
func (m *Migration) leftTable(t config.Table) error {
	c := m.cutovers.Of(t.From, t.Pattern())
	return c.Left()
}

// Cutovers returns the records of the cutovers of all groups, as Open read them.
func (m *Migration) Cutovers() checkpoint.Cutovers { return m.cutovers }

// sameMapping refuses a table if its rows were written with another mapping than the
// configuration's, as the command run does. A table that no worker has registered has no rows.
func (m *Migration) sameMapping(ctx context.Context) error {
	if !m.needs.Mapping || m.Ledger == nil {
		return nil
	}
	for _, t := range m.Tables {
		state, found, err := m.Ledger.Table(ctx, t.Config.From)
		if err == nil && found && state.Generation > 0 && state.MappingHash != m.cfg.Hash(t.Config) {
			err = checkpoint.ErrMappingChanged
		}
		if err != nil {
			return preflight.ReadingFailed(ctx, m.refused(t.Config.From), err)
		}
	}
	return nil
}

// Connect reads the tables' keys, which are part of their mappings, and the time from the source.
// It refuses a table that is in another region or account than the table that the ledger follows.
// Open calls Connect for commands that require it.
func (m *Migration) Connect(ctx context.Context) error {
	if m.asked {
		return nil
	}
	if err := m.Reach(ctx); err != nil {
		return err
	}
	for i := range m.Tables {
		if m.leftTable(m.Tables[i].Config) != nil {
			continue // the source table may be deleted
		}
		err := m.describe(ctx, &m.Tables[i])
		if m.needs.AnyRegion && m.Tables[i].Config.Pattern() != "" && engine.Gone(backfill.Description{}, err) {
			continue // the table was dropped, or has no replica in this region; others must not wait for it
		}
		if err != nil {
			return err
		}
	}
	m.asked = true
	return nil
}

// Reach makes the clients of the source, but sends no request. Commands that only read may use an
// emulator.
func (m *Migration) Reach(ctx context.Context) error {
	if m.From != nil {
		return nil
	}
	if !m.needs.Write && !m.needs.Source {
		if err := environment.Check(m.console.Env, environment.Anything).Err(); err != nil {
			return err
		}
	}
	source, err := m.ends.source(ctx, m.cfg)
	if err != nil {
		return err
	}
	m.From = source
	m.Source, _ = source.(*preflight.Source)
	if m.needs.Names {
		region := ""
		if m.Source != nil {
			region = m.Source.Region
		}
		_, _ = fmt.Fprintln(m.console.Stderr, preflight.BothEnds(m.cfg, region, m.console.Env))
	}
	return nil
}

// Describe reads one of the tables from the source, as Connect does for all.
func (m *Migration) Describe(ctx context.Context, table string) (backfill.Description, error) {
	i := slices.IndexFunc(m.Tables, func(t preflight.Table) bool { return t.Config.From == table })
	if i < 0 {
		return backfill.Description{}, m.NotStarted(table)
	}
	err := m.describe(ctx, &m.Tables[i])
	return m.Tables[i].Description, err
}

// isFollowed refuses a table that is not the table that the ledger follows.
func (m *Migration) isFollowed(d backfill.Description, s checkpoint.TableState) error {
	switch {
	case m.needs.AnyRegion:
		return nil
	case m.needs.AnyStream:
		return engine.CheckSource(d, s.StreamARN)
	}
	return engine.CheckFollowed(d, s)
}

func (m *Migration) describe(ctx context.Context, t *preflight.Table) error {
	if err := m.Reach(ctx); err != nil {
		return err
	}
	found, err := preflight.DescribeTable(ctx, m.From, t.Config)
	if err != nil {
		return err
	}
	*t = found
	if m.Ledger == nil {
		return nil
	}
	m.Ledger.Heard(ctx, found.Description.At)
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	state, _, err := m.Ledger.Table(ctx, t.Config.From)
	if err == nil {
		err = m.isFollowed(found.Description, state)
	}
	if err != nil {
		return preflight.ReadingFailed(ctx, m.refused(t.Config.From), err)
	}
	return nil
}
