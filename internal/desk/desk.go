// Package desk opens a migration for a command. It makes the same checks for all commands; a table
// lists what each command requires.
//
// It also provides the clock of the ledger. A command gets the present from Migration.Now, and
// waits through internal/task, so it runs in the time of its context.
package desk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Request is what an operator asks for.
type Request struct {
	Command string // as in commands
	Table   string // of the source; "" for all
	Allowed config.Allowed
	With    string // flags of the commands that are named
	Version string // of the program
}

// Migration is a migration that was opened for one command.
type Migration struct {
	// Ledger is nil where the migration is not started, and the command does not demand it.
	Ledger *checkpoint.Ledger
	// Tables are the table that was asked for, or all: of patterns those that the ledger knows. They
	// have a description and a mapping once the source was asked.
	Tables []preflight.Table
	// To and From are the ends; From is nil before the source is connected to.
	To   Target
	From Source
	// Target and Source are the ends with their clients; nil where other ends than those of the
	// configuration were given.
	Target *preflight.Target
	Source *preflight.Source

	console *terminal.Console
	ends    Ends
	cfg     *config.Config
	request Request
	needs   Needs
	asked   bool  // the source, for every table
	left    error // see Left
}

// Open opens a migration for a command, in this order: the table is known, the environment leads
// where it may, the target answers, the ledger is there, the cluster is its own, no cutover forbids
// the command, the mapping is that of the rows, the source has the tables that are followed. A
// target that is an emulator is named on stderr. What is refused is a *diag.Error.
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
		if err := config.CheckEnvironment(m.console.Env, r.Allowed).Err(); err != nil {
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
		_ = m.Close() // what was refused is said
		return nil, err
	}
	return m, nil
}

// Now is the time by which this migration's ages are judged: the ledger's, and that of this process
// where the migration is not started.
func (m *Migration) Now(ctx context.Context) time.Time {
	if m.Ledger == nil {
		return task.Now(ctx).UTC()
	}
	return m.Ledger.Now(ctx)
}

// Close closes the connections.
func (m *Migration) Close() error { return m.To.Close() }

// Refresh opens the ledger again, with the same checks: the migration may have begun since, and the
// tables of patterns may be others. What the source said of them is gone.
func (m *Migration) Refresh(ctx context.Context) error {
	m.asked = false
	return m.read(ctx)
}

// read opens the ledger, refuses what it forbids, and reads which tables it has.
func (m *Migration) read(ctx context.Context) error {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	what := "cannot read the ledger in table " + m.cfg.State.Table
	ledger, err := preflight.OpenLedger(ctx, m.To.Ledger(m.cfg.State.Table), m.cfg, m.needs.Role, m.request.Version)
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
	if ledger != nil {
		if err := m.permitted(ctx); err != nil {
			return preflight.ReadingFailed(ctx, m.refused(m.request.Table), err)
		}
	}
	tables, err := preflight.LedgerTables(ctx, m.cfg, ledger, m.request.Table)
	if err != nil {
		return preflight.ReadingFailed(ctx, what, err)
	}
	m.Tables = nil
	for _, t := range tables {
		m.Tables = append(m.Tables, preflight.Table{Config: t})
	}
	return m.sameMapping(ctx)
}

// permitted refuses another cluster than the ledger's, and a cutover that is too far.
func (m *Migration) permitted(ctx context.Context) error {
	if m.needs.Cluster {
		if err := preflight.SameCluster(ctx, m.Ledger, m.To.Cluster); err != nil {
			return err
		}
	}
	c, err := m.Ledger.Cutover(ctx)
	if err != nil {
		return err
	}
	m.left = c.Left()
	return m.early(&c)
}

// Left is an error that says when the application left the source, as checkpoint.Cutover.Left; nil
// if it has not. What a command shows of the tables after that advises nothing.
func (m *Migration) Left() error { return m.left }

// sameMapping refuses a table whose rows are written under another mapping than the
// configuration's, as run does. A table that no worker has met has no rows.
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

// Connect asks the source for the tables: for their keys, which are part of their mappings, and for
// its time. It refuses a table in another region or account than the one that is followed. Open has
// done so for commands that need it.
func (m *Migration) Connect(ctx context.Context) error {
	if m.asked {
		return nil
	}
	for i := range m.Tables {
		if err := m.describe(ctx, &m.Tables[i]); err != nil {
			return err
		}
	}
	m.asked = true
	return nil
}

// Reach connects to the source, of which nothing is asked yet. Commands that only read may read an
// emulator.
func (m *Migration) Reach(ctx context.Context) error {
	if m.From != nil {
		return nil
	}
	if !m.needs.Write && !m.needs.Source {
		if err := config.CheckEnvironment(m.console.Env, config.Anything).Err(); err != nil {
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

// Describe asks the source for one of the tables, as Connect does for all.
func (m *Migration) Describe(ctx context.Context, table string) (backfill.Description, error) {
	i := slices.IndexFunc(m.Tables, func(t preflight.Table) bool { return t.Config.From == table })
	if i < 0 {
		return backfill.Description{}, m.NotStarted(table)
	}
	err := m.describe(ctx, &m.Tables[i])
	return m.Tables[i].Description, err
}

// isFollowed refuses a table that is not the one which the ledger follows.
func (m *Migration) isFollowed(d backfill.Description, s checkpoint.TableState) error {
	if m.needs.AnyStream {
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
