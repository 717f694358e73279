package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// config returns the configuration of the table for commands.
func (m *Migration) config() *config.Config {
	entry := m.Entry
	if entry.From == "" {
		entry = config.Table{From: m.Mapping.Source, To: m.Mapping.Table}
	}
	return &config.Config{Name: "default", Tables: []config.Table{entry}, State: config.State{Table: model.StateTable, Lease: m.Lease}}
}

// entryOf returns a table of a configuration.
func entryOf(text string) config.Table {
	c, err := config.Parse("plain", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: ["+text+"]\n"), noEnvironment)
	if err != nil {
		panic(err)
	}
	return c.Tables[0]
}

// anyParked reports whether anything is parked, as a worker's survey of the ledger does.
func (m *Migration) anyParked(ctx context.Context) (bool, error) {
	l, err := status.Read(ctx, m.config(), model.Target{Bigtable: m.Target}, "")
	return err == nil && l.Judge(noEnvironment, "", task.Now(ctx)).AnyParked(), err
}

func noEnvironment(string) (string, bool) { return "", false }

// status returns the command's current view of the table.
func (m *Migration) status(ctx context.Context) (status.Table, error) {
	l, err := status.Read(ctx, m.config(), model.Target{Bigtable: m.Target}, "")
	if err != nil {
		return status.Table{}, err
	}
	l.LookAtTargets(ctx, func(table string) checkpoint.Store {
		return model.Store{Bigtable: m.Target, Table: table, Family: sink.LiveFamily}
	}, task.Now(ctx))
	d := l.Judge(noEnvironment, "", task.Now(ctx))
	l.TellMappings(d)
	return d.Tables[0], nil
}

// checkStatus: no table is reported as in sync after a loss, with missing changes that the ledger
// calls applied, or while a shard is not read (I5). It needs two readings long apart that find a
// problem, in one era, between which a coordinator has checked the target twice. A coordinator
// cannot do that while a service is unavailable.
func (s *simulation) checkStatus(ctx context.Context) {
	// The service does this even without calls.
	s.Source.Stream().Trim(s.World.Now().Add(-cdc.Retention))
	doubt := s.doubt()
	said, err := s.status(ctx)
	if err != nil {
		s.World.Tracef("status fails: %v", err)
		return
	}
	now := s.World.Elapsed()
	if left := s.unread(); said.State == standing.InSync && left != "" && !s.bad() {
		s.fail("I5", "status says %s: %s", said.State, left)
	}
	switch {
	case doubt == "" || said.State != standing.InSync:
		s.doubted = -1
	case s.doubted != s.rec.era:
		s.doubted, s.doubtedAt, s.doubtedBeat = s.rec.era, now, s.State().WitnessBeat
	case now-s.doubtedAt > 2*(s.Lease+s.plan.list) && s.State().WitnessBeat > s.doubtedBeat+1 && !s.bad():
		s.fail("I5", "status says %s: %s", said.State, doubt)
	}
}

// unread returns a readable shard that no worker has read for three leases, or "". A worker's clock
// may be wrong by a minute without a warning, and a row is written once in a third of a lease.
func (s *simulation) unread() string {
	state := s.State()
	rows := map[string]checkpoint.Shard{}
	for _, row := range s.Shards() {
		rows[row.Label+"/"+row.ID] = row
	}
	bound := s.readSince()
	for _, row := range inOrder(rows) {
		parent, known := rows[row.Label+"/"+row.Parent]
		sh := s.Source.Shard(row.Label, row.ID)
		if sh == nil || row.Label != state.Label || row.Finished() || row.Ended() || known && !parent.Ended() {
			continue
		}
		if at := later(sh.ReadAt, parent.EndTime()); !at.IsZero() && at.Before(bound) {
			return "no worker has read shard " + row.ID + " since " + at.Format(time.TimeOnly)
		}
	}
	return ""
}

// readSince returns since when each shard of a table in sync must have been read.
func (s *simulation) readSince() time.Time {
	return s.World.Now().Add(-standing.Fresh(s.Lease) - checkpoint.ClockTolerance - s.Lease)
}

// shownSince returns since when a stream may not have shown its changes to a worker that reads it,
// because pages without records delay them.
func (s *simulation) shownSince() time.Time {
	for _, sh := range slices.Concat(shardsOf(s.Source.Streams)...) {
		if sh.EmptyAt.After(s.readSince()) {
			return time.Time{}
		}
	}
	return s.readSince()
}

// doubt returns why the table is not in sync, or "".
func (s *simulation) doubt() string {
	state := s.State()
	if state.NeedsLoad {
		return "a gap is declared: " + state.Reason
	}
	if lost := s.trimmed(state); lost != "" {
		return lost
	}
	claimed, bound := s.rec.claimed(state), s.shownSince()
	return strings.Join(s.rec.unequalOf(s.since(state), func(c change) bool { return claimed(c) || c.At.Before(bound) }), "\n")
}

// claimed returns a function that reports whether the ledger calls a change applied. In mode topic
// a checkpoint only says that it is published.
func (t *recorder) claimed(state checkpoint.TableState) func(c change) bool {
	return func(c change) bool {
		if c.Shard == nil { // only the load brings it
			at := state.Load.ImagesAt()
			return c.At.Before(at.Add(-t.exports.fuzzOf(at.Unix())))
		}
		if state.Apply == checkpoint.Topic {
			return false
		}
		seen := t.shards[c.Shard.Label+"/"+c.Shard.ID]
		return seen != nil && seen.Position.Compare(c.Sequence) >= 0
	}
}
