package kit

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// Begin is the time at which a migration of the kit begins.
var Begin = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// generation is the generation of every table. Each was loaded and compared in it.
const generation = 5

// Migration is a migration whose tables are loaded, compared and in sync.
type Migration struct {
	*testing.T
	World  *virtual.World
	Ctx    context.Context // of the script
	Config *config.Config
	Store  *checkpointtest.Memory
	Ledger *checkpoint.Ledger // the ledger of the tested process
	Source *Source
	Target *Target

	worker *checkpoint.Ledger
	away   bool
}

// Parse returns a configuration of the tables Orders and Parts, with more lines appended.
func Parse(t *testing.T, more string) *config.Config {
	t.Helper()
	text := "version: 1\nname: p\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, to: orders }, { from: Parts, to: parts }]\n" + more
	cfg, err := config.Parse("replicator.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Play runs a script with a migration of the configuration's tables, half a minute after its worker
// began.
func Play(t *testing.T, cfg *config.Config, script func(m *Migration)) {
	t.Helper()
	m := &Migration{T: t, Config: cfg, World: virtual.NewWorld(1, Begin, false), Store: &checkpointtest.Memory{}}
	m.Source, m.Target = newSource(m), newTarget(m)
	err := m.World.Run(100*24*time.Hour, func(ctx context.Context) {
		m.Ctx = ctx
		m.Ledger, m.worker = m.Open("tested"), m.Open("worker")
		for _, table := range cfg.Tables {
			m.begin(table)
		}
		m.Sleep(30 * time.Second)
		script(m)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// begin loads a table and lets the worker follow its only shard.
func (m *Migration) begin(table config.Table) {
	m.Helper()
	m.Change(table.From, func(s *checkpoint.TableState) {
		s.StreamARN, s.Label, s.MappingHash = m.Source.arn(table.From), "L", m.Config.Hash(table)
		s.Generation, s.Adopted, s.Base, s.Listed = generation, generation, generation, generation
		s.Load = checkpoint.Load{Generation: generation, DoneAt: Begin}
		clean := checkpoint.VerifyResult{Number: 1, Way: "quiet", VerifyCounts: checkpoint.VerifyCounts{Items: 1000}, BegunAt: Begin.Add(-33 * time.Minute), EndedAt: Begin.Add(-30 * time.Minute), Generation: generation}
		s.Verify.Number, s.Verify.Result, s.Verify.Full = 1, clean, clean
	})
	shard := checkpoint.Shard{Source: table.From, StreamARN: m.Source.arn(table.From), Label: "L", ID: Shard, State: checkpoint.Waiting, Hop: 500_000, Generation: generation}
	m.Must(m.Ledger.CreateShard(m.Ctx, shard))
	for _, target := range table.Targets() {
		_, err := m.Ledger.UpdateTarget(m.Ctx, target.Table, func(t *checkpoint.Target) error { t.Fence = 7; return nil })
		m.Must(err)
		m.Target.create(target.Table, sink.FenceFamily(m.Ledger.ID(), 7))
	}
	m.World.Go("follow "+table.From, func(ctx context.Context) { m.follow(ctx, table.From) })
}

// Must ends the test if there is an error.
func (m *Migration) Must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// Sleep lets time pass.
func (m *Migration) Sleep(d time.Duration) { _ = task.Sleep(m.Ctx, d) }

// Now returns the true time of the world.
func (m *Migration) Now() time.Time { return m.World.Now() }

// Open opens the ledger for another process.
func (m *Migration) Open(worker string) *checkpoint.Ledger {
	m.Helper()
	l, err := checkpoint.Open(m.Ctx, m.Store, m.Config.Name, checkpoint.Options{Worker: worker, ID: "ledger", Lease: m.Config.State.Lease})
	m.Must(err)
	l.Heard(m.Ctx, m.Now())
	return l
}

// Change changes the record of a table.
func (m *Migration) Change(source string, change func(s *checkpoint.TableState)) {
	m.Helper()
	_, err := m.Ledger.UpdateTable(m.Ctx, source, func(s *checkpoint.TableState) error { change(s); return nil })
	m.Must(err)
}

// Table reads the record of a table.
func (m *Migration) Table(source string) checkpoint.TableState {
	m.Helper()
	s, _, err := m.Ledger.Table(m.Ctx, source)
	m.Must(err)
	return s
}

// Cutover reads the record of the cutover.
func (m *Migration) Cutover() checkpoint.Cutover {
	m.Helper()
	c, err := m.Ledger.Cutover(m.Ctx, "")
	m.Must(err)
	return c
}

// Update changes the record of the cutover.
func (m *Migration) Update(change func(c *checkpoint.Cutover) error) error {
	_, err := m.Ledger.UpdateCutover(m.Ctx, "", change)
	return err
}

// StopWorker ends the worker, so that no process follows the streams.
func (m *Migration) StopWorker() { m.away = true }

// follow reads the shard of a table as a worker does, and commits the position.
func (m *Migration) follow(ctx context.Context, source string) {
	set, rechecked := canary.New(m.worker.ID(), source), checkpoint.Rechecked{}
	for ; ctx.Err() == nil && !m.away; _ = task.Sleep(ctx, time.Second) {
		shards, err := m.worker.Shards(ctx, source)
		m.Must(err)
		lease, err := m.worker.Take(ctx, shards[0], nil)
		if err != nil {
			continue // halted
		}
		for ; lease.Context().Err() == nil && !m.away; _ = task.Sleep(ctx, 2*time.Second) {
			state := m.Table(source)
			if state.Halted() {
				_ = lease.Release(ctx)
				break
			}
			now, changes, canaries := m.Now(), m.Source.Changes[source], checkpoint.Sighted{}
			progress := checkpoint.Progress{FirstRead: Begin, AppliedTo: now, ReadAt: now, CaughtUp: true, Applied: uint64(len(changes))}
			for _, c := range changes {
				progress.Position.After = c.Sequence
				round, i := canary.Which(c)
				if hidden := round%2 == 0 && (m.Source.Blind || m.Source.BlindIn == source); round > 0 && !hidden {
					canaries.See(round, i)
				} else if !set.Has(c.Keys) {
					canaries.WrittenAt, canaries.Written = c.Time, "hash"
				}
			}
			progress.Cutover = canaries
			if n := state.Recheck.Number(now); n != rechecked.Verify {
				rechecked = checkpoint.Rechecked{Verify: n, Since: now}
			}
			rechecked.To, rechecked.Through = progress.Position.After, progress.Position.After
			progress.Rechecked = rechecked
			if lease.Commit(ctx, progress) != nil {
				break
			}
		}
	}
}

// Position returns the sequence number of the n-th change.
func Position(n int) cdc.SequenceNumber { return cdc.SequenceOf(uint64(n)) }
