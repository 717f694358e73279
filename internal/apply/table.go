package apply

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// topicTable is one table of a process that applies a topic.
type topicTable struct {
	*engine.Retrier
	o       *Options
	writer  *sink.Writer
	mapping *transform.Mapping
	hash    string
	// late is the maximum delay between a change and the application's own write to the target. It
	// is 0 if the application does not write the target.
	late    time.Duration
	newOnly bool // old images are not decoded
	formers *engine.Formers

	mu sync.Mutex
	// claim is the last proved claim; nil if there is none, or if it is no longer valid.
	claim *claim
	// shards are the last read rows of the shards, by which messages are judged.
	shards map[place]checkpoint.Shard
}

// place identifies a shard's row among the rows of its table.
type place struct{ label, shard string }

func newTable(o *Options, spec engine.Spec) *topicTable {
	source := spec.Mapping.Source
	return &topicTable{Retrier: &engine.Retrier{Source: source, Events: o.Events}, o: o, writer: o.Writer, mapping: spec.Mapping, hash: spec.MappingHash, late: spec.Late, newOnly: !engine.UsesOldImages(spec, o.ParkedPublished),
		formers: &engine.Formers{Source: source, Ledger: o.Ledger, Mapping: spec.Mapping, Families: o.Families, Restore: o.Restore}}
}

// claim is the proved right to write to a target table, with the source table's record at the time
// of the proof.
type claim struct {
	stamps sink.Stamps
	state  checkpoint.TableState
	former []sink.Former // former mappings with rows that are not swept yet
	at     time.Duration
}

// errNotBegun is reported as long as no relay has begun the table's first generation.
var errNotBegun = errors.New("no relay follows the table yet")

// check verifies that the ledger says two things: the table is applied from a topic, and its
// mapping is this process's mapping.
func (t *topicTable) check(ctx context.Context) error {
	t.Events.Tick()
	if err := t.o.Ledger.CheckMode(ctx, t.Source, checkpoint.Topic, false); err != nil {
		return err
	}
	_, _, err := t.o.Ledger.CheckMapping(ctx, t.Source, engine.MappingOf(t.mapping, t.hash), false)
	return err
}

// proved returns the claim. If the last proof is not recent, it proves the claim again.
func (t *topicTable) proved(ctx context.Context) (*claim, error) {
	t.mu.Lock()
	c := t.claim
	t.mu.Unlock()
	if c != nil && task.Mono(ctx)-c.at < t.o.Timing.Pass {
		return c, nil
	}
	c = &claim{at: task.Mono(ctx)}
	var err error
	c.stamps, err = t.o.Register.Prove(ctx, t.mapping.Tables(), func(ctx context.Context) error {
		if err := t.o.Ledger.Check(ctx); err != nil {
			return err
		}
		var found bool
		var err error
		c.state, found, err = t.o.Ledger.Table(ctx, t.Source)
		switch {
		case err != nil:
			return err
		case !found || c.state.Generation == 0:
			return errNotBegun
		case c.state.MappingHash != t.hash:
			return checkpoint.ErrMappingChanged
		case c.state.Stopped():
			return engine.ErrHalted
		}
		return c.state.Admits(checkpoint.Topic, false)
	})
	if errors.Is(err, checkpoint.ErrHalted) { // a cutover has halted the target
		return nil, engine.ErrHalted
	}
	if err == nil {
		c.former, err = t.formers.Of(ctx, c.state)
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claim = c
	return c, nil
}

func (t *topicTable) forget(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claim == c {
		t.claim = nil
	}
}

// look proves the right to write, and reads the rows of the shards, by which messages are judged.
func (t *topicTable) look(ctx context.Context) (*claim, error) {
	c, err := t.proved(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := t.o.Ledger.Shards(ctx, t.Source)
	if err != nil {
		return nil, err
	}
	shards := make(map[place]checkpoint.Shard, len(rows))
	for _, s := range rows {
		shards[place{s.Label, s.ID}] = s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shards = shards
	return c, nil
}

// judge judges a message by the last read record of the table and of its shards.
func (t *topicTable) judge(ctx context.Context, c *claim, m *message) (verdict, doubt) {
	v, d := admit(&c.state, &m.change, t.o.Ledger.ID(), t.hash)
	if v != write && v != settled || m.change.Generation < c.state.Generation || m.exact != nil {
		return v, d
	}
	t.mu.Lock()
	s, known := t.shards[place{m.change.Label, m.change.Shard}]
	t.mu.Unlock()
	if ok, d := bounded(&s, known, &m.change, t.o.Ledger.Now(ctx)); !ok {
		return later, d
	}
	return v, doubt{}
}

// attempt applies a message once.
func (t *topicTable) attempt(ctx context.Context, m *message) (outcome, error) {
	claim, err := t.proved(ctx)
	if err != nil {
		return undone, err
	}
	v, d := t.judge(ctx, claim, m)
	if d.ofRecord {
		t.forget(claim)
	}
	switch v {
	case drop:
		return dropped, nil
	case later:
		return doubtful, nil
	case settled:
		return applied, nil
	}
	batch := t.batchOf(m)
	rows := len(batch.Rows)
	if err := t.formers.Inherit(ctx, claim.former, claim.state.Generation, batch); err != nil {
		return undone, err
	}
	if err := t.writer.Write(ctx, claim.stamps, batch); err != nil {
		if engine.IsAny(err, sink.ErrRefenced, sink.ErrFenced) {
			t.forget(claim)
		}
		if errors.Is(err, sink.ErrFenced) { // a cutover has halted writes, so the message waits
			return undone, engine.ErrHalted
		}
		if sink.Is(err, sink.Permanent) {
			t.formers.Lighten(ctx, claim.former, batch)
		}
		return undone, &writeError{err, claim.at}
	}
	if m.exact == nil {
		t.tell(m, batch, rows)
	}
	m.batch, m.exact, m.next = nil, m.next, nil
	return applied, nil
}

// writeError is the error of a write, with the time at which the claim was proved.
type writeError struct {
	error
	proved time.Duration
}

func (e *writeError) Unwrap() error { return e.error }

// batchOf returns the batch to write for a message. If the application writes the target too, this
// batch has timestamps, and the second application, m.next, follows later.
func (t *topicTable) batchOf(m *message) *transform.Batch {
	if m.exact != nil {
		return m.exact
	}
	if m.batch == nil {
		c := m.change
		b := transform.Fold(t.mapping, []cdc.Change{c.Change}, transform.Stamp{Generation: c.Generation, Hop: c.Hop, NotBefore: c.CellTime, DualWrites: t.late > 0})
		// The item's previous change may be refused later, and its image may be in the row of
		// another rule.
		sink.OwnAll(t.mapping, &b)
		m.batch = &b
		if t.late > 0 {
			first := b.Timestamped()
			m.batch, m.next = &first, &b
		}
	}
	return m.batch
}

func (t *topicTable) tell(m *message, batch *transform.Batch, rows int) {
	t.Events.Applied(t.Source, engine.Count([]cdc.Change{m.change.Change}), rows)
	for _, rule := range slices.Sorted(maps.Keys(batch.Ignored)) {
		t.Events.Ignored(t.Source, rule, batch.Ignored[rule])
	}
}
